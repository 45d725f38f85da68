"""Softmax over the entries that count: the others get weight 0, and no gradient.

    w_j = exp(s_j) / Σ_{j' allowed} exp(s_{j'})   where j is allowed, else 0                 (1)

Where nothing is allowed all weights are 0. To write -10^6 into the scores instead, as is often done, is the same while
other scores are small, but gives equal weights to all where nothing is allowed.

Shapes     scores (…, S);  allowed of a shape that fits (…, S)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Eq. 1 over the last axis.

    >>> masked_softmax(torch.zeros(2, 3), torch.tensor([[True, True, False], [False, False, False]])).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    return limited_softmax(scores, *limits(allowed))


def limits(allowed: Tensor) -> tuple[Tensor, Tensor]:
    """What `limited_softmax` asks for, once for many scores: entries that are shut, and whether nothing is allowed. An
    empty row keeps its scores, so that their softmax stays finite.
    """
    some = allowed.any(-1, keepdim=True)
    return ~allowed & some, ~some


def limited_softmax(scores: Tensor, shut: Tensor, empty: Tensor) -> Tensor:
    """Eq. 1 over the last axis, of `limits`.

    >>> limited_softmax(torch.zeros(1, 3), *limits(torch.tensor([[True, True, False]]))).tolist()
    [[0.5, 0.5, 0.0]]
    """
    return scores.masked_fill(shut, -math.inf).softmax(-1).masked_fill(empty, 0.0)


def within(lengths: Tensor, S: int) -> Tensor:
    """True for the first so many places of each row, (…) -> (…, S).

    >>> within(torch.tensor([1, 3]), 3).int().tolist()
    [[1, 0, 0], [1, 1, 1]]
    """
    return torch.arange(S, device=lengths.device) < lengths[..., None]
