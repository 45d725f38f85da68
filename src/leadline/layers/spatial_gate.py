"""A gated network in place of attention: tokens are multiplied by a mixture of the others (Liu et al., 2021: gMLP).

    [u; v] = gelu(W₁ x + b₁)                                                                        (1)
    out    = W₂ (u * (S norm(v) + s)) + b₂              S mixes places, the same for every input    (2)

At the start S is near 0 and s is 1, so every token passes alone. Under a causal mask S is lower triangular.

Notation   W₁ -> widen;  W₂ -> narrow;  S -> mix;  s -> shift
Shapes     x (B, T, D) -> (B, T, D), T <= length
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.mask_parts import cleared, parts
from leadline.layers.masks import Mask
from leadline.layers.positions import check_places, check_rows
from leadline.settings import whole


class SpatialGate(nn.Module):
    """Args:
        dim: D.
        dim_hidden: width of u and of v.
        length: most places.

    >>> SpatialGate(16, 32, length=8)(torch.zeros(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    def __init__(self, dim: int, dim_hidden: int, length: int):
        super().__init__()
        self.dim = dim
        whole("dim", dim), whole("dim_hidden", dim_hidden)
        self.widen, self.narrow = nn.Linear(dim, 2 * dim_hidden), nn.Linear(dim_hidden, dim)
        self.norm = nn.LayerNorm(dim_hidden)
        self.mix = nn.Parameter(torch.randn(whole("length", length), length) * 1e-3)
        self.shift = nn.Parameter(torch.ones(length))

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """Args:
        mask: Causal, Padding, both, or None.
        """
        check_rows(x, self.dim, "SpatialGate")
        check_places(x, len(self.mix))
        T = x.shape[1]
        causal, there = parts(mask, "SpatialGate", x)
        u, v = F.gelu(self.widen(x)).chunk(2, -1)  # eq. 1
        mix = self.mix[:T, :T].tril() if causal else self.mix[:T, :T]
        gate = mix @ cleared(self.norm(v), there) + self.shift[:T, None]
        return self.narrow(u * gate)  # eq. 2
