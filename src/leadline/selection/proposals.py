"""Two ways to propose the next setting from those that were tried, beside the ones that Optuna has.

forest (SMAC; Hutter et al., 2011)

    μ(x), σ²(x) = mean and variance over the trees of a random forest                            (1)
    next x = argmax E[max(0, μ(x) - best + σ(x) z)],  z standard normal, over random candidates  (2)

bandit (Thompson, 1933): each value of a choice is an arm

    θ_v ~ Beta(1 + wins of v, 1 + losses of v),   next value = argmax_v θ_v                      (3)

where a trial wins that is better than the median of all. Ranges are drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leadline.selection.space import Space

STARTING = 10  # trials at random before a forest knows anything
_CANDIDATES, _TREES = 400, 40


class Dice:
    """Draws every setting at random.

    >>> from leadline.selection.space import integer
    >>> Space({"depth": integer(3, 5)}).draw(Dice(np.random.default_rng(0)))["depth"] in (3, 4, 5)
    True
    """

    def __init__(self, rng: np.random.Generator):
        self.rng = rng

    def suggest_float(self, name: str, low: float, high: float, *, log: bool) -> float:
        if not log:
            return float(self.rng.uniform(low, high))
        return min(high, max(low, math.exp(self.rng.uniform(math.log(low), math.log(high)))))

    def suggest_int(self, name: str, low: int, high: int, *, log: bool) -> int:
        if not log:
            return int(self.rng.integers(low, high + 1))
        return min(high, max(low, round(math.exp(self.rng.uniform(math.log(low - 0.5), math.log(high + 0.5))))))

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]


class Arms(Dice):
    """Eq. 3.

    Args:
        tried: what trials held, each with its score, of which more is better.
    """

    def __init__(self, rng: np.random.Generator, tried: Sequence[tuple[Mapping[str, Any], float]]):
        super().__init__(rng)
        self.tried = tried
        self.median = float(np.median([score for _, score in tried])) if tried else 0.0

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        won = {value: [1, 1] for value in choices}
        for stored, score in self.tried:
            if stored.get(name) in won:
                won[stored[name]][int(not score > self.median)] += 1
        drawn = [self.rng.beta(wins, losses) for wins, losses in won.values()]
        return choices[int(np.argmax(drawn))]


class _Noted:
    """Dice that remember what they drew, as a study holds it."""

    def __init__(self, dice: Dice):
        self.dice = dice
        self.stored: dict[str, Any] = {}

    def suggest_float(self, name: str, low: float, high: float, *, log: bool) -> float:
        self.stored[name] = self.dice.suggest_float(name, low, high, log=log)
        return self.stored[name]

    def suggest_int(self, name: str, low: int, high: int, *, log: bool) -> int:
        self.stored[name] = self.dice.suggest_int(name, low, high, log=log)
        return self.stored[name]

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        self.stored[name] = self.dice.suggest_categorical(name, choices)
        return self.stored[name]


def drawn(space: Space, dice: Dice) -> dict[str, Any]:
    """One setting of the space, as a study holds it."""
    noted = _Noted(dice)
    space.draw(noted)
    return noted.stored


def by_forest(
    space: Space, tried: Sequence[tuple[Mapping[str, Any], float]], waiting: Sequence[Mapping[str, Any]], seed: int
) -> dict[str, Any]:
    """Eq. 2; settings that are being tried count as if they had come out at the mean, so that others are proposed.

    Args:
        tried: what finished trials held, each with its score, of which more is better.
        waiting: what those held that are not finished.
    """
    rng = np.random.default_rng(seed)
    if len(tried) < STARTING:
        return drawn(space, Dice(rng))
    from sklearn.ensemble import RandomForestRegressor

    scores = np.array([score for _, score in tried])
    x = np.array([_numbers(space, stored) for stored, _ in tried] + [_numbers(space, stored) for stored in waiting])
    y = np.concatenate([scores, np.full(len(waiting), scores.mean())])
    forest = RandomForestRegressor(_TREES, min_samples_leaf=2, random_state=int(rng.integers(2**31))).fit(x, y)
    candidates = [drawn(space, Dice(rng)) for _ in range(_CANDIDATES)]
    points = np.array([_numbers(space, stored) for stored in candidates])
    each = np.array([tree.predict(points) for tree in forest.estimators_])  # eq. 1
    mean, deviation = each.mean(0), each.std(0) + 1e-12
    return candidates[int(np.argmax(expected_improvement(mean, deviation, float(scores.max()))))]


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """E[max(0, mean + deviation · z - best)] = (mean - best) Φ(u) + deviation φ(u),  u = (mean - best) / deviation.

    >>> round(float(expected_improvement(np.array([0.0]), np.array([1.0]), 0.0)[0]), 4)  # 1/√(2π)
    0.3989
    """
    from scipy.special import ndtr

    u = (mean - best) / deviation
    return (mean - best) * ndtr(u) + deviation * np.exp(-0.5 * u**2) / math.sqrt(2 * math.pi)


def _numbers(space: Space, stored: Mapping[str, Any]) -> list[float]:
    """A setting as a row for the forest: ranges from 0 to 1, choices as one number each, -1 for what does not exist."""
    row: list[float] = []
    for name, spec in space.items():
        if spec.kind == "choice":
            row += [float(name in stored and stored[name] == value) for value in spec.labels]
        elif name not in stored:
            row.append(-1.0)
        else:
            low, high, value = (math.log(v) if spec.log else v for v in (spec.low, spec.high, stored[name]))
            row.append((value - low) / (high - low))
    return row
