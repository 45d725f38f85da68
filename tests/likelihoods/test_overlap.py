"""Overlap of boxes and non-maximum suppression against loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.likelihoods.overlap import corners, giou, iou, suppress
from leadline.reference import boxes as twin


def some(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    centre, size = (torch.rand(*shape, 2, generator=generator, dtype=dtype) for _ in range(2))
    return torch.cat([centre, 0.05 + 0.5 * size], -1)


def test_overlaps_equal_their_twins():
    a, b = some(8), some(9, seed=1)
    ious, gious = iou(a[:, None], b), giou(a[:, None], b)
    assert bool((ious == 0).any()) and bool((ious > 0.2).any())
    for i, first in enumerate(a.tolist()):
        for j, second in enumerate(b.tolist()):
            assert float(ious[i, j]) == pytest.approx(twin.iou(first, second), abs=1e-12)
            assert float(gious[i, j]) == pytest.approx(twin.giou(first, second), abs=1e-12)


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_overlaps_are_symmetric_bounded_and_do_not_move_with_the_picture(seed):
    a, b = some(30, seed=seed), some(30, seed=seed + 1)
    moved = torch.tensor([0.3, -0.2, 0.0, 0.0], dtype=torch.float64)
    for measure, least in ((iou, 0.0), (giou, -1.0)):
        values = measure(a, b)
        torch.testing.assert_close(values, measure(b, a))
        torch.testing.assert_close(values, measure(a + moved, b + moved))
        torch.testing.assert_close(values, measure(3 * a, 3 * b))
        torch.testing.assert_close(measure(a, a), torch.ones(30, dtype=torch.float64))
        assert bool((values >= least).all() & (values <= 1).all())
    assert bool((giou(a, b) <= iou(a, b) + 1e-12).all())


def test_of_nothing_there_is_no_overlap_and_its_slope_is_finite():
    empty = torch.zeros(1, 4, requires_grad=True)
    assert iou(empty, empty).item() == 0.0
    apart = giou(empty, torch.tensor([[0.9, 0.9, 0.1, 0.1]]))
    assert apart.item() < -0.9
    (slope,) = torch.autograd.grad(apart.sum(), empty)
    assert bool(slope.isfinite().all()) and bool((slope[0, :2] > 0).all())  # towards the other


def test_giou_has_the_slope_of_differences():
    a, b = some(6).requires_grad_(), some(6, seed=1)
    assert torch.autograd.gradcheck(lambda boxes: giou(boxes, b), (a,))


@pytest.mark.parametrize("limit", [0.2, 0.5, 0.9])
def test_suppression_equals_its_twin(limit):
    generator = torch.Generator().manual_seed(3)
    boxes = some(4, 40, seed=2)
    codes = torch.randint(3, (4, 40), generator=generator)
    stays = suppress(boxes, codes, limit)
    ranks = [-float(k) for k in range(40)]
    for picture in range(4):
        wanted = twin.suppressed(boxes[picture].tolist(), ranks, codes[picture].tolist(), limit)
        assert stays[picture].nonzero().flatten().tolist() == wanted
    assert limit == 0.9 or not bool(stays.all())


def test_many_pictures_are_taken_in_parts(monkeypatch):
    boxes, codes = some(7, 20, seed=4), torch.zeros(7, 20)
    whole = suppress(boxes, codes, 0.3)
    monkeypatch.setattr("leadline.likelihoods.overlap._PAIRS", 900)
    assert torch.equal(suppress(boxes, codes, 0.3), whole)


def test_a_box_that_is_silenced_silences_no_other():
    """A chain, each box over the next alone: every second one stays."""
    step = torch.arange(7) * 0.1
    chain = torch.stack([step, torch.zeros(7), torch.full((7,), 0.25), torch.ones(7)], -1)[None]
    assert suppress(chain, torch.zeros(1, 7), 0.3)[0].tolist() == [True, False] * 3 + [True]


def test_corners_hold_the_box():
    low, high = corners(some(5))
    torch.testing.assert_close(high - low, some(5)[:, 2:])
    torch.testing.assert_close((high + low) / 2, some(5)[:, :2])
