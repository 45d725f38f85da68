import pytest
import torch
import torch.nn.functional as F

from leadline.errors import UnknownName, UserError
from leadline.layers import noise
from leadline.models import MLP


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("arguments", "parameters"),
    [
        ((40, (100, 100), 10), 40 * 100 + 100 + 100 * 100 + 100 + 100 * 10 + 10),
        ((40, (), 10), 410),
        ((1, (3,), 1), 10),
        ((784, (500, 500, 500), 10), 784 * 500 + 500 + 2 * (500 * 500 + 500) + 5010),
    ],
)
def test_it_has_as_many_parameters_as_the_equations_say(arguments, parameters):
    assert count(MLP(*arguments, norm="none")) == parameters
    assert count(MLP(*arguments, norm="layer")) == parameters + 2 * sum(arguments[1])


def test_it_computes_its_equations():
    torch.manual_seed(0)
    model, x = MLP(4, (6, 5), 3, activation="tanh", norm="none").eval(), torch.randn(7, 4)
    h = x
    for layer in model.layers:
        h = torch.tanh(h @ layer.map.weight.T + layer.map.bias)
    torch.testing.assert_close(model(x), F.linear(h, model.head.weight, model.head.bias))


def test_a_residual_layer_of_zero_weights_is_the_identity():
    model, x = MLP(4, (4, 6, 6), 2, activation="relu", norm="none", residual=True).eval(), torch.randn(5, 4)
    with torch.no_grad():
        for layer in model.layers:
            layer.map.weight.zero_()
            layer.map.bias.zero_()
    skips = [layer.skip for layer in model.layers]
    assert skips == [True, False, True]
    assert torch.equal(model.layers[0](x), x)
    assert torch.equal(model.layers[1](x), torch.zeros(5, 6))
    assert not any(layer.skip for layer in MLP(4, (4, 4), 2, residual=False).layers)


def test_normalisation_stands_before_the_activation():
    model = MLP(4, (8,), 2, norm="layer", activation="sigmoid").eval()
    h = model.layers[0].norm(model.layers[0].map(torch.randn(3, 4)))
    torch.testing.assert_close(h.mean(1), torch.zeros(3), atol=1e-6, rtol=0)
    layer = model.layers[0]
    x = torch.randn(3, 4)
    torch.testing.assert_close(layer(x), torch.sigmoid(layer.norm(layer.map(x))))


def test_every_layer_has_noise_of_its_own():
    model = MLP(6, (50, 50), 2, p_drop=0.5)
    masks = []
    for layer in model.layers:
        with noise.keyed(noise.example_keys(0, 0, torch.arange(20))):
            masks.append(layer.drop(torch.ones(20, 50)) != 0)
    assert not torch.equal(*masks)


def test_further_axes_are_flattened():
    model, x = MLP(12, (5,), 2).eval(), torch.randn(3, 3, 4)
    assert torch.equal(model(x), model(x.flatten(1)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim_input": 0}, "dim_input must be a whole number of at least 1. Got dim_input=0"),
        ({"hidden": (3, 0)}, r"hidden\[1\] must be a whole number"),
        ({"hidden": (2.5,)}, r"hidden\[0\]=2.5"),
        ({"dim_output": True}, "dim_output=True"),
        ({"p_drop": 1.0}, "p_drop must be a number of at least 0 and below 1. Got p_drop=1.0"),
        ({"p_drop": -0.1}, "Got p_drop=-0.1"),
    ],
)
def test_sizes_that_make_no_sense_are_refused_by_name(change, message):
    with pytest.raises(UserError, match=message):
        MLP(**{"dim_input": 3, "hidden": (4,), "dim_output": 2, **change})


def test_unknown_words_answer_with_the_closest():
    with pytest.raises(UnknownName, match="Did you mean batch"):
        MLP(3, (4,), 2, norm="bacth")
    with pytest.raises(UnknownName, match="Did you mean gelu"):
        MLP(3, (4,), 2, activation="gellu")
