"""Gated recurrent unit, as torch defines it and on its kernels (Cho et al., 2014).

    r_t = s(W_r x_t + b_r + U_r h_{t-1} + c_r)                        reset                     (1)
    u_t = s(W_u x_t + b_u + U_u h_{t-1} + c_u)                        keep                      (2)
    n_t = tanh(W_n x_t + b_n + r_t * (U_n h_{t-1} + c_n))             candidate                 (3)
    h_t = u_t * h_{t-1} + (1 - u_t) * n_t,     y_t = h_t                                        (4)

In (3) the reset gate acts after the matrix; in `leadline.layers.lecture_gru` before it. The two are different
functions, unless U_n is diagonal. A row of one step takes no kernel of whole rows: it is two products and what follows.

Notation   s the sigmoid;  W_r, W_u, W_n, one above the other -> kernel.weight_ih_l0, U -> kernel.weight_hh_l0,
           b -> kernel.bias_ih_l0, c -> kernel.bias_hh_l0: the names of torch.nn.GRU, whose state fits `kernel`
Shapes     x (B, T, D) -> (B, T, D');  state (h,), h (B, D');  there (B, T)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.half import guarded
from leadline.layers.kernel_weights import weights_for, weights_of
from leadline.layers.steps_there import State, at_last, check_steps, closed, loop, put_back
from leadline.settings import whole


class GRU(nn.Module):
    """Args:
        dim: D.
        dim_output: D', units; D by default.
        bias: b and c.

    >>> y, (h,) = GRU(3, 5)(torch.zeros(2, 7, 3))
    >>> y.shape, h.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 5]))
    """

    def __init__(self, dim: int, dim_output: int | None = None, bias: bool = True):
        super().__init__()
        self.dim = whole("dim", dim)
        self.dim_output = self.dim if dim_output is None else whole("dim_output", dim_output)
        self.kernel: Any = nn.GRU(self.dim, self.dim_output, bias=bias, batch_first=True)

    def forward(self, x: Tensor, state: State | None = None, there: Tensor | None = None) -> tuple[Tensor, State]:
        """Every step, and the state after the last one that is there."""
        check_steps(self, x, state, there)
        x = x.to(self.kernel.weight_ih_l0.dtype)
        (h,) = state or (x.new_zeros(len(x), self.dim_output),)
        if x.shape[1] < 2:
            return loop(self._step, x, (h.to(x.dtype),), there)
        if there is None:
            y, last = self._run(x, h)
            return y, (last,)
        x, order = closed(x, there)
        y, _ = self._run(x, h)
        return put_back(y, order, there), (at_last(y, there, h),)

    def _step(self, x: Tensor, state: State) -> State:
        """Eqs. 1 to 4 of one step, the state in its own precision."""
        (W, U, *offsets), (h,) = weights_of(self.kernel), state
        if not x.is_cuda:
            return (torch.gru_cell(x, h, W, U, *offsets),)
        read, kept = F.linear(x, W), F.linear(h, U)
        with torch.autocast("cuda", enabled=False):  # all that follows the products is one kernel, as in gru_cell
            h, _ = torch.ops.aten._thnn_fused_gru_cell(read.to(h.dtype), kept.to(h.dtype), h, *offsets)
        return (h,)

    def _run(self, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        """Every step, and the last state."""

        def kernel(x: Tensor, h: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
            first, bias = h[None].contiguous(), len(weights) == 4
            y, last = torch.gru(x, first, weights, bias, 1, 0.0, self.training, False, True)
            return y, last[0]

        return guarded(kernel, x, h, *weights_for(self.kernel))
