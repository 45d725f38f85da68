"""Attention between the members of sets, without places (Lee et al., 2019).

    MAB(X, Y)  = N(H + F(H)),   H = N(X + Attention(X, Y, Y))                                                     (1)
    SAB(X)     = MAB(X, X)                                      each member looks at each: M² products             (2)
    ISAB(X)    = MAB(X, MAB(I, X))                              through K learned members I: 2 K M products         (3)
    PMA(X)     = MAB(S, X)                                      K learned members S ask the set: a pooling          (4)

Nobody looks at members that are not there.

Notation   N -> norm;  F -> feed_forward;  Attention -> attention;  I, S -> seeds
Paper      F has one hidden layer here, twice as wide; (4) has a further F on X there
Shapes     x (B, M, D), there (B, M) -> (B, M, D);  PMA -> (B, K, D)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.layers.attention import CrossAttention
from leadline.layers.feed_forward import FeedForward
from leadline.layers.masks import Padding
from leadline.layers.sublayer import Sublayer
from leadline.settings import whole


class SetAttention(nn.Module):
    """Eq. 1, the members of one set among those of another; of a set among its own it is eq. 2.

    Args:
        dim: D.
        num_heads: of attention; D must be a multiple.

    >>> SetAttention(8, 2)(torch.zeros(1, 3, 8), torch.zeros(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, dim: int, num_heads: int = 4):
        super().__init__()
        self.attention = Sublayer(CrossAttention(dim, num_heads), nn.LayerNorm(dim), "post")
        self.feed_forward = Sublayer(FeedForward(dim, 2 * dim), nn.LayerNorm(dim), "post")

    def forward(self, x: Tensor, y: Tensor | None = None, there: Tensor | None = None) -> Tensor:
        """Args:
        y: whose members are looked at; those of x by default.
        there: which of them are.
        """
        mask = None if there is None else Padding(there)
        return self.feed_forward(self.attention(x, x if y is None else y, mask))


class InducedAttention(nn.Module):
    """Eq. 3.

    Args:
        dim: D.
        num_heads: of attention.
        num_seeds: K, at least 1.

    >>> InducedAttention(8, 2, num_seeds=3)(torch.zeros(1, 5, 8)).shape
    torch.Size([1, 5, 8])
    """

    def __init__(self, dim: int, num_heads: int = 4, num_seeds: int = 16):
        super().__init__()
        self.gather, self.spread = PooledByAttention(dim, num_heads, num_seeds), SetAttention(dim, num_heads)

    def forward(self, x: Tensor, there: Tensor | None = None) -> Tensor:
        return self.spread(x, self.gather(x, there))


class PooledByAttention(nn.Module):
    """Eq. 4.

    Args:
        dim: D.
        num_heads: of attention.
        num_seeds: K, at least 1.

    >>> PooledByAttention(8, 2)(torch.zeros(1, 5, 8)).shape
    torch.Size([1, 1, 8])
    """

    def __init__(self, dim: int, num_heads: int = 4, num_seeds: int = 1):
        super().__init__()
        self.seeds = nn.Parameter(torch.empty(whole("num_seeds", num_seeds), dim))
        nn.init.xavier_uniform_(self.seeds)
        self.ask = SetAttention(dim, num_heads)

    def forward(self, x: Tensor, there: Tensor | None = None) -> Tensor:
        return self.ask(self.seeds.expand(len(x), -1, -1), x, there)
