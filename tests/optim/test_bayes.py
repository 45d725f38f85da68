"""The posterior: its plain twin, its limits, its coverage, and that a run keeps it."""

import pytest
import torch

import leadline as ll
from leadline.data.data import Batch
from leadline.data.inputs import Identity
from leadline.errors import UserError
from leadline.likelihoods import Normal
from leadline.models import FixedJoints, Linear, Polynomial
from leadline.optim import BayesianLinear, LeastSquares
from leadline.reference import bayes as twin


def fitted(model, x, y, batches=1, likelihood=None, weight=None, **options):
    rule = BayesianLinear(**options)
    parts = Batch(x, y, weight).split(-(-len(x) // batches))
    rule.steps_per_epoch = len(parts)
    rule.bind(model.double(), (likelihood or Normal()).double(), len(parts))
    for k, part in enumerate(parts):
        rule.step(part, k)
    return rule


def rows(num=25, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(num, 1, generator=g).double()
    return x, (6 * x[:, 0]).sin() + 0.2 * torch.randn(num, generator=g).double()


@pytest.mark.parametrize("batches", [1, 4])
def test_mean_and_covariance_are_those_of_the_twin(batches):
    x, y = rows()
    model = FixedJoints(1, 6)
    rule = fitted(model, x, y, batches, prior=1.7, deviation=0.2)
    features = torch.cat([model.features(x), torch.ones(25, 1)], dim=1).tolist()
    mean, covariance = twin.posterior(features, y.tolist(), 0.2, 1.7)
    found = rule.posterior
    torch.testing.assert_close(found.mean[0], torch.tensor(mean, dtype=torch.float64), rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(found.covariance, torch.tensor(covariance, dtype=torch.float64), rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(torch.cat([model.map.weight[0], model.map.bias]), found.mean[0])
    at = torch.tensor([[0.33]]).double()
    wanted = twin.predictive([*model.features(at)[0].tolist(), 1.0], mean, covariance, 0.2)
    got = found.predict(at)
    assert (got[0].item(), got[1].item()) == pytest.approx(wanted, rel=1e-8)


def test_a_row_of_weight_two_is_two_rows():
    x, y = rows(12)
    weight = torch.ones(12).double()
    weight[3] = 2
    once = fitted(Polynomial(1, 3), x, y, weight=weight).posterior
    twice = fitted(Polynomial(1, 3), torch.cat([x, x[3:4]]), torch.cat([y, y[3:4]])).posterior
    torch.testing.assert_close(once.covariance, twice.covariance)
    torch.testing.assert_close(once.mean, twice.mean)


def test_a_wide_prior_ends_at_least_squares_and_a_narrow_one_at_nothing():
    x, y = rows()
    wide, narrow, least = Linear(1, 1), Linear(1, 1), Linear(1, 1).double()
    fitted(wide, x, y, prior=1e4)
    fitted(narrow, x, y, prior=1e-4)
    rule = LeastSquares()
    rule.bind(least, Normal().double(), 1)
    rule.step(Batch(x, y), 0)
    torch.testing.assert_close(wide.map.weight, least.map.weight, rtol=1e-5, atol=1e-6)
    assert float(narrow.map.weight.detach().abs()) < 1e-3


def test_smaller_priors_are_smoother_and_the_band_widens_away_from_rows():
    x, y = rows()
    rough = [fitted(m := FixedJoints(1, 14), x, y, prior=p).posterior and m.roughness for p in (0.3, 1.0, 10.0)]
    assert rough == sorted(rough)
    _, deviation = fitted(Polynomial(1, 3), x, y).posterior.predict(torch.tensor([[0.5], [3.0]]).double())
    assert float(deviation[1]) > 2 * float(deviation[0])


def test_the_band_holds_what_it_says():
    """Truths drawn from the prior: 95.4 % of new y within two deviations."""
    g, inside = torch.Generator().manual_seed(0), []
    for _ in range(60):
        model = FixedJoints(1, 5)
        weights = torch.randn(6, generator=g).double()
        x = torch.rand(40, 1, generator=g).double()
        a = torch.cat([model.features(x), torch.ones(40, 1)], dim=1)
        y = a @ weights + 0.3 * torch.randn(40, generator=g).double()
        mean, deviation = fitted(model, x[:10], y[:10], prior=1.0, deviation=0.3).posterior.predict(x[10:])
        inside.append(((y[10:] - mean[:, 0]).abs() < 2 * deviation[:, 0]).double().mean())
    assert abs(float(torch.stack(inside).mean()) - 0.954) < 0.025


def test_draws_have_the_posteriors_mean_and_spread():
    x, y = rows()
    posterior = fitted(FixedJoints(1, 6), x, y, deviation=0.2).posterior
    at = torch.tensor([[0.2], [0.9]]).double()
    drawn = posterior.draw(at, 4000, seed=1)
    mean, deviation = posterior.predict(at)
    own = (deviation.square() - 0.04).sqrt()  # without the noise
    torch.testing.assert_close(drawn.mean(0), mean, rtol=0, atol=4 * float(own.max()) / 4000**0.5)
    torch.testing.assert_close(drawn.std(0), own, rtol=0.06, atol=0)
    assert torch.equal(drawn, posterior.draw(at, 4000, seed=1))


def test_units_of_the_target_are_undone():
    x, y = rows()
    plain = fitted(Linear(1, 1), x, y, deviation=0.2, prior=3.0).posterior.predict(x)
    other = fitted(
        Linear(1, 1), x, 50 * y + 700, likelihood=Normal(shift=[700.0], scale=[50.0]), deviation=0.2, prior=3.0
    )
    mean, deviation = other.posterior.predict(x)
    torch.testing.assert_close(mean, 50 * plain[0] + 700)
    torch.testing.assert_close(deviation, 50 * plain[1])


def test_a_run_keeps_its_posterior(tmp_path):
    data = ll.data.quasi_sine(num=40).with_(inputs=Identity())
    run = ll.fit(
        FixedJoints(1, 8),
        data,
        rule="BayesianLinear",
        epochs=1,
        progress=False,
        folder=tmp_path / "run",
        with_report=False,
    )
    again = ll.load(tmp_path / "run")
    assert torch.equal(again.rule.posterior.covariance, run.rule.posterior.covariance)
    assert run.reason == "finished"
    assert float(run.predict([[0.5]]).std) == pytest.approx(0.3 * float(run.likelihood._scale), rel=1e-3)


def test_what_does_not_fit_is_told():
    with pytest.raises(UserError, match="Normal likelihood"):
        BayesianLinear().bind(Linear(1, 1), ll.likelihoods.Bernoulli(), 1)
    with pytest.raises(UserError, match="a posterior needs rows"):
        _ = BayesianLinear().posterior
    with pytest.raises(UserError, match="prior must be a number above 0"):
        BayesianLinear(prior=0)
    with pytest.raises(UserError, match="one affine map"):
        BayesianLinear().bind(ll.models.MLP(1), Normal(), 1)
