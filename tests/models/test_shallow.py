"""The shallow network under the textbook's names."""

import pytest
import torch

import leadline as ll
from leadline.errors import UnknownName, UserError
from leadline.models import MLP, Shallow, counting, equations
from leadline.models import composed as composed_module
from leadline.reference import networks as twin
from leadline.reference.activations import ACTIVATIONS

COUNTS = {
    (1, 3, 1): 10,
    (1, 4, 2): 18,
    (2, 3, 1): 13,
    (3, 3, 2): 20,
    (2, 4, 3): 27,
    (100, 500, 1): 51_001,
    (1, 286, 1): 859,
}


@pytest.mark.parametrize(("sizes", "parameters"), COUNTS.items())
def test_parameter_counts(sizes, parameters):
    net = Shallow(*sizes)
    assert sum(p.numel() for p in net.parameters()) == parameters
    assert counting.size(sizes[0], sizes[1:2], sizes[2]).parameters == parameters
    if parameters < 1000:
        assert len(net.names) == len(set(net.names)) == parameters


@pytest.mark.parametrize("sizes", [(1, 3, 1), (2, 4, 3), (3, 12, 2), (11, 2, 1)])
@pytest.mark.parametrize("name", ["relu", "tanh", "sin", "heaviside"])
def test_it_computes_what_the_twin_does_with_the_values_by_name(sizes, name):
    torch.manual_seed(0)
    inputs, units, outputs = sizes
    net, x = Shallow(*sizes, activation=name).double(), torch.randn(5, inputs).double()
    values = iter(net.values.values())
    theta = [[next(values) for _ in range(inputs + 1)] for _ in range(units)]
    phi = [[next(values) for _ in range(units + 1)] for _ in range(outputs)]
    for row, out in zip(x.tolist(), net(x).tolist(), strict=True):
        assert out == pytest.approx(twin.shallow(theta, phi, row, ACTIVATIONS[name]), rel=1e-9, abs=1e-9)


def test_gradients_are_those_of_the_twin():
    torch.manual_seed(0)
    net = Shallow(2, 3, 1).double()
    x, eps = [0.4, -0.8], 1e-6
    net(torch.tensor([x]).double()).sum().backward()
    values = net.values

    def answer(moved):
        numbers = iter(moved.values())
        theta = [[next(numbers) for _ in range(3)] for _ in range(3)]
        return twin.shallow(theta, [[next(numbers) for _ in range(4)]], x, ACTIVATIONS["relu"])[0]

    for name, (tensor, at) in net._places().items():
        up, down = ({**values, name: values[name] + sign * eps} for sign in (1, -1))
        assert float(tensor.grad[at]) == pytest.approx((answer(up) - answer(down)) / (2 * eps), abs=1e-6)


def test_parameters_are_read_and_set_by_name():
    net = Shallow(1, 3, 1)
    net.set({"theta10": 1.0}, phi3=-2.0)
    net["theta31"] = 5
    assert (net["theta10"], net["phi3"], net["theta31"]) == (1.0, -2.0, 5.0)
    assert net.inner.weight[2, 0].item() == 5.0
    assert net.outer.weight[0, 2].item() == -2.0
    assert net.inner.weight.requires_grad


def test_names_with_two_digits_are_told_apart():
    net = Shallow(11, 12, 3)
    assert {"theta1_11", "theta11_1", "theta12_0", "phi3_12", "phi1_0"} <= set(net.names)
    net["theta1_11"] = 7.0
    assert net.inner.weight[0, 10].item() == 7.0
    assert {"theta10", "theta25", "phi2"} <= set(Shallow(5, 4, 1).names)
    assert {"phi10", "phi24"} <= set(Shallow(5, 4, 2).names)


def test_a_wrong_name_or_value_sets_nothing():
    net = Shallow(1, 3, 1)
    before = net.values
    with pytest.raises(UnknownName, match="parameter 'theta41'. Did you mean"):
        net.set(theta10=3.0, theta41=1.0)
    with pytest.raises(UserError, match="phi1 must be a finite number. Got phi1='x'"):
        net.set(theta10=3.0, phi1="x")
    assert net.values == before


def test_equations_with_names_and_numbers():
    net = Shallow(2, 2, 2)
    assert net.equations() == (
        "h1 = relu[theta10 + theta11 x1 + theta12 x2]\n"
        "h2 = relu[theta20 + theta21 x1 + theta22 x2]\n"
        "y1 = phi10 + phi11 h1 + phi12 h2\n"
        "y2 = phi20 + phi21 h1 + phi22 h2"
    )
    small = Shallow(1, 1, 1)
    small.set(theta10=-0.5, theta11=-2.0, phi0=1.0, phi1=-3.25)
    assert small.equations(values=True) == "h1 = relu[-0.5 - 2 x]\ny = 1 - 3.25 h1"
    assert equations(small, "unit") == small.equations()


def test_equations_of_deep_networks_show_every_shape():
    deep = MLP(3, (4, 2, 3), 2, activation="tanh")
    assert " ".join(equations(deep).splitlines()[1].split()) == "h2 = tanh[β1 + Ω1 h1] β1 (2), Ω1 (2 × 4)"
    assert equations(deep, "nested") == "y = β3 + Ω3 tanh[β2 + Ω2 tanh[β1 + Ω1 tanh[β0 + Ω0 x]]]"
    assert equations(MLP(1, (2,), 1), "unit").splitlines()[-1] == "y = β1[1] + Ω1[1,1] h1[1] + Ω1[1,2] h1[2]"
    assert len(equations(deep, "unit").splitlines()) == 4 + 2 + 3 + 2
    with pytest.raises(UnknownName, match="form 'layers'. Did you mean layer"):
        equations(deep, "layers")
    with pytest.raises(UserError, match="affine maps with activations between"):
        equations(MLP(3, (4,), 2, norm="layer"))


def test_an_activation_that_doubles_is_refused():
    for kind in (Shallow, composed_module.Composed):
        with pytest.raises(UserError, match="one output for each unit. Got activation='crelu'"):
            kind(2, activation="crelu")


def test_more_units_fit_a_curve_better():
    """Universal approximation as a trend: the largest error falls as units are added."""
    x = torch.linspace(-1, 1, 400)[:, None]
    y = torch.sin(4 * x[:, 0]) * x[:, 0]
    data = ll.data.arrays(x, y)
    worst = []
    for units in (2, 8, 64):
        torch.manual_seed(0)
        run = ll.fit(Shallow(1, units), data, epochs=120, lr=0.02, weight_decay=0.0, progress=False)
        worst.append(float((run.predict(x).mean - y).abs().max()))
    assert worst[0] > worst[1] > worst[2]
    assert worst[2] < 0.1
