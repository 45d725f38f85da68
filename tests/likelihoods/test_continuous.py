"""What holds for every family of real, positive and bounded y."""

import copy
import json

import numpy as np
import pytest
import torch
from continuous_cases import CASES
from scipy import stats

from leadline.likelihoods import LIKELIHOODS
from leadline.testing import check_likelihood

LAWS = [name for name, case in CASES.items() if case.law is not None]
INVERTIBLE = [name for name in CASES if not name.startswith(("Quantile", "MultivariateNormal"))]


@pytest.fixture(params=CASES)
def case(request):
    return double(request.param)


def double(name):
    case = copy.deepcopy(CASES[name])
    case.likelihood.double()
    return case


@pytest.mark.parametrize("name", CASES)
def test_it_keeps_the_contract(name):
    case = copy.deepcopy(CASES[name])
    output, y = case.draw()
    check_likelihood(case.likelihood, output.float(), y.float())


@pytest.mark.parametrize("name", LAWS)
def test_the_loss_is_that_of_scipy(name):
    case = double(name)
    output, y = case.draw(400, seed=1)
    wanted = -case.law(case.likelihood, output).logpdf(y.numpy())
    got = case.likelihood.loss(output, y).detach().numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


def test_the_loss_is_that_of_its_twin(case):
    output, y = case.draw(seed=2)
    got = case.likelihood.loss(output, y).tolist()
    for k, loss in enumerate(got):
        wanted = case.twin(case.likelihood, output[k : k + 1], y[k].tolist())
        assert loss == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_the_gradient_is_that_of_its_twin(case):
    output, y = case.draw(seed=3)
    output.requires_grad_()
    (gradient,) = torch.autograd.grad(case.likelihood.loss(output, y).sum(), output)
    output, h = output.detach(), 1e-5
    for k in (0, 5):
        for column in range(output.shape[1]):
            up, down = output[k : k + 1].clone(), output[k : k + 1].clone()
            up[0, column] += h
            down[0, column] -= h
            rise = case.twin(case.likelihood, up, y[k].tolist()) - case.twin(case.likelihood, down, y[k].tolist())
            assert float(gradient[k, column]) == pytest.approx(rise / (2 * h), rel=2e-4, abs=2e-5)


@pytest.mark.parametrize("name", LAWS)
def test_quantiles_and_probabilities_are_those_of_scipy(name):
    case = double(name)
    output, y = case.draw(40, seed=4)
    prediction, law = case.likelihood.prediction(output), case.law(case.likelihood, output)
    width = law.ppf(0.95) - law.ppf(0.05)
    for q in (0.001, 0.05, 0.5, 0.77, 0.95, 0.999):
        off = (prediction.quantile(q).detach().numpy() - law.ppf(q)) / width
        assert np.abs(off).max() < (1e-5 if name.startswith("Robust") else 1e-6) * max(
            1, np.abs(law.ppf(q) / width).max()
        )
    np.testing.assert_allclose(prediction.cdf(y).detach().numpy(), law.cdf(y.numpy()), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", INVERTIBLE)
def test_a_quantile_leaves_its_level_below(name):
    case = double(name)
    output, _ = case.draw(20, seed=5)
    prediction = case.likelihood.prediction(output)
    for q in (0.01, 0.3, 0.6, 0.99):
        value = prediction.quantile(q).detach()
        told = prediction.cdf(value)[value != 1]  # a proportion may be nearer to 1 than a number can say
        np.testing.assert_allclose(told.detach().numpy(), q, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_samples_follow_the_distribution_function(name):
    case = double(name)
    output, _ = case.draw(1, seed=6)
    with torch.no_grad():
        prediction = case.likelihood.prediction(output)
        drawn = prediction.sample(4000, seed=7)
        many = case.likelihood.prediction(output.expand(4000, -1))
        probabilities = many.cdf(drawn.squeeze(1)).reshape(4000, -1)
    for column in probabilities.T.numpy():
        assert stats.kstest(column, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("far", [-1e4, 1e4])
def test_all_outputs_may_be_far_at_once(case, far):
    likelihood = case.likelihood.float()
    _, y = case.draw()
    output = torch.full((len(y), likelihood.dim_output), far, requires_grad=True)
    loss = likelihood.loss(output, y.float())
    (gradient,) = torch.autograd.grad(loss.sum(), output)
    assert bool(loss.isfinite().all())
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("name", CASES)
def test_single_precision_is_close_to_double(name):
    case = double(name)
    output, y = case.draw(50, seed=8)
    wanted = case.likelihood.loss(output, y).detach()
    case.likelihood.float()
    got = case.likelihood.loss(output.float(), y.float()).detach().double()
    torch.testing.assert_close(got, wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("Normal")])
def test_half_precision_outputs_are_scored_in_single(name):
    case = double(name)
    output, y = case.draw(seed=9)
    case.likelihood.float()
    loss = case.likelihood.loss(output.bfloat16(), y.float())
    torch.testing.assert_close(loss, case.likelihood.loss(output.bfloat16().float(), y.float()))
    assert loss.dtype == torch.float32


@pytest.mark.parametrize("name", CASES)
def test_a_config_builds_it_again(name):
    likelihood = CASES[name].likelihood
    config = json.loads(json.dumps(likelihood.config))
    again = LIKELIHOODS[type(likelihood).__name__](**config)
    assert again.config == likelihood.config


def test_the_unit_of_y_moves_the_loss_by_its_logarithm(case):
    likelihood = case.likelihood
    if case.kind == "proportion" or not likelihood.loss_is_nll:
        return
    config = likelihood.config
    dim = getattr(likelihood, "dim", 1)
    grown = {key: [1000 * v for v in config[key]] for key in ("shift", "scale") if key in config}
    other = type(likelihood)(**{**config, **grown}).double()
    other.load_state_dict(likelihood.state_dict())
    output, y = case.draw(seed=10)
    torch.testing.assert_close(
        other.loss(output, 1000 * y), likelihood.loss(output, y) + dim * np.log(1000), rtol=1e-6, atol=1e-6
    )
