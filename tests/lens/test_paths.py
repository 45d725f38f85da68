"""Paths through residual networks: terms by hand, their sum by autograd, deletion by rebuilding."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from leadline.errors import ShapeError, UserError
from leadline.lens import deletion, path_counts, path_gradients, path_terms, residual_blocks
from leadline.lens.paths import _some_paths
from leadline.lens.rows import family_of, rows_of
from leadline.likelihoods import Categorical, Tokens
from leadline.models import MLP, MODELS, EncoderDecoder, Recurrent, Residual


class Block(nn.Module):
    """relu(skip(x) + branch(x)), as the first residual networks had it."""

    def __init__(self, channels, out=None):
        super().__init__()
        out = out or channels
        self.branch = nn.Sequential(nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.Tanh())
        self.shortcut = nn.Conv2d(channels, out, 1) if out != channels else None

    def forward(self, x):
        kept = x if self.shortcut is None else self.shortcut(x)
        return torch.relu(kept + self.branch(x))


def conv_net(blocks=3):
    torch.manual_seed(0)
    body = [Block(2, 3), *(Block(3) for _ in range(blocks - 1))]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))


def test_counts():
    assert (
        path_counts(4) == (1, 4, 6, 4, 1) and path_counts(3) == (1, 3, 3, 1) and path_counts(5) == (1, 5, 10, 10, 5, 1)
    )
    share = sum(path_counts(54)[5:18]) / 2**54
    assert share == pytest.approx(0.004537, abs=1e-6)


def test_blocks_are_found_once_and_in_order():
    assert residual_blocks(conv_net()) == ("0", "1", "2")
    assert residual_blocks(Residual(4, (4, 4), 1)) == ("layers.0", "layers.1")
    assert len(residual_blocks(MLP(3, (4, 4, 4), 1, residual=True))) == 2  # the first layer changes the width
    outer = nn.Module()
    outer.branch = Block(2)
    assert residual_blocks(nn.Sequential(outer)) == ("0",)


def test_terms_of_a_linear_network_are_products_of_matrices():
    torch.manual_seed(0)

    class Add(nn.Module):
        def __init__(self):
            super().__init__()
            self.branch = nn.Linear(3, 3, bias=False)

        def forward(self, x):
            return x + self.branch(x)

    net = nn.Sequential(Add(), Add(), Add(), Add())
    terms = path_terms(net, torch.randn(2, 3))
    assert len(terms) == 16
    maps = [part.branch.weight.detach().double() for part in net]
    for path, term in terms.items():
        jacobian = torch.eye(3, dtype=torch.float64)
        for k in path:
            jacobian = maps[k - 1] @ jacobian
        assert torch.allclose(term, jacobian.sum(0).expand(2, 3), atol=1e-12)


@pytest.mark.parametrize("start", [0, 1, 2])
def test_the_terms_sum_to_the_gradient(start):
    net = conv_net(4).eval()
    x = torch.randn(3, 2, 5, 5)
    goal = lambda out: out.square()  # noqa: E731
    terms = path_terms(net, x, objective=goal, start=start)
    assert len(terms) == 2 ** (4 - start)  # f_1 lies on 8 of the 16 paths, and 8 lead on from it
    wide = net.double()
    h = wide[:start](x.double()).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(goal(wide[start:](h)).sum(), h)
    assert torch.allclose(sum(terms.values()), gradient, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(terms[()], gradient, atol=1e-3)


def test_gradient_by_length():
    net = conv_net(4)
    x = torch.randn(3, 2, 5, 5)
    view = path_gradients(net, x)
    assert view.exact and view.gap < 1e-12 and view.looked.tolist() == [1, 4, 6, 4, 1]
    terms = path_terms(net, x)
    for length in range(5):
        sizes = [t.flatten(1).norm(dim=1).mean() for path, t in terms.items() if len(path) == length]
        assert view.norms[length] == pytest.approx(float(np.mean(sizes)))
    parts = view.counts * view.norms
    assert np.allclose(view.share, parts / parts.sum()) and view.plot().axes
    json.dumps(view.to_dict(), allow_nan=False)


def test_sampled_paths_agree_with_all_of_them():
    torch.manual_seed(0)
    net = Residual(6, (6,) * 8, 1, activation="tanh")
    x = torch.randn(4, 6)
    every, some = path_gradients(net, x), path_gradients(net, x, most=10, draws=40)
    assert every.exact and not some.exact and np.isnan(some.gap)
    assert np.allclose(every.share, some.share, atol=0.03) and every.total == pytest.approx(some.total)
    drawn = list(_some_paths(8, 3, np.random.default_rng(0)))
    assert all(len(set(p)) == len(p) and p == tuple(sorted(p)) for p in drawn) and {len(p) for p in drawn} == set(
        range(9)
    )


def test_short_paths_carry_the_gradient_of_a_deep_network():
    torch.manual_seed(0)
    net = Residual(16, (16,) * 54, 1)
    view = path_gradients(net, torch.randn(4, 16), draws=4, num=4)
    assert len(view.counts) == 55 and view.median < 27  # where half of the paths are
    assert math.isclose(view.counts.sum(), 2.0**54)


def test_a_block_called_twice_counts_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(2)

        def forward(self, x):
            return self.block(self.block(x))

    net = Twice()
    view = path_gradients(net, torch.rand(2, 2, 4, 4))
    assert view.blocks == ("block", "block") and view.gap < 1e-12


def test_a_likelihood_may_be_named_where_rows_are_a_pair():
    net, x, y = MLP(3, (3, 3), 2, residual=True), torch.randn(9, 3), torch.arange(9) % 2
    named, given = (deletion(net, (x, y), family) for family in ("Categorical", Categorical(2, label_smoothing=0.1)))
    assert (named.metric, named.loss) == (given.metric, given.loss)
    with pytest.raises(UserError, match="a pair .* must come with a likelihood"):
        deletion(net, (x, y))
    with pytest.raises(UserError, match="did you mean|Did you mean"):
        deletion(net, (x, y), "Categorial")
    with pytest.raises(UserError, match="Joint must be told more"):
        deletion(net, (x, y), "Joint")
    with pytest.raises(UserError, match="class codes must be whole numbers"):
        deletion(net, (x, torch.full((9,), math.nan)), "Categorical")


@pytest.mark.parametrize(
    ("name", "y"),
    [
        ("Normal", torch.randn(6, 2)),
        ("Ordinal", torch.arange(6) % 3),
        ("Pixels", torch.tensor([0, 2, 255]).expand(6, 2, 3)),
        ("Boxes", torch.tensor([[1.0, 0.5, 0.5, 0.2, 0.2], [-1.0, 0, 0, 0, 0]]).expand(6, 2, 5)),
        ("HeatMaps", torch.ones(6, 4, 3)),
    ],
)
def test_y_tells_what_a_named_likelihood_needs_to_know(name, y):
    family = family_of(rows_of((torch.zeros(6, 1), y)), name)
    sizes = {"Normal": 2, "Ordinal": 3, "Pixels": 3, "Boxes": 2, "HeatMaps": 4}
    known = {"Normal": "dim", "HeatMaps": "num_points"}.get(name, "num_classes")
    assert type(family).__name__ == name and getattr(family, known) == sizes[name]


def test_deletion_is_a_network_without_the_block():
    net = conv_net(4)
    net.train()
    x, y = torch.randn(30, 2, 6, 6), torch.arange(30) % 2
    likelihood = Categorical(2)
    view = deletion(net, (x, y), likelihood, several=(0, 2), draws=3)
    net.eval().requires_grad_(False)
    for k in range(4):
        rebuilt = nn.Sequential(*net)
        rebuilt[k] = nn.ReLU() if k else nn.Sequential(net[0].shortcut, nn.ReLU())
        out = rebuilt(x)
        assert view.losses[k] == pytest.approx(float(likelihood.loss(out, y).mean()), rel=1e-5)
        assert view.without[k] == pytest.approx(float((out.argmax(1) == y).float().mean()))
    assert view.loss == pytest.approx(float(likelihood.loss(net(x), y).mean()), rel=1e-5)
    assert view.after[0] == view.whole and len(view.after) == 2 and view.plot().axes
    json.dumps(view.to_dict(), allow_nan=False)


def test_recurrent_layers_are_deleted_with_their_state():
    torch.manual_seed(0)
    net = Recurrent(2, num_tokens=7, cell="lstm", dim=6, num_layers=2, p_drop=0.0)
    x, y = torch.randint(7, (9, 5)), torch.arange(9) % 2
    view = deletion(net, (x, y), Categorical(2))
    assert view.blocks == ("layers.0", "layers.1")
    short = Recurrent(2, num_tokens=7, cell="lstm", dim=6, num_layers=1, p_drop=0.0).eval().requires_grad_(False)
    kept = {name: p for name, p in net.state_dict().items() if not name.startswith("layers.1")}
    short.load_state_dict(kept)
    assert view.losses[1] == pytest.approx(float(Categorical(2).loss(short(x), y).mean()), rel=1e-5)
    pairs = EncoderDecoder(7, 4, 3, dim=6, num_layers=1)
    x = torch.randint(1, 7, (9, 7))
    assert np.isfinite(deletion(pairs, (x, x[:, 3:]), Tokens(7)).losses).all()
    with pytest.raises(UserError, match="must have residual blocks"):
        deletion(Recurrent(2, num_tokens=7, dim=6, residual=False), (x, y), Categorical(2))


def test_layers_of_a_plain_network_can_be_deleted_too():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 2)).requires_grad_(False)
    x, y = torch.randn(9, 4), torch.arange(9) % 2
    view = deletion(net, (x, y), Categorical(2), ["0", net[2]])
    assert view.blocks == ("0", "2")
    assert view.losses[1] == pytest.approx(float(Categorical(2).loss(net[3](net[:2](x)), y).mean()), rel=1e-5)
    with pytest.raises(ShapeError, match="the shape of"):
        deletion(net, (x, y), Categorical(2), ["3"])


@pytest.mark.parametrize("name", ["ResNet", "NormFree", "ShakeResNet", "WideResNet", "ResNeXt"])
def test_registered_residual_networks(name):
    torch.manual_seed(0)
    net = MODELS[name].tiny().eval()
    x = torch.randn(2, *net.input_shape)
    view = path_gradients(net, x, most=64)
    assert len(view.blocks) >= 2 and view.share.sum() == pytest.approx(1)
    assert not view.exact or view.gap < 1e-9
    likelihood = Categorical(net.dim_output)
    gone = deletion(net, (x, torch.tensor([0, 1])), likelihood)
    assert len(gone.losses) == len(view.blocks) and np.isfinite(gone.losses).all()


def test_the_plain_twin_has_no_paths():
    net = MODELS["ResNet"].tiny()
    plain = type(net)(**{**net.config, "skip": "none"})
    assert residual_blocks(net) and not residual_blocks(plain)


def test_a_skip_that_reads_through_another_module():
    class Entered(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.branch, self.skip = nn.Linear(3, 3), nn.Linear(3, 4), nn.Linear(3, 4)

        def forward(self, x):
            x = self.enter(x).tanh()
            return self.skip(x) + self.branch(x)

    torch.manual_seed(0)
    net = nn.Sequential(Entered())
    x = torch.randn(2, 3)
    terms = path_terms(net, x)
    wide = net[0].double()
    y = x.double().requires_grad_()
    (over_skip,) = torch.autograd.grad(wide.skip(wide.enter(y).tanh()).sum(), y)
    assert torch.allclose(terms[()], over_skip, atol=1e-12)


def test_messages_help():
    with pytest.raises(UserError, match="residual blocks"):
        path_gradients(nn.Linear(2, 2), torch.zeros(1, 2))
    with pytest.raises(UserError, match="few enough"):
        path_terms(Residual(2, (2,) * 20, 1), torch.zeros(1, 2))
    with pytest.raises(UserError, match="start must be"):
        path_terms(Residual(2, (2,) * 3, 1), torch.zeros(1, 2), start=5)
