"""U-Net: sizes, what an output can see, a tiny one written out, and that it learns to tell textures apart."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.errors import ShapeError, UnknownName, UserError
from leadline.models import UNet
from leadline.models.u_net import PAPER, smallest, valid_output
from leadline.testing import check_model


@pytest.mark.parametrize("norm", ["batch", "group", "instance", "none"])
@pytest.mark.parametrize("dims", [2, 3])
def test_it_keeps_the_contract(norm, dims):
    check_model(UNet(2, 3, width=2, depth=1, dims=dims, norm=norm), torch.randn(3, 2, *(5, 6, 7)[:dims]))


def test_the_paper_s_network():
    with torch.device("meta"):
        net = UNet(**PAPER)
        assert net(torch.zeros(1, 1, 572, 572)).shape == (1, 2, 388, 388)
        assert [two[0].out_channels for two in net.down] == [64, 128, 256, 512, 1024]
        assert sum(p.numel() for p in net.parameters()) == 31_030_658


def test_volumes():
    net = UNet(1, 2, width=2, depth=2, dims=3)
    assert net(torch.zeros(1, 1, 5, 8, 9)).shape == (1, 2, 5, 8, 9)
    valid = UNet(1, 2, width=2, depth=1, dims=3, padding="valid")
    assert valid(torch.zeros(1, 1, 18, 20, 22)).shape == (1, 2, 2, 4, 6)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40))
def test_same_keeps_any_size(depth, rows, columns):
    assert UNet(1, 2, width=1, depth=depth, norm="none")(torch.zeros(1, 1, rows, columns)).shape == (
        1,
        2,
        rows,
        columns,
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(0, 120))
def test_valid_gives_the_size_that_is_foretold_or_refuses(depth, size):
    net, x = (
        UNet(1, 1, width=1, depth=depth, padding="valid", norm="none"),
        torch.zeros(1, 1, size + 1, smallest(depth)),
    )
    wanted = valid_output(size + 1, depth)
    if wanted is None:
        with pytest.raises(ShapeError, match="halved without remainder"):
            net(x)
    else:
        assert net(x).shape[2] == wanted


def test_the_size_that_a_refusal_proposes_is_accepted():
    net = UNet(1, 1, width=1, depth=2, padding="valid")
    with pytest.raises(ShapeError, match="Use a size of 76 or 80") as caught:
        net(torch.zeros(1, 1, 77, 76))
    assert "77 x 76" in str(caught.value) and net(torch.zeros(1, 1, 76, 80)).shape == (1, 1, 36, 40)


def dependence(net, x, row, column):
    """Which pixels an output depends on."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(net.double().eval()(x.double())[0, 0, row, column], x)
    return gradient[0, 0] != 0


def test_with_valid_padding_zeros_are_nowhere_so_a_shift_of_the_input_shifts_the_output():
    torch.manual_seed(0)
    net, x = UNet(1, 1, width=3, depth=2, padding="valid", norm="none"), torch.randn(1, 1, 64, 60)
    with torch.no_grad():
        here, there = net(x[:, :, :60, :]), net(x[:, :, 4:, :])  # by 2^K, so that pools fall alike
    assert torch.allclose(here[:, :, 4:], there[:, :, :-4], atol=1e-6)


def test_the_link_of_a_valid_network_is_the_middle():
    net, x = UNet(1, 1, width=1, depth=1, padding="valid", norm="none"), torch.randn(1, 1, 18, 20)
    read = []
    net.merge[0].register_forward_pre_hook(lambda module, given: read.append(given[0]))
    net(x)
    fine = net.down[0](x)  # (1, 1, 14, 16), of which 6 x 8 places are left after the way down and up
    assert torch.equal(read[0][:, :1], fine[:, :, 4:10, 4:12])


def test_every_output_sees_far_and_its_own_place():
    torch.manual_seed(0)
    net = UNet(1, 1, width=6, depth=2, norm="none")
    seen = dependence(net, torch.randn(1, 1, 64, 64), 32, 32)
    reach = int(seen.any(1).nonzero().max() - seen.any(1).nonzero().min())
    assert bool(seen[32, 32]) and 30 < reach < 60


def test_zeros_that_are_added_change_nothing_but_the_border():
    torch.manual_seed(0)
    net = UNet(1, 1, width=3, depth=2, norm="none").eval()
    x = torch.randn(1, 1, 61, 64)
    with torch.no_grad():
        assert torch.allclose(net(x)[:, :, :10], net(F.pad(x, (0, 0, 0, 3)))[:, :, :10], atol=1e-6)


def test_a_tiny_one_written_out():
    torch.manual_seed(0)
    net, x = UNet(1, 2, width=2, depth=1, norm="none"), torch.randn(2, 1, 4, 6)

    def two(h, layers):
        return layers[3](layers[0](h).relu()).relu()

    fine = two(x, net.down[0])
    coarse = two(F.max_pool2d(fine, 2), net.down[1])
    merged = two(torch.cat([fine, net.up[0](coarse)], dim=1), net.merge[0])
    assert torch.allclose(net(x), net.head(merged), atol=1e-6)


def test_without_the_link_the_places_are_lost():
    torch.manual_seed(0)
    net, x = UNet(1, 1, width=3, depth=2, norm="none").eval(), torch.zeros(1, 1, 16, 16)
    x[0, 0, 5, 5] = 1
    moved = x.roll(1, 3)
    with torch.no_grad():
        assert not torch.allclose(net(x), net(moved).roll(-1, 3), atol=1e-4)


def textures(count, generator):
    """Fine checks on the left of a slanted line and stripes on the right; mean and variance are the same."""
    row, column = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    checks = ((row + column) % 2) * 2.0 - 1
    stripes = (column % 2) * 2.0 - 1
    slope, middle = torch.rand(count, generator=generator) - 0.5, 4 + 8 * torch.rand(count, generator=generator)
    right = column > (middle[:, None, None] + slope[:, None, None] * (row - 8))
    x = torch.where(right, stripes, checks) + 0.3 * torch.randn(count, 16, 16, generator=generator)
    return x[:, None], right.long()


@pytest.mark.parametrize("norm", ["batch", "none"])
def test_it_learns_to_segment_two_textures(norm):
    generator = torch.Generator().manual_seed(0)
    (x, y), (x_test, y_test) = textures(64, generator), textures(32, generator)
    torch.manual_seed(0)
    net = UNet(1, 2, width=6, depth=2, norm=norm)
    rule = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(40):
        rule.zero_grad()
        F.cross_entropy(net(x), y).backward()
        rule.step()
    with torch.no_grad():
        found = net.eval()(x_test).argmax(1)
    both = ((found == 1) & (y_test == 1)).sum() / ((found == 1) | (y_test == 1)).sum()
    assert float(both) > 0.85


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dims": 1}, UserError, "dims must be 2 or 3"),
        ({"padding": "sam"}, UnknownName, "Did you mean same"),
        ({"depth": 0}, UserError, "UNet: depth must be a whole number"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(change, error, message):
    with pytest.raises(error, match=message):
        UNet(**{"channels": 3, "dim_output": 2, **change})
