"""Attention-free transformer: an average of values for each channel alone, with no scores of pairs (Zhai et al., 2021).

    out_i = sigmoid(q_i) * Σ_j exp(k_j + w_{ij}) * v_j / Σ_j exp(k_j + w_{ij})          all products by channel     (1)
    full     w = A Bᵀ, of low rank, learned                                                                         (2)
    simple   w = 0: one average for all queries, in linear time                                                     (3)

(1) is two products of exp(w) with a matrix as wide as the values. k is taken less its largest value in each channel,
which cancels. Causal, sums come in parts, so that no later key counts among these: itself, and where places are halved
again and again, the earlier half for those in the later one; they are added on the scale of the largest.

Notation   A -> rows;  B -> columns
Shapes     x (B, T, D) -> (B, T, D);  w (T, T)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.mask_parts import parts
from leadline.layers.masks import Mask
from leadline.layers.positions import check_places, check_rows
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
        self.dim = whole("dim", dim)
        self.query_key_value, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.rank = whole("rank", rank, 0)
        if rank:
            self.rows = nn.Parameter(torch.randn(whole("length", length), rank) * 0.02)
            self.columns = nn.Parameter(torch.randn(length, rank) * 0.02)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """Args:
        mask: Causal, Padding, both, or None.
        """
        check_rows(x, self.dim, "AttentionFree")
        if self.rank:
            check_places(x, len(self.rows))
        causal, there = parts(mask, "AttentionFree", x)
        if not x.shape[1]:
            return x
        q, k, v = self.query_key_value(x).chunk(3, -1)
        v = torch.stack([v, torch.ones_like(v)])  # the second, 1, makes the denominator
        if there is not None:
            k = k.masked_fill(~there[..., None], torch.finfo(k.dtype).min / 4)
            v = v * there[..., None]
        w = self.rows[: x.shape[1]] @ self.columns[: x.shape[1]].T if self.rank else None  # eq. 2
        above, below = _before(k, v, w) if causal else _summed(k, v, w)[1]
        found = torch.where(below > 0, above / torch.where(below > 0, below, 1.0), 0.0)
        return self.out(q.sigmoid() * found)  # eq. 1


def _summed(k: Tensor, v: Tensor, w: Tensor | None) -> tuple[Tensor, Tensor]:
    """A scale (…, T, D) and Σ_j exp(k_j + w_ij) v_j over it, (2, …, T, D).

    Args:
        k: (…, S, D).
        v: values and 1, (2, …, S, D).
        w: (…, T, S); None is 0.
    """
    most = k.amax(-2, keepdim=True).detach()
    e = (k - most).exp()
    if w is None:
        return most, (e * v).sum(-2, keepdim=True)
    top = w.amax(-1, keepdim=True).detach()
    return most + top, (w - top).exp() @ (e * v)


def _before(k: Tensor, v: Tensor, w: Tensor | None) -> Tensor:
    """Sums over the keys that are not after a query, on a scale of its own, (2, B, T, D)."""
    T = k.shape[1]
    size = 1 << (T - 1).bit_length()
    more = (0, 0, 0, size - T)
    low = torch.finfo(k.dtype).min / 4  # in place of -∞, which has no differences
    k, v = F.pad(k, more, value=low), F.pad(v, more)
    own = k if w is None else k + F.pad(w.diagonal(), (0, size - T))[:, None]
    scales, sums = [own.detach()], [(own - own.detach()).exp() * v]  # itself
    half = size // 2
    while half:
        k_, v_ = (x.unflatten(-2, (-1, 2, half))[..., 0, :, :] for x in (k, v))  # the earlier halves
        scale, total = _summed(k_, v_, None if w is None else _corners(w, size, half))
        shape = *k_.shape[:-2], half, k.shape[-1]  # (B, groups, half, D)
        scale, total = scale.expand(shape), total.expand(2, *shape)
        scales.append(torch.stack([torch.full_like(scale, low), scale], -3).flatten(-4, -2))
        sums.append(torch.stack([torch.zeros_like(total), total], -3).flatten(-4, -2))
        half //= 2
    top = torch.stack(scales).amax(0)
    return sum((scale - top).exp() * total for scale, total in zip(scales, sums, strict=True))[:, :, :T]  # type: ignore[index]


def _corners(w: Tensor, size: int, half: int) -> Tensor:
    """w of the queries of each later half and the keys of its earlier half, (groups, half, half)."""
    w = F.pad(w, (0, size - w.shape[1], 0, size - w.shape[0]))
    blocks = w.unflatten(0, (-1, 2, half)).unflatten(-1, (-1, 2, half))  # (groups, 2, half, groups, 2, half)
    return blocks[:, 1, :, :, 0].diagonal(dim1=0, dim2=2).movedim(-1, 0)
