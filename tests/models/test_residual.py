"""Residual networks: where a projection stands, what is refused, and that a hundred layers still answer."""

import pytest
import torch

from leadline.errors import UnknownName, UserError
from leadline.models import Residual, kind
from leadline.testing import check_model


@pytest.mark.parametrize("skip", ["add", "concat"])
@pytest.mark.parametrize("activation", ["relu", "crelu", "prelu", "sigmoid"])
def test_it_keeps_the_contract_with_any_options(skip, activation):
    check_model(Residual(3, (4, 4, 2), 2, activation=activation, skip=skip))


def test_a_projection_stands_where_the_width_changes_and_nowhere_else():
    net = Residual(4, (4, 6, 6, 3), 2)
    assert [layer.project is not None for layer in net.layers] == [False, True, False, True]
    assert net.layers[1].project.weight.shape == (6, 4) and net.layers[1].project.bias is None


def test_zero_weights_leave_a_linear_model():
    net, x = Residual(4, (4,) * 20, 3, activation="sigmoid"), torch.randn(5, 4)
    for layer in net.layers:
        torch.nn.init.zeros_(layer.map.weight)
        torch.nn.init.zeros_(layer.map.bias)
    assert torch.equal(net(x), net.head(x))


@pytest.mark.parametrize("depth", [1, 100])
def test_the_gradient_of_the_first_layer_does_not_vanish_with_depth(depth):
    torch.manual_seed(0)
    net, x = Residual(8, (8,) * depth, 1, activation="tanh"), torch.randn(64, 8)
    net(x).sum().backward()
    assert net.layers[0].map.weight.grad.norm() > 1


def test_what_a_layer_hands_on_does_not_grow_out_of_hand_with_depth():
    torch.manual_seed(0)
    net, x = Residual(16, (16,) * 200, 1), torch.randn(64, 16)
    h = x
    for layer in net.layers:
        h = layer(h)
    assert bool(h.norm() < 30 * x.norm())  # torch's own first weights make it a million times as large


def test_it_is_a_deep_network():
    assert kind(Residual(3, (5, 4), 1)).hidden == (5, 4) and kind(Residual(3, (5, 4), 1, skip="concat")).deep


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"hidden": 5}, UserError, "Residual: hidden must be a list of widths. Got hidden=5"),
        ({"hidden": (3, 0)}, UserError, r"Residual: hidden\[1\] must be a whole number of at least 1"),
        ({"dim_output": 0}, UserError, "dim_output=0"),
        ({"skip": "ad"}, UnknownName, "Did you mean add"),
        ({"activation": "rellu"}, UnknownName, "Did you mean relu"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(change, error, message):
    with pytest.raises(error, match=message):
        Residual(**{"dim_input": 3, "hidden": (4,), "dim_output": 2, **change})
