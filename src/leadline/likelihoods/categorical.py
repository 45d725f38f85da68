"""Categorical: y is one of C classes.

    p(y = c) = softmax(output)_c                                          (1)
    loss     = logsumexp(output) - output_y                               (2)   cross-entropy, from the logits
    smoothed = (1 - s) · (2) + s · mean_c (logsumexp(output) - output_c)  (3)   s -> label_smoothing; in the loss only

Shapes     output (B, C); y (B,) of codes 0 … C-1
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Categorical as CategoricalDistribution

from leadline.data.target import Target
from leadline.errors import UserError
from leadline.likelihoods.classes import ClassPrediction, among
from leadline.likelihoods.codes import SMOOTHING, check_codes, check_smoothing
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.prediction import check_probability
from leadline.settings import whole

#: classes from which on it is also measured whether y is among the five best
MANY = 20


class Categorical(Likelihood):
    """Args:
        num_classes: C, at least 2.
        label_smoothing: s of eq. 3, part of the loss that asks for all classes alike, 0 <= s < 1.

    >>> import torch
    >>> float(Categorical(4).loss(torch.zeros(1, 4), torch.tensor([2])))  # log 4
    1.3862943649291992
    """

    headline = "accuracy"
    higher_is_better = True
    kinds = ("classes", "binary", "ordered")

    def __init__(self, num_classes: int, label_smoothing: float = 0.0):
        super().__init__()
        num_classes = whole("num_classes", num_classes, 2)
        self.num_classes, self.label_smoothing = num_classes, check_smoothing(label_smoothing)
        self.dim_output = num_classes

    @classmethod
    def for_target(cls, target: Target, label_smoothing: float = SMOOTHING, **options: Any) -> Categorical:
        return cls(len(target.classes), label_smoothing, **options)

    def distribution(self, output: Tensor) -> CategoricalDistribution:
        return CategoricalDistribution(logits=output, validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        if not self.label_smoothing:
            return F.cross_entropy(output, y, reduction="none")
        scores = F.log_softmax(output, -1)  # eq. 3: as torch's own, which also asks of every label whether it counts
        nll, all_alike = -scores.gather(-1, y[:, None]).squeeze(-1), -scores.sum(-1)
        return (1 - self.label_smoothing) * nll + self.label_smoothing / self.num_classes * all_alike

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        nll = F.cross_entropy(output, y, reduction="none")
        found = {"nll": nll, "accuracy": (output.argmax(-1) == y).to(output.dtype)}
        return found | ({"top5": among(output, y, 5).to(output.dtype)} if self.num_classes >= MANY else {})

    def prediction(self, output: Tensor) -> CategoricalPrediction:
        return CategoricalPrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        check_codes(y, self.num_classes)


class CategoricalPrediction(ClassPrediction):
    """Probabilities of the classes for each row."""

    def quantile(self, q: float) -> Tensor:
        """By code, as if the classes were ordered by it: right for ordered classes only."""
        check_probability("q", q)
        below = self.distribution.probs.cumsum(-1) < q
        return below.sum(-1).clamp(max=self.distribution.probs.shape[-1] - 1)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        raise UserError(
            "an interval needs values in an order, and classes have none",
            got=f"interval({level}) of a Categorical prediction",
            do=f"Use credible_set({level}), the fewest classes that hold y with that probability",
        )
