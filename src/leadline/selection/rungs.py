"""Hyperband: many settings for a short time, the best of them for longer (Li et al., 2016).

    s_max = ⌊log_η R⌋                                          R epochs at most, a 1/η of the settings goes on      (1)
    bracket s = s_max … 0:   n = ⌈(s_max + 1)/(s + 1) · η^s⌉ settings at R/η^s epochs                               (2)
    rung i of a bracket:     ⌊n/η^i⌋ settings at η^i times the epochs                                               (3)

A rung begins anew with more epochs: its schedule is that of a whole run, so a short run is judged as a short run and
not as the beginning of a long one, and all settings of a rung are one population.
(In some texts η is the share that is kept; here it is how many compete for one place.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Rung:
    """So many settings, for so many epochs."""

    settings: int
    epochs: int


def brackets(epochs: int, eta: int = 3) -> list[list[Rung]]:
    """The rungs of every bracket, the most adventurous first.

    Args:
        epochs: R, at least 1.
        eta: η, at least 2.

    >>> for rungs in brackets(9):
    ...     print([(rung.settings, rung.epochs) for rung in rungs])
    [(9, 1), (3, 3), (1, 9)]
    [(5, 3), (1, 9)]
    [(3, 9)]
    """
    top = 0
    while eta ** (top + 1) <= epochs:
        top += 1
    found = []
    for s in range(top, -1, -1):
        count = math.ceil((top + 1) / (s + 1) * eta**s)
        steps = [Rung(max(1, count // eta**i), max(1, round(epochs / eta ** (s - i)))) for i in range(s + 1)]
        found.append(steps)
    return found


def planned(trials: int, epochs: int, eta: int = 3) -> Iterator[list[Rung]]:
    """Brackets one after the other until `trials` settings are used up; the last is cut to what is left.

    >>> [[rung.settings for rung in rungs] for rungs in planned(16, 9)]
    [[9, 3, 1], [5, 1], [2]]
    """
    left, turn = trials, brackets(epochs, eta)
    while left > 0:
        for rungs in turn:
            if left <= 0:
                return
            count = min(left, rungs[0].settings)
            yield [Rung(max(1, count // eta**i), rung.epochs) for i, rung in enumerate(rungs) if count // eta**i]
            left -= count
