"""Neural ODEs: solvers agree, gradients agree, and what a flow on a line cannot do."""

import pytest
import torch
from scipy.integrate import solve_ivp

from leadline.errors import UnknownName, UserError
from leadline.models import NeuralODE
from leadline.testing import check_model


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "adaptive(1e-4)"},
        {"adjoint": True},
        {"head": False, "extra": 0},
        {"solver": "adaptive", "adjoint": True},
    ],
)
def test_it_keeps_the_contract(options):
    check_model(NeuralODE(3, 2, hidden=(5,), **{"extra": 1, **options}))


def wild(**options):
    torch.manual_seed(0)
    net = NeuralODE(2, 2, hidden=(16,), **options).double()
    for p in net.field.parameters():
        p.data.mul_(3)
    return net


@pytest.mark.parametrize(
    ("solver", "tolerance"),
    [("euler(4000)", 3e-3), ("midpoint(200)", 1e-3), ("rk4(40)", 1e-5), ("adaptive(1e-7)", 1e-5)],
)
def test_every_solver_finds_the_state_that_scipy_finds(solver, tolerance):
    net, x = wild(extra=1, solver=solver), torch.randn(3, 2, dtype=torch.float64)

    def right(t, h):
        with torch.no_grad():
            return net.field(torch.tensor(h)[None], torch.tensor([[t]]).double())[0].numpy()

    with torch.no_grad():
        for row, found in zip(x, net.flow(x), strict=True):
            wanted = solve_ivp(right, (0, 1), [*row.tolist(), 0.0], rtol=1e-10, atol=1e-10).y[:, -1]
            assert torch.allclose(found, torch.tensor(wanted), atol=tolerance)


@pytest.mark.parametrize("solver", ["rk4(40)", "adaptive(1e-8)"])
def test_both_gradients_agree(solver):
    x, found = torch.randn(5, 2, dtype=torch.float64), []
    for adjoint in (False, True):
        net = wild(extra=1, solver=solver, adjoint=adjoint)
        net(x).square().sum().backward()
        found.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
    assert torch.allclose(*found, rtol=1e-4, atol=1e-4 * float(found[0].abs().max()))


def test_one_step_of_euler_is_a_residual_layer():
    net, x = NeuralODE(3, 3, hidden=(5,), solver="euler(1)", head=False), torch.randn(4, 3)
    assert torch.allclose(net(x), x + net.field(x, torch.zeros(4, 1)))


def fitted(extra, steps=150):
    """Squared error of h(1) against -x on a line, after training."""
    torch.manual_seed(0)
    net = NeuralODE(1, 1, hidden=(16,), extra=extra, solver="rk4(6)", head=False)
    x = torch.linspace(-1, 1, 32)[:, None]
    rule = torch.optim.Adam(net.parameters(), 0.03)
    for _ in range(steps):
        rule.zero_grad()
        loss = (net(x) + x).square().mean()
        loss.backward()
        rule.step()
    order = net(x)[:, 0].detach()
    return float(loss.detach()), order


def test_a_flow_on_a_line_keeps_the_order_and_cannot_turn_it_around():
    loss, order = fitted(extra=0)
    assert bool((order.diff() > 0).all())
    assert loss > 0.3  # the best order-keeping answer is 0, whose error is the variance of x, a third


def test_one_more_dimension_is_a_way_around():
    assert fitted(extra=1)[0] < 0.01


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"solver": "rk5"}, UnknownName, "Did you mean rk4"),
        ({"solver": "rk4(0)"}, UserError, "steps of solver rk4 must be a whole number of at least 1"),
        ({"solver": "rk4(2.5)"}, UserError, "steps of solver rk4 must be a whole number"),
        ({"solver": "adaptive(0)"}, UserError, "tolerance of solver adaptive must be a number above 0"),
        ({"solver": "rk4(3, 4)"}, UserError, "a solver takes one number"),
        ({"extra": -1}, UserError, "extra must be a whole number of at least 0"),
        ({"head": False, "dim_output": 5}, UserError, "Pass extra=2, or head=True"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(change, error, message):
    with pytest.raises(error, match=message):
        NeuralODE(**{"dim_input": 3, "dim_output": 2, **change})
