"""Linear recurrent unit: a linear recurrence in the basis in which its matrix is diagonal (Orvieto et al., 2023).

    h_t = λ * h_{t-1} + γ * (B x_t),        y_t = Re(C h_t) + D x_t                               (1)
    λ   = exp(-exp(ν) + i φ)                |λ| = exp(-exp(ν)) is never above 1                    (2)
    ν   = log(-log r),   r ~ U(radii),   φ ~ U(0, 2π)                       first λ: a ring        (3)
    γ   = √(1 - |λ|²)                       at first: white noise then gives states of one size    (4)

h, λ, B and C are complex, x and y real. Any z_t = A z_{t-1} + E x_t with A = P diag(λ) P⁻¹ is (1), of h = P⁻¹ z. All
steps are one scan. Nothing here is nonlinear: that is left to what stands after.

Notation   ν -> log_rate;  φ -> phase;  log γ -> log_scale;  B -> read, rows real and imaginary by turns;
           C -> write, columns real part and minus imaginary part by turns;  D -> through;  N states
Paper      draws |λ| so that λ is uniform on the ring's area, here |λ| itself is; learns log φ, here φ
Shapes     x (B, T, D) -> (B, T, D');  state (h,), h (B, N, 2), pairs of real and imaginary part;  there (B, T)
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.scan import scan_pairs, wide
from leadline.layers.steps_there import check_steps
from leadline.settings import whole

#: steps from which under mixed precision inputs and states of a scan are read and written in 16 bits, and added up in
#: 32. Rows that are shorter keep all of it in 32: a stream of single steps would be rounded at each
_LONG = 64


class LRU(nn.Module):
    """Args:
        dim: D.
        dim_output: D'; D by default.
        dim_state: N; D' by default.
        radii: between which |λ| lies at first, above 0 and below 1.

    >>> layer = LRU(3, 5, dim_state=4)
    >>> y, (h,) = layer(torch.zeros(2, 7, 3))
    >>> y.shape, h.shape, bool((layer.eigenvalues.abs() < 1).all())
    (torch.Size([2, 7, 5]), torch.Size([2, 4, 2]), True)
    """

    def __init__(
        self,
        dim: int,
        dim_output: int | None = None,
        dim_state: int | None = None,
        radii: tuple[float, float] = (0.5, 0.99),
    ):
        super().__init__()
        low, high = radii
        if not 0 < low <= high < 1:
            raise UserError(
                "radii must be above 0, below 1 and in order", got=f"radii={radii}", do="Take (0.5, 0.99), say"
            )
        self.dim = whole("dim", dim)
        self.dim_output = self.dim if dim_output is None else whole("dim_output", dim_output)
        N = self.dim_state = self.dim_output if dim_state is None else whole("dim_state", dim_state)
        r = low + (high - low) * torch.rand(N)
        self.log_rate = nn.Parameter((-r.log()).log())  # eq. 3
        self.phase = nn.Parameter(2 * math.pi * torch.rand(N))
        self.log_scale = nn.Parameter((1 - r.square()).log() / 2)  # eq. 4
        self.read = nn.Linear(self.dim, 2 * N, bias=False)
        self.write = nn.Linear(2 * N, self.dim_output, bias=False)
        self.through = nn.Linear(self.dim, self.dim_output)
        nn.init.normal_(self.read.weight, std=1 / math.sqrt(2 * self.dim))
        nn.init.normal_(self.write.weight, std=1 / math.sqrt(N))

    @property
    def eigenvalues(self) -> Tensor:
        """λ of eq. 2, (N,), complex."""
        return torch.view_as_complex(self._pairs().detach())

    def forward(
        self, x: Tensor, state: tuple[Tensor, ...] | None = None, there: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Every step, and the state after the last one that is there."""
        check_steps(self, x, state, there, width=(self.dim_state, 2))
        x = _lowered(x)
        scaled = self.read.weight * self.log_scale.exp().repeat_interleave(2)[:, None]  # γ B: far smaller than B x
        a, b = self._pairs(), F.linear(x, scaled)
        b = (b if x.shape[1] >= _LONG else wide(b)).unflatten(-1, (-1, 2))  # (N, 2), (B, T, N, 2)
        (first,) = state or (wide(b.new_zeros(len(b), self.dim_state, 2)),)
        if there is not None:
            has = there[..., None, None]
            one = torch.stack([torch.ones_like(self.phase), torch.zeros_like(self.phase)], -1)
            a, b = torch.where(has, a, one), b.masked_fill(~has, 0.0)
        h = scan_pairs(a, b, first)  # eq. 1
        y = self.write(h.flatten(2)) + self.through(x)
        last = wide(h[:, -1]) if h.shape[1] else first
        return y if there is None else y.masked_fill(~there[..., None], 0.0), (last,)

    def _pairs(self) -> Tensor:
        """λ as pairs, (N, 2)."""
        r = (-self.log_rate.exp()).exp()
        return torch.stack([r * self.phase.cos(), r * self.phase.sin()], -1)


def _lowered(x: Tensor) -> Tensor:
    """In the type of mixed precision, once for the two products that read it."""
    kind = x.device.type
    if x.dtype != torch.float32 or not torch.is_autocast_enabled(kind):
        return x
    return x.to(torch.get_autocast_dtype(kind))
