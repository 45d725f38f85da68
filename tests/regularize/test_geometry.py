"""The warp against scipy, and masks, boxes and points against what the moved picture shows."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from leadline.regularize import geometry

SIZE = (48, 64)


def some_map(turn=0.3, scale=1.1, slant=0.2, right=4.0, down=-3.0, mirror=1.0):
    cosine, sine = scale * math.cos(turn), scale * math.sin(turn)
    entries = (mirror * cosine, slant - sine, mirror * sine, cosine, right, down)
    return geometry.affine(*(torch.tensor([value], dtype=torch.float64) for value in entries))


maps = st.builds(
    some_map,
    *(st.floats(-3, 3), st.floats(0.7, 1.4), st.floats(-0.3, 0.3), st.floats(-9, 9), st.floats(-9, 9)),
    st.sampled_from((-1.0, 1.0)),
)


def corner_first(back):
    """(A, t) in rows and columns from the first pixel's centre, as scipy has it."""
    (a, b, right), (c, d, down) = back[0].tolist()
    centre = np.array([(side - 1) / 2 for side in SIZE])
    matrix = np.array([[d, c], [b, a]])
    return matrix, np.array([down, right]) + centre - matrix @ centre


@settings(max_examples=15, deadline=None)
@given(maps)
def test_pictures_and_masks_are_moved_as_scipy_moves_them(ahead):
    back = geometry.inverse(ahead)
    rng = np.random.default_rng(0)
    picture, mask = rng.normal(size=SIZE), rng.integers(0, 9, SIZE)
    matrix, offset = corner_first(back)
    expected = ndimage.affine_transform(picture, matrix, offset, order=1, mode="grid-constant")
    np.testing.assert_allclose(geometry.bilinear(torch.tensor(picture)[None, None], back)[0, 0], expected, atol=1e-9)
    found = geometry.nearest(torch.tensor(mask)[None], back)[0].numpy()
    near = [(1e-7, 1e-7), (1e-7, -1e-7), (-1e-7, 1e-7), (-1e-7, -1e-7)]  # half way between pixels any of them will do
    each = [ndimage.affine_transform(mask, matrix, offset + by, order=0, mode="grid-constant", cval=255) for by in near]
    assert np.all(np.any([found == expected for expected in each], 0))


@settings(max_examples=20, deadline=None)
@given(maps, maps)
def test_maps_are_undone_and_joined(first, second):
    full = lambda ahead: torch.cat([ahead, torch.tensor([[[0.0, 0.0, 1.0]]], dtype=ahead.dtype)], 1)[0]  # noqa: E731
    torch.testing.assert_close(full(geometry.inverse(first)), torch.linalg.inv(full(first)))
    torch.testing.assert_close(full(geometry.then(first, second)), full(second) @ full(first))
    torch.testing.assert_close(geometry.then(first, geometry.inverse(first)), geometry.unmoved(1, first))


@settings(max_examples=25, deadline=None)
@given(maps, st.floats(0.2, 0.8), st.floats(0.2, 0.8), st.floats(0.15, 0.4), st.floats(0.15, 0.4))
def test_a_box_encloses_what_is_seen_of_it(ahead, x, y, width, height):
    rows, columns = SIZE
    fine = 8  # pixels to one, so that edges are sharp
    down, across = ((np.arange(side * fine) + 0.5) / (side * fine) for side in SIZE)
    drawn = (np.abs(down - y) < height / 2)[:, None] & (np.abs(across - x) < width / 2)
    drawn = torch.tensor(drawn, dtype=torch.float64)
    finer = torch.cat([ahead[:, :, :2], fine * ahead[:, :, 2:]], -1)
    seen = geometry.bilinear(drawn[None, None], geometry.inverse(finer))[0, 0] > 0.5
    box = torch.tensor([[[3.0, x, y, width, height]]], dtype=torch.float64)
    code, cx, cy, wide, high = geometry.moved_boxes(box, ahead, SIZE)[0, 0].tolist()
    places = seen.nonzero()
    if code < 0:  # the hull is at most a few times the box
        assert len(places) < 0.2 * 5 * drawn.sum()
        return
    if len(places) == 0:  # only an empty corner of the hull is left
        return
    (top, left), (bottom, right) = places.amin(0).tolist(), places.amax(0).tolist()
    found = [left, top, right + 1, bottom + 1]
    told = [(cx - wide / 2) * columns, (cy - high / 2) * rows, (cx + wide / 2) * columns, (cy + high / 2) * rows]
    told = [value * fine for value in told]
    assert all(one >= other - 2 for one, other in zip(found[:2], told[:2], strict=True))
    assert all(one <= other + 2 for one, other in zip(found[2:], told[2:], strict=True))
    if min(told) > 0 and told[2] < columns * fine and told[3] < rows * fine:  # and no more than that
        assert np.allclose(found, told, atol=2.5)


def test_boxes_are_cut_at_the_edge_and_gone_when_little_is_left():
    right = lambda by: geometry.affine(*torch.tensor([[1.0], [0], [0], [1], [by], [0]]))  # noqa: E731
    box = torch.tensor([[[2.0, 0.75, 0.5, 0.5, 0.5], [-1.0, 0.5, 0.5, 0.2, 0.2]]])
    cut = geometry.moved_boxes(box, right(0.375 * 64), SIZE)[0]
    torch.testing.assert_close(cut[0], torch.tensor([2.0, 0.9375, 0.5, 0.125, 0.5]))  # a quarter is left
    assert cut[1].tolist() == [-1, 0, 0, 0, 0]  # of padding nothing becomes
    assert geometry.moved_boxes(box, right(0.41 * 64), SIZE)[0, 0, 0] == -1  # 18 %
    assert geometry.moved_boxes(box, right(9 * 64.0), SIZE)[0, 0, 0] == -1


@settings(max_examples=20, deadline=None)
@given(maps, st.floats(0.3, 0.7), st.floats(0.3, 0.7))
def test_a_point_is_where_its_spot_is_seen(ahead, x, y):
    rows, columns = SIZE
    down, across = torch.arange(rows) + 0.5, torch.arange(columns) + 0.5
    spot = (-((down[:, None] - y * rows) ** 2 + (across - x * columns) ** 2) / 8).exp().double()
    shown = geometry.bilinear(spot[None, None], geometry.inverse(ahead))[0, 0]
    px, py, seen = geometry.moved_points(torch.tensor([[[x, y, 1.0]]]).double(), ahead, SIZE)[0, 0].tolist()
    assert seen == float(0 <= px <= 1 and 0 <= py <= 1)
    if 0.15 < px < 0.85 and 0.15 < py < 0.85:
        centre = (shown * across).sum() / shown.sum(), (shown.T * down).sum() / shown.sum()
        assert float(centre[0]) == pytest.approx(px * columns, abs=0.2)
        assert float(centre[1]) == pytest.approx(py * rows, abs=0.2)


def test_points_unseen_stay_unseen_and_change_names_in_a_mirror_alone():
    points = torch.tensor([[[0.25, 0.5, 1.0], [0.5, 0.5, 0.0], [0.75, 0.25, 1.0]]])
    order = torch.tensor([2, 1, 0])
    mirror = geometry.affine(*torch.tensor([[-1.0], [0], [0], [1], [0], [0]]))
    half = geometry.affine(*torch.tensor([[-1.0], [0], [0], [-1], [0], [0]]))
    mirrored = torch.tensor([[[0.25, 0.25, 1.0], [0.5, 0.5, 0.0], [0.75, 0.5, 1.0]]])
    assert torch.equal(geometry.moved_points(points, mirror, SIZE, order), mirrored)
    turned = torch.tensor([[[0.75, 0.5, 1.0], [0.5, 0.5, 0.0], [0.25, 0.75, 1.0]]])
    assert torch.equal(geometry.moved_points(points, half, SIZE, order), turned)


def test_a_point_that_leaves_is_no_longer_seen():
    right = geometry.affine(*torch.tensor([[1.0], [0], [0], [1], [32], [0]]))
    points = torch.tensor([[[0.25, 0.5, 1.0], [0.75, 0.5, 1.0], [0.25, 0.5, 0.0]]])
    assert geometry.moved_points(points, right, SIZE)[0, :, 2].tolist() == [1, 0, 0]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=4), st.integers(1, 3))
def test_shifts_are_those_of_scipy_however_far(shifts, channels):
    x = torch.rand(len(shifts), channels, 5, 7)
    right, down = torch.tensor(shifts, dtype=torch.float32).unbind(1)
    expected = [ndimage.shift(p, (0, j, i), order=0) for p, (i, j) in zip(x.numpy(), shifts, strict=True)]
    np.testing.assert_array_equal(geometry.shifted(x, right, down), np.stack(expected))
    np.testing.assert_array_equal(geometry.shifted(x.to(memory_format=torch.channels_last), right, down), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_types_stay_and_gradients_flow_to_pictures(dtype):
    back = some_map().to(torch.float32)
    x = torch.rand(1, 2, 9, 7).to(dtype).requires_grad_()
    for sampled in (geometry.bilinear(x, back), geometry.shifted(x, torch.ones(1), torch.ones(1))):
        assert sampled.dtype == dtype and sampled.shape == x.shape
        (slope,) = torch.autograd.grad(sampled.sum(), x)
        assert bool((slope != 0).any())
    if dtype == torch.float64:
        assert torch.autograd.gradcheck(lambda v: geometry.bilinear(v, back.double()), (x,))


def test_maps_are_not_rounded_under_autocast():
    x, back = torch.rand(1, 1, 64, 64), geometry.inverse(geometry.then(some_map().float(), some_map().float()))
    with torch.autocast("cpu", torch.bfloat16):
        rounded = geometry.inverse(geometry.then(some_map().float(), some_map().float()))
        sampled = geometry.bilinear(x, rounded)
    assert torch.equal(rounded, back) and torch.equal(sampled, geometry.bilinear(x, back))
