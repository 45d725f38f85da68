"""Angles, one example at a time.

I0(κ) = Σ_j (κ/2)^2j / (j!)²                               (1)
p(y)  = e^{κ cos(y - μ)} / (2π I0(κ))                      (2)   von Mises
P(|D| <= h) = ∫_-h^h p                                     (3)   by Simpson's rule
"""

from __future__ import annotations

import math


def log_i0(kappa: float) -> float:
    """log of eq. 1; each term is taken relative to e^κ, so that none is too large.

    >>> round(log_i0(1.0), 6)
    0.235914
    """
    log_term, total, j = -kappa, 0.0, 0
    while j <= kappa or log_term > -40:
        total += math.exp(log_term)
        j += 1
        log_term += 2 * math.log(kappa / 2 / j) if kappa > 0 else -math.inf
    return math.log(total) + kappa


def von_mises_loss(mu: float, kappa: float, y: float) -> float:
    """-log of eq. 2.

    >>> round(von_mises_loss(0.0, 0.0, 1.0), 4)  # log 2π
    1.8379
    """
    return math.log(2 * math.pi) + log_i0(kappa) - kappa * math.cos(y - mu)


def von_mises_within(kappa: float, h: float, steps: int = 4000) -> float:
    """Eq. 3.

    >>> round(von_mises_within(0.0, math.pi / 2), 6)
    0.5
    """
    total = 0.0
    for i in range(steps + 1):
        weight = 1 if i in (0, steps) else 4 if i % 2 else 2
        total += weight * math.exp(-von_mises_loss(0.0, kappa, h * i / steps))
    return 2 * total * h / steps / 3


def arc(kappa: float, level: float) -> float:
    """The h of which eq. 3 is `level`, by halving.

    >>> round(arc(0.0, 0.9), 4)
    2.8274
    """
    low, high = 0.0, math.pi
    for _ in range(50):
        middle = (low + high) / 2
        if von_mises_within(kappa, middle, 600) < level:
            low = middle
        else:
            high = middle
    return high
