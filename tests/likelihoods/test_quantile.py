import math

import pytest
import torch
from continuous_cases import knots

from leadline.data.target import Target
from leadline.errors import UserError
from leadline.likelihoods import Quantile
from leadline.reference import densities as twin

UNIT = {"shift": (10.0,), "scale": (3.0,)}


def fit_constant(likelihood, y, steps=500):
    output = torch.zeros(1, likelihood.dim_output, requires_grad=True)
    optimizer = torch.optim.Adam([output], lr=0.03)
    for _ in range(steps):
        optimizer.zero_grad()
        likelihood.loss(output.expand(len(y), -1), y).mean().backward()
        optimizer.step()
    with torch.no_grad():
        return output.detach(), likelihood.prediction(output)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_the_pinball_loss_leaves_its_level_below(level):
    torch.manual_seed(0)
    y = torch.exp(torch.randn(4000))
    output, prediction = fit_constant(Quantile((level,)), y)
    assert float((y < prediction.quantile(level)).float().mean()) == pytest.approx(level, abs=0.015)
    measured = Quantile((level,)).measures(output.expand(4000, -1), y)
    assert float(measured["below"].mean()) == pytest.approx(level, abs=0.015)


def test_several_levels_find_the_quantiles_of_y():
    torch.manual_seed(0)
    y = torch.exp(torch.randn(1500))
    likelihood = Quantile(levels=(0.05, 0.25, 0.5, 0.75, 0.95))
    output, prediction = fit_constant(likelihood, y, 900)
    for level in likelihood.levels:
        assert float((y < prediction.quantile(level)).float().mean()) == pytest.approx(level, abs=0.02)
    assert float(likelihood.measures(output.expand(1500, -1), y)["coverage"].mean()) == pytest.approx(0.9, abs=0.02)


def test_quantiles_never_cross():
    torch.manual_seed(0)
    likelihood = Quantile(levels=tuple(k / 20 for k in range(1, 20)))
    output = 100 * torch.randn(500, 19)
    assert bool((likelihood.knots(output).diff(dim=1) >= 0).all())
    assert bool(likelihood.measures(output, torch.randn(500))["nll"].isfinite().all())


def test_the_nll_is_that_of_the_piecewise_twin():
    torch.manual_seed(0)
    for levels in ((0.05, 0.25, 0.5, 0.75, 0.95), (0.2, 0.6), (0.9,)):
        likelihood = Quantile(levels, **UNIT).double()
        output, y = torch.randn(60, len(levels)).double(), 10 + 9 * torch.randn(60).double()
        for row, nll in enumerate(likelihood.measures(output, y)["nll"].tolist()):
            q = knots(output[row : row + 1])[0]
            assert nll == pytest.approx(twin.piecewise_loss(levels, q, 3.0, float(y[row])), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("levels", [(0.05, 0.25, 0.5, 0.75, 0.95), (0.2, 0.6), (0.9,)])
def test_the_distribution_is_one(levels):
    torch.manual_seed(0)
    law = Quantile(levels, **UNIT).double().distribution(torch.randn(1, len(levels)).double())
    y = torch.linspace(-200, 250, 400_001, dtype=torch.float64)
    many = type(law)(law.levels, law.first.expand(len(y)), law.gaps.expand(len(y), -1), torch.tensor([3.0]).double())
    p, step = many.log_prob(y).exp(), float(y[1] - y[0])
    assert float(p.sum()) * step == pytest.approx(1, abs=5e-4)
    assert float((p * y).sum()) * step == pytest.approx(float(law.mean), abs=1e-2)
    assert float((p * (y - law.mean) ** 2).sum()) * step == pytest.approx(float(law.variance), rel=1e-2)
    torch.testing.assert_close(many.cdf(y), p.cumsum(0) * step, atol=1e-3, rtol=0)
    # the mode lies in the densest piece; with one level the density is highest on the longer side of the knot
    if len(levels) > 1:
        at_mode = float(law.log_prob(law.mode).exp())
        assert float(p.max()) == pytest.approx(at_mode, rel=1e-9)


def test_what_was_not_trained_is_refused_by_name():
    prediction = Quantile((0.25, 0.5, 0.75)).prediction(torch.zeros(2, 3))
    low, high = prediction.interval(0.5)
    assert bool((low < high).all())
    with pytest.raises(
        UserError, match="within the levels that were trained. Got q=0.05 of a Quantile prediction of 0.25, 0.5, 0.75"
    ):
        prediction.interval(0.9)
    with pytest.raises(UserError, match="Train with levels that reach 0.8"):
        Quantile((0.9,)).prediction(torch.zeros(2, 1)).quantile(0.8)
    assert Quantile((0.9,)).prediction(torch.ones(1, 1)).quantile(0.9).tolist() == [1.0]


def test_between_two_levels_there_is_a_line():
    prediction = Quantile((0.2, 0.6)).prediction(torch.tensor([[1.0, 0.0]]))
    low, high = (float(prediction.quantile(q)) for q in (0.2, 0.6))
    assert high == pytest.approx(1 + math.log(2) + 1e-4)
    assert float(prediction.quantile(0.3)) == pytest.approx(low + 0.25 * (high - low))


@pytest.mark.parametrize("levels", [(), (0.5, 0.5), (0.9, 0.1), (0.0, 0.5), (0.5, 1.0), ("a",), None])
def test_levels_that_make_no_sense_are_refused(levels):
    with pytest.raises(UserError, match="levels must be numbers between 0 and 1, in increasing order"):
        Quantile(levels)


def test_several_outputs_are_refused():
    with pytest.raises(UserError, match="likelihood Quantile needs one number a row"):
        Quantile.for_target(Target("real", dim=2))


def test_training_does_not_touch_the_nll():
    likelihood = Quantile((0.5,), **UNIT)
    output, y = torch.randn(5, 1), 10 + torch.randn(5)
    wanted = 0.5 * (y - 10 - 3 * output.squeeze(1)).abs() / 3
    torch.testing.assert_close(likelihood.loss(output, y), wanted)
    assert not torch.allclose(likelihood.measures(output, y)["nll"], wanted)
    torch.testing.assert_close(likelihood.measures(output, y)["pinball"], 3 * wanted)
