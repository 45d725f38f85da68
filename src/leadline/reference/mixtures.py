"""Mixtures, one example at a time.

p(y) = Σ_k w_k p_k(y)                                      (1)
a mode is a y at which p(y) is larger than on both sides   (2)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.reference.angles import von_mises_loss
from leadline.reference.likelihoods import normal_below, normal_loss


def mixture_loss(
    weights: Sequence[float], places: Sequence[float], spreads: Sequence[float], y: float, circular: bool = False
) -> float:
    """-log of eq. 1, of Normals or, on a circle, of von Mises.

    >>> round(mixture_loss([0.5, 0.5], [0.0, 0.0], [1.0, 1.0], 0.0), 4)
    0.9189
    """
    each = von_mises_loss if circular else normal_loss
    total = 0.0
    for w, place, spread in zip(weights, places, spreads, strict=True):
        total += w * math.exp(-each(place, spread, y))
    return -math.log(total)


def mixture_below(weights: Sequence[float], places: Sequence[float], spreads: Sequence[float], y: float) -> float:
    """P(Y <= y) of Normals.

    >>> mixture_below([0.5, 0.5], [-1.0, 1.0], [1.0, 1.0], 0.0)
    0.5
    """
    return sum(w * normal_below(m, s, y) for w, m, s in zip(weights, places, spreads, strict=True))


def modes(
    weights: Sequence[float],
    places: Sequence[float],
    spreads: Sequence[float],
    circular: bool = False,
    steps: int = 20000,
) -> list[float]:
    """Eq. 2 by walking over all y in small steps, in rising order.

    >>> [round(y, 2) for y in modes([0.5, 0.5], [-2.0, 2.0], [0.5, 0.5])]
    [-2.0, 2.0]
    """
    if circular:
        low, high = -math.pi, math.pi
    else:
        low, high = min(places) - min(spreads), max(places) + min(spreads)
    grid = [low + (high - low) * i / steps for i in range(1, steps + 1)]
    heights = [-mixture_loss(weights, places, spreads, y, circular) for y in grid]
    last = len(grid) - 1
    found = []
    for i, height in enumerate(heights):
        before = heights[i - 1] if i > 0 or circular else -math.inf
        after = heights[i + 1] if i < last else heights[0] if circular else -math.inf
        if before < height >= after:
            found.append(grid[i])
    return found
