"""Flows: the exact solution of a quadratic, the order of the solver, and how near the modified flow is to steps."""

import itertools

import pytest
import torch

from leadline.errors import UserError
from leadline.optim.flow import batch_term, descend, flow, gradient_term, modified

A = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)


def bowl(phi):
    return phi @ A @ phi / 2


def wavy(phi):
    return (phi[0] * phi[1]).sin() + phi.square().sum() / 3 + phi[0] ** 3 / 5


def test_the_flow_of_a_quadratic_is_a_matrix_exponential():
    start = torch.tensor([1.0, -2.0], dtype=torch.float64)
    found = flow(bowl, start, 1.5, 60)
    torch.testing.assert_close(found[-1], torch.linalg.matrix_exp(-1.5 * A) @ start, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(found[30], torch.linalg.matrix_exp(-0.75 * A) @ start, rtol=1e-7, atol=1e-7)


def test_the_solver_is_of_order_four():
    exact = flow(wavy, [0.7, -0.3], 1.0, 400)[-1]
    coarse, fine = (float((flow(wavy, [0.7, -0.3], 1.0, n)[-1] - exact).norm()) for n in (5, 10))
    assert 11 < coarse / fine < 22


def order(error):
    """The power with which an error falls when the rate is halved."""
    return float(torch.log2(torch.tensor(error(0.04) / error(0.02))))


def test_a_step_leaves_the_flow_by_the_square_of_the_rate_and_the_modified_flow_by_its_cube():
    start = [0.7, -0.3]

    def off(loss):
        return lambda rate: float((descend(wavy, start, rate, 1)[-1] - flow(loss(rate), start, rate, 8)[-1]).norm())

    assert order(off(lambda rate: wavy)) == pytest.approx(2, abs=0.1)
    assert order(off(lambda rate: modified(wavy, rate))) == pytest.approx(3, abs=0.15)


def test_the_mean_epoch_follows_the_flow_with_the_batch_term():
    losses = [wavy, bowl, lambda phi: (phi[0] - 2 * phi[1]).cos()]
    start = [0.7, -0.3]

    def mean(phi):
        return sum(one(phi) for one in losses) / 3

    def off(loss):
        def error(rate):
            ends = [descend(list(turn), start, rate, 3)[-1] for turn in itertools.permutations(losses)]
            return float((torch.stack(ends).mean(0) - flow(loss(rate), start, 3 * rate, 12)[-1]).norm())

        return error

    assert order(off(lambda rate: modified(mean, rate))) == pytest.approx(2, abs=0.25)
    assert order(off(lambda rate: modified(losses, rate))) == pytest.approx(3, abs=0.25)


def test_the_terms_are_their_formulas():
    phi = torch.tensor([0.4, 1.1], dtype=torch.float64)
    slopes = torch.stack([torch.autograd.functional.jacobian(loss, phi) for loss in (bowl, wavy)])
    assert float(gradient_term(bowl)(phi)) == pytest.approx(float(slopes[0].square().sum()), rel=1e-12)
    apart = (slopes - slopes.mean(0)).square().sum() / 2
    assert float(batch_term([bowl, wavy])(phi)) == pytest.approx(float(apart), rel=1e-12)
    whole = (bowl(phi) + wavy(phi)) / 2 + 0.05 * (slopes.mean(0).square().sum() + apart)
    assert float(modified([bowl, wavy], 0.2)(phi)) == pytest.approx(float(whole), rel=1e-12)


def test_minima_stay_in_place():
    """The gradient of L + α/4 |∇L|² is 0 where that of L is."""
    at = flow(wavy, [0.0, -0.5], 60.0, 600)[-1]
    slope = torch.func.grad(wavy)(at)
    assert float(slope.norm()) < 1e-9
    assert float(torch.func.grad(modified(wavy, 0.5))(at).norm()) < 1e-8


def test_a_start_must_be_a_vector():
    with pytest.raises(UserError, match="start must be a vector"):
        flow(bowl, [[1.0, 2.0]], 1.0)
    with pytest.raises(UserError, match="time must be a number above 0"):
        flow(bowl, [1.0, 2.0], 0.0)
    with pytest.raises(UserError, match="at least one loss"):
        modified([], 0.1)
