import itertools
import math

import numpy as np
import pytest
import torch
from continuous_cases import CASES
from scipy import stats

from leadline.likelihoods import Beta, Laplace, MultivariateNormal, Normal, Quantile, StudentT
from leadline.likelihoods.crps import CLOSED, _by_quantiles, _by_samples, crps
from leadline.likelihoods.von_mises import VonMisesDistribution
from leadline.reference.scores import crps as twin

CLOSED_CASES = ["Normal input sigma=0.7", "Laplace input sigma=0.7", "StudentT learned sigma=0.7", "Exponential",
                "Gamma input sigma=0.7", "LogNormal learned sigma=0.7", "Beta learned"]  # fmt: skip
OTHERS = ["Huber input sigma=0.7", "Robust learned sigma=0.7", "Quantile (0.1, 0.9)"]


def made(name, rows=4):
    case = CASES[name]
    likelihood = case.likelihood.double()
    output, y = case.draw(rows, seed=11)
    with torch.no_grad():
        return likelihood.prediction(output), y


@pytest.fixture(autouse=True, scope="module")
def leave_the_cases_in_single_precision():
    yield
    for case in CASES.values():
        case.likelihood.float()


def test_every_closed_form_is_tested():
    angles = {VonMisesDistribution}  # with a distance of their own: test_scores.py
    assert {type(made(name)[0].distribution) for name in CLOSED_CASES} == set(CLOSED) - angles


@pytest.mark.parametrize("name", [*CLOSED_CASES, *OTHERS])
def test_it_is_the_integral_of_its_definition(name):
    prediction, y = made(name)
    law = prediction.distribution
    got = crps(prediction, y).tolist()
    for k, score in enumerate(got):
        row = lambda x, k=k: float(law.cdf(torch.full_like(y, x))[k])  # noqa: E731
        low, high = (float(law.icdf(torch.full_like(y, q))[k]) for q in (1e-7, 1 - 1e-7))
        points = np.concatenate(
            [
                np.linspace(min(low, float(y[k])), float(y[k]), 8)[:-1],
                np.linspace(float(y[k]), max(high, float(y[k])), 8),
            ]
        )
        wanted = grid(row, float(y[k]), points)
        assert score == pytest.approx(wanted, rel=2e-2 if name in OTHERS else 1e-3)


def grid(below, y, points):
    """∫ (F - [x >= y])² by Gauss's rule over pieces that are the finer the nearer to y."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = 0.0
    for a, b in itertools.pairwise(points):
        x = (a + b) / 2 + (b - a) / 2 * nodes
        total += (b - a) / 2 * sum(w * (below(v) - (v >= y)) ** 2 for w, v in zip(weights, x, strict=True))
    return total


def test_the_normal_form_equals_the_twin():
    prediction = Normal("fixed", sigma=2.0).double().prediction(torch.full((1, 1), 0.5).double())
    below = lambda x: 0.5 * (1 + math.erf((x - 0.5) / (2 * math.sqrt(2))))  # noqa: E731
    for y in (-3.0, 0.5, 4.0):
        assert float(crps(prediction, torch.tensor([y]).double())) == pytest.approx(
            twin(below, y, -20.0, 21.0), rel=1e-8
        )


@pytest.mark.parametrize("name", ["Normal input sigma=0.7", "Gamma input sigma=0.7"])
def test_quantiles_and_samples_come_near_the_closed_form(name):
    prediction, y = made(name, 200)
    exact = crps(prediction, y)
    if name.startswith("Normal"):
        torch.testing.assert_close(_by_quantiles(prediction.distribution, y), exact, rtol=2e-2, atol=1e-3)
    assert float(_by_samples(prediction, y).mean()) == pytest.approx(float(exact.mean()), rel=0.02)


def test_a_narrow_distribution_scores_its_absolute_error():
    prediction = Normal("fixed", sigma=1e-6).prediction(torch.zeros(2, 1))
    assert crps(prediction, torch.tensor([3.0, -2.0])).tolist() == pytest.approx([3.0, 2.0], rel=1e-4)


def test_several_outputs_are_scored_each():
    prediction = MultivariateNormal(dim=2).prediction(torch.zeros(3, 2))
    one = Normal("fixed").prediction(torch.zeros(3, 1))
    y = torch.randn(3, 2)
    torch.testing.assert_close(crps(prediction, y)[:, 1], crps(one, y[:, 1]), rtol=1e-3, atol=1e-3)


def test_tails_of_every_weight_have_the_score_of_their_integral():
    y = torch.tensor([0.0, 0.5, -40.0])
    x = np.unique(np.concatenate([y.numpy(), *([-1.0, 1.0] * np.logspace(-6, 8, 40001)[:, None]).T]))
    middle, apart = (x[1:] + x[:-1]) / 2, np.diff(x)
    for nu in (0.8, 1.0, 1.00001, 3.0, 1e5, 1.5e8):  # of ν near 1 the form is 0/0; a million is the normal law
        law = StudentT("fixed", df=nu, learn_df=False).prediction(torch.zeros(3, 1))
        below = stats.t(nu).cdf(middle)
        for own, value in zip(crps(law, y), y.numpy()):
            np.testing.assert_allclose(own, ((below - (middle >= value)) ** 2 * apart).sum(), rtol=2e-3)
        torch.testing.assert_close(
            law.distribution.log_prob(y)[:2].double(),
            torch.from_numpy(stats.t(nu).logpdf(y.numpy())[:2]),
            rtol=1e-5,
            atol=0,
        )
    without = StudentT("fixed", df=0.5, learn_df=False).prediction(torch.zeros(1, 1))
    assert math.isinf(float(crps(without, torch.zeros(1))))


def test_no_one_beats_the_truth():
    torch.manual_seed(0)
    y = torch.distributions.Laplace(0.0, 1.0).sample((20000,))
    truth, rivals = (
        Laplace("fixed"),
        [Laplace("fixed", sigma=0.5), Laplace("fixed", sigma=2.0), Normal("fixed"), Quantile((0.2, 0.4))],
    )
    best = float(crps(truth.prediction(torch.zeros(20000, 1)), y).mean())
    for rival in rivals:
        assert best < float(crps(rival.prediction(torch.zeros(20000, rival.dim_output)), y).mean())
    shares = torch.distributions.Beta(2.0, 2.0).sample((20000,))
    sharp, right = (
        float(crps(Beta("fixed", sigma=s).prediction(torch.zeros(20000, 1)), shares).mean()) for s in (0.1, 0.5)
    )
    assert right < sharp
