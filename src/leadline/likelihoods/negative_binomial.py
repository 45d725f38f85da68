"""Negative binomial: y counts events whose rate is itself uncertain, so that they come in clusters.

    y | λ ~ Poisson(λ),  λ ~ Gamma with mean μ and variance α μ²                               (1)
    mean μ,  variance μ + α μ²                              (2)   α -> 0 is Poisson
    p(y)  = Γ(y + r) / (Γ(r) y!) · (r / (r + μ))^r · (μ / (r + μ))^y,   r = 1 / α              (3)
    fixed     α = alpha                                                                        (4)
    learned   α = positive(PACE · ρ)                        one for all inputs                 (5)
    input     α = positive(output')                         the network predicts it            (6)
    log Γ(y + r) / Γ(r) r^y = (r + y) log(1 + y/r) - y + rest(r + y) - rest(r)                 (7)

Notation   μ from the output as the rate of Poisson is;  rest -> special.py: without (7) a large r loses its digits
Shapes     output (B, 1), or (B, 2) for input-dependent α; y (B,) of whole numbers
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import NegativeBinomial as NegativeBinomialDistribution

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
from leadline.likelihoods.links import PACE, before_positive, check_variance, full, learned, positive
from leadline.likelihoods.prediction import Prediction, check_probability
from leadline.likelihoods.special import beta_below, rest
from leadline.settings import real


class NegativeBinomial(Likelihood):
    """Args:
        variance: "fixed", "learned" (one α for all rows) or "input" (the network predicts one for each row).
        alpha: α of "fixed", and where "learned" begins, above 0.
        scale: the mean at output 0, above 0.

    >>> round(float(NegativeBinomial("fixed").loss(torch.zeros(1, 1), torch.zeros(1))), 4)  # p(0) = ½
    0.6931
    """

    headline = "rmse"
    kinds = ("count", "real", "positive")

    def __init__(self, variance: str = "learned", alpha: float = 1.0, scale: float = 1.0):
        super().__init__()
        self.variance = check_variance(variance)
        self.alpha = real("alpha", alpha, 0, above=True, usual=1.0)
        self.scale = real("scale", scale, 0, above=True, usual=1.0)
        self.dim_output = 2 if self.variance == "input" else 1
        if self.variance == "learned":
            self.rho = learned(before_positive(self.alpha))

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> NegativeBinomial:
        return cls(scale=mean_count("NegativeBinomial", target), **options)

    def dispersion(self, output: Tensor) -> Tensor:
        """α of each row, (B,)."""
        if self.variance == "input":
            return positive(output[:, 1])  # eq. 6
        alpha = positive(PACE * self.rho) if self.variance == "learned" else output.new_tensor(self.alpha)
        return alpha.expand(len(output))  # eqs. 4 and 5

    def distribution(self, output: Tensor) -> NegativeBinomialDistribution:
        output = full(output)
        alpha = self.dispersion(output)
        logits = log_rate_of(output[:, 0], self.scale) + alpha.log()
        return NegativeBinomialDistribution(1 / alpha, logits=logits, validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        output = full(output)
        mu, log_mu = rate_of(output[:, 0], self.scale), log_rate_of(output[:, 0], self.scale)
        return -log_probability(y.to(output.dtype), mu, log_mu, 1 / self.dispersion(output))

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        return count_measures(rate_of(full(output)[:, 0], self.scale), y, self.loss(output, y))

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        return count_summary(means)

    def prediction(self, output: Tensor) -> NegativeBinomialPrediction:
        return NegativeBinomialPrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        check_counts(y)


def log_probability(y: Tensor, mu: Tensor, log_mu: Tensor, r: Tensor) -> Tensor:
    """log p(y) by eqs. 3 and 7."""
    ratio = (r + y) * torch.log1p(y / r) - y + rest(r + y) - rest(r)  # eq. 7
    return ratio - torch.lgamma(y + 1) - (r + y) * torch.log1p(mu / r) + y * log_mu


class NegativeBinomialPrediction(Prediction):
    """A mean and a dispersion for each row."""

    distribution: NegativeBinomialDistribution
    whole = True

    @property
    def mode(self) -> Tensor:
        """⌊(1 - α) μ⌋, and 0 where α is 1 or more."""
        d = self.distribution
        return ((1 - 1 / d.total_count) * d.mean).clamp(min=0).floor()

    def quantile(self, q: float) -> Tensor:
        check_probability("q", q)
        r, logits = self.distribution.total_count.double(), self.distribution.logits.double()
        mean = r * logits.exp()
        std = (mean + mean.square() / r).sqrt()
        k = whole_quantile(self._below, mean, std, q)
        return k.to(self.distribution.logits.dtype)

    def cdf(self, y: Any) -> Tensor:
        return at_most(self._below, self._as_y(y)).to(self.distribution.logits.dtype)

    def _below(self, k: Tensor) -> Tensor:
        """P(Y <= k)."""
        return beta_below(self.distribution.total_count.double(), k + 1, -self.distribution.logits.double())

    def log_prob(self, y: Any) -> Tensor:
        r, logits = self.distribution.total_count, self.distribution.logits
        return log_probability(self._as_y(y).to(r.dtype), r * logits.exp(), r.log() + logits, r)
