"""One network of a population: ready to be trained, and what became of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from leadline.engine.feed import Feed
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.gradient import Gradient
from leadline.optim.objective import Objective
from leadline.regularize.regularizer import Regularizer
from leadline.settings import Settings


@dataclass(eq=False)
class Member:
    """One network, ready to be trained, and what became of it.

    Args:
        history: one record an epoch.
        best_epoch: whose weights the model has at the end; 0 where nothing was validated.
        ended: finished, stopped early or diverged; "" while it is not over.
    """

    model: nn.Module
    likelihood: Likelihood
    regularizers: Sequence[Regularizer]
    settings: Settings
    train: Feed
    val: Feed | None
    history: list[dict[str, Any]] = field(default_factory=list)
    best_score: float | None = None
    best_epoch: int = 0
    stale: int = 0
    first_loss: float | None = None
    ended: str = ""

    def __post_init__(self):
        self.rule = Gradient(self.settings, regularizers=self.regularizers)
        self.rule.steps_per_epoch = self.train.steps
        self.rule.bind(self.model, self.likelihood, self.settings.epochs * self.train.steps)

    def judge(self, metrics: dict[str, float]) -> bool:
        """Whether the weights of this epoch are the best so far; equal scores prefer the later epoch."""
        likelihood = self.likelihood
        score = metrics[likelihood.headline] * (1 if likelihood.higher_is_better else -1)
        if math.isnan(score) and likelihood.headline == "r2":  # y that does not vary has none
            score = -metrics.get("nll", math.nan)
        if math.isnan(score) or (self.best_score is not None and score < self.best_score):
            self.stale += 1
            return False
        self.stale = 0 if self.best_score is None or score > self.best_score else self.stale + 1
        self.best_score, self.best_epoch = score, len(self.history)
        return True


def named(objective: Objective) -> dict[str, Tensor]:
    """Parameters and buffers, views."""
    return {**dict(objective.named_parameters()), **dict(objective.named_buffers())}
