"""Attention on fewer keys: keys and values are mixed along the row into R summaries (Wang et al., 2020: Linformer).

    k' = E k,   v' = F v                             E, F: (R, length), the same for all heads         (1)
    out = softmax(q k'ᵀ / √K) v'                     T R scores in place of T²                         (2)

Every summary holds something of every place, so there is no causal form. Places that only fill their row enter as 0.

Notation   E -> mix_keys;  F -> mix_values
Shapes     x (B, T, D) -> (B, T, D), T <= length
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from leadline.layers.attend import attend
from leadline.layers.attention import SelfAttention, in_heads, joined
from leadline.layers.mask_parts import cleared, parts
from leadline.layers.masks import Mask
from leadline.layers.positions import check_places, check_rows
from leadline.settings import whole


class LowRankAttention(nn.Module):
    """Args:
        dim: D.
        num_heads: H.
        length: most places.
        rank: R, from 1 to length.

    >>> LowRankAttention(16, 4, length=10, rank=3)(torch.zeros(2, 8, 16)).shape
    torch.Size([2, 8, 16])
    """

    def __init__(self, dim: int, num_heads: int, length: int, rank: int):
        super().__init__()
        self.attention = SelfAttention(dim, num_heads)
        R = whole("rank", rank, 1, whole("length", length))
        self.mix_keys = nn.Parameter(torch.randn(R, length) / math.sqrt(length))
        self.mix_values = nn.Parameter(torch.randn(R, length) / math.sqrt(length))

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """Args:
        mask: Padding, or None.
        """
        check_rows(x, self.attention.dim, "LowRankAttention")
        check_places(x, self.mix_keys.shape[1])
        T = x.shape[1]
        _, there = parts(mask, "LowRankAttention", x, causal=False)
        q, k, v = self.attention.query_key_value(x).chunk(3, -1)
        k = self.mix_keys[:, :T] @ cleared(k, there)  # (B, R, D), eq. 1
        v = self.mix_values[:, :T] @ cleared(v, there)
        q, k, v = (in_heads(part, self.attention.dim_head) for part in (q, k, v))
        return self.attention.out(joined(attend(q, k, v)))  # eq. 2
