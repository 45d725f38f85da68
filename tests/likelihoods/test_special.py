import math

import numpy as np
import pytest
import torch
from scipy import special as scipy_special

from leadline.likelihoods.special import beta_below, beta_quantile, gamma_quantile, log_beta, rest


def spread(low, high, rows=300, seed=0):
    """Numbers between e^low and e^high, evenly over the logarithm."""
    generator = torch.Generator().manual_seed(seed)
    return torch.exp(low + (high - low) * torch.rand(rows, generator=generator, dtype=torch.float64))


def test_what_is_left_of_log_gamma():
    a = spread(-9, 15)
    wanted = scipy_special.gammaln(a.numpy()) - a.numpy() * np.log(a.numpy()) + a.numpy()
    np.testing.assert_allclose(rest(a).numpy(), wanted, rtol=1e-8, atol=1e-7)
    near = torch.tensor([10 - 1e-9, 10 + 1e-9], dtype=torch.float64)
    assert float(rest(near).diff()) == pytest.approx(0, abs=1e-8)


def test_single_precision_is_enough_for_it():
    a = spread(-3, 18)
    np.testing.assert_allclose(rest(a.float()).double().numpy(), rest(a).numpy(), rtol=1e-5, atol=1e-5)
    assert torch.autograd.gradcheck(rest, torch.tensor([0.01, 1.0, 9.0, 11.0, 1e3]).double().requires_grad_())


def test_the_beta_function():
    a, b = spread(-7, 9, seed=1), spread(-7, 9, seed=2)
    np.testing.assert_allclose(log_beta(a, b).numpy(), scipy_special.betaln(a.numpy(), b.numpy()), rtol=1e-9, atol=1e-9)


def test_probabilities_of_beta():
    a, b = spread(-4, 9, seed=1), spread(-4, 9, seed=2)
    x = torch.rand(300, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    wanted = scipy_special.betainc(a.numpy(), b.numpy(), x.numpy())
    np.testing.assert_allclose(beta_below(a, b, torch.logit(x)).numpy(), wanted, atol=1e-11)


def test_quantiles_of_beta_and_gamma():
    a, b = spread(-3, 8, seed=1), spread(-3, 8, seed=2)
    q = torch.rand(300, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    wanted = scipy_special.betaincinv(a.numpy(), b.numpy(), q.numpy())
    np.testing.assert_allclose(torch.sigmoid(beta_quantile(a, b, q)).numpy(), wanted, atol=1e-10)
    a = spread(-3, 12)
    np.testing.assert_allclose(gamma_quantile(a, q).numpy(), scipy_special.gammaincinv(a.numpy(), q.numpy()), rtol=1e-8)


def test_extreme_levels():
    q = torch.tensor([1e-12, 1 - 1e-12], dtype=torch.float64)
    shape = torch.tensor(2.0, dtype=torch.float64)
    np.testing.assert_allclose(gamma_quantile(shape, q).numpy(), scipy_special.gammaincinv(2.0, q.numpy()), rtol=1e-5)
    tiny = gamma_quantile(torch.tensor(1e-3).double(), torch.tensor(0.1).double())
    assert float(tiny) == pytest.approx(math.exp((math.log(0.1) + math.lgamma(1.001)) / 0.001), abs=1e-300)
