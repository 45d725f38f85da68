"""Beta: y is a proportion, between 0 and 1.

    m    = sigmoid(output)                                                               (1)
    c    = 1/σ²;   fixed σ = sigma,  learned σ = positive(PACE · ρ),  input σ = positive(output')   (2)
    a    = c m + ε,   b = c (1 - m) + ε                                                  (3)
    p(y) = y^{a-1} (1 - y)^{b-1} / B(a, b)                                               (4)
    loss = log B(a, b) - (a - 1) log y - (b - 1) log(1 - y)                              (5)

The variance is m (1 - m) / (c + 1), up to ε. (4) is 0 or infinite at y = 0 and y = 1, so y is scored as if it lay in
[edge, 1 - edge]: exact zeros and ones are allowed, and count as what can no longer be told from them. Where they are
many, nothing-or-something is a question of its own: ask it with Bernoulli.
Shapes     output (B, 1), or (B, 2) for input-dependent width; y (B,)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Beta as TorchBeta

from leadline.data.target import Target
from leadline.likelihoods.continuous import ContinuousPrediction
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import FLOOR, PACE, before_positive, check_variance, full, learned, positive
from leadline.likelihoods.special import beta_below, beta_quantile, log_beta
from leadline.likelihoods.values import check_one_output, check_values, error_summary, errors
from leadline.settings import real

_SHARPEST = 0.01  # least σ: (5) is a difference of terms as large as 1/σ²


class Beta(Likelihood):
    """Args:
        variance: "fixed", "learned" (one for all rows) or "input" (the network predicts one for each row): of σ.
        sigma: σ of "fixed", and where "learned" begins, in units of √(m (1 - m)) nearly; above 0.
        edge: how near to 0 and 1 a proportion is told apart from them; above 0 and below 0.5.

    >>> round(float(Beta("fixed", sigma=0.5).loss(torch.zeros(1, 1), torch.full((1,), 0.5))), 3)  # -log 3/2
    -0.405
    """

    headline = "rmse"
    kinds = ("proportion", "real")

    def __init__(self, variance: str = "learned", sigma: float = 0.3, edge: float = 1e-4):
        super().__init__()
        self.variance, self.sigma = check_variance(variance), real("sigma", sigma, _SHARPEST, above=True, usual=0.3)
        self.edge = real("edge", edge, 0, 0.5, above=True, usual=1e-4)
        self.dim_output = 2 if variance == "input" else 1
        if variance == "learned":
            self.rho = learned(before_positive(sigma, _SHARPEST))

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Beta:
        check_one_output(cls.__name__, target)
        return cls(**options)

    def parameters_of(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """a and b, (B,)."""
        output = full(output)
        if self.variance == "input":
            sigma = positive(output[:, 1], _SHARPEST)
        elif self.variance == "learned":
            sigma = positive(PACE * self.rho, _SHARPEST)
        else:
            sigma = torch.full_like(output[:1, 0], self.sigma)
        c = sigma.square().reciprocal()  # eq. 2
        return c * torch.sigmoid(output[:, 0]) + FLOOR, c * torch.sigmoid(-output[:, 0]) + FLOOR  # eq. 3

    def distribution(self, output: Tensor) -> BetaDistribution:
        a, b = self.parameters_of(output)
        return BetaDistribution(a, b, validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        a, b = self.parameters_of(output)
        y = y.clamp(self.edge, 1 - self.edge)
        return log_beta(a, b) - (a - 1) * y.log() - (b - 1) * torch.log1p(-y)  # eq. 5

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        point, half = self.distribution(output).mean[:, None], torch.full_like(y[:1], 0.5)
        return {"nll": self.loss(output, y), **errors(point, y[:, None], half, half)}

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        return {"nll": means["nll"], **error_summary(means)}

    def prediction(self, output: Tensor) -> BetaPrediction:
        return BetaPrediction(self.distribution(output), self.edge)

    def check(self, y: Tensor) -> None:
        check_values(y, least=0, most=1)


class BetaDistribution(TorchBeta):
    """torch's density, with its distribution function and quantiles."""

    def cdf(self, value: Tensor) -> Tensor:
        a, b = self.concentration1.detach().double(), self.concentration0.detach().double()
        logit = torch.logit(value.double(), 1e-300)
        inside = beta_below(a, b, logit)
        return torch.where(value <= 0, 0.0, torch.where(value >= 1, 1.0, inside)).to(self.concentration1.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        logit = beta_quantile(self.concentration1, self.concentration0, value)
        return torch.sigmoid(logit).to(self.concentration1.device, self.concentration1.dtype)


class BetaPrediction(ContinuousPrediction):
    """A density over 0 … 1 for each row."""

    def __init__(self, distribution: BetaDistribution, edge: float):
        super().__init__(distribution)
        self.edge = edge

    def log_prob(self, y: Any) -> Tensor:
        """log p(y) of each row, y taken as if it lay in [edge, 1 - edge]."""
        return self.distribution.log_prob(self._as_y(y).clamp(self.edge, 1 - self.edge))
