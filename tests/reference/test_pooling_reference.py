"""Pooling and upsampling spelt out, against torch."""

import math

import pytest
import torch
import torch.nn.functional as F

from leadline.reference import pooling as p

SHAPES = [(7,), (6, 5), (4, 5, 4)]
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
MEAN = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def drawn(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))


def same(found, expected):
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("window", "stride"), [(2, None), (3, 2), (3, 1)])
def test_pooling_is_torch_s(shape, window, stride):
    x, dims = drawn(*shape), len(shape)
    same(p.pooled(x.tolist(), window, stride, "max"), MAX[dims](x[None, None], window, stride)[0, 0])
    same(p.pooled(x.tolist(), window, stride, "mean"), MEAN[dims](x[None, None], window, stride)[0, 0])
    squares = MEAN[dims](x[None, None].square(), window, stride)[0, 0] * window**dims
    same(p.pooled(x.tolist(), window, stride, 2), squares.sqrt())
    same(p.pooled(x.tolist(), window, stride, math.inf), MAX[dims](x.abs()[None, None], window, stride)[0, 0])


def test_large_p_tends_to_the_maximum():
    x = drawn(8, 8).abs().tolist()
    most = torch.tensor(p.pooled(x, 2, p="max"))
    off = [float((torch.tensor(p.pooled(x, 2, p=power)) - most).abs().max()) for power in (2, 8, 32, 128)]
    assert off == sorted(off, reverse=True) and off[-1] < 0.03


def test_maxima_go_back_where_they_came_from():
    x = drawn(6, 4)
    z, where = p.largest(x.tolist(), 2)
    expected, places = F.max_pool2d(x[None, None], 2, return_indices=True)
    same(z, expected[0, 0])
    assert [4 * i + j for i, j in where.values()] == places.flatten().tolist()
    same(p.unpooled(z, where, (6, 4)), F.max_unpool2d(expected, places, 2)[0, 0])


def test_the_first_of_equal_values_counts():
    assert p.largest([3, 3], 2)[1] == {(0,): (0,)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factor", [2, 3])
def test_upsampling_is_torch_s(shape, factor):
    z, dims = drawn(*shape), len(shape)
    same(p.duplicated(z.tolist(), factor), F.interpolate(z[None, None], scale_factor=factor, mode="nearest")[0, 0])
    smooth = F.interpolate(z[None, None], scale_factor=factor, mode=LINEAR[dims], align_corners=False)[0, 0]
    same(p.interpolated(z.tolist(), factor), smooth)
    same(p.subsampled(p.duplicated(z.tolist(), factor), factor), z)


def test_shuffling_is_torch_s():
    z = drawn(18, 2, 3)
    same(p.shuffled(z.tolist(), 3), F.pixel_shuffle(z, 3))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_blur_taps_are_sums_of_pairs(count):
    taps = torch.ones(1, dtype=torch.float64)
    for _ in range(count - 1):
        taps = (F.pad(taps, (0, 1)) + F.pad(taps, (1, 0))) / 2
    same(p.blur_taps(count), taps)
