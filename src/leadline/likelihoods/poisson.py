"""Poisson: y counts events that come one by one, independently, at a rate.

    p(y) = λ^y e^-λ / y!                                          (1)   mean and variance are both λ
    λ    = scale · e^o below the usual count, scale · (1 + o) above      (2)
    loss = λ - y log λ + log y!                                   (3)

Notation   o -> output;  scale -> mean of y over the training split (the target holds it): o = 0 is the usual rate
Shapes     output (B, 1); y (B,) of whole numbers
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Poisson as PoissonDistribution

from leadline.data.target import Target
from leadline.likelihoods.counts import (
    at_most,
    check_counts,
    count_measures,
    count_summary,
    log_rate_of,
    mean_count,
    rate_of,
    whole_quantile,
)
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import full
from leadline.likelihoods.prediction import Prediction, check_probability
from leadline.settings import real


class Poisson(Likelihood):
    """Args:
        scale: the rate at output 0, above 0.

    >>> float(Poisson().loss(torch.zeros(1, 1), torch.zeros(1)))  # λ = 1, and no event
    1.0
    """

    headline = "rmse"
    kinds = ("count", "real", "positive")
    dim_output = 1

    def __init__(self, scale: float = 1.0):
        super().__init__()
        self.scale = real("scale", scale, 0, above=True, usual=1.0)

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Poisson:
        return cls(mean_count("Poisson", target), **options)

    def distribution(self, output: Tensor) -> PoissonDistribution:
        return PoissonDistribution(rate_of(full(output).squeeze(-1), self.scale), validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        o = full(output).squeeze(-1)
        y = y.to(o.dtype)
        return rate_of(o, self.scale) - y * log_rate_of(o, self.scale) + torch.lgamma(y + 1)  # eq. 3

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        return count_measures(rate_of(full(output).squeeze(-1), self.scale), y, self.loss(output, y))

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        return count_summary(means)

    def prediction(self, output: Tensor) -> PoissonPrediction:
        return PoissonPrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        check_counts(y)


class PoissonPrediction(Prediction):
    """A rate for each row."""

    distribution: PoissonDistribution
    whole = True

    @property
    def mode(self) -> Tensor:
        return self.distribution.rate.floor()

    def quantile(self, q: float) -> Tensor:
        check_probability("q", q)
        rate = self.distribution.rate.double()
        k = whole_quantile(self._below, rate, rate.sqrt(), q)
        return k.to(self.distribution.rate.dtype)

    def cdf(self, y: Any) -> Tensor:
        return at_most(self._below, self._as_y(y)).to(self.distribution.rate.dtype)

    def _below(self, k: Tensor) -> Tensor:
        """P(Y <= k), the upper part of the gamma integral of order k + 1."""
        return torch.special.gammaincc(k + 1, self.distribution.rate.double())

    def log_prob(self, y: Any) -> Tensor:
        return self.distribution.log_prob(self._as_y(y).to(self.mode.dtype))
