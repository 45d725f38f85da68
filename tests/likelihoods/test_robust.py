import math

import pytest
import torch
from scipy.integrate import quad
from scipy.special import k1

from leadline.errors import UserError
from leadline.likelihoods import Normal, Robust
from leadline.likelihoods.robust import RobustDistribution, log_total
from leadline.reference.densities import robust_penalty


@pytest.mark.parametrize(
    ("alpha", "total"), [(2.0, math.sqrt(2 * math.pi)), (1.0, 2 * math.e * k1(1.0)), (0.0, math.pi * math.sqrt(2))]
)
def test_the_normaliser_has_its_known_values(alpha, total):
    assert float(log_total(torch.tensor(alpha).double())) == pytest.approx(math.log(total), abs=1e-11)


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.3, 0.7, 1.4, 1.99])
def test_the_density_adds_up_to_one(alpha):
    f = lambda z: math.exp(-robust_penalty(z, alpha))  # noqa: E731
    total = 2 * (quad(f, 0, 1)[0] + quad(f, 1, 50)[0] + quad(f, 50, math.inf, limit=200)[0])
    assert float(log_total(torch.tensor(alpha).double()).exp()) == pytest.approx(total, rel=1e-7)


def test_the_gradient_of_the_normaliser_is_that_of_differences():
    alpha = torch.tensor([0.05, 0.6, 1.2, 1.95], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: torch.stack([log_total(v) for v in a]), alpha)


def test_the_ends_are_normal_and_cauchy():
    output, y = torch.randn(40, 1), 3 * torch.randn(40)
    two = Robust("fixed", alpha=2.0, learn_alpha=False)
    torch.testing.assert_close(two.loss(output, y), Normal("fixed").loss(output, y))
    none = Robust("fixed", alpha=0.0, learn_alpha=False)
    cauchy = torch.distributions.Cauchy(output.squeeze(1), math.sqrt(2))
    torch.testing.assert_close(none.loss(output, y), -cauchy.log_prob(y))


def test_the_neighbours_of_the_ends_are_near_them():
    output, y = torch.randn(40, 1).double(), 3 * torch.randn(40).double()
    for end, near in ((2.0, 2 - 1e-6), (0.0, 1e-6)):
        losses = [Robust("fixed", alpha=a, learn_alpha=False).double().loss(output, y) for a in (end, near)]
        torch.testing.assert_close(*losses, rtol=0, atol=2e-3)


@pytest.mark.parametrize(("wild", "low", "high"), [(0.0, 1.7, 1.99), (0.2, 0.01, 0.7)])
def test_it_learns_how_robust_to_be(wild, low, high):
    torch.manual_seed(0)
    y = torch.where(torch.rand(4000) < wild, 15 * torch.randn(4000), torch.randn(4000))
    likelihood = Robust()
    output = torch.zeros(1, 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([output, *likelihood.parameters()], max_iter=100, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = likelihood.loss(output.expand(4000, -1), y).mean()
        value.backward()
        return value

    optimizer.step(loss)
    assert low < float(likelihood.robustness().detach()) < high


def test_variance_grows_as_alpha_falls_and_is_infinite_at_its_end():
    variance = [
        float(RobustDistribution(torch.zeros(1), torch.ones(1), torch.tensor(alpha)).variance)
        for alpha in (2.0, 1.0, 0.5, 0.0)
    ]
    assert variance[0] == pytest.approx(1.0)
    assert variance == sorted(variance)
    assert math.isinf(variance[-1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0, "learn_alpha": False}, "alpha must lie from 0 to 2. Got alpha=-1"),
        ({"alpha": 2.0}, "alpha must lie between 0.01 and 1.99 to be learned. Got alpha=2"),
        ({"alpha": "much"}, "alpha must be a finite number"),
    ],
)
def test_an_alpha_that_is_no_density_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        Robust(**options)
