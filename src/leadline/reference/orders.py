"""Classes with an order, classes of which some are rare, and rankings, one example at a time.

    ordinal   P(y <= k) = 1 / (1 + e^-(c_k - a)),   p(k) = P(y <= k) - P(y <= k - 1)      (1)
    focal     loss = -(1 - p_y)^γ log p_y                                                 (2)
    ranking   p(π) = Π_i e^{s_π(i)} / Σ_{j >= i} e^{s_π(j)}                               (3)

Notation   a -> output;  c -> cut points;  s -> scores;  π -> items, the best first
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.reference.likelihoods import categorical_probabilities


def ordinal_probabilities(output: float, cut_points: Sequence[float]) -> list[float]:
    """Eq. 1.

    >>> ordinal_probabilities(0.0, [0.0])
    [0.5, 0.5]
    """
    below = [1 / (1 + math.exp(output - cut)) for cut in cut_points]
    return [high - low for low, high in zip([0.0, *below], [*below, 1.0], strict=True)]


def focal_loss(logits: Sequence[float], y: int, gamma: float) -> float:
    """Eq. 2.

    >>> round(focal_loss([0.0, 0.0], 1, 1.0), 4)
    0.3466
    """
    p = categorical_probabilities(logits)[y]
    return -((1 - p) ** gamma) * math.log(p)


def ranking_loss(scores: Sequence[float], order: Sequence[int]) -> float:
    """-log of eq. 3.

    >>> round(ranking_loss([0.0, 0.0, 0.0], [2, 0, 1]), 4)  # log 3!
    1.7918
    """
    loss, left = 0.0, list(order)
    while left:
        chances = categorical_probabilities([scores[item] for item in left])
        loss -= math.log(chances[0])
        left = left[1:]
    return loss


def mean_place(scores: Sequence[float], item: int) -> float:
    """How many items stand before `item` on average: over all orders, each by its probability.

    >>> mean_place([0.0, 0.0, 0.0], 1)
    1.0
    """
    return sum(math.exp(-ranking_loss(scores, order)) * order.index(item) for order in _orders(len(scores)))


def _orders(count: int) -> list[list[int]]:
    orders: list[list[int]] = [[]]
    for item in range(count):
        orders = [[*order[:place], item, *order[place:]] for order in orders for place in range(len(order) + 1)]
    return orders
