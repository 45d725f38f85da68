"""Attention between channels, number by number.

score_{cd} = Σ_t q_{tc} k_{td} / √C                    (1)
out_{tc}   = Σ_d softmax_d(score_{cd}) v_{td}          (2)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def channel_attention(q: Matrix, k: Matrix, v: Matrix) -> list[list[float]]:
    """Eq. 2 of one group: T places of C channels each, (T, C) -> (T, C).

    >>> channel_attention([[0.0, 0.0]], [[1.0, 1.0]], [[2.0, 4.0]])
    [[3.0, 3.0]]
    """
    weights = channel_weights(q, k)
    return [[sum(w * value for w, value in zip(row, place, strict=True)) for row in weights] for place in v]


def channel_weights(q: Matrix, k: Matrix) -> list[list[float]]:
    """The softmax of (1), (C, C), however many places there are."""
    C = len(q[0])
    weights = []
    for c in range(C):
        scores = [sum(q[t][c] * k[t][d] for t in range(len(q))) / math.sqrt(C) for d in range(C)]
        largest = max(scores)
        powers = [math.exp(score - largest) for score in scores]
        weights.append([power / sum(powers) for power in powers])
    return weights
