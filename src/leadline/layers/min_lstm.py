"""An LSTM whose gates read only the input, so that all steps are one scan (Feng et al., 2024).

    f_t = s(F x_t),   i_t = s(G x_t)                      forget, write                              (1)
    u_t = f_t / (f_t + i_t)                               so that what is kept and written adds to 1  (2)
    z_t = u_t * z_{t-1} + (1 - u_t) * V x_t,              y_t = z_t                                  (3)

(2) is s(log f_t - log i_t), which is how it is computed: no quotient of two numbers near 0. There is no output gate
and no second state.

Notation   s the sigmoid;  F, G, V, one above the other -> gates_value
Shapes     x (B, T, D) -> (B, T, D');  state (z,), z (B, D');  there (B, T)
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.scan import gated_scan, wide
from leadline.layers.steps_there import check_steps
from leadline.settings import whole


class MinLSTM(nn.Module):
    """Args:
        dim: D.
        dim_output: D', units; D by default.
        bias: of F, G and V.

    >>> import torch
    >>> y, (z,) = MinLSTM(3, 5)(torch.zeros(2, 7, 3))
    >>> y.shape, z.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 5]))
    """

    def __init__(self, dim: int, dim_output: int | None = None, bias: bool = True):
        super().__init__()
        self.dim = whole("dim", dim)
        self.dim_output = self.dim if dim_output is None else whole("dim_output", dim_output)
        self.gates_value = nn.Linear(self.dim, 3 * self.dim_output, bias)

    def forward(
        self, x: Tensor, state: tuple[Tensor, ...] | None = None, there: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Every step, and the state after the last one that is there."""
        check_steps(self, x, state, there)
        forget, write, value = wide(self.gates_value(x)).chunk(3, -1)
        gate = F.logsigmoid(forget) - F.logsigmoid(write)  # eq. 2
        return gated_scan(gate, value, state, there)
