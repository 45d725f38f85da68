import numpy as np
import pytest
import torch
from scipy import stats

from leadline.likelihoods import NegativeBinomial, Poisson
from leadline.reference import counts as twin
from leadline.testing import check_likelihood

ROWS = 12_000
CASES = {
    "fixed": NegativeBinomial("fixed", alpha=0.3, scale=6.0),
    "learned": NegativeBinomial("learned", alpha=2.0, scale=6.0),
    "input": NegativeBinomial("input", scale=6.0),
}


@pytest.fixture(params=CASES)
def likelihood(request):
    yield CASES[request.param].double()
    CASES[request.param].float()


def rows(likelihood, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 1.5 * torch.randn(count, likelihood.dim_output, generator=generator, dtype=torch.float64)


@torch.no_grad()
def law(likelihood, output):
    """By scipy, with α from the formulas of the docstring."""
    o = output[:, 0].numpy()
    mu = 6.0 * np.where(o > 0, 1 + o, np.exp(np.minimum(o, 0)))
    if likelihood.variance == "fixed":
        alpha = np.full(len(o), 0.3)
    else:
        raw = output[:, 1] if likelihood.variance == "input" else 10 * likelihood.rho.expand(len(o))
        alpha = np.log1p(np.exp(raw.numpy())) + 1e-4
    return stats.nbinom(1 / alpha, 1 / (1 + alpha * mu)), mu, alpha


@pytest.mark.parametrize("name", CASES)
def test_it_keeps_the_contract(name):
    check_likelihood(CASES[name], rows(CASES[name], 12).float(), torch.arange(12.0))


def test_learned_dispersion_begins_where_it_is_told():
    assert float(NegativeBinomial("learned", alpha=2.0).dispersion(torch.zeros(1, 1)).detach()) == pytest.approx(2.0)


@torch.no_grad()
def test_loss_quantiles_and_moments_are_those_of_scipy(likelihood):
    output = rows(likelihood, 80)
    known, mu, alpha = law(likelihood, output)
    y = torch.from_numpy(known.rvs(random_state=1)).double()
    prediction = likelihood.prediction(output)
    np.testing.assert_allclose(likelihood.loss(output, y), -known.logpmf(y), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(prediction.log_prob(y), known.logpmf(y), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(prediction.mean, mu)
    np.testing.assert_allclose(prediction.std, np.sqrt(mu + alpha * mu**2))
    for q in (0.01, 0.05, 0.5, 0.95, 0.99):
        np.testing.assert_array_equal(prediction.quantile(q), known.ppf(q))
    near = prediction.mode.numpy()[:, None] + np.arange(-2, 3)
    law_rows = stats.nbinom((1 / alpha)[:, None], (1 / (1 + alpha * mu))[:, None])
    best = np.where(near >= 0, law_rows.pmf(near), 0).max(1)
    np.testing.assert_allclose(prediction.log_prob(prediction.mode).exp(), best, rtol=1e-9)


@torch.no_grad()
def test_the_loss_equals_the_twin(likelihood):
    output = rows(likelihood, 15, seed=2)
    _, mu, alpha = law(likelihood, output)
    losses = likelihood.loss(output, torch.arange(15.0, dtype=torch.float64))
    for k in range(15):
        wanted = twin.negative_binomial_loss(mu[k], alpha[k], k)
        assert float(losses[k]) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        quantile = twin.count_quantile(lambda c, k=k: twin.negative_binomial_loss(mu[k], alpha[k], c), 0.8)
        assert int(likelihood.prediction(output).quantile(0.8)[k]) == quantile


@torch.no_grad()
def test_intervals_hold_y_at_least_as_often_and_as_often_when_their_ends_are_drawn(likelihood):
    output = rows(likelihood, ROWS, seed=3)
    known, _, _ = law(likelihood, output)
    y = known.rvs(random_state=4)
    low, high = (end.numpy() for end in likelihood.prediction(output).interval(0.9))
    inside = ((low <= y) & (y <= high)).mean()
    assert inside >= 0.9
    assert inside == pytest.approx((known.cdf(high) - known.cdf(low - 1)).mean(), abs=0.01)
    chance = np.random.default_rng(5).random(ROWS)
    spot = known.cdf(y - 1) + chance * known.pmf(y)  # uniform where the distribution is right
    drawn = (low <= y) & (y <= high) & (spot > 0.05) & (spot < 0.95)
    assert 0.88 <= drawn.mean() <= 0.92


def test_little_dispersion_is_poisson_also_in_single_precision():
    output, y = torch.randn(50, 1), torch.poisson(torch.full((50,), 40.0))
    almost = NegativeBinomial("fixed", alpha=1e-6, scale=40.0).loss(output, y)
    torch.testing.assert_close(almost, Poisson(40.0).loss(output, y), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("far", [-1e4, 1e4])
@pytest.mark.parametrize("name", CASES)
def test_all_outputs_may_be_far_at_once(name, far):
    likelihood = CASES[name].float()
    output = torch.full((5, likelihood.dim_output), far, requires_grad=True)
    loss = likelihood.loss(output, torch.arange(5.0))
    (gradient,) = torch.autograd.grad(loss.sum(), output)
    assert bool(loss.isfinite().all() & gradient.isfinite().all())
