"""Where a token stands, one number at a time.

π_{n,2k} = sin(n ω_k),   π_{n,2k+1} = cos(n ω_k),   ω_k = base^{-2k/D}                                     (1)
π_{n+o} = M_o π_n,   M_o of blocks [[cos oω_k, sin oω_k], [-sin oω_k, cos oω_k]]                           (2)
turned   (a, b) -> (a cos nω - b sin nω, a sin nω + b cos nω) for each pair                                (3)
bucket   near offsets alone, far ones by their logarithm                                                   (4)
"""

from __future__ import annotations

import math

from leadline.reference.networks import Vector


def sinusoids(n: float, dim: int, base: float = 10000.0) -> list[float]:
    """Eq. 1.

    >>> sinusoids(0, 4)
    [0.0, 1.0, 0.0, 1.0]
    """
    out = []
    for k in range(dim // 2):
        angle = n * base ** (-2 * k / dim)
        out += [math.sin(angle), math.cos(angle)]
    return out


def shift(o: float, dim: int, base: float = 10000.0) -> list[list[float]]:
    """M_o of eq. 2: the same for every n.

    >>> shift(0, 2)
    [[1.0, 0.0], [-0.0, 1.0]]
    """
    M = [[0.0] * dim for _ in range(dim)]
    for k in range(dim // 2):
        angle = o * base ** (-2 * k / dim)
        M[2 * k][2 * k], M[2 * k][2 * k + 1] = math.cos(angle), math.sin(angle)
        M[2 * k + 1][2 * k], M[2 * k + 1][2 * k + 1] = -math.sin(angle), math.cos(angle)
    return M


def turned(x: Vector, n: float, base: float = 10000.0, halves: bool = True) -> list[float]:
    """Eq. 3.

    Args:
        halves: pairs are x_k with x_{k + K/2}; else x_{2k} with x_{2k+1}.

    >>> turned([3.0, 4.0], 0)
    [3.0, 4.0]
    """
    out, half = list(x), len(x) // 2
    for k in range(half):
        first, second = (k, k + half) if halves else (2 * k, 2 * k + 1)
        angle = n * base ** (-2 * k / len(x))
        out[first] = x[first] * math.cos(angle) - x[second] * math.sin(angle)
        out[second] = x[first] * math.sin(angle) + x[second] * math.cos(angle)
    return out


def bucket(offset: int, num_buckets: int = 32, furthest: int = 128, both_ways: bool = True) -> int:
    """Eq. 4: keys after the query have the upper half of the buckets, or none.

    >>> [bucket(o) for o in (-200, -9, -1, 0, 1, 9, 200)]
    [15, 8, 1, 0, 17, 24, 31]
    """
    half, first = (num_buckets // 2, num_buckets // 2 * (offset > 0)) if both_ways else (num_buckets, 0)
    d = abs(offset) if both_ways else max(-offset, 0)
    e = half // 2
    if d < e:
        return first + d
    return first + min(e + int(math.log(d / e) / math.log(furthest / e) * (half - e)), half - 1)


def slope(h: int, num_heads: int) -> float:
    """How fast head h (from 1) of num_heads forgets with distance.

    >>> [slope(h, 3) for h in (1, 2, 3)]
    [0.0625, 0.00390625, 0.25]
    """
    P = 1
    while num_heads >= 2 * P:
        P *= 2
    return 2.0 ** (-8 * h / P) if h <= P else 2.0 ** (-8 * (2 * (h - P) - 1) / (2 * P))
