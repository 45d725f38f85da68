"""ViT: counts of the literature, what a patch is, and what is not built in."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import leadline as ll
from leadline.errors import ShapeError, UserError
from leadline.layers.patches import Merging, Patches, filled, regridded
from leadline.models import ConvNet, ViT, vit
from leadline.testing import check_gradients, check_model


def shapes_only(make, *args, **options):
    with torch.device("meta"):
        return make(*args, **options)


def moved_alike(model, x, step):
    """How far the answer to a moved picture lies from that to the picture, over the spread of answers."""
    out, other = model(x), model(x.roll((step, step), (2, 3)))
    return float((out - other).norm() / out.std(0).norm())


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("Ti/16", 5_717_416), ("S/16", 22_050_664), ("B/16", 86_567_656), ("B/32", 88_224_232), ("L/16", 304_326_632)],
)
def test_parameters_are_those_of_the_literature(name, parameters):
    model = shapes_only(ViT, 3, (224, 224), 1000, **vit.SIZES[name])
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model(torch.zeros(2, 3, 224, 224, device="meta")).shape == (2, 1000)


@pytest.mark.parametrize("options", [{}, {"pool": "mean"}, {"size": (7, 10)}, {"dim_hidden": 5, "p_drop": 0.5}])
def test_it_keeps_the_contract_with_any_options(options):
    check_model(ViT(**{**ViT.tiny().config, **options}))


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_derivatives_are_those_of_finite_differences(pool):
    torch.manual_seed(0)
    model = ViT(1, (4, 4), 2, patch=2, dim=4, num_layers=1, num_heads=2, dim_hidden=4, pool=pool)
    check_gradients(model, torch.randn(2, 1, 4, 4), most=6)


@torch.no_grad()
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 13), st.integers(1, 13))
def test_patches_are_a_convolution_and_a_linear_map_of_their_pixels(C, P, Y, X):
    layer = Patches(C, 5, P).double()
    x = torch.randn(2, C, Y, X, dtype=torch.float64)
    wide = filled(x, P)
    rows, columns = -(-Y // P), -(-X // P)
    assert tuple(wide.shape[2:]) == (rows * P, columns * P)
    laid_out = nn.functional.unfold(wide, P, stride=P).transpose(1, 2)  # (B, T, C P²)
    by_map = nn.functional.linear(laid_out, layer.map.weight.flatten(1), layer.map.bias)
    torch.testing.assert_close(layer(x), by_map.unflatten(1, (rows, columns)))


@torch.no_grad()
def test_merging_reads_each_group_of_four():
    torch.manual_seed(0)
    layer, h = Merging(3), torch.randn(2, 5, 4, 3)
    out = layer(h)
    assert out.shape == (2, 3, 2, 6)
    four = torch.cat([h[1, 2, 2], h[1, 3, 2], h[1, 2, 3], h[1, 3, 3]])
    torch.testing.assert_close(out[1, 1, 1], layer.map(layer.norm(four)))
    alone = torch.cat([h[1, 4, 2], torch.zeros(3), h[1, 4, 3], torch.zeros(3)])  # below it there is nothing
    torch.testing.assert_close(out[1, 2, 1], layer.map(layer.norm(alone)))


@torch.no_grad()
def test_without_positions_the_order_of_patches_says_nothing():
    torch.manual_seed(0)
    model = ViT.tiny().eval()
    x = torch.randn(3, 1, 8, 8)
    swapped = torch.cat([x[..., 4:], x[..., :4]], -1)
    assert not torch.allclose(model(x), model(swapped), atol=1e-4)
    model.position[1:] = model.position[1]
    torch.testing.assert_close(model(x), model(swapped), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_moving_a_picture_changes_a_transformers_answer_and_not_a_convolutions():
    torch.manual_seed(0)
    x = torch.zeros(8, 1, 32, 32)
    x[..., 8:20, 8:20] = torch.randn(8, 1, 12, 12)  # far from the border
    drawn = ViT(1, (32, 32), 10, dim=32, num_layers=2).eval()
    drawn.position.normal_()
    free = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )
    assert moved_alike(drawn, x, 3) > 0.1 > 1e-4 > moved_alike(free, x, 3)
    assert ConvNet(1, 10)(x).shape == drawn(x).shape


@torch.no_grad()
def test_learned_places_are_read_off_between():
    places = torch.randn(6 * 4, 5)
    wider = regridded(places, (6, 4), (9, 8)).view(9, 8, 5)
    other = regridded(places.view(6, 4, 5).transpose(0, 1).flatten(0, 1), (4, 6), (8, 9)).view(8, 9, 5)
    torch.testing.assert_close(wider, other.transpose(0, 1))
    torch.testing.assert_close(regridded(torch.ones(24, 1), (6, 4), (7, 5)), torch.ones(35, 1))
    rising = regridded(torch.arange(8.0)[:, None], (1, 8), (1, 15)).flatten()
    assert bool((rising.diff() > 0).all())
    assert regridded(places, (6, 4), (6, 4)) is places


def test_a_resized_model_is_the_same_at_its_own_size():
    model = ViT.tiny().eval()
    x = torch.randn(2, 1, 8, 8)
    torch.testing.assert_close(model.resized((8, 8))(x), model(x))
    assert model.resized((16, 24))(torch.randn(2, 1, 16, 24)).shape == (2, 2)
    with pytest.raises(ShapeError, match=r"resized"):
        model(torch.randn(2, 1, 16, 24))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pool": "max"}, "pool"),
        ({"num_heads": 3}, "divisible"),
        ({"patch": 0}, "patch"),
        ({"dim_hidden": 0}, "dim_hidden"),
        ({"size": 8}, "size must be rows and columns"),
        ({"size": (8, 8, 8)}, "size must be rows and columns"),
        ({"p_drop": 1.0}, "p_drop must be"),
        ({"eps": -1.0}, "eps must be"),
    ],
)
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(UserError, match=says):
        ViT(**{**ViT.tiny().config, **options})


def test_it_learns_digits():
    digits = ll.data.digits()
    x = lambda split: split.x.view(-1, 1, 8, 8)  # noqa: E731
    train, val, test = (ll.data.Split(x(split), split.y) for split in (digits.train, digits.val, digits.test))
    data = digits.with_(train=train, val=val, test=test, inputs=ll.data.Rescale.fit(train.x), recipe=None)
    torch.manual_seed(0)
    model = ViT(1, (8, 8), 10, patch=2, dim=32, num_layers=2, pool="mean")
    run = ll.fit(model, data, epochs=9, batch=32, lr=4e-3, progress=False, threads=1, compile="off")
    assert run.evaluate("test")["accuracy"] > 0.7
