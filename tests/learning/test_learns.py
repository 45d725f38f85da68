"""Networks learn what they can, and do not learn what they cannot."""

import pytest
import torch

import leadline as ll


def fitted(model_type, data, *args, likelihood=None, **options):
    torch.manual_seed(0)
    model = model_type(*args)
    return ll.fit(model, data, likelihood=likelihood, progress=False, **{"epochs": 60, "lr": 0.01, **options})


@pytest.mark.parametrize("make", [ll.data.xor, ll.data.moons])
def test_mlp_learns(make):
    run = fitted(ll.models.MLP, make(num=500), 2, (32, 32), 1, epochs=80)
    assert run.evaluate("test")["accuracy"] > 0.95


def test_linear_cannot_learn_xor():
    run = fitted(ll.models.Linear, ll.data.xor(num=500), 2, 1)
    assert run.evaluate("test")["accuracy"] < 0.75


def test_linear_recovers_a_line():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 1, generator=generator)
    data = ll.data.arrays(x, 3 * x[:, 0] - 1 + 0.1 * torch.randn(400, generator=generator), kind="real")
    run = fitted(ll.models.Linear, data, 1, 1, lr=0.05, weight_decay=0.0)
    low, high = run.predict(torch.tensor([[0.0], [1.0]])).mean.tolist()
    assert (low, high) == pytest.approx((-1.0, 2.0), abs=0.06)
    deviation = float(run.predict(torch.tensor([[0.0]])).distribution.scale)
    assert deviation == pytest.approx(0.1, rel=0.25)  # the learned variance is that of the noise


def test_input_dependent_noise_is_recovered():
    """σ(x) = noise · (1 + 4x) / 3: five times as noisy at the right."""
    data = ll.data.uneven_noise(num=2000, noise=0.3)
    likelihood = ll.likelihoods.Normal(variance="input", shift=data.target.shift, scale=data.target.scale)
    torch.manual_seed(0)
    model = ll.models.MLP(1, (32, 32), 2, p_drop=0.0)
    run = ll.fit(model, data, likelihood=likelihood, epochs=60, lr=0.01, progress=False)
    x = torch.linspace(0.05, 0.95, 19)[:, None]
    found = run.predict(x).distribution.scale
    true = 0.3 * (1 + 4 * x[:, 0]) / 3
    assert float((found / true - 1).abs().mean()) < 0.2
    assert float(found[-1] / found[0]) > 2.5
    mean = torch.sin(2 * torch.pi * x[:, 0])
    assert float((run.predict(x).mean - mean).square().mean().sqrt()) < 0.12
    even = ll.fit(ll.models.MLP(1, (32, 32), 1, p_drop=0.0), data, epochs=60, lr=0.01, progress=False)
    assert run.evaluate("test")["nll"] < even.evaluate("test")["nll"] - 0.05
