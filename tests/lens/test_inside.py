"""Panels, distances and flow: the parts of a network add up to the network."""

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import ShapeError, UserError


def figure_3_3():
    net = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[-1.0], [1.1], [0.9]]))
        net[0].bias.copy_(torch.tensor([0.6, -0.3, -1.2]))
        net[2].weight.copy_(torch.tensor([[-1.3, 1.3, 0.66]]))
        net[2].bias.fill_(-0.23)
    return net


def test_panels_of_a_scalar_network():
    net = figure_3_3()
    view = ll.lens.panels(net, (0, 2), num=101)
    x = np.linspace(0, 2, 101)
    assert np.allclose(view.pre, np.outer(x, [-1, 1.1, 0.9]) + np.array([0.6, -0.3, -1.2]), atol=1e-6)
    assert np.allclose(view.active, np.maximum(view.pre, 0))
    assert np.allclose(view.weighted, view.active * [-1.3, 1.3, 0.66], atol=1e-6)
    assert np.allclose(view.output, net(torch.tensor(x[:, None]).float()).detach().numpy()[:, 0], atol=1e-5)
    assert np.allclose(view.joints, [0.3 / 1.1, 0.6, 1.2 / 0.9], atol=1e-6) and view.shallow


@pytest.mark.parametrize("activation", ["relu", "tanh", "sin", "heaviside"])
def test_panels_of_two_inputs_and_of_any_activation(activation):
    torch.manual_seed(0)
    net = ll.models.MLP(2, (3,), 2, activation=activation, p_drop=0.0)
    view = ll.lens.panels(net, ((-1, 1), (0, 2)), output=1, num=40)
    assert view.pre.shape == (10, 10, 3) and view.output.shape == (10, 10)
    assert np.allclose(view.output, view.offset + view.weighted.sum(2))
    x = torch.tensor([[view.x[0][3], view.x[1][7]]]).float()
    assert view.output[7, 3] == pytest.approx(net(x)[0, 1].item(), abs=1e-5)
    assert (len(view.joints) > 0) == (activation == "relu")
    assert view.plot().axes


def test_panels_of_a_deep_network_show_its_last_layer():
    torch.manual_seed(1)
    net = ll.models.MLP(1, (4, 3), 1, activation="relu", p_drop=0.0)
    view = ll.lens.panels(net, (-3, 3))
    assert view.pre.shape[1] == 3 and not view.shallow
    assert np.allclose(view.output, view.offset + view.weighted.sum(1))
    assert len(view.joints) == ll.lens.joints(net, -3.0, 3.0).pieces - 1


@pytest.mark.parametrize("units", [1, 3, 20])
def test_panels_are_drawn_unit_by_unit_while_there_is_room(units):
    net = nn.Sequential(nn.Linear(1, units), nn.ReLU(), nn.Linear(units, 1))
    assert len(ll.lens.panels(net).plot().axes) == 3 * (units if units <= 5 else 1) + 1


def test_panels_say_what_they_need():
    with pytest.raises(UserError, match="must end in a linear map"):
        ll.lens.panels(nn.Linear(1, 1))
    with pytest.raises(UserError, match="must end in a linear map"):
        ll.lens.panels(nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1), nn.Tanh()))
    with pytest.raises(UserError, match="must take 1 input,"):
        ll.lens.panels(nn.Linear(2, 1))
    with pytest.raises(UserError, match="ascend"):
        ll.lens.panels(figure_3_3(), (1, 0))
    with pytest.raises(UserError, match="output must be"):
        ll.lens.panels(figure_3_3(), output=1)


def constant(value, dim_input=1, dim_output=1):
    net = nn.Linear(dim_input, dim_output)
    nn.init.zeros_(net.weight), nn.init.constant_(net.bias, value)
    return net


def test_the_distance_of_x_and_0_over_an_interval():
    line = constant(0.0)
    nn.init.ones_(line.weight)
    view = ll.lens.distance(line, constant(0.0), (-2, 2), num=4001)
    assert view.mean == pytest.approx(1, abs=1e-6)
    assert view.rms == pytest.approx(np.sqrt(4 / 3), abs=1e-5)
    assert view.sup == 2 and abs(view.at[0]) == 2


def test_the_distance_over_a_square_a_cube_rows_and_data():
    for over, count in ((((0, 1), (0, 1)), 101**2), (((0, 1),) * 3, 4096), (torch.randn(7, 3), 7)):
        dim = 2 if count == 101**2 else 3
        view = ll.lens.distance(constant(3.0, dim, 4), constant(1.0, dim, 4), over)
        assert len(view.each) == count
        assert view.mean == pytest.approx(4) and view.rms == pytest.approx(4) and view.sup == pytest.approx(4)
        assert view.plot().axes
    data = ll.data.iris()
    a, b = ll.models.build("Linear", 4, 3, seed=0), ll.models.build("Linear", 4, 3, seed=1)
    view = ll.lens.distance(a, b, data, split="test")
    x = data.inputs.encode(data.test.x)
    assert np.allclose(view.each, (a(x) - b(x)).norm(dim=1).detach().numpy(), atol=1e-5)


def test_the_mean_over_a_square_is_an_integral():
    net = constant(0.0, 2)
    with torch.no_grad():
        net.weight[0, 0] = 1
    view = ll.lens.distance(net, constant(0.0, 2), ((-1, 1), (0, 5)))
    assert view.mean == pytest.approx(0.5, abs=1e-6)


def test_equal_functions_of_other_weights_are_at_distance_0():
    net = figure_3_3()
    twin = figure_3_3()
    with torch.no_grad():  # swap two units, and scale one in and out
        order = torch.tensor([2, 1, 0])
        twin[0].weight.copy_(net[0].weight[order] * 4), twin[0].bias.copy_(net[0].bias[order] * 4)
        twin[2].weight.copy_(net[2].weight[:, order] / 4)
    assert ll.lens.distance(net, twin, (-3, 3)).sup < 1e-6


def test_distances_say_what_they_need():
    with pytest.raises(ShapeError, match="as many outputs"):
        ll.lens.distance(constant(0.0), constant(0.0, 1, 2))
    with pytest.raises(UserError, match="over must be"):
        ll.lens.distance(constant(0.0), constant(1.0), (1, 0))


def test_the_book_s_network_in_words():
    view = ll.lens.flow(ll.models.MLP(3, (4, 2, 3), 2, activation="relu", p_drop=0.0))
    assert [layer.width for layer in view.layers] == [3, 4, 2, 3, 2]
    assert view.equations == (
        "h₁ = relu[β₁ + Ω₁ x]",
        "h₂ = relu[β₂ + Ω₂ h₁]",
        "h₃ = relu[β₃ + Ω₃ h₂]",
        "y = β₄ + Ω₄ h₃",
    )
    assert view.num_parameters == 43 and len(view.units) == 4 + 2 + 3 + 2
    assert view.maps[1].weight == "layers.1.map.weight" and view.maps[1].makes == "h₂"
    assert r"\mathbf{h}_{1} &= \mathrm{relu}\bigl[\boldsymbol{\beta}_{1}" in view.latex


def test_units_carry_their_numbers():
    assert ll.lens.flow(figure_3_3()).units == (
        "h₁,₁ = relu[0.6 − 1 x]",
        "h₁,₂ = relu[−0.3 + 1.1 x]",
        "h₁,₃ = relu[−1.2 + 0.9 x]",
        "y = −0.23 − 1.3 h₁,₁ + 1.3 h₁,₂ + 0.66 h₁,₃",
    )


def test_skip_connections_norms_and_wide_layers():
    view = ll.lens.flow(ll.models.MLP(40, (100, 100), 10, norm="batch", residual=True))
    assert view.equations[1] == "h₂ = h₁ + gelu[batchnorm[β₂ + Ω₂ h₁]]"
    assert view.skips == (("h₁", "h₂"),) and view.units == () and view.weights == (None, None, None)
    assert view.plot().axes


def test_what_is_no_chain_of_linear_maps():
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2), nn.Softmax(1))
    view = ll.lens.flow(net, torch.zeros(1, 1, 6, 6))
    assert view.equations == ("h₁ = relu[conv2d[x]]", "y = softmax[β₁ + Ω₁ h₁]")
    crelu = ll.lens.flow(ll.models.MLP(2, (3,), 1, activation="crelu", p_drop=0.0))
    assert crelu.equations[0] == "h₁ = cat[relu[β₁ + Ω₁ x], relu[neg[β₁ + Ω₁ x]]]"
    with pytest.raises(UserError, match="Pass x="):
        ll.lens.flow(nn.ReLU())


@pytest.mark.parametrize("net", [ll.models.Linear(2, 1), ll.models.Shallow(1, 3, 1), ll.models.Composed(1, (3, 3), 1)])
def test_registered_networks_are_drawn(net):
    view = ll.lens.flow(net)
    assert view.layers[0].symbol == "x" and view.layers[-1].symbol == "y" and view.plot().axes
    assert len(view.maps) == sum(isinstance(m, nn.Linear) for m in net.modules())
