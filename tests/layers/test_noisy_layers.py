"""Layers that draw noise other than dropout, gates, and relatives of batch normalisation."""

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.layers import (
    AdditiveNoise,
    BatchRenorm,
    DropConnect,
    GhostBatchNorm,
    HardConcrete,
    MultiplicativeNoise,
    RandomizedReLU,
    SpatialDropout,
    exact_statistics,
    gated,
    lipschitz,
    noise,
    weight_normed,
)
from leadline.regularize import L0


def keys(count, epoch=0):
    return noise.example_keys(0, epoch, torch.arange(count))


LAYERS = {
    "DropConnect": lambda: DropConnect(4, 3, 0.4),
    "SpatialDropout": lambda: SpatialDropout(0.4),
    "normal": lambda: MultiplicativeNoise(0.5, "normal"),
    "uniform": lambda: MultiplicativeNoise(0.5, "uniform"),
    "beta": lambda: MultiplicativeNoise(0.5, "beta"),
    "AdditiveNoise": lambda: AdditiveNoise(0.5),
    "RandomizedReLU": lambda: RandomizedReLU(),
}


@pytest.mark.parametrize("name", LAYERS)
def test_noise_belongs_to_the_row_keeps_the_mean_and_rests_in_evaluation(name):
    torch.manual_seed(0)
    layer = LAYERS[name]().double()
    h = torch.linspace(-1, 2, 4).double().expand(6000, 4)
    with noise.keyed(keys(6000)):
        out = layer(h).detach()
    with noise.keyed(keys(6000)[:7].flip(0)):
        torch.testing.assert_close(layer(h[:7]), out[:7].flip(0))
    assert bool((out.std(0) > 0).any())
    torch.testing.assert_close(
        out.mean(0), layer.eval()(h[:1])[0], atol=float(4 * out.std(0).max() / 6000**0.5), rtol=0
    )
    assert torch.equal(layer(h), layer(h))
    layer.train()
    assert not torch.equal(layer(h), layer(h))  # without keys, torch's generator


@pytest.mark.parametrize("law", ["normal", "uniform", "beta"])
def test_multiplied_noise_has_the_deviation_promised(law):
    with noise.keyed(keys(3000)):
        out = MultiplicativeNoise(0.6, law)(torch.ones(3000, 20))
    assert float(out.std()) == pytest.approx(0.6, rel=0.02)


def test_channels_fall_silent_as_a_whole():
    with noise.keyed(keys(500)):
        out = SpatialDropout(0.3)(torch.ones(500, 8, 5))
    assert torch.equal(out, out[..., :1].expand_as(out))
    assert float((out == 0).float().mean()) == pytest.approx(0.3, abs=0.03)


def test_weights_are_dropped_one_by_one():
    layer = DropConnect(50, 1, 0.5)
    nn.init.ones_(layer.map.weight), nn.init.zeros_(layer.map.bias)
    with noise.keyed(keys(2000)):
        out = layer(torch.ones(2000, 50))  # 2 · Binomial(50, ½)
    assert float(out.detach().var()) == pytest.approx(4 * 50 / 4, rel=0.1)


def test_a_gate_s_cost_is_the_chance_that_it_is_open():
    gates = HardConcrete((1,), start=0.3)
    with torch.no_grad():
        drawn = []
        for epoch in range(1500):
            with noise.keyed(keys(3, epoch)):
                drawn.append(gates.gates())
    drawn = torch.cat(drawn)
    assert float((drawn > 0).float().mean()) == pytest.approx(float(gates.expected().detach()), abs=0.05)
    assert bool((drawn == 0).any() and (drawn == 1).any())


def test_l0_closes_the_gates_of_inputs_that_say_nothing():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(300, 6, generator=g)
    data = ll.data.arrays(x, x[:, 0] - 2 * x[:, 1], kind="real")
    torch.manual_seed(0)
    model = gated(nn.Sequential(nn.Linear(6, 1)))
    run = ll.fit(
        model, data, epochs=150, lr=0.05, weight_decay=0.0, regularize=L0(0.08), likelihood="Normal",
        progress=False, validate_every=150,
    )  # fmt: skip
    weight = run.model.eval()[0].weight.detach().flatten()
    assert bool((weight[:2].abs() > 0.1).all()) and bool((weight[2:] == 0).all())
    with pytest.raises(UserError, match="gates"):
        L0().objective(torch.zeros(()), nn.Linear(1, 1), 1.0)


# ── normalisation ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_exact_statistics_are_those_of_one_batch_of_all_rows():
    torch.manual_seed(0)
    model = ll.models.MLP(3, (6, 5), 2, norm="batch", p_drop=0.0).double()
    x = torch.randn(50, 3).double() * 3 + 1
    whole = model.train()(x)
    for p in model.parameters():
        p.requires_grad_(False)
    exact_statistics(model, x)
    assert model.training
    torch.testing.assert_close(model.eval()(x), whole)


def test_ghosts_are_normalised_apart():
    x = torch.cat([torch.randn(16, 3), torch.randn(20, 3) + 9])
    out = GhostBatchNorm(3, rows=16)(x)
    for part in out.tensor_split(2):
        torch.testing.assert_close(part.mean(0), torch.zeros(3), atol=1e-4, rtol=0)


def test_renorm_answers_as_at_test_time_once_its_averages_are_near():
    torch.manual_seed(0)
    layer = BatchRenorm(2)
    for _ in range(200):
        layer(torch.randn(64, 2) * 2 + 1)
    x = torch.randn(8, 2) * 2 + 1
    mean, deviation = layer.mean.clone(), layer.deviation.clone()
    torch.testing.assert_close(layer(x), (x - mean) / deviation, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(mean, torch.ones(2), atol=0.3, rtol=0)


def test_weight_norm_gradients_are_the_closed_form_and_at_right_angles():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 1)).double()
    model = weight_normed(plain)
    x = torch.randn(7, 4).double()
    torch.testing.assert_close(model(x), plain(x))
    for net in (plain, model):
        net(x).square().sum().backward()
    g, v = (getattr(model[0].parametrizations.weight, f"original{k}") for k in (0, 1))
    w, slope, length = plain[0].weight.detach(), plain[0].weight.grad, v.detach().norm()
    torch.testing.assert_close(g.grad.flatten(), (slope * v.detach()).sum()[None] / length)
    across = slope - w * (slope * w).sum() / w.square().sum()
    torch.testing.assert_close(v.grad, g.detach() / length * across)
    assert abs(float((v.grad * w).sum())) < 1e-9


def test_a_lipschitz_bound_holds_before_and_after_training():
    torch.manual_seed(0)
    data = ll.data.moons(num=90)
    model = lipschitz(ll.models.MLP(2, (16, 16), 1, activation="relu", p_drop=0.0), 3.0)
    run = ll.fit(model, data, epochs=10, progress=False)
    x = torch.randn(400, 2)
    with torch.no_grad():
        out = run.model.eval()(x).flatten()
    slopes = (out[:, None] - out).abs() / torch.cdist(x, x).clamp(min=1e-9)
    slopes.fill_diagonal_(0)
    assert 0.3 < float(slopes.max()) <= 3.0 * 1.02
