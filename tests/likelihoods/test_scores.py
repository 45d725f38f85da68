import math

import pytest
import torch
from scipy import stats

from leadline.errors import ShapeError, UserError
from leadline.likelihoods import (
    Bernoulli,
    Categorical,
    Gamma,
    Joint,
    Laplace,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Poisson,
    Quantile,
    VonMises,
)
from leadline.likelihoods.angles import angular_distance, drawn
from leadline.likelihoods.crps import crps
from leadline.likelihoods.scores import coverage, interval_score, pinball, pit, scores, sharpness
from leadline.reference import scores as twin
from leadline.reference.densities import pinball_loss


@pytest.fixture
def rows():
    torch.manual_seed(0)
    prediction = Normal("input").prediction(torch.randn(40, 2))
    return prediction, 2 * torch.randn(40)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_they_equal_their_twins(rows, level):
    prediction, y = rows
    low, high = (end.tolist() for end in prediction.interval(level))
    assert coverage(prediction, y, level) == pytest.approx(twin.coverage(low, high, y.tolist()))
    wanted = [twin.interval_score(a, b, level, v) for a, b, v in zip(low, high, y.tolist(), strict=True)]
    assert interval_score(prediction, y, level).tolist() == pytest.approx(wanted, rel=1e-4)
    assert sharpness(prediction, level) == pytest.approx(sum(b - a for a, b in zip(low, high, strict=True)) / 40)
    wanted = [pinball_loss(level, q, v) for q, v in zip(prediction.quantile(level).tolist(), y.tolist(), strict=True)]
    assert pinball(prediction, y, level).tolist() == pytest.approx(wanted, rel=1e-4, abs=1e-6)


def test_all_of_them_in_one_call(rows):
    prediction, y = rows
    found = scores(prediction, y, 0.8)
    assert found["coverage"] == coverage(prediction, y, 0.8)
    assert found["sharpness"] == sharpness(prediction, 0.8)
    assert found["interval_score"] == pytest.approx(float(interval_score(prediction, y, 0.8).mean()))
    assert set(found) == {"coverage", "sharpness", "interval_score", "crps"}


@pytest.mark.parametrize("score", [lambda p, y: interval_score(p, y).mean(), lambda p, y: pinball(p, y, 0.8).mean()])
def test_a_proper_score_is_best_for_the_truth(score):
    torch.manual_seed(0)
    y = torch.randn(50_000)
    by_sigma = {
        sigma: float(score(Normal("fixed", sigma=sigma).prediction(torch.zeros(50_000, 1)), y))
        for sigma in (0.5, 0.8, 1.0, 1.25, 2.0)
    }
    assert min(by_sigma, key=by_sigma.get) == 1.0


def test_pit_is_uniform_for_the_truth_and_not_otherwise():
    torch.manual_seed(0)
    y = torch.distributions.Gamma(4.0, 4.0).sample((20_000,))
    truth, wide = Gamma("fixed", sigma=0.5), Gamma("fixed", sigma=1.0)
    deviation = [float(pit(p.prediction(torch.zeros(20_000, 1)), y).std()) for p in (truth, wide)]
    assert deviation[0] == pytest.approx(12**-0.5, abs=0.005)
    assert deviation[1] < 0.25


@pytest.mark.parametrize("family", [Poisson(2.5), NegativeBinomial("fixed", 0.5, scale=2.5)])
def test_pit_of_counts_is_exact(family):
    prediction = family.prediction(torch.zeros(6, 1))
    y = torch.tensor([-1.0, 0.0, 1.0, 3.0, 3.5, 40.0])
    below = [
        sum(float(torch.exp(prediction.log_prob(torch.full((6,), float(k)))[0])) for k in range(int(v) + 1)) for v in y
    ]
    below[0] = 0.0
    torch.testing.assert_close(prediction.cdf(y), torch.tensor(below), atol=1e-5, rtol=1e-5)
    many = family.prediction(torch.zeros(20_000, 1))
    u = pit(many, many.sample(1, seed=3)[0])
    share = torch.histc(u.double(), 10, 0, 1) / 20_000
    torch.testing.assert_close(share, torch.full_like(share, 0.1), atol=0.012, rtol=0)


def test_pit_by_samples_where_no_distribution_function_is_known():
    torch.manual_seed(0)
    p = torch.rand(4000)
    y = (torch.rand(4000) < p).float()
    prediction = Bernoulli().prediction(torch.logit(p)[:, None])
    u = pit(prediction, y)
    tenths = torch.histc(u, 10, 0, 1) / 4000
    assert float((tenths - 0.1).abs().max()) < 0.03


def test_several_outputs_are_scored_each():
    torch.manual_seed(0)
    prediction = MultivariateNormal(dim=3).prediction(torch.zeros(2000, 3))
    y = torch.randn(2000, 3)
    assert coverage(prediction, y) == pytest.approx(0.9, abs=0.02)
    assert pit(prediction, y).shape == interval_score(prediction, y).shape == (2000, 3)


def test_what_a_family_cannot_answer_is_said():
    with pytest.raises(UserError, match="credible_set"):
        coverage(Categorical(3).prediction(torch.zeros(2, 3)), torch.tensor([0, 1]))
    with pytest.raises(UserError, match="Train with levels that reach 0.05"):
        coverage(Quantile((0.25, 0.75)).prediction(torch.zeros(2, 2)), torch.zeros(2))
    with pytest.raises(ShapeError, match="y must have shape"):
        coverage(Laplace().prediction(torch.zeros(2, 1)), torch.zeros(2, 1))


def test_an_angle_is_the_same_in_every_turn():
    """An interval that passes the seam holds y on the other side, and no score depends on the turn."""
    prediction = VonMises("fixed", kappa=20.0).prediction(torch.tensor([[-1.0, 0.0]]).expand(20_000, -1))  # at π
    y = prediction.sample(1, seed=0)[0]
    assert coverage(prediction, y) == pytest.approx(0.9, abs=0.01)
    turned = y + 2 * math.pi * (torch.arange(20_000) % 3 - 1)
    for found, again in zip(scores(prediction, y).values(), scores(prediction, turned).values(), strict=True):
        assert again == pytest.approx(found, rel=1e-4)
    assert float(pit(prediction, turned).mean()) == pytest.approx(0.5, abs=0.01)
    # a wide circle is a line: κ = 1/σ², and the score is that of the normal law
    normal = Normal("fixed", sigma=20**-0.5).prediction(torch.zeros(20_000, 1))
    off = y - math.pi * y.sign()
    assert float(crps(prediction, y).mean()) == pytest.approx(float(crps(normal, off).mean()), rel=0.02)


@pytest.mark.parametrize("kappa", [1e-6, 0.3, 2.0, 40.0, 1e5])
def test_the_score_of_an_angle_is_that_of_its_draws(kappa):
    """Half the turn, a few deviations and no distance from the mean: E d(Y, y) - ½ E d(Y, Y'), drawn."""
    y = torch.tensor([0.0, 0.5, 2.0, math.pi / min(kappa**-0.5, 1)]) * min(kappa**-0.5, 1)
    prediction = VonMises("fixed", kappa=kappa).prediction(torch.tensor([[1.0, 0.0]]).expand(4, -1))
    draws = prediction.sample(100_000, seed=0)
    apart = angular_distance(draws, draws.roll(1, 0)).mean(0)
    wanted = angular_distance(draws, y).mean(0) - apart / 2
    torch.testing.assert_close(crps(prediction, y), wanted, rtol=0.02, atol=0.01 * min(kappa**-0.5, 1))


@pytest.mark.parametrize("kappa", [0.0, 1e-4, 0.5, 3.0, 200.0, 1e5, 1e8])
def test_draws_of_angles_follow_their_law(kappa):
    torch.manual_seed(0)
    law = stats.vonmises(kappa).cdf if 0 < kappa < 1e4 else stats.norm(0, kappa**-0.5).cdf if kappa else None
    law = law or stats.uniform(-math.pi, 2 * math.pi).cdf
    assert stats.kstest(drawn(torch.full((40_000,), kappa)).numpy(), law).pvalue > 1e-3


def test_several_columns_are_scored_each_by_its_own_family():
    joint = Joint(("VonMises", "Normal"), ({"variance": "fixed", "kappa": 20.0}, {"variance": "fixed"}))
    prediction = joint.prediction(torch.tensor([[-1.0, 0.0, 2.0]]).expand(400, -1))
    y = prediction.sample(1, seed=0)[0]
    own = torch.stack([crps(p, y[:, k]) for k, p in enumerate(prediction.columns)], 1)
    assert torch.equal(crps(prediction, y), own)
    assert coverage(prediction, y + torch.tensor([2 * math.pi, 0.0])) == pytest.approx(0.9, abs=0.03)
