"""Elman's recurrent network: the state is an activation of the input and of the state before (Elman, 1990).

    z_t = a(U z_{t-1} + V x_t + b),     z_0 = 0,     y_t = z_t                            (1)
    ‖∂z_i/∂z_t‖ <= (α σ₁(U))^{i-t}      |a'| <= α: 1 of tanh and ReLU                      (2)

Where σ₁(U) < 1/α the past fades: (2) goes to 0. That the bound grows, σ₁(U) > 1/α, is necessary for gradients that
explode, and does not suffice. A row of one step takes no kernel of whole rows: it is two products and their activation.

Notation   U -> kernel.weight_hh_l0, V -> kernel.weight_ih_l0, b -> the sum of kernel.bias_ih_l0 and kernel.bias_hh_l0:
           the names of torch.nn.RNN, whose state fits `kernel`;  σ₁ the largest singular value
Shapes     x (B, T, D) -> (B, T, D');  state (z,), z (B, D');  there (B, T)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.half import guarded
from leadline.layers.kernel_weights import weights_for, weights_of
from leadline.layers.steps_there import State, at_last, check_steps, closed, loop, put_back
from leadline.settings import given, whole

ACTIVATIONS = ("tanh", "relu")


class Elman(nn.Module):
    """Args:
        dim: D.
        dim_output: D', units; D by default.
        activation: a, "tanh" or "relu".
        bias: b.

    >>> y, (z,) = Elman(3, 5)(torch.zeros(2, 7, 3))
    >>> y.shape, z.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 5]))
    """

    def __init__(self, dim: int, dim_output: int | None = None, activation: str = "tanh", bias: bool = True):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UserError(
                "activation of Elman must be tanh or relu",
                got=given("activation", activation),
                do="Use DeepTransition for others",
            )
        self.dim = whole("dim", dim)
        self.dim_output = self.dim if dim_output is None else whole("dim_output", dim_output)
        self.kernel: Any = nn.RNN(self.dim, self.dim_output, nonlinearity=activation, bias=bias, batch_first=True)

    def forward(self, x: Tensor, state: State | None = None, there: Tensor | None = None) -> tuple[Tensor, State]:
        """Every step, and the state after the last one that is there."""
        check_steps(self, x, state, there)
        x = x.to(self.kernel.weight_ih_l0.dtype)
        (z,) = state or (x.new_zeros(len(x), self.dim_output),)
        if x.shape[1] < 2:
            return loop(self._step, x, (z.to(x.dtype),), there)
        if there is None:
            y, last = self._run(x, z)
            return y, (last,)
        x, order = closed(x, there)
        y, _ = self._run(x, z)
        return put_back(y, order, there), (at_last(y, there, z),)

    def _step(self, x: Tensor, state: State) -> State:
        """Eq. 1 of one step, the state in its own precision."""
        (V, U, *offsets), (z,) = weights_of(self.kernel), state
        b, c = offsets or (None, None)
        a = F.linear(x, V, b).to(z.dtype) + F.linear(z, U, c).to(z.dtype)
        return (a.tanh() if self.kernel.nonlinearity == "tanh" else a.relu(),)

    def _run(self, x: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        """Every step, and the last state."""

        def kernel(x: Tensor, z: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
            run = torch.rnn_tanh if self.kernel.nonlinearity == "tanh" else torch.rnn_relu
            first, bias = z[None].contiguous(), len(weights) == 4
            y, last = run(x, first, weights, bias, 1, 0.0, self.training, False, True)  # eq. 1
            return y, last[0]

        return guarded(kernel, x, z, *weights_for(self.kernel))
