import math

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UnknownName, UserError
from leadline.likelihoods import Exponential, Joint, Normal, Poisson, VonMises, likelihood_for
from leadline.testing import check_likelihood

WIND = ("VonMises", "Exponential")


def wind(count=800, seed=0):
    rng = np.random.default_rng(seed)
    pressure = rng.uniform(-1, 1, count)
    direction = rng.vonmises(2 * pressure, 8.0)
    speed = rng.exponential(np.exp(1 - pressure))
    return pressure[:, None], np.column_stack([direction, speed])


def test_it_keeps_the_contract():
    torch.manual_seed(0)
    y = torch.stack([torch.randn(12), torch.rand(12) + 0.1, torch.arange(12.0)], 1)
    likelihood = Joint(("VonMises", "Exponential", "Poisson"))
    check_likelihood(likelihood, torch.randn(12, likelihood.dim_output), y)
    y = torch.stack([torch.randn(12), torch.arange(12.0) % 2, torch.arange(12.0) % 3], 1)
    for weighting in ("sum", "learned"):
        likelihood = Joint(("Normal", "Bernoulli", "Categorical"), ({}, {}, {"num_classes": 3}), weighting)
        check_likelihood(likelihood, torch.randn(12, likelihood.dim_output), y)


def test_the_terms_add():
    torch.manual_seed(0)
    output, y = torch.randn(9, 4), torch.stack([torch.randn(9), torch.rand(9) + 0.1, torch.arange(9.0)], 1)
    joint = Joint(("VonMises", "Exponential", "Poisson"), ({"variance": "fixed"}, {}, {}))
    wanted = VonMises("fixed").loss(output[:, :2], y[:, 0]) + Exponential().loss(output[:, 2:3], y[:, 1])
    torch.testing.assert_close(joint.loss(output, y), wanted + Poisson().loss(output[:, 3:], y[:, 2]))
    prediction = joint.prediction(output)
    torch.testing.assert_close(prediction.log_prob(y), -joint.loss(output, y))
    low, high = prediction.interval(0.9)
    torch.testing.assert_close(low[:, 2], Poisson().prediction(output[:, 3:]).interval(0.9)[0])
    assert high.shape == y.shape == prediction.mean.shape


def test_the_target_gives_each_head_its_unit():
    target = Target("real", dim=2, shift=(0.0, 5.0), scale=(1.0, 2.0))
    joint = likelihood_for(target, "Joint", families=("VonMises", "Normal"))
    assert joint.heads[1].config == Normal.for_target(Target("real", shift=(5.0,), scale=(2.0,))).config
    assert likelihood_for(target, "Joint").families == ("Normal", "Normal")
    with pytest.raises(UserError, match="each of the 2 columns"):
        likelihood_for(target, "Joint", families=("Normal",) * 3)
    assert likelihood_for(target, "Joint", families=("Laplace",)).families == ("Laplace", "Laplace")  # one for all
    with pytest.raises(UnknownName, match="Did you mean VonMises"):
        likelihood_for(target, "Joint", families=("VonMise", "Normal"))


def test_direction_and_speed_are_learned_together_and_come_back(tmp_path):
    x, y = wind()
    data = ll.data.arrays(x, y)
    likelihood = likelihood_for(data.target, "Joint", families=WIND)
    model = ll.models.build("MLP", 1, likelihood.dim_output, hidden=(16,))
    run = ll.fit(model, data, likelihood=likelihood, epochs=40, folder=tmp_path / "run", progress=False)
    found = run.evaluate("test")
    assert found["nll"] == pytest.approx(found["nll_1"] + found["nll_2"], rel=1e-6)
    assert found["mae_1"] < 0.4
    again = ll.load(tmp_path / "run", data=data)
    assert torch.equal(again.predict(x[:5]).mean, run.predict(x[:5]).mean)
    plain = ll.fit(ll.models.build("MLP", 1, 2, hidden=(16,)), data, epochs=40, progress=False)
    assert found["nll"] < plain.evaluate("test")["nll"] - 0.3


def test_learned_weights_weigh_a_loud_task_down_and_stay_in_bounds():
    torch.manual_seed(0)
    y = torch.stack([torch.randn(400), 50 * torch.randn(400)], 1)
    options = ({"variance": "fixed"}, {"variance": "fixed"})
    likelihood = Joint(("Normal", "Normal"), options, "learned")
    output = torch.zeros(400, 2)
    optimizer = torch.optim.Adam(likelihood.parameters(), lr=0.1)
    for _ in range(400):
        optimizer.zero_grad()
        likelihood.loss(output, y).mean().backward()
        optimizer.step()
    quiet, loud = likelihood.weights.tolist()
    assert quiet == pytest.approx(1 / float(likelihood.measures(output, y)["nll_1"].mean()), rel=0.05)
    assert math.exp(-3) < loud < 1.3 * math.exp(-3)  # at the bound: its loss alone would ask for less than a thousandth


@pytest.mark.parametrize("weighting", ["sum", "learned"])
def test_far_outputs_stay_finite(weighting):
    likelihood = Joint(WIND, weighting=weighting)
    output = torch.full((4, 3), -1e4, requires_grad=True)
    loss = likelihood.loss(output, torch.rand(4, 2) + 0.1)
    (gradient,) = torch.autograd.grad(loss.sum(), output)
    assert bool(loss.isfinite().all() & gradient.isfinite().all())


def test_a_column_that_does_not_fit_is_named():
    with pytest.raises(DataError, match="column 1 of y, by VonMises: angles must be in radians"):
        Joint(WIND).check(torch.tensor([[90.0, 1.0]]))
    with pytest.raises(ShapeError, match=r"\(n, 2\)"):
        Joint(WIND).check(torch.randn(5))
    with pytest.raises(UserError, match="options for each or none"):
        Joint(WIND, ({},))


def test_a_family_for_one_number_is_offered_for_each_of_several():
    counts = ll.data.series({"v": [k % 5 for k in range(90)]}, "v", horizon=3, kind="count").target
    for target, name in ((counts, "NegativeBinomial"), (ll.data.Target.real(torch.randn(9, 2)), "Quantile")):
        with pytest.raises(UserError, match=f'likelihood="Joint" and families="{name}"'):
            likelihood_for(target, name)
        assert likelihood_for(target, "Joint", families=name).families == (name,) * target.dim
