"""Curves: without noise y is the formula; with it, the residual has the deviation asked for."""

import math

import pytest
import torch

from leadline.data import curves
from leadline.errors import UserError

ALL = {"val": 0.0, "test": 0.0}


def gabor(x):
    u = 0.06 * 16.6 * x
    return u.sin() * (-u.square() / 8).exp()


TRUTHS = {
    "line": lambda x: 0.8 + 0.5 * x,
    "gabor": gabor,
    "sine": lambda x: (2 * math.pi * x).sin(),
    "quasi_sine": lambda x: (2 * math.pi * x).sin().exp(),
    "uneven_noise": lambda x: (2 * math.pi * x).sin(),
    "step": lambda x: (x > 0).double(),
    "smooth": lambda x: (2 * math.pi * x).sin() + 0.5 * (5 * math.pi * x).cos(),
    "cubic": lambda x: x**3 - 2 * x,
    "gap": lambda x: (2 * math.pi * x).sin(),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_y_is_the_truth_plus_its_noise(name):
    make, truth = getattr(curves, name), TRUTHS[name]
    clean = make(num=200, noise=0.0, **ALL).train
    assert torch.allclose(clean.y.double(), truth(clean.x[:, 0].double()), atol=1e-4)
    noisy = make(num=4000, noise=0.5, **ALL).train
    residual = noisy.y.double() - truth(noisy.x[:, 0].double())
    assert abs(residual.mean()) < 0.05
    if name != "uneven_noise":
        assert abs(residual.std() - 0.5) < 0.03


def test_uneven_noise_grows_fivefold_to_the_right():
    train = curves.uneven_noise(num=20_000, noise=0.3, **ALL).train
    x = train.x[:, 0].double()
    residual = train.y.double() - (2 * math.pi * x).sin()
    left, right = residual[x < 0.05].std(), residual[x > 0.95].std()
    assert abs(left - 0.11) < 0.01 and abs(right - 0.49) < 0.04


@pytest.mark.parametrize("name", ["sine", "quasi_sine", "uneven_noise", "smooth"])
def test_stratified_x_has_one_point_in_every_segment(name):
    train = getattr(curves, name)(num=50, **ALL).train
    segment = (train.x[:, 0].double() * 50).floor().long()
    assert torch.equal(segment.sort().values, torch.arange(50))


def test_the_gap_is_empty_and_both_sides_are_not():
    x = curves.gap(num=200, width=0.5, **ALL).train.x[:, 0]
    assert not ((x > 0.25) & (x < 0.75)).any()
    assert (x < 0.25).sum() > 50 and (x > 0.75).sum() > 50 and x.min() >= 0 and x.max() <= 1
    with pytest.raises(UserError, match="width must be a fraction"):
        curves.gap(width=1.0)


def test_the_best_line_through_twelve_points_has_the_loss_asked_for():
    train = curves.twelve_points().train
    x, y = train.x.double(), train.y.double()
    basis = torch.cat([torch.ones_like(x), x], dim=1)
    best = torch.linalg.lstsq(basis, y[:, None]).solution
    assert torch.allclose(best[:, 0], torch.tensor([0.8, 0.5], dtype=torch.float64), atol=1e-5)
    assert float((y - (basis @ best)[:, 0]).square().sum()) == pytest.approx(0.19, abs=1e-5)
    assert len(y) == 12


def test_linear_has_the_weights_asked_for():
    train = curves.linear(noise=0.0, weights=(1.0, -2.0, 0.5), intercept=3.0, **ALL).train
    assert train.x.shape == (1000, 3)
    expected = train.x @ torch.tensor([1.0, -2.0, 0.5]) + 3
    assert torch.allclose(train.y, expected, atol=1e-5)
    with pytest.raises(UserError, match="weights must hold at least one number"):
        curves.linear(weights=())


def test_gabor_points_span_their_interval():
    data = curves.gabor(**ALL)
    assert len(data.train) == 28
    x = curves.gabor(num=2000, **ALL).train.x
    assert -15 <= x.min() < -14.9 and 14.9 < x.max() <= 15


def test_one_x_of_the_inverse_problem_has_three_y():
    clean = curves.inverse(num=5000, noise=0.0, **ALL).train
    y = clean.y.double()
    assert torch.allclose(clean.x[:, 0].double(), y + 0.3 * (2 * math.pi * y).sin(), atol=1e-5)
    near = clean.y[(clean.x[:, 0] - 0.5).abs() < 0.01]
    assert len({round(float(value), 1) for value in near}) >= 3
    noisy = curves.inverse(num=5000, noise=0.1, **ALL).train
    residual = noisy.x[:, 0].double() - noisy.y.double() - 0.3 * (2 * math.pi * noisy.y.double()).sin()
    assert residual.abs().max() <= 0.1 + 1e-5 and abs(residual.std() - 0.1 / math.sqrt(3)) < 0.003


def test_branches_part_in_the_middle_and_meet_at_the_ends():
    train = curves.branches(num=20_000, noise=0.3, **ALL).train
    x, y = train.x[:, 0], train.y
    middle = y[x.abs() < 0.1]
    assert abs(middle[middle > 0.5].mean() - 3) < 0.1 and abs(middle[middle < 0.5].mean() + 2) < 0.1
    assert ((middle > -0.5) & (middle < 1.5)).float().mean() < 0.01
    ends = y[x.abs() > 2.9]
    assert abs(ends.mean() - 0.5) < 0.1 and ends.std() < 0.4
