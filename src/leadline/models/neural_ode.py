"""Neural ODE: a residual network of infinitely many layers, each infinitely thin (Chen et al., 2018).

    residual   h_{k+1} = h_k + f_k(h_k)                                                        (1)
    ODE        dh/dt = f(h, t),   h(0) = [x, 0],   0 <= t <= 1                                 (2)
    output     β + Ω h(1),   or h(1) itself                                                    (3)

f is one network of the state and the time. Solutions of (2) never cross, so x -> h(1) is a bijection that keeps the
order on a line: without the head of (3), x -> -x is out of reach. `extra` coordinates, 0 at the start, give ways to
pass by (Dupont et al., 2019).

Notation   f -> field;  Ω, β -> read_out;  solvers, and the two gradients, in `leadline.layers.ode`
Paper      its solver is adaptive; here that is `solver="adaptive(1e-5)"`, and even steps of rk4 are the default: the
           same work for every row, which can be compiled
Shapes     x (B, dim_input) -> (B, dim_output); further axes of x are flattened
Train it   leadline train mnist1d --model NeuralODE --extra 8
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.activation import activation as make_activation
from leadline.layers.activation import widening
from leadline.layers.ode import TABLEAUX, Steps, adaptive_steps, adjoint, integrate
from leadline.models.sizes import check_sizes, check_widths
from leadline.names import bracketed, lookup
from leadline.settings import given, real, whole


class NeuralODE(nn.Module, Configured):
    """Args:
        dim_input, dim_output: widths, at least 1.
        hidden: widths of the hidden layers of f, at least 1 each.
        extra: coordinates of the state beside x, at least 0.
        solver: "euler", "midpoint" or "rk4" with the number of steps in brackets (8 without), or "adaptive" with its
            tolerance (1e-5 without).
        adjoint: whether the gradient is that of the adjoint equation, which keeps no stage.
        head: whether a linear map `read_out` ends it; without, the output is the first dim_output coordinates of h(1).
        activation: a name in `leadline.layers.activation.ACTIVATIONS`; a smooth one makes a smooth flow.

    >>> NeuralODE(40, 10, solver="adaptive(1e-4)")(torch.zeros(5, 40)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int = 1,
        hidden: Sequence[int] = (64, 64),
        extra: int = 0,
        solver: str = "rk4(8)",
        adjoint: bool = False,
        head: bool = True,
        activation: str = "tanh",
    ):
        super().__init__()
        check_sizes("NeuralODE", dim_input=dim_input, dim_output=dim_output)
        check_widths("NeuralODE", hidden)
        self.dim_input, self.dim_output, self.hidden = dim_input, dim_output, tuple(hidden)
        self.extra = whole("extra", extra, 0, usual=1)
        self.solver, self.adjoint, self.activation = solver, adjoint, activation
        self._method, self._number = _read_solver(solver)
        width = dim_input + self.extra
        if not head and dim_output > width:
            raise UserError(
                "NeuralODE: without head, dim_output must be at most dim_input + extra",
                got=f"dim_output={dim_output}, dim_input={dim_input}, extra={self.extra}",
                do=f"Pass extra={dim_output - dim_input}, or head=True",
            )
        self.head = head
        self.field = _Field(width, hidden, activation)
        self.read_out = nn.Linear(width, dim_output) if head else None

    @classmethod
    def tiny(cls) -> NeuralODE:
        return cls(3, 2, hidden=(5,), extra=1, solver="rk4(2)")

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.dim_input,)

    def forward(self, x: Tensor) -> Tensor:
        h = self.flow(x)
        return h[:, : self.dim_output] if self.read_out is None else self.read_out(h)  # eq. 3

    def flow(self, x: Tensor) -> Tensor:
        """The state h(1) of each row, (B, dim_input + extra)."""
        x = x.flatten(1)
        h = torch.cat([x, x.new_zeros(len(x), self.extra)], dim=1) if self.extra else x
        steps: Steps
        if self._method == "adaptive":
            steps = adaptive_steps(self.field, h, self._number)
        else:
            steps = [1 / self._number] * int(self._number)
        return (adjoint if self.adjoint else integrate)(self.field, h, steps, self._method)  # eq. 2


class _Field(nn.Module):
    def __init__(self, width: int, hidden: Sequence[int], activation: str):
        super().__init__()
        self.layers, dim = nn.Sequential(), width + 1
        for units in hidden:
            a = make_activation(activation)
            self.layers.extend([nn.Linear(dim, units), a])
            dim = units * widening(a)
        self.layers.append(nn.Linear(dim, width))

    def forward(self, h: Tensor, t: Tensor) -> Tensor:
        return self.layers(torch.cat([h, t], dim=1))


def _read_solver(solver: str) -> tuple[str, float]:
    """The name of a solver, and its number of steps or its tolerance."""
    word, numbers = bracketed(solver, "solver")
    name = lookup(word, {known: known for known in TABLEAUX}, "solver")
    if len(numbers) > 1:
        raise UserError("a solver takes one number", got=given("solver", solver), do=f"Write {name}(8)")
    if name == "adaptive":
        return name, real("tolerance of solver adaptive", numbers[0] if numbers else 1e-5, 0, above=True, usual=1e-5)
    count = numbers[0] if numbers else 8
    return name, whole(f"steps of solver {name}", int(count) if count == int(count) else count, usual=8)
