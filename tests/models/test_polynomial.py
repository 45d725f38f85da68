"""Polynomials: numpy's Hermite basis, numpy's fit, the most probable weights under a prior, the same by gradient."""

import math

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.layers.hermite import hermite
from leadline.likelihoods import Bernoulli, Normal
from leadline.models import Polynomial
from leadline.optim import LeastSquares, Newton


def fitted(x, y, degree, ridge=0.0, batches=1):
    model, rule = Polynomial(x.shape[1], degree).double(), LeastSquares(ridge)
    parts = Batch(x, y).split(-(-len(x) // batches))
    rule.steps_per_epoch = len(parts)
    rule.bind(model, Normal().double(), len(parts))
    for k, part in enumerate(parts):
        rule.step(part, k)
    return model


@pytest.mark.parametrize("degree", [1, 2, 7, 12])
def test_the_basis_is_that_of_numpy(degree):
    x = torch.linspace(-4, 4, 41).double()
    found = hermite(x, degree)
    for k in range(1, degree + 1):
        wanted = np.polynomial.hermite_e.hermeval(x.numpy(), [0] * k + [1 / math.sqrt(math.factorial(k))])
        np.testing.assert_allclose(found[:, k - 1], wanted, rtol=1e-9, atol=1e-9)


def test_the_basis_is_orthonormal_for_standard_normal_inputs():
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    h = hermite(torch.tensor(nodes), 8)
    gram = h.T * torch.tensor(weights / weights.sum()) @ h
    torch.testing.assert_close(gram, torch.eye(8).double(), atol=1e-9, rtol=0)


def test_columns_are_powers_of_each_input_in_the_order_that_is_told():
    model = Polynomial(2, 3, 1)
    x = torch.tensor([[2.0, -1.0]])
    assert torch.equal(model.features(x), torch.cat([hermite(x[:, 0], 3), hermite(x[:, 1], 3)], dim=1))


@pytest.mark.parametrize("degree", [1, 3, 9])
@pytest.mark.parametrize("batches", [1, 4])
def test_least_squares_finds_the_polynomial_of_numpy(degree, batches):
    g = torch.Generator().manual_seed(degree)
    x = torch.randn(60, 1, generator=g).double()
    y = (2 * x).sin().flatten() + 0.1 * torch.randn(60, generator=g)
    model = fitted(x, y, degree, batches=batches)
    grid = torch.linspace(-2, 2, 50).double()[:, None]
    wanted = np.polynomial.Polynomial.fit(x[:, 0].numpy(), y.numpy(), degree)(grid[:, 0].numpy())
    np.testing.assert_allclose(model(grid)[:, 0].detach(), wanted, rtol=1e-6, atol=1e-7)


def test_ridge_is_a_normal_prior_of_the_weights():
    """At the most probable weights the gradient of log p(y | Ω) + log p(Ω) is 0 with λ = σ²/σ0²."""
    g = torch.Generator().manual_seed(0)
    x, sigma, sigma_0 = torch.randn(30, 2, generator=g).double(), 0.4, 0.7
    y = x[:, 0] ** 2 - x[:, 1] + sigma * torch.randn(30, generator=g).double()
    model = fitted(x, y, 4, ridge=sigma**2 / sigma_0**2)
    log_posterior = (
        torch.distributions.Normal(model(x)[:, 0], sigma).log_prob(y).sum()
        + torch.distributions.Normal(torch.zeros(()).double(), sigma_0).log_prob(model.map.weight).sum()
    )
    log_posterior.backward()
    assert float(model.map.weight.grad.abs().max()) < 1e-9 and float(model.map.bias.grad.abs()) < 1e-9
    assert bool(fitted(x, y, 4).map.weight.norm() > model.map.weight.norm())


def test_gradient_descent_ends_where_the_closed_form_does():
    data = ll.data.cubic(num=200)
    solved = ll.fit(Polynomial(1, 3, 1), data, rule=LeastSquares(), epochs=1, progress=False)
    walked = ll.fit(Polynomial(1, 3, 1), data, epochs=150, lr=0.03, weight_decay=0.0, progress=False, threads=1)
    assert abs(solved.evaluate("test")["rmse"] - walked.evaluate("test")["rmse"]) < 0.02
    assert 0.8 < solved.evaluate("test")["rmse"] < 1.2


def test_newton_fits_a_curved_boundary():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, 2, generator=g)
    y = (x.square().sum(1) + 0.5 * torch.randn(400, generator=g) > 1.4).long()
    run = ll.fit(
        Polynomial(2, 2, 1), ll.data.arrays(x, y), likelihood=Bernoulli(), rule=Newton(), epochs=20, progress=False
    )
    assert run.reason == "finished" and run.evaluate("test")["accuracy"] > 0.8


def test_a_degree_of_none_is_refused():
    with pytest.raises(UserError, match="Polynomial: degree must be a whole number of at least 1. Got degree=0"):
        Polynomial(2, 0, 1)
