import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from leadline.data.target import Target
from leadline.errors import DataError, UserError
from leadline.likelihoods import VonMises, likelihood_for
from leadline.likelihoods.angles import half_width, log_i0, wrap
from leadline.reference import angles as twin
from leadline.testing import check_likelihood

ROWS = 12_000
CASES = {
    "fixed": VonMises("fixed", kappa=2.0),
    "learned": VonMises("learned", kappa=30.0),
    "input": VonMises("input"),
}


def rows(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    length = (1.5 * torch.randn(count, 1, generator=generator)).exp()
    return (length * torch.randn(count, 2, generator=generator)).double()


@torch.no_grad()
def law(likelihood, output):
    o = output.numpy()
    kappa = {"fixed": 2.0, "input": np.hypot(o[:, 0], o[:, 1])}.get(likelihood.variance)
    if kappa is None:
        kappa = math.exp(10 * float(likelihood.rho))
    return np.arctan2(o[:, 1], o[:, 0]), kappa * np.ones(len(o))


@pytest.fixture(params=CASES)
def likelihood(request):
    yield CASES[request.param].double()
    CASES[request.param].float()


@pytest.mark.parametrize("name", CASES)
def test_it_keeps_the_contract(name):
    check_likelihood(CASES[name], rows(12).float(), torch.linspace(-6, 6, 12))


def test_an_angle_picks_it():
    assert isinstance(likelihood_for(Target("angle")), VonMises)


@torch.no_grad()
def test_the_loss_is_that_of_scipy_and_of_the_twin(likelihood):
    output = rows(50)
    mu, kappa = law(likelihood, output)
    y = torch.linspace(-6, 6, 50, dtype=torch.float64)
    loss = likelihood.loss(output, y)
    np.testing.assert_allclose(loss, -stats.vonmises.logpdf(y, kappa, mu), rtol=1e-6, atol=1e-6)
    for k in range(50):
        assert float(loss[k]) == pytest.approx(twin.von_mises_loss(mu[k], kappa[k], float(y[k])), rel=1e-6, abs=1e-6)


def test_the_gradient_equals_the_twin():
    output = rows(6, seed=3).requires_grad_()
    y = torch.linspace(-3, 3, 6, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(VonMises("input").double().loss(output, y).sum(), output)

    def loss(a, b, y):
        return twin.von_mises_loss(math.atan2(b, a), math.hypot(a, b), y)

    for k, (a, b) in enumerate(output.tolist()):
        h = 1e-6
        for column, (da, db) in enumerate(((h, 0), (0, h))):
            rise = loss(a + da, b + db, float(y[k])) - loss(a - da, b - db, float(y[k]))
            assert float(gradient[k, column]) == pytest.approx(rise / (2 * h), rel=1e-4, abs=1e-6)


def test_the_bessel_function_is_right_for_any_concentration():
    kappa = torch.tensor([0.0, 1e-3, 0.5, 3.0, 80.0, 1e4, 1e8], dtype=torch.float64)
    np.testing.assert_allclose(log_i0(kappa), np.log(special.i0e(kappa.numpy())) + kappa.numpy(), rtol=1e-12)
    assert bool(log_i0(kappa.float()).isfinite().all())
    for k in (0.5, 3.0, 80.0):
        assert float(log_i0(torch.tensor(k).double())) == pytest.approx(twin.log_i0(k), rel=1e-10)


@pytest.mark.parametrize("kappa", [1e-3, 0.7, 5.0, 49.0, 51.0, 1e3, 1e6])
@pytest.mark.parametrize("level", [0.1, 0.9, 0.999])
def test_arcs_hold_their_level(kappa, level):
    h = float(half_width(level, torch.tensor([kappa])))
    end = min(h, 12 / math.sqrt(kappa))  # quad needs to be told where the mass is
    mass, _ = integrate.quad(lambda t: math.exp(kappa * (math.cos(t) - 1)), 0, end, epsabs=0, epsrel=1e-10)
    assert mass / (math.pi * special.i0e(kappa)) == pytest.approx(level, abs=1e-8)


def test_arcs_equal_the_twin():
    for kappa in (0.3, 4.0):
        assert float(half_width(0.8, torch.tensor([kappa]))) == pytest.approx(twin.arc(kappa, 0.8), abs=1e-6)


@torch.no_grad()
def test_quantiles_are_counted_from_the_mean_direction(likelihood):
    output = rows(200, seed=1)
    mu, kappa = law(likelihood, output)
    prediction = likelihood.prediction(output)
    for q in (0.01, 0.4, 0.5, 0.97):
        np.testing.assert_allclose(stats.vonmises.cdf(prediction.quantile(q).numpy() - mu, kappa), q, atol=1e-5)
    low, high = prediction.interval(0.9)
    assert bool(((low <= prediction.mean) & (prediction.mean <= high)).all())
    assert bool(((high - low) <= 2 * math.pi).all())


@torch.no_grad()
def test_arcs_hold_y_as_often_as_they_say(likelihood):
    output = rows(ROWS, seed=2)
    mu, kappa = law(likelihood, output)
    y = torch.from_numpy(stats.vonmises.rvs(kappa, mu, random_state=5))
    prediction = likelihood.prediction(output)
    assert 0.88 <= float(prediction.holds(y, 0.9).double().mean()) <= 0.92
    assert torch.equal(prediction.holds(y, 0.9), prediction.holds(y + 2 * math.pi, 0.9))


@torch.no_grad()
def test_samples_spread_as_their_deviation_says():
    prediction = VonMises("fixed", kappa=400.0).prediction(torch.tensor([[1.0, 1.0]]))
    drawn = prediction.sample(8000, seed=1)
    assert float(drawn.mean()) == pytest.approx(math.pi / 4, abs=0.003)
    assert float(drawn.std()) == pytest.approx(float(prediction.std), rel=0.03)
    entropy = prediction.distribution.entropy()
    assert float(-prediction.distribution.log_prob(drawn).mean()) == pytest.approx(float(entropy), abs=0.05)


def test_the_seam_does_not_show():
    likelihood, near = VonMises("fixed", kappa=3.0), math.pi - 0.01
    output = torch.tensor([[math.cos(near), math.sin(near)]])
    measures = likelihood.measures(output, torch.tensor([-near]))
    assert float(measures["mae"]) == pytest.approx(0.02, abs=1e-4)
    assert float(likelihood.loss(output, torch.tensor([-near]))) < float(likelihood.loss(output, torch.tensor([1.0])))
    assert wrap(torch.tensor([math.pi, 3 * math.pi, -3.2])).tolist() == pytest.approx([math.pi, math.pi, 3.0831853])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("far", [-1e4, 0.0, 1e4])
def test_all_outputs_may_be_far_or_nought_at_once(name, far):
    likelihood = CASES[name].float()
    output = torch.full((5, 2), far, requires_grad=True)
    loss = likelihood.loss(output, torch.linspace(-3, 3, 5))
    (gradient,) = torch.autograd.grad(loss.sum(), output)
    assert bool(loss.isfinite().all() & gradient.isfinite().all())


def test_degrees_are_refused_and_told_how_to_be_mended():
    with pytest.raises(DataError, match=r"radians.*Got 90 in row 1 \(2 such rows\).*π / 180"):
        VonMises().check(torch.tensor([1.0, 90.0, 350.0]))
    with pytest.raises(UserError, match="fixed, learned or input"):
        VonMises("free")
