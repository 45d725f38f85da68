"""Signal and gradient through depth: against the twin, against theory, and in words."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.engine.sounding import sound
from leadline.errors import UserError
from leadline.lens import depth
from leadline.models import MLP
from leadline.reference import first_weights as twin

G = torch.Generator().manual_seed(0)
X = torch.randn(16, 100, generator=G)
SUM = lambda out, y: (out * y).sum(1)  # noqa: E731 - a gradient that does not depend on the output


def relu_net(*widths, **options):
    return MLP(widths[0], widths[1:-1], widths[-1], activation="relu", p_drop=0, **options)


def test_every_number_is_that_of_the_twin():
    torch.manual_seed(0)
    net = relu_net(3, 4, 5, 2)
    for p in net.parameters():
        if p.dim() == 1:
            nn.init.zeros_(p)
    x = torch.randn(6, 3)
    view = depth(net, x)
    weights = [[*map(list, p.double().tolist())] for p in net.parameters() if p.dim() > 1]
    forward, backward = twin.through(weights, x.double().tolist())
    np.testing.assert_allclose(view.forward, forward, rtol=1e-10)
    np.testing.assert_allclose(view.backward, backward, rtol=1e-10)
    # the ratio, against torch's own gradient of the mean loss
    (net(x).square().sum(1) / 2).mean().backward()
    first = net.layers[0].map.weight
    assert view.ratio[0] == pytest.approx(float(first.grad.norm() / first.detach().norm()), rel=1e-5)
    # and theory by the mean squares of the weights
    powers = [float(p.detach().double().square().mean()) for p in net.parameters() if p.dim() > 1]
    moments = twin.forward_moments((3, 4, 5, 2), powers, float(x.double().square().mean()))
    np.testing.assert_allclose(view.theory_forward, moments, rtol=1e-6)
    np.testing.assert_allclose(
        view.theory_backward, twin.backward_moments((3, 4, 5, 2), powers, backward[-1]), rtol=1e-6
    )


def flat(moments, widths, draws):
    """Mean factor a layer over draws and layers is 1, within four standard errors; and so is every layer's mean."""
    factors = moments[:, 1:] / moments[:, :-1]
    error = math.sqrt(5 / widths / factors.size)
    assert abs(factors.mean() - 1) < 4 * error
    for k in range(moments.shape[1]):
        band = 4 * twin.relative_spread((widths,) * k) / math.sqrt(draws)
        assert abs(moments[:, k].mean() / moments[:, 0].mean() - 1) < band + 4 * math.sqrt(2 / widths / draws)


def test_he_keeps_the_signal_through_fifty_layers_and_he_out_the_gradient():
    net, y = relu_net(100, *[100] * 50, 100), torch.randn(16, 100, generator=G)
    for name, ways in (("he", ("forwards", "backwards")), ("he_uniform", ("forwards",))):
        view = depth(net, (X, y), SUM, init=name, draws=12, seed=7)
        for way in ways:  # square layers: both ways at once
            moments = getattr(view, way)
            flat(moments if way == "forwards" else moments[:, ::-1], 100, 12)
        assert view.verdict == "healthy"
    narrowing = relu_net(256, 128, 64, 32)
    pair = (torch.randn(8, 256, generator=G), torch.randn(8, 32, generator=G))
    ahead = depth(narrowing, pair, SUM, init="he", draws=40)
    back = depth(narrowing, pair, SUM, init="he_out", draws=40)
    np.testing.assert_allclose(ahead.forward, 2 * ahead.input, rtol=0.15)
    np.testing.assert_allclose(back.backward, back.backward[-1], rtol=0.15)
    np.testing.assert_allclose(ahead.backward, back.backward[-1] * np.array([0.25, 0.5, 1]), rtol=0.2)
    np.testing.assert_allclose(ahead.forward, ahead.theory_forward, rtol=0.15)


@pytest.mark.parametrize(
    ("init", "activation"), [("lecun", "identity"), ("glorot", "identity"), ("he(0.5)", "leaky_relu(0.5)")]
)
def test_other_rules_are_flat_where_theory_says_so(init, activation):
    net = MLP(100, (100,) * 30, 100, activation=activation, p_drop=0)
    view = depth(net, (X, torch.randn(16, 100, generator=G)), SUM, init=init, draws=6)
    for moments in (view.forwards, view.backwards[:, ::-1]):
        factors = moments[:, 1:] / moments[:, :-1]
        # z² of a normal z has a relative variance of 2, cut or bent ones of up to 5
        assert abs(factors.mean() - 1) < 4 * math.sqrt(5 / 100 / factors.size)


def test_five_variances_reach_beyond_single_precision():
    net = relu_net(100, *[100] * 50, 1)
    ends = [depth(net, X[:2], init=f"normal({v})").forward[-2] for v in (0.001, 1.0)]
    assert ends[0] < 1e-60 and 1e80 < ends[1] < math.inf
    single = depth(net, X[:2], init="normal(1.0)", exact=False)
    assert single.lost.any() and single.verdict == "exploding" and "not finite" in single.evidence


class Odd(nn.Module):
    """Functions, a module used twice, a skip, a weight without a module, in-place activations."""

    def __init__(self):
        super().__init__()
        self.first, self.again = nn.Linear(4, 8), nn.Linear(8, 8)
        self.own = nn.Parameter(torch.randn(8, 2) / 3)

    def forward(self, x):
        h = torch.relu_(self.first(x))
        h = h + torch.tanh(self.again(h))
        h = nn.functional.gelu(self.again(h))
        return h @ self.own


def test_any_module_is_followed_call_by_call():
    torch.manual_seed(0)
    model, x = Odd(), torch.randn(10, 4)
    view = depth(model, x)
    assert view.names == ("first", "again", "again, call 2", "own")
    z = model.first(x).detach().double()
    assert view.forward[0] == pytest.approx(float(z.square().mean()), rel=1e-5)  # before the in-place ReLU
    # gradient with respect to the first map's output, by hand
    a = model.first(x).detach().double().requires_grad_()
    twin_model = Odd().double()
    twin_model.load_state_dict(model.double().state_dict())
    h = torch.relu(a)
    h = h + torch.tanh(twin_model.again(h))
    out = nn.functional.gelu(twin_model.again(h)) @ twin_model.own
    (out.square().sum() / 2).backward()
    assert view.backward[0] == pytest.approx(float(a.grad.square().mean()), rel=1e-4)
    assert np.isnan(view.saturated[[0, 2, 3]]).all() and view.saturated[1] == 0
    assert np.isnan(view.theory_forward).all()  # skips are not a chain


def test_convolutions_and_dead_channels():
    torch.manual_seed(0)
    conv = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2))
    nn.init.constant_(conv[0].bias[:6].data, -50.0)
    view = depth(conv, torch.randn(5, 1, 8, 8))
    assert view.dead[0] == 6 / 8 and view.names == ("0", "3")


@pytest.mark.parametrize(("change", "verdict", "where"), [
    (lambda m: None, "healthy", ""),
    (lambda m: [nn.init.constant_(layer.map.bias, -30.0) for layer in m.layers], "dead", "layers.0.map"),
    (lambda m: [nn.init.normal_(p, std=1e-5) for p in m.parameters()], "vanishing", "layers.0.map"),
    (lambda m: [nn.init.normal_(p, std=30) for p in m.parameters()], "exploding", "layers.0.map"),
    (lambda m: nn.init.normal_(m.head.weight, std=30), "mis-initialised", "head"),
    (lambda m: [nn.init.constant_(p, 0.5) for p in m.parameters()], "mis-initialised", "layers.1.map"),
])  # fmt: skip
def test_the_verdict_in_words(change, verdict, where):
    torch.manual_seed(0)
    net = relu_net(10, 20, 20, 20, 20, 20, 20, 1)
    ll.init.initialise(net, "he", torch.Generator().manual_seed(0))
    change(net)
    view = depth(net, torch.randn(64, 10))
    assert (view.verdict, view.where) == (verdict, where), view.text
    assert str(view).endswith(view.text)


def test_saturation_is_a_verdict_too():
    net = MLP(10, (20, 20), 1, activation="tanh", p_drop=0)
    ll.init.initialise(net, "normal(100)", torch.Generator().manual_seed(0))
    view = depth(net, torch.randn(64, 10))
    assert view.verdict == "saturated" and view.saturated[0] > 0.9


def test_batch_normalisation_is_at_work_and_nothing_is_left_behind():
    torch.manual_seed(0)
    data = ll.data.moons(num=90)
    net = MLP(2, (16, 16), 1, activation="relu", norm="batch", p_drop=0.5).train()
    ll.init.initialise(net, "normal(1.0)")
    before = {name: t.clone() for name, t in net.state_dict().items()}
    state = torch.get_rng_state()
    view = depth(net, data)
    again = depth(net, data, init="he", draws=2)
    assert torch.equal(state, torch.get_rng_state()) and net.training and all(p.grad is None for p in net.parameters())
    assert all(torch.equal(before[name], t) for name, t in net.state_dict().items())
    assert view.verdict == again.verdict == "healthy"
    # normalised activations have a second moment of 1/2 each, so the second map's outputs know no scale but their own
    assert view.forward[1] == pytest.approx(16 / 2, rel=0.5)
    assert json.dumps(view.to_dict(), allow_nan=False) and len(view.plot().axes) == 2


def test_a_run_brings_its_own_rows_and_likelihood():
    data = ll.data.moons(num=90)
    run = ll.fit(ll.models.MLP(2, (8,), 1), data, epochs=1, progress=False)
    view = depth(run)
    assert view.names == ("layers.0.map", "head") and view.forwards.shape == (1, 2)


def test_messages():
    with pytest.raises(UserError, match="Pass init="):
        depth(nn.Linear(2, 1), torch.zeros(3, 2), draws=3)
    with pytest.raises(UserError, match="x alone"):
        depth(nn.Linear(2, 1))
    with pytest.raises(UserError, match="a model that calls none"):
        depth(nn.ReLU(), torch.zeros(3, 2))


def test_the_probe_sees_what_torch_computes_inside():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    seen = sound(layer, torch.randn(4, 5, 8), torch.zeros(4), lambda out, y: out.flatten(1).sum(1))
    paths = [level.path for level in seen.levels]
    assert paths == ["self_attn", "linear1", "linear2"] and all(level.gradient >= 0 for level in seen.levels)
