"""A GRU whose gates read only the input, so that all steps are one scan (Feng et al., 2024).

    u_t = s(G x_t)                                        keep                       (1)
    z_t = u_t * z_{t-1} + (1 - u_t) * V x_t,              y_t = z_t                  (2)

Given x, (2) is linear in z: `leadline.layers.scan` computes it in parallel over time. A state is a weighted mean of
values V x, and of the first state, with weights that add up to 1.

Notation   s the sigmoid;  G, V, one above the other -> gate_value
Paper      its gate is 1 - u, of what is new
Shapes     x (B, T, D) -> (B, T, D');  state (z,), z (B, D');  there (B, T)
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.layers.scan import gated_scan, wide
from leadline.layers.steps_there import check_steps
from leadline.settings import whole


class MinGRU(nn.Module):
    """Args:
        dim: D.
        dim_output: D', units; D by default.
        bias: of G and V.

    >>> import torch
    >>> y, (z,) = MinGRU(3, 5)(torch.zeros(2, 7, 3))
    >>> y.shape, z.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 5]))
    """

    def __init__(self, dim: int, dim_output: int | None = None, bias: bool = True):
        super().__init__()
        self.dim = whole("dim", dim)
        self.dim_output = self.dim if dim_output is None else whole("dim_output", dim_output)
        self.gate_value = nn.Linear(self.dim, 2 * self.dim_output, bias)

    def forward(
        self, x: Tensor, state: tuple[Tensor, ...] | None = None, there: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Every step, and the state after the last one that is there."""
        check_steps(self, x, state, there)
        gate, value = wide(self.gate_value(x)).chunk(2, -1)
        return gated_scan(gate, value, state, there)  # eqs. 1 and 2
