"""Layers that hand on what they read: their twins, and the identity at zero weights for every activation."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.layers.activation import ACTIVATIONS, activation, at_zero, lifted, widening
from leadline.layers.residual import AddLayer, ConcatLayer
from leadline.models import MLP, Residual
from leadline.reference import activations as scalar
from leadline.reference import skips as twin

NAMES = sorted(ACTIVATIONS)


def zero(layer):
    torch.nn.init.zeros_(layer.map.weight)
    torch.nn.init.zeros_(layer.map.bias)


def learned(module, seed):
    """The module with other values of what it learns."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return module


@given(st.sampled_from(NAMES), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_the_value_at_zero_is_what_the_activation_says(name, seed):
    module = learned(activation(name).double(), seed)
    with torch.no_grad():
        found, said = float(module(torch.zeros(1, 2, dtype=torch.float64))[0, 0]), float(at_zero(module))
    assert said == pytest.approx(found, abs=1e-15)
    assert lifted(module) or found == 0


def test_the_number_in_brackets_counts():
    assert at_zero(activation("softplus(4)")) == pytest.approx(float(activation("softplus(4)")(torch.zeros(1))))


@given(st.sampled_from(NAMES), st.integers(1, 5), st.integers(0, 99), st.sampled_from(["none", "layer"]), st.booleans())
@settings(deadline=None, max_examples=80)
def test_a_residual_layer_of_zero_weights_is_the_identity_for_every_activation(name, units, seed, norm, train):
    width = units * widening(activation(name))
    net = MLP(width, (units, units), 1, activation=name, norm=norm, p_drop=0.5, residual=True).double().train(train)
    x = torch.randn(3, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    for layer in (*net.layers, AddLayer(width, units, name).double()):
        zero(layer)
        learned(layer.activation, seed)
        torch.testing.assert_close(layer(x), x, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["relu", "gelu", "tanh"])
def test_activations_that_are_0_at_0_pay_for_nothing(name):
    net = MLP(4, (4, 4), 1, activation=name, p_drop=0.0, residual=True)
    assert not any(layer.lifted for layer in net.layers)
    h = torch.randn(5, 4)
    layer = net.layers[0]
    assert torch.equal(layer(h), h + layer.activation(layer.map(h)))


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "softplus", "relu"])
@pytest.mark.parametrize("widths", [(3, 3), (3, 5), (4, 2)])
def test_a_layer_equals_its_twin(name, widths):
    torch.manual_seed(0)
    x = torch.randn(4, widths[0]).double()
    added, beside = AddLayer(*widths, name).double(), ConcatLayer(*widths, name).double()
    a = scalar.ACTIVATIONS[name]
    for row, got_add, got_beside in zip(x.tolist(), added(x).tolist(), beside(x).tolist(), strict=True):
        V = None if added.project is None else added.project.weight.tolist()
        assert got_add == pytest.approx(twin.add(added.map.bias.tolist(), added.map.weight.tolist(), row, a, V))
        assert got_beside == pytest.approx(twin.concat(beside.map.bias.tolist(), beside.map.weight.tolist(), row, a))
    assert torch.autograd.gradcheck(added, (x.requires_grad_(),)) and torch.autograd.gradcheck(beside, (x,))


@pytest.mark.parametrize("name", ["crelu", "softplus"])
def test_dense_connections_read_the_input_and_all_activations(name):
    net = Residual(3, (4, 2, 5), 2, activation=name, skip="concat")
    wide = widening(activation(name))
    assert [layer.map.in_features for layer in net.layers] == [3, 3 + 4 * wide, 3 + 6 * wide]
    assert net.head.in_features == 3 + 11 * wide
    assert net(torch.randn(6, 3)).shape == (6, 2)
