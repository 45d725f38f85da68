"""Sets in the plane have the shape that their formulas say."""

import math

import pytest
import torch

from leadline.data import plane
from leadline.errors import UserError

ALL = {"val": 0.0, "test": 0.0}


def test_four_clean_points_are_xor():
    data = plane.xor(num=4, noise=0.0, **ALL)
    points = {(int(a), int(b)): int(y) for (a, b), y in zip(data.train.x, data.train.y)}
    assert points == {(0, 0): 0, (1, 1): 0, (0, 1): 1, (1, 0): 1}


def test_clean_moons_lie_on_two_half_circles():
    data = plane.moons(noise=0.0, **ALL)
    x, y = data.train.x, data.train.y
    centre = torch.stack([y.float(), y / 2], dim=1)
    offset = x - centre
    assert torch.allclose(offset.norm(dim=1), torch.ones(len(x)), atol=1e-5)
    assert (offset[:, 1] * (1 - 2 * y) >= -1e-6).all()


def test_clean_circles_have_their_radii():
    data = plane.circles(noise=0.0, inner=0.3, **ALL)
    radius = data.train.x.norm(dim=1)
    assert torch.allclose(radius, torch.where(data.train.y == 1, 0.3, 1.0), atol=1e-5)
    with pytest.raises(UserError, match="inner must be a radius"):
        plane.circles(inner=1.0)


def test_a_clean_spiral_turns_with_its_radius():
    data = plane.spirals(noise=0.0, num_arms=3, turns=1.5, **ALL)
    x, y = data.train.x.double(), data.train.y
    radius = x.norm(dim=1)
    angle = torch.atan2(x[:, 1], x[:, 0])
    expected = 2 * math.pi * (1.5 * radius + y / 3)
    assert torch.allclose(torch.cos(angle - expected), torch.ones(len(x), dtype=torch.float64), atol=1e-4)


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_neighbouring_blobs_are_as_far_apart_as_asked(num_classes):
    data = plane.blobs(num=70, num_classes=num_classes, noise=0.0, separation=4.0, **ALL)
    centres = torch.stack([data.train.x[data.train.y == k].mean(0) for k in range(num_classes)])
    gaps = (centres - centres.roll(1, 0)).norm(dim=1)
    assert torch.allclose(gaps, torch.full((num_classes,), 4.0), atol=1e-4)
    assert data.train.y.bincount().max() - data.train.y.bincount().min() <= 1


def test_imbalance_follows_the_ratio():
    counts = plane.imbalanced(num=2100, num_classes=3, ratio=16.0, **ALL).train.y.bincount()
    assert counts.tolist() == [1600, 400, 100]
    with pytest.raises(UserError, match="the rarest class two rows"):
        plane.imbalanced(num=50, ratio=1000.0)
    with pytest.raises(UserError, match="ratio must be at least 1"):
        plane.imbalanced(ratio=0.5)


@pytest.mark.parametrize("seed", range(5))
def test_a_line_separates_with_the_margin_asked_for(seed):
    data = plane.separable(num=300, margin=0.2, radius=3.0, seed=seed, **ALL)
    x, sign = data.train.x.double(), 2 * data.train.y - 1
    assert (x.norm(dim=1) <= 3.0).all()
    turns = torch.linspace(0, 2 * math.pi, 20_001, dtype=torch.float64)
    w = torch.stack([turns.cos(), turns.sin()])
    best = ((x @ w) * sign[:, None]).min(0).values.max()
    assert best >= 0.2 - 1e-3  # the grid of directions is that fine
    with pytest.raises(UserError, match="margin must be less than radius"):
        plane.separable(margin=1.0, radius=1.0)


def test_neighbouring_cells_of_the_board_differ():
    data = plane.checkerboard(num=4000, num_cells=5, **ALL)
    x, y = data.train.x.double(), data.train.y
    cell = ((x + 1) / 2 * 5).floor().long()
    assert torch.equal(cell.sum(1) % 2, y)
    assert len({(int(a), int(b)) for a, b in cell}) == 25


def test_more_classes_than_rows_are_refused():
    with pytest.raises(UserError, match="num=5 for 9 classes"):
        plane.blobs(num=5, num_classes=9)
    with pytest.raises(UserError, match="num_classes must be at least 2"):
        plane.blobs(num_classes=1)
