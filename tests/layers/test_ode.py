"""Solvers of ordinary differential equations: against scipy, by their orders, and both gradients against each other."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import nn

from leadline.layers.ode import _ERROR, TABLEAUX, _moved, _stages, adaptive_steps, adjoint, integrate


class Field(nn.Module):
    """A small network of state and time."""

    def __init__(self, width=3, scale=2.0):
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(width + 1, 8), nn.Tanh(), nn.Linear(8, width)).double()
        self.scale = scale

    def forward(self, h, t):
        return self.scale * self.net(torch.cat([h, t], dim=1))


def exact(f, h):
    """Each row alone by scipy, to twelve digits."""

    def right(t, state):
        with torch.no_grad():
            return f(torch.tensor(state)[None], torch.tensor([[t]]).double())[0].numpy()

    found = [solve_ivp(right, (0, 1), row.numpy(), rtol=1e-13, atol=1e-13, method="DOP853").y[:, -1] for row in h]
    return torch.tensor(np.stack(found))


@pytest.fixture
def rows():
    return torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("solver", "order"), [("euler", 1), ("midpoint", 2), ("rk4", 4), ("adaptive", 5)])
def test_the_error_falls_with_the_order_of_the_solver(solver, order, rows):
    f = Field()
    wanted = exact(f, rows)
    errors = [float((integrate(f, rows, [1 / n] * n, solver) - wanted).abs().max().detach()) for n in (20, 40)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.45)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_adaptive_steps_keep_to_their_tolerance_and_end_at_one(tolerance, rows):
    f = Field(scale=6.0)
    steps = adaptive_steps(f, rows, tolerance)
    assert torch.allclose(torch.stack(steps).sum(0), torch.ones(6, 1, dtype=torch.float64))
    off = (integrate(f, rows, steps, "adaptive") - exact(f, rows)).abs().max()
    assert float(off.detach()) < 100 * tolerance


def test_the_error_that_steps_are_chosen_by_falls_with_the_fifth_power_of_the_step(rows):
    """The difference of two orders, 5 and 4, is a first term of δ⁵; a wrong number in either leaves one of δ."""
    f, tableau = Field(), TABLEAUX["adaptive"]
    assert sum(_ERROR) == pytest.approx(0, abs=1e-15)

    def error(step):
        t = torch.zeros(6, 1, dtype=torch.float64)
        with torch.no_grad():
            k = _stages(f, rows, t, step, tableau)
            k.append(f(_moved(rows, k, step, tableau.b), t + step))
            return float(_moved(torch.zeros_like(rows), k, step, _ERROR).abs().max())

    assert math.log2(error(0.1) / error(0.05)) == pytest.approx(5, abs=0.5)


def test_a_stiffer_equation_takes_more_steps_and_each_row_its_own():
    def count(rate):
        steps = adaptive_steps(lambda h, t: -rate * h, torch.ones(1, 1, dtype=torch.float64), 1e-6)
        return sum(int(step.item() > 0) for step in steps)

    assert count(1.0) < count(20.0) < count(200.0)
    rates = torch.tensor([[1.0], [200.0]], dtype=torch.float64)
    together = torch.stack(adaptive_steps(lambda h, t: -rates * h, torch.ones(2, 1, dtype=torch.float64), 1e-6))
    assert (together > 0).sum(0).flatten().tolist() == [count(1.0), count(200.0)]


def test_what_is_not_a_number_ends():
    steps = adaptive_steps(lambda h, t: h * torch.nan, torch.ones(2, 1))
    assert integrate(lambda h, t: h * torch.nan, torch.ones(2, 1), steps, "adaptive").isnan().all()


@pytest.mark.parametrize("solver", TABLEAUX)
def test_back_propagation_gives_the_gradient_of_what_was_computed(solver, rows):
    f, w = Field(), torch.randn(6, 3, dtype=torch.float64)
    step = 1 / 3
    loss = lambda h: (integrate(f, h, [step] * 3, solver) * w).sum()  # noqa: E731
    assert torch.autograd.gradcheck(loss, rows.requires_grad_())


@pytest.mark.parametrize("solver", ["midpoint", "rk4", "adaptive"])
def test_the_adjoint_gradient_is_that_of_back_propagation_up_to_the_solver_s_error(solver, rows):
    f, w = Field(), torch.randn(6, 3, dtype=torch.float64)

    def gradients(by, count):
        h = rows.clone().requires_grad_()
        steps = adaptive_steps(f, h, 1e-8) if solver == "adaptive" else [1 / count] * count
        out = by(f, h, steps, solver)
        return out, torch.autograd.grad((out * w).sum(), [h, *f.parameters()])

    def off(count):
        (out_a, mine), (out_b, other) = gradients(adjoint, count), gradients(integrate, count)
        assert torch.equal(out_a, out_b)
        return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(mine, other, strict=True))

    if solver == "adaptive":
        assert off(0) < 1e-5
    else:
        assert off(40) < 1e-2 if solver == "midpoint" else off(40) < 1e-6
        assert off(80) < off(40) / 3  # the two differ by the error of the solver and by nothing else


def test_the_adjoint_keeps_no_stage():
    f, h = Field(), torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    kept = {}
    for name, by in (("adjoint", adjoint), ("backprop", integrate)):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, s=sizes: s.append(t.numel()) or t, lambda t: t):
            by(f, h, [1 / 50] * 50)
        kept[name] = sum(sizes)
    weights = sum(p.numel() for p in f.parameters())
    assert kept["adjoint"] <= weights + h.numel() + 2 * 50 < kept["backprop"] / 10


def test_the_adjoint_works_in_functional_gradients(rows):
    f = Field()
    weights = dict(f.named_parameters())

    def loss(values):
        return torch.func.functional_call(_Whole(f), {f"f.{name}": v for name, v in values.items()}, (rows,)).sum()

    found = torch.func.grad(loss)(weights)
    adjoint(f, rows, [0.25] * 4).sum().backward()
    for name, p in f.named_parameters():
        assert torch.allclose(found[name], p.grad)


class _Whole(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, h):
        return adjoint(self.f, h, [0.25] * 4)
