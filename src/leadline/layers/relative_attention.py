"""Attention that knows how far apart a query and a key are (Shaw et al., 2018; Huang et al., 2020).

    add        score_{ij} = q_i · k_j / √K + r_{h,o}                       one number a head and offset        (1)
    multiply   score_{ij} = r_{h,o} q_i · k_j / √K                                                             (2)
    vectors    score_{ij} = q_i · (k_j + a_o) / √K                         one vector an offset, all heads     (3)
    waves      (3) with a_o = the sinusoids of `positions` at o, fixed     (Wei et al., 2019)                  (4)

    o = clip(j - i, -furthest, furthest)                                                                       (5)

Shaw adds such vectors to the values too and finds that it brings nothing; that is left out. At the start (1) and (2)
are attention without positions: r = 0, and r = 1.

Notation   r, a -> table
Shapes     x (B, T, D) -> (B, T, D);  table (2·furthest + 1, H or K)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from leadline.layers.attend import attend
from leadline.layers.attention import SelfAttention, joined
from leadline.layers.masks import Mask
from leadline.layers.positions import sinusoids
from leadline.names import lookup
from leadline.settings import whole

MODES = {"add": "add", "multiply": "multiply", "vectors": "vectors", "waves": "waves"}


class RelativeAttention(nn.Module):
    """Args:
        dim: D.
        num_heads: H.
        furthest: the largest offset that is told from larger ones.
        mode: add, multiply, vectors or waves.
        p_drop: of an attention weight, while training.
        site: tells this layer's noise from that of others.

    >>> RelativeAttention(16, 4, furthest=8)(torch.zeros(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    table: Tensor

    def __init__(self, dim: int, num_heads: int, furthest: int, mode: str = "add", p_drop: float = 0.0, site: int = 0):
        super().__init__()
        self.attention = SelfAttention(dim, num_heads, p_drop=p_drop, site=site)
        self.furthest, self.mode = whole("furthest", furthest), lookup(mode, MODES, "mode")
        offsets = torch.arange(-furthest, furthest + 1)
        first = {
            "add": lambda: torch.zeros(len(offsets), num_heads),
            "multiply": lambda: torch.ones(len(offsets), num_heads),
            "vectors": lambda: torch.randn(len(offsets), self.attention.dim_head) * 0.02,
            "waves": lambda: sinusoids(offsets, self.attention.dim_head),
        }[self.mode]()
        if self.mode == "waves":
            self.register_buffer("table", first)
        else:
            self.table = nn.Parameter(first)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        q, k, v = self.attention.queries_keys_values(x)
        p_drop = self.attention.p_drop if self.training else 0.0
        out = attend(q, k, v, mask, self.bias(q, k), p_drop=p_drop, site=self.attention.site)
        return self.attention.out(joined(out))

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        """What the scores have beside q · k / √K, (1 or B, H, T, S)."""
        i, j = (torch.arange(part.shape[2], device=q.device) for part in (q, k))
        o = (j - i[:, None]).clamp(-self.furthest, self.furthest) + self.furthest  # (T, S), eq. 5
        if self.mode == "add":
            return self.table[o].movedim(-1, 0)[None]  # eq. 1
        if self.mode == "multiply":
            more = self.table[o].movedim(-1, 0) - 1
            return more * (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])  # eq. 2
        every = q @ self.table.T.to(q.dtype)  # (B, H, T, offsets)
        return every.gather(-1, o.expand(*q.shape[:2], *o.shape)) / math.sqrt(q.shape[-1])  # eqs. 3, 4
