"""The state at time 1 of an ordinary differential equation, and two ways to its gradient.

    dh/dt = f(h, t),   h(0) given,   h(1) wanted                                                     (1)
    h_{n+1} = h_n + δ Σ_i b_i k_i,   k_i = f(h_n + δ Σ_j a_ij k_j, t_n + c_i δ)      Runge, Kutta    (2)

    solver      stages   error of h(1)                      steps
    euler         1          δ                              even
    midpoint      2          δ²                             even
    rk4           4          δ⁴                             even
    adaptive      7          below the tolerance a step     Dormand and Prince 5(4): each row its own clock

The adaptive solver compares the orders 5 and 4 of a step and shortens it until they agree to the tolerance. Rows keep
their own time and their own steps, so that no row depends on its batch mates; the steps count as constants.

    backprop    through the operations of (2): the exact gradient of the computed h(1); keeps every stage
    adjoint     da/dt = -aᵀ ∂f/∂h,  a(1) = ∂L/∂h(1);  ∂L/∂θ = ∫ aᵀ ∂f/∂θ dt                           (3)
                solved backwards together with (1), on the same steps; keeps h(1) alone. Equal to the other up to the
                error of the solver

Notation   δ -> step;  a_ij, b_i, c_i -> TABLEAUX;  steps: numbers, or one for each row, (B, 1)
Papers     Chen et al. 2018 (3); Dormand and Prince 1980
Shapes     f: (B, D), (B, 1) -> (B, D)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp

Field = Callable[[Tensor, Tensor], Tensor]
Steps = Sequence[float | Tensor]


@dataclass(frozen=True)
class Tableau:
    """Args:
    a: weights of earlier stages, a row for each stage after the first; `b` those of the step; `c` follows from a.
    """

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]


#: the numbers of (2)
TABLEAUX = {
    "euler": Tableau((), (1.0,)),
    "midpoint": Tableau(((1 / 2,),), (0.0, 1.0)),
    "rk4": Tableau(((1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
    "adaptive": Tableau(
        (
            (1 / 5,),
            (3 / 40, 9 / 40),
            (44 / 45, -56 / 15, 32 / 9),
            (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
            (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        ),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
}

#: order 5 less order 4 of Dormand and Prince; the last weight is that of f at the end of the step
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
_LEAST = 1e-5  # a step is never cut below this: beyond it the equation is too stiff, and the error is taken


def integrate(f: Field, h: Tensor, steps: Steps, solver: str = "rk4") -> Tensor:
    """h at the end of `steps` (2), from t = 0.

    >>> decay = lambda h, t: -h
    >>> round(integrate(decay, torch.ones(1, 1), [0.1] * 10).item(), 5)
    0.36788
    """
    t = h.new_zeros(len(h), 1)
    for step in steps:
        h, t = _moved(h, _stages(f, h, t, step, TABLEAUX[solver]), step, TABLEAUX[solver].b), t + step
    return h


@torch.no_grad()
def adaptive_steps(f: Field, h: Tensor, tolerance: float = 1e-5) -> list[Tensor]:
    """The steps from 0 to 1, (B, 1) each, that keep the error of every step below `tolerance`, relative to 1 + |h|.

    A row that is there before others, or that must try again, makes a step of 0.

    >>> len(adaptive_steps(lambda h, t: torch.zeros_like(h), torch.ones(2, 3)))
    2
    """
    tableau, found = TABLEAUX["adaptive"], []
    t, step = h.new_zeros(len(h), 1), h.new_full((len(h), 1), 0.1)
    while bool((t < 1).any()):
        step = torch.minimum(step, 1 - t)
        k = _stages(f, h, t, step, tableau)
        ahead = _moved(h, k, step, tableau.b)
        k.append(f(ahead, t + step))
        off = _moved(torch.zeros_like(h), k, step, _ERROR) / (1 + torch.maximum(h.abs(), ahead.abs()))
        error = off.square().mean(1, keepdim=True).sqrt() / tolerance
        good = ~(error > 1) | (step <= _LEAST)  # what is not a number goes on, for others to report
        taken = torch.where(good, step, 0)
        found.append(taken)
        # a row whose last step is short of 1 by rounding alone has arrived
        t, h = torch.where(good & (step >= 1 - t), 1, t + taken), torch.where(good, ahead, h)
        factor = (0.9 * error.clamp(min=1e-10) ** -0.2).clamp(0.2, 10).nan_to_num(1.0)
        step = (step * factor).clamp(min=_LEAST)
    return found


def adjoint(f: nn.Module, h: Tensor, steps: Steps, solver: str = "rk4") -> Tensor:
    """`integrate`, with the gradient of (3).

    >>> class Decay(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.rate = nn.Parameter(torch.ones(()))
    ...     def forward(self, h, t):
    ...         return -self.rate * h
    >>> f = Decay()
    >>> adjoint(f, torch.ones(1, 1), [0.1] * 10).sum().backward()
    >>> round(f.rate.grad.item(), 5)
    -0.36788
    """
    names, weights = zip(*f.named_parameters(), strict=True)
    rows = torch.stack([h.new_zeros(len(h), 1) + step for step in steps])
    return _Adjoint.apply(f, names, solver, rows, h, *weights)


class _Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(
        f: nn.Module, names: tuple[str, ...], solver: str, steps: Tensor, h: Tensor, *weights: Tensor
    ) -> Tensor:
        with torch.no_grad():
            return integrate(_with(f, names, weights), h, list(steps), solver)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.field, ctx.names, ctx.tableau = inputs[0], inputs[1], TABLEAUX[inputs[2]]
        ctx.save_for_backward(inputs[3], output, *inputs[5:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        steps, h, *weights = ctx.saved_tensors
        names, tableau = ctx.names, ctx.tableau
        total = [torch.zeros_like(w) for w in weights]
        with torch.no_grad():
            t, a = steps.sum(0), gradient
            for step in steps.flip(0):
                k: list[Tensor] = []
                k_a: list[Tensor] = []
                for row, c, b in zip(((), *tableau.a), _times(tableau), tableau.b, strict=True):
                    h_i, a_i, t_i = _moved(h, k, -step, row), _moved(a, k_a, -step, row), t - c * step
                    made, back = vjp(_at(ctx.field, names, t_i), h_i, *weights)[:2]
                    by_h, *_ = back(a_i)
                    k, k_a = [*k, made], [*k_a, -by_h]
                    if b:
                        _, *by_weights = back(a_i * (b * step))
                        total = [sum_ + part for sum_, part in zip(total, by_weights, strict=True)]
                h, a, t = _moved(h, k, -step, tableau.b), _moved(a, k_a, -step, tableau.b), t - step  # eq. 3
        return None, None, None, None, a, *total


def _stages(f: Field, h: Tensor, t: Tensor, step: float | Tensor, tableau: Tableau) -> list[Tensor]:
    k: list[Tensor] = []
    for row, c in zip(((), *tableau.a), _times(tableau), strict=True):
        k.append(f(_moved(h, k, step, row), t + c * step))
    return k


def _moved(h: Tensor, k: list[Tensor], step: float | Tensor, weights: Sequence[float]) -> Tensor:
    """h + step Σ_i weights_i k_i."""
    terms = [weight * k_i for weight, k_i in zip(weights, k, strict=True) if weight]
    if not terms:
        return h
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return h + step * total


def _times(tableau: Tableau) -> list[float]:
    return [0.0, *(sum(row) for row in tableau.a)]


def _at(f: nn.Module, names: Sequence[str], t: Tensor) -> Callable[..., Tensor]:
    """f at time t, as a function of the state and the weights."""
    return lambda h, *weights: _with(f, names, weights)(h, t)


def _with(f: nn.Module, names: Sequence[str], weights: Sequence[Tensor]) -> Field:
    return lambda h, t: functional_call(f, dict(zip(names, weights, strict=True)), (h, t))
