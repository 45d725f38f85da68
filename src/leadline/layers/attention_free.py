"""Attention-free transformer: an average of values for each channel alone, with no scores of pairs (Zhai et al., 2021).

    out_i = sigmoid(q_i) * Σ_j exp(k_j + w_{ij}) * v_j / Σ_j exp(k_j + w_{ij})          all products by channel     (1)
    full     w = A Bᵀ, of low rank, learned                                                                         (2)
    simple   w = 0: one average for all queries, in linear time                                                     (3)

(1) is two products of exp(w) with a matrix as wide as the values. k is taken less its largest value in each channel,
which cancels but for the last digits, where it is causal too.

Notation   A -> rows;  B -> columns
Shapes     x (B, T, D) -> (B, T, D);  w (T, T)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.layers.mask_parts import parts
from leadline.layers.masks import Mask
from leadline.layers.positions import check_places
from leadline.settings import whole


class AttentionFree(nn.Module):
    """Args:
        dim: D.
        length: most places.
        rank: columns of A and B; 0 is eq. 3.

    >>> AttentionFree(16, length=8)(torch.zeros(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    def __init__(self, dim: int, length: int, rank: int = 16):
        super().__init__()
        self.query_key_value, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.rank = whole("rank", rank, 0)
        if rank:
            self.rows = nn.Parameter(torch.randn(whole("length", length), rank) * 0.02)
            self.columns = nn.Parameter(torch.randn(length, rank) * 0.02)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """Args:
        mask: Causal, Padding, both, or None.
        """
        if self.rank:
            check_places(x, len(self.rows))
        causal, there = parts(mask, "AttentionFree", x)
        q, k, v = self.query_key_value(x).chunk(3, -1)
        if there is not None:
            k = k.masked_fill(~there[..., None], torch.finfo(k.dtype).min)
        e = (k - k.amax(1, keepdim=True).detach()).exp()
        e = e if there is None else e * there[..., None]
        above, below = self.summed(e * v, causal), self.summed(e, causal)
        found = torch.where(below > 0, above / torch.where(below > 0, below, 1.0), 0.0)
        return self.out(q.sigmoid() * found)  # eq. 1

    def summed(self, e: Tensor, causal: bool) -> Tensor:
        """Σ_j exp(w_ij) e_j."""
        T = e.shape[1]
        if not self.rank:
            return e.cumsum(1) if causal else e.sum(1, keepdim=True)
        w = self.rows[:T] @ self.columns[:T].T  # eq. 2
        factors = (w - w.amax().detach()).exp()
        return (factors.tril() if causal else factors) @ e
