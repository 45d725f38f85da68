"""Fixed joints: any function of equal pieces, the closed form, the smoothest interpolant and the others."""

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.data.data import Batch
from leadline.data.inputs import Identity
from leadline.errors import UserError
from leadline.likelihoods import Normal
from leadline.models import FixedJoints, smoothest
from leadline.optim import LeastSquares


@pytest.mark.parametrize("pieces", [1, 3, 10])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-2.0, 3.0)])
def test_every_function_of_equal_pieces_is_one_of_these(pieces, low, high):
    values = np.random.default_rng(pieces).normal(size=pieces + 1)
    model = FixedJoints.through_values(values.tolist(), low, high)
    assert sum(p.numel() for p in model.parameters()) == pieces + 1
    x = np.linspace(low, high, 201)
    found = model(torch.tensor(x)[:, None]).detach().numpy()[:, 0]
    np.testing.assert_allclose(found, np.interp(x, np.linspace(low, high, pieces + 1), values), atol=1e-11)


def test_the_textbooks_formula():
    model = FixedJoints(1, 4).double()
    x, w, b = 0.6, model.map.weight.detach()[0], float(model.map.bias.detach())
    wanted = b + sum(float(w[d]) * max(x - d / 4, 0) for d in range(4))
    assert model(torch.tensor([[x]], dtype=torch.float64)).item() == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("batches", [1, 3])
def test_the_closed_form_is_that_of_numpy(batches):
    data = ll.data.quasi_sine(num=60, val=0.0, test=0.0).train
    x, y = data.x.double(), data.y.double()
    model, rule = FixedJoints(1, 10).double(), LeastSquares()
    parts = Batch(x, y).split(-(-60 // batches))
    rule.steps_per_epoch = len(parts)
    rule.bind(model, Normal().double(), len(parts))
    for k, part in enumerate(parts):
        rule.step(part, k)
    design = np.concatenate([np.ones((60, 1)), np.maximum(x.numpy() - np.arange(10) / 10, 0)], axis=1)
    wanted = np.linalg.lstsq(design, y.numpy(), rcond=None)[0]
    np.testing.assert_allclose(model.map.bias.detach(), wanted[:1], atol=1e-7)
    np.testing.assert_allclose(model.map.weight.detach()[0], wanted[1:], atol=1e-6)


def test_it_fits_by_name():
    data = ll.data.quasi_sine(num=200).with_(inputs=Identity())
    run = ll.fit(FixedJoints(1, 10), data, rule="LeastSquares", epochs=1, progress=False)
    assert run.reason == "finished" and 0.2 < run.evaluate("test")["rmse"] < 0.4


POINTS = [0.05, 0.13, 0.22, 0.3, 0.71, 0.8, 0.88, 0.95], [0.0, 0.9, 1.0, 0.4, -0.6, -1.0, -0.8, -0.1]


def through(model):
    x, y = (torch.tensor(part, dtype=torch.float64) for part in POINTS)
    return (model(x[:, None])[:, 0] - y).abs().max().item()


def test_interpolants_are_exact_and_wider_ones_smoother():
    rough = []
    for pieces in (12, 24, 48, 96):  # each can do what the one before can
        model = smoothest(*POINTS, pieces)
        assert through(model) < 1e-9
        rough.append(model.roughness)
    assert rough == sorted(rough, reverse=True) and rough[-1] < rough[0] / 3


def test_no_other_interpolant_is_smoother():
    best = smoothest(*POINTS, 50)
    for seed in range(5):
        for wiggle in (0.01, 1.0):
            other = smoothest(*POINTS, 50, wiggle=wiggle, seed=seed)
            assert through(other) < 1e-8 and other.roughness > best.roughness
            at = torch.linspace(0, 1, 51, dtype=torch.float64)[:, None]
            change = (other(at) - best(at)).square().mean().sqrt().item()
            assert change == pytest.approx(wiggle, rel=1e-6)
    step = 1e-3 * (smoothest(*POINTS, 50, wiggle=1.0).map.weight - best.map.weight).detach()[0, 1:]
    slope = float((best.map.weight.detach()[0, 1:] * step).sum())  # of the roughness, along the null space
    assert abs(slope) < 1e-6 * (step.norm() * best.map.weight.norm()).item()


def test_what_cannot_be_is_told():
    with pytest.raises(UserError, match="pieces must be enough to pass through all points"):
        smoothest(*POINTS, 4)
    with pytest.raises(UserError, match="between low and high"):
        smoothest([0.5, 1.5], [0.0, 1.0])
    with pytest.raises(UserError, match="low must be below high"):
        FixedJoints(1, 3, low=1.0, high=1.0)
    with pytest.raises(UserError, match="at least two numbers"):
        FixedJoints.through_values([1.0])
