"""Likelihoods, one example at a time, from the probability itself and not from a shortcut.

    loss = -log p(y)                                                        (1)
    normal       p(y) = exp(-½ ((y - μ)/σ)²) / (σ √2π)                      (2)
    bernoulli    p(1) = 1 / (1 + e^-a)                                      (3)
    categorical  p(c) = e^{a_c} / Σ_k e^{a_k}                               (4)
    smoothed     loss = -Σ_c q_c log p(c),   q_c = (1 - s)·[c = y] + s / C  (5)
    quantile(q)  = the smallest y whose P(Y <= y) reaches q                 (6)

Notation   a -> logit, logits;  s -> smoothing;  C -> number of classes
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def normal_loss(mu: float, sigma: float, y: float) -> float:
    """Eqs. 1 and 2, with the logarithm of the exponential taken by hand: far tails have p = 0 in floating point.

    >>> round(normal_loss(0.0, 1.0, 0.0), 4)
    0.9189
    """
    log_p = -0.5 * ((y - mu) / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
    return -log_p


def normal_below(mu: float, sigma: float, y: float) -> float:
    """P(Y <= y).

    >>> normal_below(3.0, 2.0, 3.0)
    0.5
    """
    return 0.5 * (1 + math.erf((y - mu) / (sigma * math.sqrt(2))))


def normal_quantile(mu: float, sigma: float, q: float) -> float:
    """Eq. 6 by halving an interval that is sure to hold the answer.

    >>> round(normal_quantile(0.0, 1.0, 0.975), 4)
    1.96
    """
    low, high = mu - 40 * sigma, mu + 40 * sigma
    for _ in range(200):
        middle = (low + high) / 2
        if normal_below(mu, sigma, middle) < q:
            low = middle
        else:
            high = middle
    return high


def bernoulli_probabilities(logit: float) -> list[float]:
    """p(0) and p(1) by eq. 3.

    >>> bernoulli_probabilities(0.0)
    [0.5, 0.5]
    """
    return categorical_probabilities([0.0, logit])


def bernoulli_loss(logit: float, y: int, smoothing: float = 0.0) -> float:
    """Eq. 5 over the two classes no and yes.

    >>> round(bernoulli_loss(0.0, 1), 4)
    0.6931
    """
    return categorical_loss([0.0, logit], y, smoothing)


def categorical_probabilities(logits: Sequence[float]) -> list[float]:
    """Eq. 4. Taking the largest logit off all of them changes no ratio and keeps the exponentials below 1.

    >>> categorical_probabilities([0.0, 0.0])
    [0.5, 0.5]
    """
    largest = max(logits)
    weights = [math.exp(a - largest) for a in logits]
    return [weight / sum(weights) for weight in weights]


def categorical_loss(logits: Sequence[float], y: int, smoothing: float = 0.0) -> float:
    """Eq. 5; with no smoothing it is eq. 1.

    >>> round(categorical_loss([0.0, 0.0, 0.0, 0.0], 2), 4)
    1.3863
    """
    probabilities = categorical_probabilities(logits)
    loss = 0.0
    for c, p in enumerate(probabilities):
        wanted = (1 - smoothing) * (c == y) + smoothing / len(probabilities)
        if wanted > 0:
            loss -= wanted * math.log(p)
    return loss


def discrete_quantile(probabilities: Sequence[float], q: float) -> int:
    """Eq. 6 over the codes 0, 1, …

    >>> discrete_quantile([0.2, 0.5, 0.3], 0.6)
    1
    """
    below = 0.0
    for code, p in enumerate(probabilities):
        below += p
        if below >= q:
            return code
    return len(probabilities) - 1


def credible_set(probabilities: Sequence[float], level: float) -> set[int]:
    """The most probable classes, taken one by one until together they reach `level`.

    >>> sorted(credible_set([0.1, 0.6, 0.3], 0.8))
    [1, 2]
    """
    chosen: set[int] = set()
    covered = 0.0
    for code in sorted(range(len(probabilities)), key=lambda c: -probabilities[c]):
        if covered >= level:
            break
        chosen.add(code)
        covered += probabilities[code]
    return chosen
