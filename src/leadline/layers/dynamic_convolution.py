"""Dynamic convolution: a kernel of its own for every place, made from what stands there (Wu et al., 2019).

    u      = a * sigmoid(b),   [a; b] = W x + b₀                              a gated map               (1)
    w_{ih} = softmax(V_h u_i)                                                 n taps, for each head     (2)
    y_{ic} = Σ_t w_{ih,t} u_{i + t - r, c}                                    c a channel of head h     (3)
    out    = W_o y

As a matrix on the row (3) is a band: attention to neighbours, with weights from the query alone. Where r = (n - 1)/2
the kernel looks to both sides, under a causal mask r = n - 1 and it looks back only. Beyond the ends of the row stand
zeros, and their taps keep their weight.

Notation   W -> widen;  V -> taps;  W_o -> out;  n -> kernel;  r -> back
Shapes     x (B, T, D) -> (B, T, D)
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.attention import shares
from leadline.layers.mask_parts import cleared, parts
from leadline.layers.masks import Mask
from leadline.layers.positions import check_rows
from leadline.settings import whole


class DynamicConvolution(nn.Module):
    """Args:
        dim: D.
        num_heads: H, groups of channels that share a kernel.
        kernel: n; odd, unless causal.

    >>> import torch
    >>> DynamicConvolution(16, 4, kernel=3)(torch.zeros(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    def __init__(self, dim: int, num_heads: int, kernel: int = 7):
        super().__init__()
        self.dim = dim
        self.heads, _, self.dim_head = shares(dim, num_heads, None, None)
        self.kernel = whole("kernel", kernel)
        self.widen, self.out = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.taps = nn.Linear(dim, num_heads * kernel)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """Args:
        mask: Causal, Padding, both, or None.
        """
        check_rows(x, self.dim, "DynamicConvolution")
        causal, there = parts(mask, "DynamicConvolution", x)
        if not x.shape[1]:
            return x
        if not causal and self.kernel % 2 == 0:
            raise UserError(
                "a kernel that looks to both sides must be odd",
                got=f"kernel={self.kernel}",
                do=f"Nearest: {self.kernel - 1} or {self.kernel + 1}; or pass a causal mask",
            )
        u = cleared(F.glu(self.widen(x), -1), there)  # eq. 1
        w = self.taps(u).unflatten(-1, (self.heads, self.kernel)).softmax(-1)  # (B, T, H, n), eq. 2
        back = self.kernel - 1 if causal else self.kernel // 2
        near = F.pad(u, (0, 0, back, self.kernel - 1 - back)).unfold(1, self.kernel, 1)  # (B, T, D, n)
        y = (near.unflatten(2, (self.heads, -1)) * w[..., None, :]).sum(-1)  # eq. 3
        return self.out(y.flatten(2))
