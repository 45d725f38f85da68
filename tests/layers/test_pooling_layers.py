"""Pooling that torch lacks, against the reference, enumeration and finite differences."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leadline.errors import UserError
from leadline.layers import LpPool, MaxBlurPool, MaxPoolDropout, SpatialDropout, Subsample, noise
from leadline.reference import convolution, pooling

SHAPES = [(7,), (6, 5), (4, 5, 4)]


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def by_channel(x, rule):
    return torch.tensor([[rule(channel) for channel in row] for row in x.tolist()], dtype=torch.float64)


def keys(count, epoch=0):
    return noise.example_keys(0, epoch, torch.arange(count))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("p", [1, 1.5, 2, 3, math.inf])
@pytest.mark.parametrize(("window", "stride"), [(2, None), (3, 2)])
def test_norms_of_windows(shape, p, window, stride):
    x = drawn(2, 2, *shape)
    expected = by_channel(x, lambda channel: pooling.pooled(channel, window, stride, p))
    torch.testing.assert_close(LpPool(p, window, stride)(x), expected)


def test_norms_hold_where_torch_s_fail():
    x = torch.tensor([[[[-2.0, -1.0], [0.0, 1.0]]]])
    assert float(LpPool(3, 2)(x)) == pytest.approx(10 ** (1 / 3))
    assert float(nn.LPPool2d(3, 2)(x)) != pytest.approx(10 ** (1 / 3))  # -8 - 1 + 1
    large = torch.full((1, 1, 2, 2), 1e3)
    assert float(LpPool(200, 2)(large)) == pytest.approx(1e3 * 4 ** (1 / 200))
    assert not nn.LPPool2d(200, 2)(large).isfinite().all()
    broken = torch.tensor([[[[-1.0, 0.0], [0.0, 0.0]]]])
    assert float(LpPool(2.5, 2)(broken)) == 1.0 and nn.LPPool2d(2.5, 2)(broken).isnan().all()


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, math.inf])
def test_a_window_of_zeros_has_a_finite_gradient(p):
    zero = torch.zeros(1, 1, 2, 2, requires_grad=True)
    LpPool(p, 2)(zero).sum().backward()
    assert zero.grad.isfinite().all()


def test_large_p_is_the_maximum():
    x = drawn(1, 3, 8, 8).abs()
    torch.testing.assert_close(LpPool(math.inf, 2)(x), F.max_pool2d(x, 2))
    torch.testing.assert_close(LpPool(500, 2)(x), F.max_pool2d(x, 2), rtol=0.01, atol=0)


@pytest.mark.parametrize("layer", [LpPool(3, 2), LpPool(1.5, 3, 2), MaxBlurPool(), MaxPoolDropout(0.3).eval()])
def test_gradients_are_those_of_differences(layer):
    x = drawn(1, 2, 6, 6).abs().requires_grad_() if isinstance(layer, MaxPoolDropout) else drawn(1, 2, 6, 6)
    assert torch.autograd.gradcheck(layer, (x.requires_grad_(),))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5])
def test_max_blur_is_a_maximum_a_low_pass_and_a_subsample(shape, taps):
    x, dims = drawn(1, 2, *shape), len(shape)
    b = pooling.blur_taps(taps)
    kernel = convolution.rank_one(b, *[b] * (dims - 1))
    before = (taps - 1) // 2

    def rule(channel):
        most = torch.tensor(pooling.pooled(channel, 2, 1, "max"))[None, None]
        wide = F.pad(most, [before, taps - 1 - before] * dims, "replicate")[0, 0].tolist()
        return pooling.subsampled(convolution.sliding(wide, kernel), 2)

    torch.testing.assert_close(MaxBlurPool(2, 2, taps)(x), by_channel(x, rule))


def test_a_low_pass_calms_the_answer_to_shifts():
    """What max-blur-pooling is for: patterns finer than the stride do not come and go with a shift by one."""
    x = drawn(1, 8, 32, 32)

    def change(layer):
        return float((layer(x) - layer(x.roll(1, -1)))[..., 2:-2].square().mean() / layer(x).var())

    assert change(MaxBlurPool(taps=5)) < 0.5 * change(nn.MaxPool2d(2))


def test_sizes_are_those_of_max_pooling():
    for size in (2, 3, 7, 8):
        assert (
            MaxBlurPool()(torch.zeros(1, 1, size, size)).shape == F.max_pool2d(torch.zeros(1, 1, size, size), 2).shape
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_subsampling_throws_places_away(shape):
    x = drawn(2, 3, *shape)
    torch.testing.assert_close(Subsample(2)(x), by_channel(x, lambda channel: pooling.subsampled(channel, 2)))
    kernel = drawn(4, 3, *[1] * len(shape), seed=1)
    conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(shape)]
    torch.testing.assert_close(Subsample(2)(conv(x, kernel)), conv(x, kernel, stride=2))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 9), min_size=4, max_size=4), st.floats(0, 0.95))
def test_evaluation_is_the_mean_over_all_masks(values, p_drop):
    x = torch.tensor(values, dtype=torch.float64).view(1, 1, 2, 2)
    mean = 0.0
    for mask in itertools.product([0, 1], repeat=4):
        chance = math.prod(1 - p_drop if kept else p_drop for kept in mask)
        mean += chance * max(value * kept for value, kept in zip(values, mask))
    assert float(MaxPoolDropout(p_drop).eval()(x)) == pytest.approx(mean, abs=1e-9)


def test_the_maximum_of_what_is_kept_belongs_to_the_row():
    layer, x = MaxPoolDropout(0.4, site=3), drawn(2000, 2, 4, 4).abs()
    with noise.keyed(keys(2000)):
        out = layer(x)
    with noise.keyed(keys(2000)[:9].flip(0)):
        torch.testing.assert_close(layer(x[:9].flip(0)), out[:9].flip(0))
    rest = layer.eval()(x)
    assert float((out - rest).mean()) == pytest.approx(0, abs=4 * float((out - rest).std()) / out.numel() ** 0.5)
    held = x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4)
    assert bool((((held == out[..., None]).any(-1)) | (out == 0)).all())
    assert float((out == 0).double().mean()) == pytest.approx(0.4**4, abs=0.01)
    assert torch.equal(MaxPoolDropout(0.0)(x), F.max_pool2d(x, 2))
    layer.train()
    assert not torch.equal(layer(x), layer(x))  # without keys, torch's generator


def test_whole_feature_maps_of_pictures_fall_silent():
    with noise.keyed(keys(300)):
        out = SpatialDropout(0.3)(torch.ones(300, 8, 4, 5))
    assert torch.equal(out, out[..., :1, :1].expand_as(out))
    assert float((out == 0).float().mean()) == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LpPool(0.5), "p must be a number of at least 1"),
        (lambda: LpPool(2, 5)(torch.zeros(1, 1, 4)), "must fit into every axis.* Got window=5 and shape"),
        (lambda: LpPool(2, 2)(torch.zeros(3, 4)), "must fit into every axis"),
        (lambda: MaxPoolDropout(1.0), "p_drop must be a number of at least 0 and below 1"),
        (lambda: Subsample(0), "stride must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_pooled_is_refused(make, said):
    with pytest.raises(UserError, match=said):
        make()
