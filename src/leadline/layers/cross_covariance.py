"""Cross-covariance attention: channels look at channels, through all places (Ali et al., 2021: XCiT).

    q̂, k̂  = q, k, each channel divided by its length over the places                                    (1)
    out_c = Σ_d softmax_d(τ_h q̂_c · k̂_d) v_d          c, d channels of head h;  products over places    (2)

The matrix is K x K for each head, whatever the number of places, and the cost is linear in that number. Every token
depends on all others of its row, so there is no causal form.

Notation   τ -> temperature
Shapes     x (B, T, D) -> (B, T, D)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.attention import SelfAttention, joined
from leadline.layers.mask_parts import parts
from leadline.layers.masks import Mask
from leadline.layers.positions import check_rows


class CrossCovariance(nn.Module):
    """Args:
        dim: D.
        num_heads: H.

    >>> CrossCovariance(16, 4)(torch.zeros(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    def __init__(self, dim: int, num_heads: int):
        super().__init__()
        self.attention = SelfAttention(dim, num_heads)
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """Args:
        mask: Padding, or None.
        """
        check_rows(x, self.attention.dim, "CrossCovariance")
        _, there = parts(mask, "CrossCovariance", x, causal=False)
        q, k, v = self.attention.queries_keys_values(x)
        if there is not None:
            q, k = (part.masked_fill(~there[:, None, :, None], 0.0) for part in (q, k))
        q, k = F.normalize(q, dim=2), F.normalize(k, dim=2)  # eq. 1
        weights = (self.temperature * (q.transpose(-1, -2) @ k)).softmax(-1)  # (B, H, K, K)
        return self.attention.out(joined(v @ weights.transpose(-1, -2)))  # eq. 2
