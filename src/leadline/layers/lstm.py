"""Long short-term memory, as torch defines it and on its kernels (Hochreiter and Schmidhuber, 1997; Gers, 2000).

    i, f, g, o = s, s, tanh, s of W x_t + b + U h_{t-1} + c           write, keep, candidate, show    (1)
    z_t = f * z_{t-1} + i * g                                         the cell                        (2)
    h_t = o * tanh(z_t),     y_t = h_t                                                                (3)

The kernels hand back the cell of the last step alone, which of a shorter row is padding. There one more channel of the
input, 1 at steps that are not there, takes f to 1 and i to 0, exactly: the cell stays as it is. A row of one step takes
no such kernel: it is two products and what follows them.

Notation   s the sigmoid;  W (four blocks, one above the other) -> kernel.weight_ih_l0, U -> kernel.weight_hh_l0,
           b -> kernel.bias_ih_l0, c -> kernel.bias_hh_l0: the names of torch.nn.LSTM, whose state fits `kernel`
Paper      b of the gate f begins at 1, so that a new network keeps (Jozefowicz et al., 2015); torch's begins near 0
Shapes     x (B, T, D) -> (B, T, D');  state (h, z), (B, D') each;  there (B, T)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.half import guarded
from leadline.layers.kernel_weights import in_one_piece, weights_for, weights_of
from leadline.layers.steps_there import State, at_last, check_steps, closed, loop, put_back
from leadline.settings import whole

_HOLD = 1e4  # whose sigmoid is 1 and that of its negative 0, to the last bit, and that is finite in 16 bits too


class LSTM(nn.Module):
    """Args:
        dim: D.
        dim_output: D', units; D by default.
        bias: b and c.

    >>> y, (h, z) = LSTM(3, 5)(torch.zeros(2, 7, 3))
    >>> y.shape, h.shape, z.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 5]), torch.Size([2, 5]))
    """

    def __init__(self, dim: int, dim_output: int | None = None, bias: bool = True):
        super().__init__()
        self.dim = whole("dim", dim)
        self.dim_output = self.dim if dim_output is None else whole("dim_output", dim_output)
        self.kernel: Any = nn.LSTM(self.dim, self.dim_output, bias=bias, batch_first=True)
        if bias:
            _, keep, _, _ = self.kernel.bias_ih_l0.data.chunk(4)  # type: ignore[operator]
            nn.init.ones_(keep)

    def forward(self, x: Tensor, state: State | None = None, there: Tensor | None = None) -> tuple[Tensor, State]:
        """Every step, and hidden units and cell after the last one that is there."""
        check_steps(self, x, state, there, parts=2)
        x = x.to(self.kernel.weight_ih_l0.dtype)
        nothing = x.new_zeros(len(x), self.dim_output)
        h, z = state or (nothing, nothing)
        if x.shape[1] < 2:
            return loop(self._step, x, (h.to(x.dtype), z.to(x.dtype)), there)
        if there is None:
            y, h, z = self._run(x, h, z, weights_for(self.kernel))
            return y, (h, z)
        x, order = closed(x, there)
        y, z = self._holding(x, h, z, there.gather(1, order))
        return put_back(y, order, there), (at_last(y, there, h), z)

    def _step(self, x: Tensor, state: State) -> State:
        """Eqs. 1 to 3 of one step, the cell in its own precision."""
        (W, U, *offsets), (h, z) = weights_of(self.kernel), state
        if not x.is_cuda:
            return torch.lstm_cell(x, (h, z), W, U, *offsets)
        read, kept = F.linear(x, W), F.linear(h, U)
        with torch.autocast("cuda", enabled=False):  # all that follows the products is one kernel, as in lstm_cell
            h, z, _ = torch.ops.aten._thnn_fused_lstm_cell(read.to(z.dtype), kept.to(z.dtype), z, *offsets)
        return h, z

    def _holding(self, x: Tensor, h: Tensor, z: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
        """Every step, and the cell, which steps that are not there leave as it is."""
        (W, *others), D = weights_of(self.kernel), self.dim_output
        hold = torch.cat([W.new_full((D, 1), -_HOLD), W.new_full((D, 1), _HOLD), W.new_zeros(2 * D, 1)])
        x = torch.cat([x, (~there)[..., None].to(x.dtype)], -1)
        y, _, cell = self._run(x, h, z, in_one_piece([torch.cat([W, hold], 1), *others]))
        return y, cell

    def _run(self, x: Tensor, h: Tensor, z: Tensor, weights: list[Tensor]) -> tuple[Tensor, ...]:
        """Every step, and the last hidden units and cell."""

        def kernel(x: Tensor, h: Tensor, z: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
            first, bias = (h[None].contiguous(), z[None].contiguous()), len(weights) == 4
            y, h, z = torch.lstm(x, first, weights, bias, 1, 0.0, self.training, False, True)
            return y, h[0], z[0]

        return guarded(kernel, x, h, z, *weights)
