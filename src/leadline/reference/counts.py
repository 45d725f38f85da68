"""Counts, one example at a time.

rate       λ = scale · e^o for o <= 0, scale · (1 + o) above              (1)
poisson    p(y) = λ^y e^-λ / y!                                           (2)
clustered  p(y) = Γ(y + r) / (Γ(r) y!) · (r / (r + μ))^r (μ / (r + μ))^y  (3)   r = 1 / α
quantile   the smallest k of which p(0) + … + p(k) reaches q              (4)
"""

from __future__ import annotations

import math
from collections.abc import Callable


def rate(output: float, scale: float) -> float:
    """Eq. 1.

    >>> rate(0.0, 3.0), rate(1.0, 3.0)
    (3.0, 6.0)
    """
    return scale * (math.exp(output) if output <= 0 else 1 + output)


def poisson_loss(lam: float, y: int) -> float:
    """-log of eq. 2.

    >>> poisson_loss(1.0, 0)
    1.0
    """
    loss = lam
    for k in range(1, y + 1):
        loss -= math.log(lam / k)
    return loss


def negative_binomial_loss(mu: float, alpha: float, y: int) -> float:
    """-log of eq. 3, with Γ(y + r) / Γ(r) as the product r (r + 1) … (r + y - 1).

    >>> round(negative_binomial_loss(1.0, 1.0, 0), 4)
    0.6931
    """
    r = 1 / alpha
    loss = r * math.log1p(mu / r)
    for k in range(1, y + 1):
        loss -= math.log((r + k - 1) / k * mu / (r + mu))
    return loss


def count_quantile(loss: Callable[[int], float], q: float) -> int:
    """Eq. 4, by adding up; `loss` is -log p of a count.

    >>> count_quantile(lambda y: poisson_loss(1.0, y), 0.5)
    1
    """
    total, k = 0.0, -1
    while total < q:
        k += 1
        total += math.exp(-loss(k))
    return k
