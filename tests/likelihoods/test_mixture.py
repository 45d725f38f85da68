import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn.functional import softplus

from leadline.data.target import Target
from leadline.likelihoods import Joint, Mixture, VonMises, likelihood_for
from leadline.reference import mixtures as twin
from leadline.testing import check_likelihood

ROWS = 12_000
CASES = {
    "one": Mixture(1),
    "three": Mixture(3, shift=(10.0,), scale=(3.0,)),
    "angles": Mixture(3, "VonMises"),
}


def rows(name, count, seed=0, spread=1.5):
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(count, CASES[name].dim_output, generator=generator, dtype=torch.float64)


def parts(name, output):
    """Weights, places and spreads by the formulas of the docstring."""
    a, m, s = output.chunk(3, -1)
    w, k = a.softmax(-1).numpy(), a.shape[1]
    if name == "angles":
        angle = 2 * math.pi * np.arange(k) / k
        x, y = m.numpy() + np.cos(angle), s.numpy() + np.sin(angle)
        return w, np.arctan2(y, x), np.hypot(x, y)
    shift, scale = (10.0, 3.0) if name == "three" else (0.0, 1.0)
    begin = np.linspace(-1, 1, k) if k > 1 else np.zeros(1)
    return w, shift + scale * (m.numpy() + begin), scale * (np.log1p(np.exp(s.numpy())) + 1e-3)


def drawn(name, output, seed):
    """y from the definition: pick a component, then draw from it."""
    rng = np.random.default_rng(seed)
    w, loc, spread = parts(name, output)
    pick = (w.cumsum(1) < rng.random(len(w))[:, None]).sum(1).clip(max=w.shape[1] - 1)
    at = np.arange(len(w)), pick
    return torch.from_numpy(rng.vonmises(loc[at], spread[at]) if name == "angles" else rng.normal(loc[at], spread[at]))


@pytest.fixture(params=CASES)
def name(request):
    yield request.param
    CASES[request.param].float()


def test_it_keeps_the_contract(name):
    y = torch.linspace(-3, 3, 12) + (10 if name == "three" else 0)
    check_likelihood(CASES[name], rows(name, 12).float(), y)


def test_the_loss_is_that_of_scipy_and_of_the_twin(name):
    output = rows(name, 30)
    y = drawn(name, output, 1)
    w, loc, spread = parts(name, output)
    law = stats.vonmises.pdf(y[:, None], spread, loc) if name == "angles" else stats.norm.pdf(y[:, None], loc, spread)
    losses = CASES[name].double().loss(output, y)
    np.testing.assert_allclose(losses, -np.log((w * law).sum(1)), rtol=1e-6, atol=1e-6)
    for k in range(30):
        wanted = twin.mixture_loss(w[k], loc[k], spread[k], float(y[k]), name == "angles")
        assert float(losses[k]) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_one_component_is_the_family_itself():
    output, y = torch.randn(20, 3).double(), torch.randn(20).double()
    bell = torch.distributions.Normal(output[:, 1], softplus(output[:, 2]) + 1e-3)
    torch.testing.assert_close(Mixture(1).double().loss(output, y), -bell.log_prob(y))
    arrows = output[:, 1:] + torch.tensor([1.0, 0.0])
    own = Mixture(1, "VonMises").double()
    torch.testing.assert_close(own.loss(output, y), VonMises("input").double().loss(arrows, y))
    np.testing.assert_allclose(own.prediction(output).mode, VonMises("input").prediction(arrows).mode, atol=1e-9)
    np.testing.assert_allclose(
        own.prediction(output).quantile(0.2), VonMises("input").prediction(arrows).quantile(0.2), atol=1e-8
    )


def test_every_mode_is_found(name):
    output = rows(name, 20, seed=2)
    w, loc, spread = parts(name, output)
    modes = CASES[name].double().prediction(output).modes
    counts = set()
    for k in range(20):
        wanted = twin.modes(w[k], loc[k], spread[k], name == "angles", steps=2000)
        got = modes[k][~modes[k].isnan()]
        assert sorted(got.tolist()) == pytest.approx(wanted, abs=0.03)
        heights = [-twin.mixture_loss(w[k], loc[k], spread[k], y, name == "angles") for y in got.tolist()]
        assert heights == sorted(heights, reverse=True)
        counts.add(len(wanted))
    assert len(counts) > 1 or name == "one"


def test_a_broad_bump_beside_a_sharp_one_is_found():
    narrow, wide = math.log(math.expm1(0.066)), math.log(math.expm1(2.32))
    output = torch.tensor([[3.2, 0.0, -2.756 + 1, -3.371 - 1, narrow, wide]]).double()
    assert Mixture(2).prediction(output).modes.shape == (1, 2)


def test_central_intervals_and_regions_hold_y_as_often_as_they_say(name):
    output = rows(name, ROWS if name != "angles" else 10_000, seed=3)
    y = drawn(name, output, 4)
    _, _, spread = parts(name, output)
    low, high = CASES[name].double().prediction(output).interval(0.9)
    seen = low + torch.remainder(y - low, 2 * math.pi) if name == "angles" else y
    assert 0.88 <= float(((low <= seen) & (seen <= high)).double().mean()) <= 0.92
    some = slice(0, None if name == "one" else 4000)
    region = CASES[name].prediction(output[some]).region(0.9)
    turns = (-2 * math.pi, 0.0, 2 * math.pi) if name == "angles" else (0.0,)
    held = sum(
        ((region[..., 0] <= y[some, None] + t) & (y[some, None] + t <= region[..., 1])).any(1).long() for t in turns
    )
    assert 0.88 <= float((held > 0).double().mean()) <= 0.92
    width = (region[..., 1] - region[..., 0]).nansum(1)
    cell = torch.from_numpy((1 / np.sqrt(np.maximum(spread, 1)) if name == "angles" else spread).max(1)) / 20
    assert bool((width <= (high - low)[some] + 2 * cell[some]).all())  # no interval is shorter, but for a cell


def test_quantiles_are_those_of_the_twin():
    output = rows("three", 15, seed=5)
    w, loc, spread = parts("three", output)
    prediction = CASES["three"].double().prediction(output)
    for q in (0.001, 0.3, 0.95):
        for k, y in enumerate(prediction.quantile(q).tolist()):
            assert twin.mixture_below(w[k], loc[k], spread[k], y) == pytest.approx(q, abs=1e-9)


def test_a_region_has_a_part_for_each_value_and_the_interval_spans_them():
    output = torch.tensor([[0.0, 0.0, -4.0, 4.0, -3.0, -3.0]])
    prediction = Mixture(2).prediction(output)
    region, (low, high) = prediction.region(0.9)[0], prediction.interval(0.9)
    assert region.shape == (2, 2)
    assert float(region[0, 1]) < -4.5 < 4.5 < float(region[1, 0])
    assert float(low) < -4.5 < 4.5 < float(high)
    assert float(prediction.mean) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("far", [-1e4, 1e4])
def test_all_outputs_may_be_far_at_once(name, far):
    likelihood = CASES[name].float()
    output = torch.full((5, likelihood.dim_output), far, requires_grad=True)
    loss = likelihood.loss(output, torch.linspace(-3, 3, 5))
    (gradient,) = torch.autograd.grad(loss.sum(), output)
    assert bool(loss.isfinite().all() & gradient.isfinite().all())


def test_no_direction_at_all_has_a_mode_all_the_same():
    likelihood = Mixture(2, "VonMises")
    output = torch.tensor([[0.0, 0.0, -1.0, 1.0, 0.0, 0.0]])  # both arrows have no length
    assert bool(likelihood.prediction(output).mode.isfinite().all())


def test_the_target_picks_the_component():
    assert likelihood_for(Target("angle"), "Mixture").component == "VonMises"
    assert likelihood_for(Target("real", shift=(4.0,)), "Mixture", num_components=5).shift == (4.0,)
    joint = likelihood_for(
        Target("real", dim=2, shift=(1.0, 2.0), scale=(1.0, 3.0)), "Joint", families=("Mixture", "Normal")
    )
    assert isinstance(joint, Joint)
    assert joint.heads[1].scale == (3.0,)
