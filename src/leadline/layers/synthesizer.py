"""Attention whose weights never compare two tokens (Tay et al., 2021: Synthesizer).

    dense    score_i = W₂ relu(W₁ x_i + b₁) + b₂             a row of scores from its own token alone        (1)
    random   score_{ij} = R_{ij}                             the same for every input, learned               (2)
    fixed    (2), drawn once and never learned                                                               (3)
    out_i  = Σ_j softmax_j(score_{ij}) v_j                                                                   (4)

Notation   W₁ -> widen;  W₂ -> narrow;  R -> table
Shapes     x (B, T, D) -> (B, T, D), T <= length;  table (H, length, length)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.layers.attention import in_heads, joined, shares
from leadline.layers.masked_softmax import masked_softmax
from leadline.layers.masks import Mask, check_rule
from leadline.layers.positions import check_places, check_rows
from leadline.names import lookup
from leadline.settings import whole

KINDS = {"dense": "dense", "random": "random", "fixed": "fixed"}


class Synthesizer(nn.Module):
    """Args:
        dim: D.
        num_heads: H.
        length: most places.
        kind: dense, random or fixed.

    >>> Synthesizer(16, 4, length=8)(torch.zeros(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    table: Tensor

    def __init__(self, dim: int, num_heads: int, length: int, kind: str = "dense"):
        super().__init__()
        self.dim = dim
        self.heads, _, self.dim_head = shares(dim, num_heads, None, None)
        self.length, self.kind = whole("length", length), lookup(kind, KINDS, "kind")
        self.value, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)
        if self.kind == "dense":
            self.widen, self.narrow = nn.Linear(dim, dim), nn.Linear(dim, num_heads * length)
        elif self.kind == "random":
            self.table = nn.Parameter(torch.randn(num_heads, length, length))
        else:
            self.register_buffer("table", torch.randn(num_heads, length, length))

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        check_rows(x, self.dim, "Synthesizer")
        check_places(x, self.length)
        B, T, _ = x.shape
        scores = self.scores(x)
        if mask is not None:
            check_rule(mask)
        weights = scores.softmax(-1) if mask is None else masked_softmax(scores, mask.dense(B, T, T, x.device))
        return self.out(joined(weights @ in_heads(self.value(x), self.dim_head)))  # eq. 4

    def scores(self, x: Tensor) -> Tensor:
        """Eqs. 1 to 3, (1 or B, H, T, T)."""
        T = x.shape[1]
        if self.kind != "dense":
            return self.table[None, :, :T, :T]
        return in_heads(self.narrow(self.widen(x).relu()), self.length)[..., :T]
