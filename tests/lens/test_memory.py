"""Bytes for the backward pass against a count by hand; high dimensions against their laws; beliefs; a graph."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.data.inputs import Identity
from leadline.errors import UserError
from leadline.layers import Checkpointed, Dropout
from leadline.reference import geometry as law


def check(view):
    json.dumps(view.to_dict())
    assert view.plot().get_axes()


def chain(depth=12, width=16):
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth)])


def test_a_chain_keeps_each_activation_once():
    row = 16 * 4
    view = ll.lens.memory(chain(), torch.randn(10, 16), every=(1, 4), parts=(2, 3))
    kept = {v.name: (v.kept, v.again, v.passes) for v in view.variants}
    assert kept["as it is"] == (13 * 10 * row, 0, 24)
    assert kept["checkpoint every 1"] == (12 * 10 * row, 10 * row, 48)
    assert kept["checkpoint every 4"] == (3 * 10 * row, 4 * 10 * row, 48)
    assert kept["2 micro-batches"] == (13 * 5 * row, 0, 24) and kept["3 micro-batches"] == (13 * 4 * row, 0, 24)
    assert view.parameters == 12 * (16 * 16 + 16) * 4 and view.buffers == 0
    assert view.layers["0.0"] == 10 * row and sum(view.layers.values()) == view.kept == view.peak
    check(view)


def test_a_checkpointed_model_is_measured_as_it_is():
    plain, wrapped = chain(), Checkpointed(chain(), 6)
    x = torch.randn(8, 16)
    assert ll.lens.memory(wrapped, x).kept == ll.lens.memory(plain, x, every=6).variants[1].kept
    inside = nn.Sequential(wrapped, nn.Linear(16, 1))
    view = ll.lens.memory(inside, x)
    assert view.kept == (2 + 1) * 8 * 16 * 4 and view.variants[0].again == 6 * 8 * 16 * 4


def test_nothing_of_the_model_changes():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), Dropout(0.5, 1), nn.Linear(4, 1)).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    ll.lens.memory(model, torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), every=2, parts=2)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state()) and not model.training
    assert all(p.grad is None for p in model.parameters()) and not any(m._forward_hooks for m in model.modules())


def test_what_has_no_chain_is_told():
    with pytest.raises(UserError, match="every needs a model that is a chain"):
        ll.lens.memory(ll.models.MLP(4), torch.zeros(2, 4), every=2)
    with pytest.raises(UserError, match="a torch module and a batch"):
        ll.lens.memory(ll.models.MLP(4), 5)
    assert ll.lens.memory(ll.models.MLP(4), torch.zeros(2, 4)).kept > 0


def test_samples_follow_the_laws_of_high_dimension():
    dims, num = (3, 25, 400), 4000
    view = ll.lens.geometry(dims, num=num)
    for k, dim in enumerate(dims):
        spread = law.chi_deviation(dim)
        assert abs(view.lengths[k].mean() - law.chi_mean(dim)) < 4 * spread / num**0.5
        assert abs(view.lengths[k].std() - spread) < 4 * spread / (2 * num) ** 0.5
        assert abs(view.angles[k].mean() - 90) < 4 * view.angles[k].std() / num**0.5
        grid = np.linspace(0, 180, 2001)
        density = np.array([law.angle_density(float(v), dim) for v in grid])
        assert np.trapezoid(density, grid) == pytest.approx(1, abs=1e-4)
        wanted = np.trapezoid(density * (grid - 90) ** 2, grid) ** 0.5
        assert view.angles[k].std() == pytest.approx(wanted, rel=0.06)
        radii = np.linspace(0, 30, 3001)
        assert np.trapezoid([law.chi_density(float(r), dim) for r in radii], radii) == pytest.approx(1, abs=1e-4)
    assert view.ratio[0] < view.ratio[1] < view.ratio[2] < 1
    check(view)
    with pytest.raises(UserError, match="list of dimensions"):
        ll.lens.geometry(5)


def test_the_ratio_of_distances_is_that_of_all_pairs():
    from leadline.lens.geometry import _ratio

    points = np.random.default_rng(0).uniform(size=(30, 4))
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    wanted = np.mean([np.sort(row)[1] / row.max() for row in distance])
    assert _ratio(points) == pytest.approx(wanted, rel=1e-6)


def test_beliefs_are_those_of_the_posterior():
    data = ll.data.gap(num=30).with_(inputs=Identity())
    run = ll.fit(ll.models.FixedJoints(1, 10), data, rule="BayesianLinear", epochs=1, progress=False)
    view = ll.lens.beliefs(run, num=50)
    mean, deviation = run.rule.posterior.predict(torch.tensor(view.x)[:, None])
    np.testing.assert_allclose(view.mean, mean[:, 0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(view.deviation, deviation[:, 0], rtol=1e-4)
    middle, side = view.deviation[np.abs(view.x - 0.5).argmin()], view.deviation[np.abs(view.x - 0.15).argmin()]
    assert middle > side  # no rows in the middle
    check(view)
    with pytest.raises(UserError, match="a run by BayesianLinear"):
        ll.lens.beliefs(ll.fit(ll.models.Linear(1, 1), data, epochs=1, progress=False))


def test_the_drawn_graph_is_the_computed_one():
    view = ll.lens.derivative_graph("u = x * z\ny = sin(u) + x", x=0.5, z=2.0)
    assert view.nodes["x"][1] == pytest.approx(2 * np.cos(1.0) + 1) and view.nodes["u"][3] == 1
    assert set(view.edges) >= {("x", "u"), ("z", "u"), ("x", "y")}
    check(view)
