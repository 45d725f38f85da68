"""Attention by other scores: a small network, and a bilinear form (Bahdanau et al., 2014; Luong et al., 2015).

    additive   s_{ij} = w · tanh(W_q q_i + W_k k_j)                                    (1)
    bilinear   s_{ij} = q_i · M k_j                                                    (2)
    dot        s_{ij} = q_i · k_j / √K                                                 (3)
    out_i      = Σ_j softmax_j(s_{ij}) v_j,  over the keys that query i may look at    (4)

Queries and keys may differ in width, but for (3). (1) is a network of one hidden layer of tanh units, without offsets,
on the pair [q_i; k_j]. With M = 1/√K times the identity (2) is (3). What a key is turned into does not depend on the
query: `keys` does it once for queries that come one after the other, and `scores` compares.

Notation   W_q -> query;  W_k -> key;  w -> score;  M -> form
Shapes     q (B, T, Q);  k (B, S, K);  v (B, S, K');  out (B, T, K')
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.layers.masked_softmax import masked_softmax
from leadline.layers.masks import Mask, check_rule


class AdditiveAttention(nn.Module):
    """Args:
        dim_query: Q.
        dim_key: K.
        dim_hidden: hidden units of the score.

    >>> AdditiveAttention(4, 6, 8)(torch.zeros(2, 3, 4), torch.zeros(2, 5, 6), torch.zeros(2, 5, 7)).shape
    torch.Size([2, 3, 7])
    """

    def __init__(self, dim_query: int, dim_key: int, dim_hidden: int):
        super().__init__()
        self.query = nn.Linear(dim_query, dim_hidden, bias=False)
        self.key = nn.Linear(dim_key, dim_hidden, bias=False)
        self.score = nn.Linear(dim_hidden, 1, bias=False)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None) -> Tensor:
        return pooled(self.scores(q, self.keys(k)), v, mask)  # eqs. 1, 4

    def keys(self, k: Tensor) -> Tensor:
        """W_k k, (B, S, hidden)."""
        return self.key(k)

    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        """Eq. 1, (B, T, S)."""
        h = self.query(q)[:, :, None] + keys[:, None]  # (B, T, S, hidden)
        return self.score(h.tanh()).squeeze(-1)


class BilinearAttention(nn.Module):
    """Args:
        dim_query: Q.
        dim_key: K.

    >>> BilinearAttention(4, 6)(torch.zeros(2, 3, 4), torch.zeros(2, 5, 6), torch.zeros(2, 5, 7)).shape
    torch.Size([2, 3, 7])
    """

    def __init__(self, dim_query: int, dim_key: int):
        super().__init__()
        self.form = nn.Parameter(torch.empty(dim_query, dim_key))
        nn.init.xavier_uniform_(self.form)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None) -> Tensor:
        return pooled(self.scores(q, self.keys(k)), v, mask)  # eqs. 2, 4

    def keys(self, k: Tensor) -> Tensor:
        """M k, (B, S, Q)."""
        return k @ self.form.T

    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        """Eq. 2, (B, T, S)."""
        return q @ keys.mT


class DotAttention(nn.Module):
    """Eq. 3, which has no weights.

    >>> DotAttention()(torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 7)).shape
    torch.Size([2, 3, 7])
    """

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None) -> Tensor:
        return pooled(self.scores(q, self.keys(k)), v, mask)  # eqs. 3, 4

    def keys(self, k: Tensor) -> Tensor:
        """As they are."""
        return k

    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        """Eq. 3, (B, T, S)."""
        return q @ keys.mT * keys.shape[-1] ** -0.5


def pooled(scores: Tensor, v: Tensor, mask: Mask | None = None) -> Tensor:
    """Eq. 4 of scores (B, T, S)."""
    if mask is None:
        return scores.softmax(-1) @ v
    check_rule(mask)
    B, T, S = scores.shape
    return masked_softmax(scores, mask.dense(B, T, S, scores.device)[:, 0]) @ v
