"""Noise, bias and variance: the identity, a case with a closed form, and three ways to fit that agree."""

import numpy as np
import pytest
import torch

from leadline.errors import ShapeError, UserError
from leadline.models import MLP, FixedJoints
from leadline.selection import World, decompose, least_squares, networks, one_by_one, tradeoff


def line(x):
    return 1 + 2 * x


def quasi_sine(x):
    return (2 * torch.pi * x).sin().exp()


def test_a_line_has_the_variance_of_the_textbook():
    # fixed design: var f(x) = σ² (1/n + (x - x̄)² / Σ (x_i - x̄)²), and no bias
    n, sigma = 12, 0.5
    at = (torch.arange(n, dtype=torch.float64) + 0.5) / n

    def fixed(xs, ys, x):  # the same x in every set, their noise alone drawn
        new = at.expand(len(xs), n)[..., None]
        return least_squares(lambda t: t)(new, line(new[..., 0]) + ys - line(xs[..., 0]), x)

    view = decompose(fixed, World(line, noise=sigma), n, sets=20_000, places=5)
    expected = sigma**2 * (1 / n + (view.x - 0.5) ** 2 / float((at - 0.5).square().sum()))
    np.testing.assert_allclose(view.variances, expected, rtol=0.05)
    assert np.abs(view.squared_biases).max() < 1e-3 * expected.max()


def test_the_parts_add_up_to_the_loss():
    for pieces in (1, 3, 8):
        view = decompose(least_squares(FixedJoints(1, pieces).features), World(quasi_sine, 0.3), 15, sets=2000)
        assert abs(view.total - view.loss) < 4 * view.loss_error
        assert view.noise == pytest.approx(0.09)
    assert view.loss_error < 0.02 * view.loss


def test_squared_bias_is_estimated_without_bias():
    # fits that are the truth plus noise have none, however few they are
    world = World(line, noise=1.0)
    scatter = lambda xs, ys, x: line(x[:, 0]) + torch.randn(len(xs), len(x), dtype=torch.float64)  # noqa: E731
    torch.manual_seed(0)
    found = [decompose(scatter, world, 5, sets=3, places=200).squared_bias for _ in range(40)]
    assert abs(np.mean(found)) < 4 * np.std(found) / 40**0.5
    assert np.std(found) > 0


def test_more_capacity_less_bias_more_variance():
    joints = lambda pieces: least_squares(FixedJoints(1, pieces).features)  # noqa: E731
    view = tradeoff(joints, World(quasi_sine, 0.3), 15, (1, 4, 10), sets=400)
    assert view.squared_bias[0] > view.squared_bias[1] > view.squared_bias[2]
    assert view.variance[0] < view.variance[1] < view.variance[2]
    assert view.best == 4
    assert len(view.plot().axes[0].get_lines()) >= 4


def test_one_by_one_is_all_at_once():
    world = World(quasi_sine, 0.3)

    def alone(x, y):
        rows = torch.cat([torch.ones(len(x), 1), x], 1).double()
        slopes = torch.linalg.lstsq(rows, y[:, None]).solution
        return lambda new: torch.cat([torch.ones(len(new), 1), new], 1).double() @ slopes

    slow, fast = (decompose(f, world, 10, sets=20) for f in (one_by_one(alone), least_squares(lambda x: x)))
    np.testing.assert_allclose(slow.fits, fast.fits, atol=1e-9)


def test_ridge_pulls_to_the_mean():
    xs, ys = World(line, 0.1).draw(20, 3)
    x = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    free, pulled, flat = (least_squares(lambda t: t, ridge=r)(xs, ys, x) for r in (0.0, 1.0, 1e9))
    slope = lambda f: (f[:, 1] - f[:, 0]).abs()  # noqa: E731
    assert bool((slope(pulled) < slope(free)).all())
    torch.testing.assert_close(flat[:, 0], ys.mean(1), atol=1e-6, rtol=0)


def test_networks_are_a_population_of_sets():
    fit = networks(MLP(1, (8,), 1, activation="tanh", p_drop=0.0), epochs=60, batch=32, lr=0.05)
    view = decompose(fit, World(line, 0.1), 30, sets=6, places=11)
    assert view.squared_bias < 0.2 and view.variance > 0
    assert view.plot().axes[0].get_title("left").startswith("6 fits to 30 rows")


def test_draws_are_those_of_their_seed_and_even():
    world = World(line, 0.0, low=-1, high=3)
    xs, ys = world.draw(8, 4, seed=1)
    torch.testing.assert_close(xs, world.draw(8, 4, seed=1)[0])
    assert bool((((xs[..., 0] + 1) / 4 * 8).floor() == torch.arange(8)).all())  # one in each segment
    torch.testing.assert_close(ys, line(xs[..., 0]))


def test_what_cannot_be():
    with pytest.raises(ShapeError, match="one prediction for each set and place"):
        decompose(lambda xs, ys, x: torch.zeros(3), World(line), 5)
    with pytest.raises(UserError, match="low must be below high"):
        World(line, low=1.0, high=0.0)
