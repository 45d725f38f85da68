"""Receptive fields: known answers, the closed formula, and changes of single inputs."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from leadline.errors import ShapeError, UnknownName, UserError
from leadline.lens import receptive_field


def sizes(view):
    return [link.size[0] for link in view.chain]


def measured(view):
    return [link.measured[0] for link in view.chain]


def test_the_book_s_eleven_inputs():
    layers = [nn.Conv1d(1, 2, 3, padding=1), nn.Conv1d(2, 2, 3, padding=1), nn.Conv1d(2, 2, 3, stride=2)]
    net = nn.Sequential(*layers, nn.Conv1d(2, 2, 3, padding=1))
    view = receptive_field(net, (1, 11))
    assert sizes(view) == measured(view) == [3, 5, 7, 11]
    assert view.possible.all() and view.unit == (2,)
    assert receptive_field(net, (1, 11), unit=0).size == (7,)  # at the border less is seen


def test_problem_10_9_and_the_network_of_mnist_1d():
    stem = nn.Sequential(nn.Conv1d(1, 1, 5, stride=2), nn.Conv1d(1, 1, 3), nn.Conv1d(1, 1, 3, dilation=2))
    view = receptive_field(stem, (1, 64))
    assert sizes(view) == measured(view) == [5, 9, 17] and view.size == (17,)
    stack = [nn.Conv1d(1 if k == 0 else 15, 15, 3, stride=2) for k in range(3)]
    net = nn.Sequential(nn.Unflatten(1, (1, 40)), *itertools.chain(*zip(stack, [nn.ReLU()] * 3, strict=True)))
    net.append(nn.Flatten()), net.append(nn.Linear(60, 10))
    view = receptive_field(net, (40,))
    assert sizes(view) == measured(view) == [3, 7, 15] and view.unit == ()
    assert view.possible.sum() == 39  # the last input is never read: 40 -> 19 -> 9 -> 4


def alexnet():
    pool, relu = (lambda: nn.MaxPool2d(3, 2)), nn.ReLU6  # which would end a gradient above 6
    return nn.Sequential(
        nn.Conv2d(3, 2, 11, 4), relu(inplace=True), pool(),
        nn.Conv2d(2, 2, 5, padding=2), relu(), pool(),
        nn.Conv2d(2, 2, 3, padding=1), relu(), nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1), pool(),
    )  # fmt: skip


def test_alexnet():
    torch.manual_seed(0)
    view = receptive_field(alexnet(), (3, 227, 227), num=1)
    assert sizes(view) == measured(view) == [11, 19, 51, 67, 99, 131, 163, 195]
    assert view.size == (195, 195) and view.possible.sum() == 195**2
    assert [link.jump[0] for link in view.chain] == [4, 8, 8, 16, 16, 16, 16, 32]
    assert view.area < 195**2 and 0 < view.spread[0] < 195 / 3  # it fades towards its border
    assert view.plot().axes


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 2), st.integers(1, 2), st.sampled_from(["conv", "max", "mean"])),
        min_size=1, max_size=4,
    )
)  # fmt: skip
def test_the_formula_is_the_measurement_in_any_chain(layers):
    parts = {
        "conv": lambda k, s, d: nn.Conv1d(1, 1, k, s, dilation=d),
        "max": lambda k, s, d: nn.MaxPool1d(k, s, dilation=d),
        "mean": lambda k, s, d: nn.AvgPool1d(k, s),
    }
    net = nn.Sequential(*(parts[kind](k, s, d) for k, s, d, kind in layers))
    view = receptive_field(net, (1, 150), num=1)
    r, j = 1, 1
    for (k, s, d, kind), link in zip(layers, view.chain, strict=True):
        r += (k - 1) * (1 if kind == "mean" else d) * j
        j *= s
        assert link.size == link.measured == (r,) and link.jump == (j,)


class Wired(nn.Module):
    """A module called twice, a skip, a function, a scale of 0, an activation in place, a pool rounded up."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, stride=2, padding=1)
        self.project, self.norm = nn.Conv2d(2, 2, 1, stride=2), nn.BatchNorm2d(2)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        h = F.relu(self.norm(self.a(x)), inplace=True)
        h = self.project(x) + self.scale * self.b(self.a(h))
        return F.max_pool2d(h, 3, 2, ceil_mode=True)


def test_skips_reuse_functions_and_scales_of_0():
    net = Wired()
    view = receptive_field(net, (2, 32, 32))
    assert [link.name for link in view.chain] == ["a", "project", "a", "b", ""]
    assert measured(view) == sizes(view) == [3, 1, 5, 7, 11] and view.size == (11, 11)
    only = receptive_field(net, (2, 32, 32), "a", call=0)
    assert only.size == (3, 3) and only.name == "a"


def test_the_possible_field_holds_all_that_a_change_reaches():
    torch.manual_seed(0)
    net = Wired()
    nn.init.ones_(net.scale)
    view = receptive_field(net, torch.randn(6, 2, 20, 20), unit=(2, 3), perturb=0.5)
    assert not view.effective[~view.possible].any() and not view.perturbed[~view.possible].any()
    assert view.effective.sum() == pytest.approx(1) and view.perturbed.sum() == pytest.approx(1)
    # and all of it is reached, by brute force, when nothing is cut off: a net of means
    means = nn.Sequential(nn.Conv2d(1, 1, 3, dilation=2, bias=False), nn.AvgPool2d(2), nn.Conv2d(1, 1, 2, bias=False))
    with torch.no_grad():
        for p in means.parameters():
            p.fill_(1.0).requires_grad_(False)
    x = torch.zeros(1, 1, 14, 14)
    moved = np.zeros((14, 14), dtype=bool)
    for i, k in itertools.product(range(14), range(14)):
        y = x.clone()
        y[0, 0, i, k] = 1
        moved[i, k] = means(y)[0, 0, 2, 1].item() != 0
    view = receptive_field(means, x, unit=(2, 1), perturb=1.0)
    assert (view.possible == moved).all() and ((view.perturbed > 0) == moved).all()
    holes = receptive_field(nn.Conv2d(1, 1, 3, dilation=2), (1, 9, 9))
    assert holes.size == (5, 5) and holes.possible.sum() == 9


def test_a_linear_net_s_effective_field_is_its_kernel():
    net = nn.Conv2d(1, 1, 5, padding=2, bias=False)
    view = receptive_field(net, torch.randn(3, 1, 9, 9))
    kernel = net.weight.detach()[0, 0].abs().double()
    assert np.allclose(view.effective[2:7, 2:7], kernel / kernel.sum(), atol=1e-6)


def test_nothing_hides_a_path():
    class Hiding(nn.Module):
        """Would be dead, saturated, or global by its statistics."""

        def __init__(self):
            super().__init__()
            self.a, self.norm, self.b = nn.Conv1d(1, 4, 3), nn.GroupNorm(2, 4), nn.Conv1d(4, 4, 3)

        def forward(self, x):
            h = F.relu(-self.a(x).square() - 1)
            return torch.clamp(self.b(self.norm(h)), max=-9).amax(1, keepdim=True)

    view = receptive_field(Hiding(), (1, 20))
    assert view.size == (5,) and measured(view) == [3, 5]
    assert not view.effective.any()  # and its own weights do see nothing


def within(x, taps=5):
    """What a unit sees of its neighbours, (B, C, T, taps)."""
    return F.pad(x, (taps // 2, taps // 2)).unfold(-1, taps, 1)


@pytest.mark.parametrize(
    ("name", "function", "size"),
    [
        ("float", lambda h: h.float(), 3),
        ("half", lambda h: h.half().to(torch.float32) + torch.ones(1, 1, 1), 3),
        ("constant kernel", lambda h: F.conv1d(h, torch.ones(1, 1, 3), padding=1), 5),
        ("condition", lambda h: torch.where(within(h).mean(-1) > 0.1, h, -h), 7),
        ("both branches", lambda h: torch.where(h > 0, h.roll(2, -1), h.roll(-2, -1)), 7),
        ("mask", lambda h: h * ((within(h).mean(-1) > 0) & ~(h > 3)).float(), 7),
        ("mask as it is", lambda h: (h > 0) * h.roll(1, -1), 4),
        ("masked_fill", lambda h: h.masked_fill((within(h).sum(-1) < 0)[:], -torch.inf).exp(), 7),
        ("sort", lambda h: within(h).sort(-1).values[..., 2], 7),
        ("sort, descending", lambda h: torch.sort(within(h), descending=True)[0][..., 0], 7),
        ("median", lambda h: within(h).median(-1).values, 7),
        ("median, kept", lambda h: torch.median(within(h), dim=-1, keepdim=True)[0].squeeze(-1), 7),
        ("topk", lambda h: within(h).topk(2, -1).values.sum(-1), 7),
        ("kthvalue", lambda h: torch.kthvalue(within(h), 2)[0], 7),
        ("max of all", lambda h: h + h.max(), 20),
        ("rounded", lambda h: (within(h).mean(-1)).round() + h.floor(), 7),
        ("detached", lambda h: h.detach(), 3),
    ],
)
def test_what_has_no_derivative_is_seen_too(name, function, size):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(1, 1, 3, padding=1, bias=False)
            nn.init.ones_(self.conv.weight)

        def forward(self, x):
            return function(self.conv(x))

    torch.manual_seed(0)
    view = receptive_field(Net(), torch.randn(64, 1, 20), num=64, perturb=3.0)
    assert view.size == (size,)
    assert not view.perturbed[~view.possible].any()
    if name not in ("half", "mask as it is"):
        assert (view.perturbed[view.possible] > 0).all()  # and a change of any of them does move the unit


def test_upsampling_and_three_axes():
    net = nn.Sequential(nn.ConvTranspose2d(1, 1, 4, 2, 1), nn.Conv2d(1, 1, 3, padding=1))
    view = receptive_field(net, (1, 8, 8))
    assert view.chain[-1].size is None and view.size == (3, 3)
    assert view.plot().axes
    deep = receptive_field(nn.Conv3d(1, 1, (1, 2, 3)), (1, 4, 5, 6), num=1)
    assert deep.size == (1, 2, 3) and deep.plot().axes


def test_messages_help():
    net = nn.Sequential(nn.Conv2d(1, 1, 3))
    with pytest.raises(ShapeError, match="position of the module's output"):
        receptive_field(net, (1, 8, 8), unit=(7, 7))
    with pytest.raises(UnknownName, match="part of the model"):
        receptive_field(net, (1, 8, 8), "conv")
    with pytest.raises(UserError, match="call must be"):
        receptive_field(net, (1, 8, 8), "0", call=3)
    with pytest.raises(UserError, match="as the network reads them"):
        receptive_field(net, torch.zeros(2, 1, 8, 8, dtype=torch.uint8))
