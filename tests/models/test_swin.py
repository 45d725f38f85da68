"""Swin: counts of the literature, windows that join, and a picture of any size."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.errors import UserError
from leadline.layers.attend import weights
from leadline.layers.window_attention import WindowAttention, together, unwindowed, windows
from leadline.models import Swin, swin
from leadline.testing import check_gradients, check_model


def reach(layers, size, place):
    """Which places of the output change when one place of the input does."""
    torch.manual_seed(0)
    h = torch.randn(1, *size, 4, dtype=torch.float64)
    other = h.clone()
    other[0, place[0], place[1]] += 1
    return ((layers(h) - layers(other)).abs().sum(-1)[0] > 1e-9).nonzero().tolist()


def layer(window, shifted, num_heads=2):
    torch.manual_seed(1)
    made = WindowAttention(4, num_heads, window, shifted).double()
    torch.nn.init.normal_(made.offsets)
    return made


@pytest.mark.parametrize(
    ("name", "parameters"), [("T", 28_288_354), ("S", 49_606_258), ("B", 87_768_224), ("L", 196_532_476)]
)
def test_parameters_are_those_of_the_literature(name, parameters):
    with torch.device("meta"):
        model = Swin(3, (224, 224), 1000, **swin.SIZES[name])
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"stages": (1, 2), "size": (5, 13)}, {"window": 9}])
def test_it_keeps_the_contract_with_any_options(options):
    check_model(Swin(**{**Swin.tiny().config, **options}))


def test_derivatives_are_those_of_finite_differences():
    torch.manual_seed(0)
    model = Swin(1, (8, 8), 2, patch=2, dim=4, stages=(2,), num_heads=(1,), window=2, widening=1.0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # normalising tiny numbers is too steep for differences
    check_gradients(model, torch.randn(2, 1, 8, 8), most=5)


@torch.no_grad()
def test_windows_part_places_and_a_shift_joins_them():
    assert reach(layer(2, False), (4, 4), (1, 1)) == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert reach(layer(2, True), (4, 4), (1, 1)) == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert reach(layer(2, True), (4, 4), (0, 0)) == [[0, 0]]  # not the other corners, with which it was rolled together
    assert reach(layer(2, True), (4, 4), (0, 3)) == [[0, 3]]
    assert reach(layer(2, True), (4, 4), (3, 1)) == [[3, 1], [3, 2]]
    pair = torch.nn.Sequential(layer(2, False), layer(2, True))
    assert reach(pair, (4, 4), (1, 1)) == [[y, x] for y in range(3) for x in range(3)]


@torch.no_grad()
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.integers(1, 9), st.integers(1, 9))
def test_a_window_is_attention_between_the_places_that_it_holds(W, shifted, Y, X):
    """Beside the definition: every place asks all places, of which its window leaves some."""
    made = layer(W, shifted)
    h = torch.randn(2, Y, X, 4, dtype=torch.float64)
    size = min(W, Y, X)
    shift = size // 2 if shifted and min(Y, X) > size else 0
    rows, columns = -(-Y // size) * size, -(-X // size) * size
    wide = torch.zeros(2, rows, columns, 4, dtype=torch.float64)
    wide[:, :Y, :X] = h
    y, x = (grid.flatten() for grid in torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"))
    corner = [(place - shift).div(size, rounding_mode="floor") for place in (y, x)]
    same = (corner[0][:, None] == corner[0]) & (corner[1][:, None] == corner[1])
    difference = [(place[:, None] - place).clamp(1 - W, W - 1) + W - 1 for place in (y, x)]
    bias = made.offsets[difference[0] * (2 * W - 1) + difference[1]].permute(2, 0, 1)
    q, k, v = made.attention.queries_keys_values(wide.flatten(1, 2))
    seen = weights(q, k, bias=bias.masked_fill(~same, -torch.inf)) @ v
    out = made.attention.out(seen.transpose(1, 2).flatten(2)).view(2, rows, columns, 4)[:, :Y, :X]
    torch.testing.assert_close(made(h), out)


def test_windows_go_forth_and_back():
    h = torch.arange(2 * 6 * 9 * 2).view(2, 6, 9, 2)
    cut = windows(h, 3)
    assert cut.shape == (12, 9, 2)
    assert torch.equal(cut[1], h[0, :3, 3:6].reshape(9, 2))
    assert torch.equal(unwindowed(cut, (6, 9), 3), h)
    assert together((6, 9), 3, 1)[:2].all() and not together((6, 9), 3, 1)[2].all()


@torch.no_grad()
def test_a_picture_of_any_size_is_read():
    torch.manual_seed(0)
    model = Swin(3, (32, 32), 5, dim=12).eval()
    for size in ((32, 32), (17, 40), (3, 3), (1, 9)):
        assert model(torch.randn(2, 3, *size)).shape == (2, 5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_heads": (1,)}, "each stage"),
        ({"num_heads": (), "stages": ()}, "each stage"),
        ({"window": 0}, "window"),
        ({"widening": 0.0}, "widening must be"),
        ({"p_drop": 1.0}, "p_drop must be"),
        ({"size": (9,)}, "size must be rows and columns"),
    ],
)
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(UserError, match=says):
        Swin(**{**Swin.tiny().config, **options})
