"""Backpropagation through a deep network, one number at a time.

    f_0 = β_0 + Ω_0 x,   h_k = a[f_{k-1}],   f_k = β_k + Ω_k h_k       k = 1 … K      (1)   forward; f and h are kept
    ∂l/∂β_k = ∂l/∂f_k,   ∂l/∂Ω_k = (∂l/∂f_k) h_kᵀ                      h_0 = x        (2)
    ∂l/∂f_{k-1} = a'[f_{k-1}] ⊙ Ω_kᵀ (∂l/∂f_k)                         k = K … 1      (3)   backward
    l = Σ_j (f_Kj - y_j)²,   ∂l/∂f_K = 2 (f_K - y)                                    (4)
    a[z] = z, or s·z below 0;   a'[z] = 1 where z > 0, else s                         (5)   leaky; s = 0 is ReLU

The products in (3) are made from the loss down, so that each is reused by every layer below; a whole batch is a sum
over its rows.

Notation   β_k, Ω_k -> maps[k];  s -> leak;  a matrix is a list of rows
Textbook   ∂l/∂f_k is of size D_{k+1} × 1, for Ω_k is D_{k+1} × D_k (problem 7.8 prints D_k × 1)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from leadline.reference.networks import Matrix, Vector, affine

Maps = Sequence[tuple[Vector, Matrix]]


def drawn(widths: Sequence[int], seed: int = 0) -> list[tuple[list[float], list[list[float]]]]:
    """A network with offsets of 0 and slopes from N(0, 1); `widths` from the input to the output.

    >>> [(len(offsets), len(slopes[0])) for offsets, slopes in drawn([1, 5, 5, 1])]
    [(5, 1), (5, 5), (1, 5)]
    """
    rng = random.Random(seed)
    return [
        ([0.0] * after, [[rng.gauss(0.0, 1.0) for _ in range(before)] for _ in range(after)])
        for before, after in pairwise(widths)
    ]


def forward(maps: Maps, x: Vector, leak: float = 0.0) -> tuple[list[list[float]], list[list[float]]]:
    """Eq. 1: all f_k, and all h_k from h_0 = x on.

    >>> forward([([0.0], [[-1.0]]), ([1.0], [[2.0]])], [3.0], leak=0.5)
    ([[-3.0], [-2.0]], [[3.0], [-1.5]])
    """
    f, h = [], [list(x)]
    for offsets, slopes in maps:
        f.append(affine(offsets, slopes, h[-1]))
        h.append([z if z > 0 else leak * z for z in f[-1]])  # eq. 5
    return f, h[:-1]


def backward(
    maps: Maps, f: Matrix, h: Matrix, slope: Vector, leak: float = 0.0
) -> list[tuple[list[float], list[list[float]]]]:
    """Eqs. 2 and 3: the derivatives of every β_k and Ω_k, first layer first.

    Args:
        f, h: what `forward` kept.
        slope: ∂l/∂f_K.

    >>> maps = [([0.5], [[1.0]]), ([0.0], [[3.0]])]
    >>> backward(maps, *forward(maps, [2.0]), [1.0])
    [([3.0], [[6.0]]), ([1.0], [[2.5]])]
    """
    found = []
    for k in reversed(range(len(maps))):
        found.append((list(slope), [[s * unit for unit in h[k]] for s in slope]))  # eq. 2
        if k:
            _, slopes = maps[k]
            back = [sum(row[d] * s for row, s in zip(slopes, slope, strict=True)) for d in range(len(h[k]))]
            slope = [b if z > 0 else leak * b for z, b in zip(f[k - 1], back, strict=True)]  # eq. 3
    return found[::-1]


def loss(maps: Maps, x: Matrix, y: Matrix, leak: float = 0.0) -> float:
    """Eq. 4, summed over rows.

    >>> loss([([1.0], [[2.0]])], [[3.0]], [[5.0]])
    4.0
    """
    total = 0.0
    for row, wanted in zip(x, y, strict=True):
        f, _ = forward(maps, row, leak)
        total += sum((out - value) ** 2 for out, value in zip(f[-1], wanted, strict=True))
    return total


def gradients(maps: Maps, x: Matrix, y: Matrix, leak: float = 0.0) -> list[tuple[list[float], list[list[float]]]]:
    """The derivatives of `loss`, in the shape of `maps`.

    >>> gradients([([1.0], [[2.0]])], [[3.0], [0.0]], [[5.0], [0.0]])
    [([6.0], [[12.0]])]
    """
    total = [([0.0] * len(offsets), [[0.0] * len(row) for row in slopes]) for offsets, slopes in maps]
    for row, wanted in zip(x, y, strict=True):
        f, h = forward(maps, row, leak)
        slope = [2 * (out - value) for out, value in zip(f[-1], wanted, strict=True)]  # eq. 4
        for (offsets, slopes), (d_offsets, d_slopes) in zip(total, backward(maps, f, h, slope, leak), strict=True):
            for d in range(len(offsets)):
                offsets[d] += d_offsets[d]
                for i in range(len(slopes[d])):
                    slopes[d][i] += d_slopes[d][i]
    return total


def factor_sizes(widths: Sequence[int], k: int) -> list[tuple[int, int]]:
    """Sizes of the matrices whose product is ∂l/∂f_k, left to right: ∂h/∂f and ∂f/∂h of each layer above, ∂l/∂f_K.

    Args:
        widths: from the input to the output, so that f_k has widths[k + 1] numbers.

    >>> factor_sizes([5, 7, 4, 3, 2], 2)  # three hidden layers; eq. 7.6 of the book: D3 × D3, D3 × Df, Df × 1
    [(3, 3), (3, 2), (2, 1)]
    """
    sizes: list[tuple[int, int]] = []
    for here, above in zip(widths[k + 1 :], widths[k + 2 :]):
        sizes += [(here, here), (here, above)]
    return [*sizes, (widths[-1], 1)]
