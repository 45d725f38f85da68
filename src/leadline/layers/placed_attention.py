"""Attention in which places decide who looks at whom, and never mix into what is handed on.

    q, k = W_q (x + π) + b_q, W_k (x + π) + b_k,   v = W_v x + b_v                  placed         (1)
    score_{ij} = (q_i · k_j + u_i · w_j) / √(2K),   u, w = U_q π, U_k π             untied         (2)

(1) puts places into queries and keys alone. Its score expands to four products: content with content, content with
place twice, place with place. (2) keeps the first and the last, each with maps of its own (Ke et al., 2020); they are
computed as one product of vectors twice as wide.

Notation   π -> positions;  U_q, U_k -> place
Shapes     x (B, T, D) -> (B, T, D);  positions (length, D)
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.attend import attend
from leadline.layers.attention import SelfAttention, in_heads, joined
from leadline.layers.masks import Mask
from leadline.layers.positions import check_places, check_rows
from leadline.settings import whole


class PlacedAttention(nn.Module):
    """Eq. 1.

    Args:
        dim: D.
        num_heads: H.
        length: most places.

    >>> PlacedAttention(16, 4, length=8)(torch.zeros(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    def __init__(self, dim: int, num_heads: int, length: int):
        super().__init__()
        self.attention = SelfAttention(dim, num_heads)
        self.positions = nn.Parameter(torch.randn(whole("length", length), dim) * 0.02)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        check_rows(x, self.attention.dim, "PlacedAttention")
        check_places(x, len(self.positions))
        attention = self.attention
        width = 2 * attention.heads * attention.dim_head
        weight, bias = attention.query_key_value.weight, attention.query_key_value.bias
        placed = F.linear(x + self.positions[: x.shape[1]], weight[:width], bias[:width])
        v = F.linear(x, weight[width:], bias[width:])
        q, k, v = (in_heads(part, attention.dim_head) for part in (*placed.chunk(2, -1), v))
        return attention.out(joined(attend(q, k, v, mask)))


class UntiedAttention(nn.Module):
    """Eq. 2.

    Args:
        dim: D.
        num_heads: H.
        length: most places.

    >>> UntiedAttention(16, 4, length=8)(torch.zeros(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    def __init__(self, dim: int, num_heads: int, length: int):
        super().__init__()
        self.attention = SelfAttention(dim, num_heads)
        self.positions = nn.Parameter(torch.randn(whole("length", length), dim))
        self.place = nn.Linear(dim, 2 * dim, bias=False)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        check_rows(x, self.attention.dim, "UntiedAttention")
        check_places(x, len(self.positions))
        q, k, v = self.attention.queries_keys_values(x)
        places = self.place(self.positions[: x.shape[1]])[None].chunk(2, -1)
        u, w = (in_heads(part, self.attention.dim_head).expand_as(q) for part in places)
        scale = 1 / math.sqrt(2 * self.attention.dim_head)
        out = attend(torch.cat([q, u], -1), torch.cat([k, w], -1), v, mask, scale=scale)  # eq. 2
        return self.attention.out(joined(out))
