import math

import numpy as np
import pytest
import torch
from scipy import stats

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import Poisson, likelihood_for
from leadline.reference import counts as twin
from leadline.testing import check_likelihood

ROWS = 12_000


def rows(count=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(count, 1, generator=generator, dtype=torch.float64)


def rates(output, scale):
    o = output[:, 0].numpy()
    return scale * np.where(o > 0, 1 + o, np.exp(np.minimum(o, 0)))


def test_it_keeps_the_contract():
    check_likelihood(Poisson(3.0), rows(12).float(), torch.arange(12.0))
    check_likelihood(Poisson(3.0), rows(12).float(), torch.arange(12))


def test_a_count_target_picks_it_with_the_usual_rate():
    likelihood = likelihood_for(Target("count", shift=(7.5,), scale=(3.0,)))
    assert isinstance(likelihood, Poisson)
    assert float(likelihood.prediction(torch.zeros(1, 1)).mean) == 7.5


def test_loss_quantiles_and_mode_are_those_of_scipy():
    output = rows()
    lam = rates(output, 9.0)
    y = torch.from_numpy(stats.poisson.rvs(lam, random_state=1)).double()
    prediction = Poisson(9.0).prediction(output)
    np.testing.assert_allclose(Poisson(9.0).loss(output, y), -stats.poisson.logpmf(y, lam), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(prediction.log_prob(y), stats.poisson.logpmf(y, lam), rtol=1e-9, atol=1e-9)
    for q in (0.001, 0.05, 0.5, 0.95, 0.999):
        np.testing.assert_array_equal(prediction.quantile(q), stats.poisson.ppf(q, lam))
    around = np.floor(lam)[:, None] + np.arange(-3, 4)
    best = np.where(around >= 0, stats.poisson.pmf(around, lam[:, None]), 0).max(1)
    np.testing.assert_allclose(prediction.log_prob(prediction.mode).exp(), best)


def test_loss_and_gradient_equal_the_twin():
    output = rows(20, seed=2).requires_grad_()
    y = torch.arange(20.0, dtype=torch.float64)
    loss = Poisson(4.0).loss(output, y)
    (gradient,) = torch.autograd.grad(loss.sum(), output)
    loss, output = loss.detach(), output.detach()
    for k in range(20):
        o = float(output[k])
        assert float(loss[k]) == pytest.approx(twin.poisson_loss(twin.rate(o, 4.0), k), rel=1e-9)
        ends = [twin.poisson_loss(twin.rate(o + h, 4.0), k) for h in (1e-5, -1e-5)]
        assert float(gradient[k]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6)
    lam = rates(output, 4.0)
    for k in range(20):
        wanted = twin.count_quantile(lambda c, lam=lam[k]: twin.poisson_loss(lam, c), 0.9)
        assert int(Poisson(4.0).prediction(output).quantile(0.9)[k]) == wanted


def test_intervals_hold_y_at_least_as_often_and_as_often_when_their_ends_are_drawn():
    output = rows(ROWS)
    lam = rates(output, 12.0)
    y = stats.poisson.rvs(lam, random_state=3)
    low, high = (end.numpy() for end in Poisson(12.0).prediction(output).interval(0.9))
    inside = ((low <= y) & (y <= high)).mean()
    promised = (stats.poisson.cdf(high, lam) - stats.poisson.cdf(low - 1, lam)).mean()
    assert inside >= 0.9
    assert inside == pytest.approx(promised, abs=0.01)
    # an end itself counts only as far as the nominal level needs it
    chance = np.random.default_rng(4).random(ROWS)
    spot = stats.poisson.cdf(y - 1, lam) + chance * stats.poisson.pmf(y, lam)
    drawn = (low <= y) & (y <= high) & (spot > 0.05) & (spot < 0.95)
    assert 0.88 <= drawn.mean() <= 0.92


def test_large_counts_keep_their_digits():
    prediction = Poisson(1e6).prediction(torch.zeros(1, 1))
    assert float(prediction.quantile(0.95)) == pytest.approx(stats.poisson.ppf(0.95, 1e6), abs=1)


@pytest.mark.parametrize("far", [-1e4, 1e4])
def test_far_outputs_stay_finite(far):
    output = torch.full((5, 1), far, requires_grad=True)
    loss = Poisson(5.0).loss(output, torch.arange(5.0))
    loss.sum().backward()
    assert bool(loss.isfinite().all())
    assert bool(output.grad.isfinite().all())


def test_the_mean_is_learned_whatever_the_distribution():
    torch.manual_seed(0)
    y = torch.randint(0, 30, (2000,)).float()
    output = torch.zeros(1, 1, requires_grad=True)
    optimizer = torch.optim.Adam([output], lr=0.2)
    for _ in range(300):
        optimizer.zero_grad()
        Poisson(3.0).loss(output.expand(2000, 1), y).mean().backward()
        optimizer.step()
    assert float(Poisson(3.0).prediction(output.detach()).mean) == pytest.approx(float(y.mean()), rel=1e-3)


@pytest.mark.parametrize(
    ("y", "error", "words"),
    [
        (torch.tensor([1.0, -2.0]), DataError, "at least 0. Got -2 in row 1"),
        (torch.tensor([1.0, 0.5, 2.5]), DataError, r"whole numbers .* Got 0.5 in row 1 \(2 such rows\)"),
        (torch.tensor([[1.0], [2.0]]), ShapeError, r"Pass y.squeeze\(1\)"),
    ],
)
def test_what_is_no_count_is_refused(y, error, words):
    with pytest.raises(error, match=words):
        Poisson().check(y)


def test_measures_are_of_the_mean():
    found = Poisson(2.0).measures(torch.zeros(2, 1), torch.tensor([0.0, 5.0]))
    assert found["squared_error"].tolist() == [4.0, 9.0]
    assert Poisson().summary({"nll": 1.0, "squared_error": 9.0, "mae": 2.0})["rmse"] == math.sqrt(9.0)


@pytest.mark.parametrize("name", ["Poisson", "NegativeBinomial"])
def test_a_family_of_counts_asks_for_one_a_row(name):
    target = Target.real(torch.ones(5, 2), "v")
    with pytest.raises(UserError, match=f'likelihood {name} needs one number a row. .*families="{name}"'):
        likelihood_for(target, name)
