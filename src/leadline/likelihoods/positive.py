"""Families of y > 0: what they share.

    unit  -> mean of y over the training split: the network predicts logarithms of multiples of it
    log m = log unit + gentle(output)                                      (1)   gentle -> links.py
    fixed     σ = sigma                                                    (2)
    learned   σ = positive(PACE · ρ)         one ρ for all inputs          (3)
    input     σ = positive(output')          one for each row              (4)

σ has no unit: it is a relative deviation. There is no shift, since y > 0 ends at 0.
Shapes     output (B, 1), or (B, 2) for input-dependent width; y (B,)
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from leadline.data.target import Target
from leadline.likelihoods.continuous import ContinuousPrediction
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import PACE, before_positive, check_variance, full, gentle, learned, positive
from leadline.likelihoods.values import check_one_output, check_values, error_summary, errors, unit_of
from leadline.settings import real


class PositivePrediction(ContinuousPrediction):
    """A density of numbers above 0."""

    positive = True


class Positive(Likelihood):
    """A family adds its `distribution` and its `loss`."""

    headline = "rmse"
    kinds = ("positive", "real", "proportion")
    _unit: Tensor

    def __init__(self, variance: str | None, sigma: float | None, scale: tuple[float, ...]):
        super().__init__()
        self.scale = tuple(scale)
        self.register_buffer("_unit", torch.tensor(self.scale), persistent=False)
        self.dim_output = 2 if variance == "input" else 1
        if variance is not None:
            self.variance = check_variance(variance)
            self.sigma = real("sigma", sigma, 0, above=True, usual=1.0)
            if variance == "learned":
                self.rho = learned(before_positive(self.sigma))

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Self:
        check_one_output(cls.__name__, target)
        return cls(scale=unit_of(target), **options)

    def log_centre(self, output: Tensor) -> Tensor:
        """log m of eq. 1, (B,)."""
        return self._unit.log() + gentle(full(output)[:, 0])

    def width(self, output: Tensor) -> Tensor:
        """σ, (B,)."""
        if self.variance == "input":
            return positive(full(output)[:, 1])  # eq. 4
        if self.variance == "learned":
            return positive(PACE * self.rho).expand(len(output))  # eq. 3
        return torch.full_like(full(output)[:, 0], self.sigma)  # eq. 2

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        point = self.distribution(output).mean
        return {"nll": self.loss(output, y), **errors(point[:, None], y[:, None], self._unit, self._unit)}

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        return {"nll": means["nll"], **error_summary(means)}

    def prediction(self, output: Tensor) -> PositivePrediction:
        return PositivePrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        check_values(y, least=0, above=True)
