"""Attention by other scores: a small network, and a bilinear form (Bahdanau et al., 2014; Luong et al., 2015).

    additive   s_{ij} = w · tanh(W_q q_i + W_k k_j)                                    (1)
    bilinear   s_{ij} = q_i · M k_j                                                    (2)
    out_i      = Σ_j softmax_j(s_{ij}) v_j,  over the keys that query i may look at    (3)

Queries and keys may differ in width. (1) is a network of one hidden layer of tanh units, without offsets, on the pair
[q_i; k_j]. With M = 1/√K times the identity (2) is scaled dot-product attention.

Notation   W_q -> query;  W_k -> key;  w -> score;  M -> form
Shapes     q (B, T, Q);  k (B, S, K);  v (B, S, K');  out (B, T, K')
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.layers.masked_softmax import masked_softmax
from leadline.layers.masks import Mask


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
        h = self.query(q)[:, :, None] + self.key(k)[:, None]  # (B, T, S, hidden)
        return pooled(self.score(h.tanh()).squeeze(-1), v, mask)  # eqs. 1, 3


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
        return pooled(q @ self.form @ k.transpose(1, 2), v, mask)  # eqs. 2, 3


def pooled(scores: Tensor, v: Tensor, mask: Mask | None = None) -> Tensor:
    """Eq. 3 of scores (B, T, S)."""
    if mask is None:
        return scores.softmax(-1) @ v
    B, T, S = scores.shape
    return masked_softmax(scores, mask.dense(B, T, S, scores.device)[:, 0]) @ v
