import pytest
import torch
from torch import nn

from leadline.errors import UnknownName, UserError
from leadline.layers.activation import ACTIVATIONS, activation, name_of, widening

WAVY = {"rect", "sin", "square", "crelu"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_found_in_any_case_and_keeps_the_shape(name):
    h = torch.linspace(-2, 2, 12).view(3, 4)
    module = activation(name.upper())
    out = module(h)
    assert out.shape == (3, 4 * widening(module))
    if name not in WAVY:
        assert (out.diff(dim=1) >= -0.2).all()  # all of them rise, but for the dips of gelu and silu


def test_each_call_makes_a_new_module():
    assert activation("relu") is not activation("relu")


def test_an_unknown_name_answers_with_the_closest():
    with pytest.raises(UnknownName, match="activation 'reluu'. Did you mean relu"):
        activation("reluu")


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("leaky_relu(0.1)", -2.0, -0.2),
        ("Leaky_ReLU( 0.25 )", -2.0, -0.5),
        ("prelu(0.5)", -2.0, -1.0),
        ("elu(0.5)", -1e3, -0.5),
        ("swish(0)", 3.0, 1.5),
        ("softplus(2)", 0.0, 0.34657),
    ],
)
def test_a_number_in_brackets_sets_its_parameter(name, at, value):
    assert float(activation(name)(torch.tensor([at])).detach()) == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("relu(2)", "relu takes no number.* leaky_relu, prelu, elu"),
        ("elu(x)", "finite number in its brackets. Got activation 'elu\\(x\\)'"),
        ("elu()", "finite number"),
        ("swish(inf)", "finite number"),
        ("softplus(-1)", "number above 0"),
        ("leakyrelu(0.1)", "Did you mean leaky_relu"),
        ("relu(1", "activation must be a known name"),
    ],
)
def test_a_wrong_number_is_answered(name, said):
    with pytest.raises(UserError, match=said):
        activation(name)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_module_knows_its_name(name):
    assert name_of(activation(name)) == name


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (nn.ReLU(inplace=True), "relu"),
        (nn.LeakyReLU(0.2, inplace=True), "leaky_relu(0.2)"),
        (nn.Softplus(2.0), "softplus(2.0)"),
        (nn.GELU(approximate="tanh"), None),
        (nn.PReLU(3), None),
        (nn.Linear(2, 2), None),
    ],
)
def test_a_module_that_has_no_name_here_is_given_none(module, name):
    assert name_of(module) == name
