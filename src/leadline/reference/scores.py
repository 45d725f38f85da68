"""Scores of predicted distributions, one value at a time.

CRPS(F, y)     = ∫ (F(x) - [x >= y])² dx                                     (1)
interval score = high - low + 2/(1 - level) · (how far y lies outside)       (2)
coverage       = share of y in [low, high]                                   (3)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leadline.reference.densities import integral


def crps(below: Callable[[float], float], y: float, low: float, high: float) -> float:
    """Eq. 1 between `low` and `high`, outside which F is as good as 0 and 1.

    Args:
        below: F.

    >>> round(crps(lambda x: min(max(x, 0.0), 1.0), 0.5, 0.0, 1.0), 6)  # uniform, at its middle: 1/12
    0.083333
    """
    left = integral(lambda x: below(x) ** 2, [low, y])
    return left + integral(lambda x: (1 - below(x)) ** 2, [y, high])


def interval_score(low: float, high: float, level: float, y: float) -> float:
    """Eq. 2.

    >>> interval_score(0.0, 1.0, 0.5, 2.0)
    5.0
    """
    outside = max(low - y, y - high, 0.0)
    return high - low + 2 / (1 - level) * outside


def coverage(lows: Sequence[float], highs: Sequence[float], ys: Sequence[float]) -> float:
    """Eq. 3.

    >>> coverage([0.0, 0.0], [1.0, 1.0], [0.5, 2.0])
    0.5
    """
    inside = 0
    for low, high, y in zip(lows, highs, ys, strict=True):
        if low <= y <= high:
            inside += 1
    return inside / len(ys)
