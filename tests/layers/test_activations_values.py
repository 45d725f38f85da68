"""Every activation beside its twin, its derivative and its far ends."""

import math

import pytest
import torch

import leadline as ll
from leadline.layers.activation import ACTIVATIONS, activation
from leadline.models import MLP
from leadline.reference import activations as twin
from leadline.testing import check_model

JUMPS = {"heaviside", "rect"}
POINTS = [-40.0, -3.0, -2.999, -1.7, -1e-3, 0.0, 1e-3, 0.4, 1.0, 1.001, 2.5, 3.0, 3.001, 40.0]


@pytest.mark.parametrize("name", sorted(set(ACTIVATIONS) - {"crelu"}))
def test_values_are_those_of_the_twin(name):
    z = torch.tensor(POINTS, dtype=torch.float64)
    wanted = [twin.ACTIVATIONS[name](v) for v in POINTS]
    got = activation(name).double()(z).tolist()
    assert got == pytest.approx(wanted, rel=1e-7, abs=1e-9)  # torch holds the slope of prelu in float32 at first


def test_crelu_gives_both_halves():
    z = torch.tensor([[2.0, -3.0, 0.0]])
    halves = [twin.crelu(v) for v in z[0].tolist()]
    assert activation("crelu")(z)[0].tolist() == [h[0] for h in halves] + [h[1] for h in halves]


def test_every_activation_has_a_twin():
    assert set(twin.ACTIVATIONS) == set(ACTIVATIONS) - {"crelu"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_derivatives_are_those_of_finite_differences(name):
    torch.manual_seed(0)
    module = activation(name).double()
    z = (3 * torch.randn(40).double()).requires_grad_()
    torch.autograd.gradcheck(lambda z, *_: module(z), (z, *module.parameters()))


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("far", [-1e4, 1e4])
def test_far_inputs_give_finite_values_and_derivatives(name, far):
    module = activation(name)
    z = torch.tensor([far], requires_grad=True)
    out = module(z)
    gradients = torch.autograd.grad(out.sum(), (z, *module.parameters()))
    assert all(bool(t.isfinite().all()) for t in (out, *gradients))


@pytest.mark.parametrize("name", sorted(JUMPS))
def test_jumps_pass_a_gradient_of_zero(name):
    z = torch.linspace(-2, 2, 41).requires_grad_()
    (gradient,) = torch.autograd.grad(activation(name)(z).sum(), z)
    assert torch.equal(gradient, torch.zeros(41))


@pytest.mark.parametrize("name", sorted(JUMPS))
def test_nothing_below_a_jump_learns_and_the_rest_does(name):
    torch.manual_seed(0)
    data = ll.data.moons(num=90)
    model = MLP(2, (16,), 1, activation=name, p_drop=0.0)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    run = ll.fit(model, data, epochs=5, weight_decay=0.0, progress=False)
    after = run.model.state_dict()
    assert torch.equal(after["layers.0.map.weight"], before["layers.0.map.weight"])
    assert not torch.equal(after["head.weight"], before["head.weight"])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_network_of_it_keeps_the_contract(name):
    check_model(MLP(4, (6, 6), 3, activation=name, p_drop=0.1, norm="layer"))


def test_crelu_doubles_what_the_next_map_reads():
    model = MLP(4, (6, 5), 3, activation="crelu", p_drop=0.0)
    assert [layer.map.in_features for layer in model.layers] == [4, 12]
    assert model.head.in_features == 10
    wide = MLP(4, (2, 3), 3, activation="crelu", residual=True)
    assert [layer.skip for layer in wide.layers] == [True, False]
    assert wide(torch.zeros(2, 4)).shape == (2, 3)


@pytest.mark.parametrize("name", ["prelu", "swish", "affine"])
def test_learned_parameters_learn(name):
    data = ll.data.moons(num=90)
    model = MLP(2, (8,), 1, activation=name, p_drop=0.0)
    before = [p.clone() for p in model.layers[0].activation.parameters()]
    ll.fit(model, data, epochs=5, lr=0.02, progress=False)
    after = list(model.layers[0].activation.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(after, before, strict=True))


def test_known_identities():
    z = torch.linspace(-5, 5, 101).double()
    torch.testing.assert_close(activation("tanh")(z), 2 * activation("sigmoid")(2 * z) - 1)
    torch.testing.assert_close(activation("swish(1)").double()(z), activation("silu")(z))
    torch.testing.assert_close(activation("swish(1000)").double()(z), activation("relu")(z), atol=1e-3, rtol=0)
    # hard_swish has nearly the shape of swish: farthest apart by 0.1423, at z = 3 and -3
    apart = (activation("hard_swish")(z) - activation("silu")(z)).abs()
    assert float(apart.max()) == pytest.approx(3 - 3 / (1 + math.exp(-3)), abs=1e-3)


def test_selu_keeps_variance_over_depth_where_relu_loses_it():
    torch.manual_seed(0)
    h = torch.randn(500, 200)
    spread = {}
    for name in ("selu", "relu"):
        a, x = activation(name), h
        for _ in range(30):
            x = a(x @ (torch.randn(200, 200) / 200**0.5))
        spread[name] = float(x.var())
    assert 0.5 < spread["selu"] < 2
    assert spread["relu"] < 1e-6


def test_a_polynomial_activation_makes_a_polynomial():
    """Third differences of a quadratic are 0, whatever the width; those of a network of sines are not."""
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    for name, vanishes in (("square", True), ("identity", True), ("affine", True), ("sin", False)):
        y = MLP(1, (64,), 1, activation=name, p_drop=0.0).double()(5 * x).flatten().detach()
        assert (float(y.diff(n=3).abs().max()) < 1e-12) == vanishes, name
