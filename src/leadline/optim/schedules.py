"""Learning-rate schedules: the factor on the highest rate, as a pure function of how much of the run is done.

    warm-up    t / w                            while t < w                    (1)
    constant   1                                                               (2)
    cosine     ½ (1 + cos π u)                  u = (t - w) / (1 - w)          (3)
    linear     1 - u                                                           (4)
    step       1/10 for every third of u                                       (5)

Notation   t -> done, the part of the run behind us, in [0, 1);  w -> warmup
"""

from __future__ import annotations

import math
from collections.abc import Callable

from leadline.names import lookup

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda u: 1.0,
    "cosine": lambda u: 0.5 * (1 + math.cos(math.pi * u)),
    "linear": lambda u: 1 - u,
    "step": lambda u: 0.1 ** math.floor(3 * u),
}


def schedule(name: str, warmup: float, total: int) -> Callable[[int], float]:
    """The factor for each step of a run of `total` steps.

    >>> factor = schedule("linear", warmup=0.0, total=4)
    >>> [factor(step) for step in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    """
    shape = lookup(name, SCHEDULES, "schedule")
    rising = warmup * total

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / (rising + 1)  # eq. 1; the first step already moves
        return shape((step - rising) / (total - rising))

    return factor
