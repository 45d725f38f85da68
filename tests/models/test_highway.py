"""Highway networks: gates that start closed, and the residual network that is left without them."""

import pytest
import torch

from leadline.errors import UnknownName, UserError
from leadline.models import Highway, Residual
from leadline.testing import check_model


@pytest.mark.parametrize("gate", ["coupled", "separate", "none"])
def test_it_keeps_the_contract_with_any_gate(gate):
    check_model(Highway(3, 2, width=4, depth=3, gate=gate, activation="softplus"))


def test_without_gates_it_is_the_residual_network():
    net, twin, x = Highway(4, 3, width=4, depth=5, gate="none"), Residual(4, (4,) * 5, 3), torch.randn(6, 4)
    with torch.no_grad():
        net.read.weight.copy_(torch.eye(4))
        net.read.bias.zero_()
    for mine, other in zip(net.layers, twin.layers, strict=True):
        other.map.load_state_dict(mine.map.state_dict())
    twin.head.load_state_dict(net.head.state_dict())
    assert torch.allclose(net(x), twin(x), atol=1e-6)


def test_gates_that_never_open_leave_a_linear_model():
    net, x = Highway(4, 3, width=6, depth=30, carry=60.0), torch.randn(5, 4)
    assert torch.allclose(net(x), net.head(net.read(x)), atol=1e-5)


def test_the_gates_read_the_data():
    torch.manual_seed(0)
    net, x = Highway(4, 1, width=4, depth=1), torch.randn(100, 4)
    open_ = net.layers[0].transform(net.read(x)).sigmoid().detach()
    assert float(open_.std(0).min()) > 0.005 and 0.05 < float(open_.mean()) < 0.25


@pytest.mark.parametrize("depth", [2, 100])
def test_the_gradient_of_the_first_map_does_not_vanish_with_depth(depth):
    torch.manual_seed(0)
    net = Highway(8, 1, width=16, depth=depth, carry=4.0)
    net(torch.randn(64, 8)).sum().backward()
    assert net.read.weight.grad.norm() > 1


def test_thirty_layers_learn_where_a_plain_stack_does_not():
    torch.manual_seed(0)
    x = torch.randn(256, 2)
    y = (x[:, 0] * x[:, 1] > 0).float()

    def loss_after(net):
        rule = torch.optim.Adam(net.parameters(), 1e-2)
        for _ in range(60):
            rule.zero_grad()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(net(x)[:, 0], y)
            loss.backward()
            rule.step()
        return float(loss.detach())

    plain = [layer for _ in range(30) for layer in (torch.nn.Linear(8, 8), torch.nn.Tanh())]
    assert loss_after(Highway(2, 1, width=8, depth=30, activation="tanh", carry=3.0)) < 0.35
    assert loss_after(torch.nn.Sequential(torch.nn.Linear(2, 8), *plain, torch.nn.Linear(8, 1))) > 0.6


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"width": 0}, UserError, "Highway: width must be a whole number"),
        ({"gate": "couple"}, UnknownName, "Did you mean coupled"),
        ({"carry": "a"}, UserError, "carry must be"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(change, error, message):
    with pytest.raises(error, match=message):
        Highway(**{"dim_input": 3, "dim_output": 2, **change})
