"""Bernoulli: y is no or yes.

    p(y = 1) = sigmoid(output)                                (1)
    loss     = softplus(output) - y · output                  (2)   binary cross-entropy, from the logit
    smoothed y~ = (1 - s) y + s / 2                           (3)   s -> label_smoothing; in the loss only

Shapes     output (B, 1); y (B,) of codes 0 and 1
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Bernoulli as BernoulliDistribution

from leadline.data.target import Target
from leadline.likelihoods.codes import SMOOTHING, check_codes, check_smoothing
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.prediction import Prediction, check_probability


class Bernoulli(Likelihood):
    """Args:
        label_smoothing: s of eq. 3, part of the loss that asks for all classes alike, 0 <= s < 1.

    >>> float(Bernoulli().loss(torch.zeros(1, 1), torch.ones(1)))  # log 2
    0.6931471824645996
    """

    headline = "accuracy"
    higher_is_better = True
    kinds = ("binary", "classes", "ordered")
    dim_output = 1

    def __init__(self, label_smoothing: float = 0.0):
        super().__init__()
        self.label_smoothing = check_smoothing(label_smoothing)

    @classmethod
    def for_target(cls, target: Target, label_smoothing: float = SMOOTHING, **options: Any) -> Bernoulli:
        return cls(label_smoothing, **options)

    def distribution(self, output: Tensor) -> BernoulliDistribution:
        return BernoulliDistribution(logits=output.squeeze(-1), validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        logit, y = output.squeeze(-1), y.to(output.dtype)
        smoothed = (1 - self.label_smoothing) * y + self.label_smoothing / 2  # eq. 3
        return F.softplus(logit) - smoothed * logit  # eq. 2

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        logit = output.squeeze(-1)
        nll = F.softplus(logit) - y.to(output.dtype) * logit
        return {"nll": nll, "accuracy": ((logit > 0) == (y > 0)).to(output.dtype)}

    def prediction(self, output: Tensor) -> BernoulliPrediction:
        return BernoulliPrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        check_codes(y, 2)


class BernoulliPrediction(Prediction):
    """A probability of yes for each row."""

    distribution: BernoulliDistribution

    @property
    def mode(self) -> Tensor:
        return (self.distribution.logits > 0).long()

    @property
    def probabilities(self) -> Tensor:
        """p(no) and p(yes), shape (B, 2)."""
        yes = self.distribution.probs
        return torch.stack([1 - yes, yes], dim=-1)

    def quantile(self, q: float) -> Tensor:
        check_probability("q", q)
        return (1 - self.distribution.probs < q).long()

    def log_prob(self, y: Any) -> Tensor:
        return self.distribution.log_prob(self._as_y(y).to(self.distribution.logits.dtype))
