"""Fewer places and more places, one window at a time.

    max         z[i] = max_k x[s i + k]                                                                          (1)
    mean        z[i] = (1/K) Σ_k x[s i + k]                                                                      (2)
    l_p         z[i] = (Σ_k |x[s i + k]|^p)^{1/p}                        p = ∞ is the largest |x|                (3)
    subsample   z[i] = x[s i]                                                                                    (4)
    blur        b[k] = C(K-1, k) / 2^{K-1}                               low-pass taps before a (4)              (5)
    unpool      y[argmax of window i] = z[i],  0 elsewhere               undoes (1) where it can                 (6)
    duplicate   y[i] = z[⌊i / s⌋]                                                                                (7)
    bilinear    y[i] = (1-f) z[j] + f z[j+1],  j + f = (i + ½)/s - ½     ends held; axis after axis              (8)
    shuffle     y[c][s i + r] = z[s c + r][i]                            s channels become s places, in each axis  (9)

Indices are of one axis; with two or three, each index is a tuple.

Notation   K -> window;  s -> stride, of (7) to (9) the factor
Shapes     (*sizes), one channel; (9) takes (C s^axes, *sizes)
"""

from __future__ import annotations

import math
from typing import Any

from leadline.reference.grids import Grid, Place, at, grid, places, put, shape


def pooled(x: Grid, window: int, stride: int | None = None, p: float | str = "mean") -> Any:
    """Eq. 1 to 3.

    Args:
        stride: None is the window, so that windows meet without overlap.
        p: "max", "mean", or the number of eq. 3.

    >>> x = [[1, 2], [3, -4]]
    >>> pooled(x, 2, p="max"), pooled(x, 2, p="mean"), pooled(x, 2, p=1), pooled(x, 2, p=math.inf)
    ([[3]], [[0.5]], [[10.0]], [[4]])
    """
    values = windows(x, window, stride)

    def value(i: Place) -> float:
        held = [at(x, place) for place in values[i]]
        if p == "max":
            return max(held)
        if p == "mean":
            return sum(held) / len(held)
        if p == math.inf:
            return max(abs(h) for h in held)
        return sum(abs(h) ** float(p) for h in held) ** (1 / float(p))

    return grid(_sizes(values), value)


def windows(x: Grid, window: int, stride: int | None = None) -> dict[Place, list[Place]]:
    """The places that each window holds, by the place of the window.

    >>> windows([5, 6, 7, 8], 2)
    {(0,): [(0,), (1,)], (1,): [(2,), (3,)]}
    """
    s, sizes = stride or window, shape(x)
    counts = tuple((n - window) // s + 1 for n in sizes)
    inside = list(places((window,) * len(sizes)))
    return {i: [tuple(s * i_ + k_ for i_, k_ in zip(i, k)) for k in inside] for i in places(counts)}


def largest(x: Grid, window: int, stride: int | None = None) -> tuple[Any, dict[Place, Place]]:
    """Eq. 1 with the place of each maximum, the first where several are equal.

    >>> largest([5, 6, 8, 7], 2)
    ([6, 8], {(0,): (1,), (1,): (2,)})
    """
    values = windows(x, window, stride)
    where = {}
    for i, held in values.items():
        best = held[0]
        for place in held[1:]:
            if at(x, place) > at(x, best):
                best = place
        where[i] = best
    return grid(_sizes(values), lambda i: at(x, where[i])), where


def unpooled(z: Grid, where: dict[Place, Place], sizes: Place) -> Any:
    """Eq. 6: values back to the places their maxima came from.

    >>> unpooled(*largest([5, 6, 8, 7], 2), sizes=(4,))
    [0, 6, 8, 0]
    """
    y = grid(sizes, lambda _: 0)
    for i, place in where.items():
        put(y, place, at(z, i))
    return y


def subsampled(x: Grid, stride: int) -> Any:
    """Eq. 4.

    >>> subsampled([5, 6, 7, 8, 9], 2)
    [5, 7, 9]
    """
    return grid(tuple(-(-n // stride) for n in shape(x)), lambda i: at(x, tuple(stride * i_ for i_ in i)))


def blur_taps(count: int) -> list[float]:
    """Eq. 5: sums of ever more neighbours in pairs.

    >>> blur_taps(3)
    [0.25, 0.5, 0.25]
    """
    return [math.comb(count - 1, k) / 2 ** (count - 1) for k in range(count)]


def duplicated(z: Grid, factor: int) -> Any:
    """Eq. 7.

    >>> duplicated([1, 2], 3)
    [1, 1, 1, 2, 2, 2]
    """
    return grid(tuple(factor * n for n in shape(z)), lambda i: at(z, tuple(i_ // factor for i_ in i)))


def interpolated(z: Grid, factor: int) -> Any:
    """Eq. 8.

    >>> interpolated([0.0, 4.0], 2)
    [0.0, 1.0, 3.0, 4.0]
    """
    sizes = shape(z)

    def value(i: Place) -> float:
        total = 0.0
        for corner in places((2,) * len(sizes)):
            share, place = 1.0, []
            for i_, n, upper in zip(i, sizes, corner):
                centre = min(max((i_ + 0.5) / factor - 0.5, 0.0), n - 1.0)
                j = int(centre)
                share *= centre - j if upper else 1 - (centre - j)
                place.append(min(j + upper, n - 1))
            total += share * at(z, tuple(place))
        return total

    return grid(tuple(factor * n for n in sizes), value)


def shuffled(z: Grid, factor: int) -> Any:
    """Eq. 9.

    >>> shuffled([[1, 2], [10, 20]], 2)
    [[1, 10, 2, 20]]
    """
    channels, *sizes = shape(z)
    parts = factor ** len(sizes)

    def value(place: Place) -> float:
        c, *i = place
        rest = 0
        for i_ in i:
            rest = factor * rest + i_ % factor
        return at(z, (parts * c + rest, *[i_ // factor for i_ in i]))

    return grid((channels // parts, *[factor * n for n in sizes]), value)


def _sizes(values: dict[Place, list[Place]]) -> Place:
    return tuple(last + 1 for last in max(values))
