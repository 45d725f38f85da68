"""Gamma: y > 0, of mean m and relative deviation σ: durations, amounts, speeds.

    k    = 1/σ²,   p(y) = (k/m)^k y^{k-1} e^{-ky/m} / Γ(k)                         (1)
    u    = log y - log m
    loss = k (e^u - 1 - u) + rest(k) + log y                                       (2)   rest -> special.py

m and σ come from the output as in positive.py; k is the shape, m/k the scale of textbooks. σ = 1 is the exponential
density. Even where y is not gamma, the best m is the mean of y.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Gamma as TorchGamma

from leadline.likelihoods.positive import Positive
from leadline.likelihoods.special import gamma_quantile, rest


class Gamma(Positive):
    """Args:
        variance: "fixed", "learned" (one for all rows) or "input" (the network predicts one for each row): of σ, hence
            of the shape k = 1/σ².
        sigma: σ of "fixed", and where "learned" begins: the deviation of y over its mean; above 0.
        scale: unit of y.

    >>> float(Gamma("fixed").loss(torch.zeros(1, 1), torch.ones(1)))  # the exponential density at its mean
    1.0
    """

    def __init__(self, variance: str = "learned", sigma: float = 1.0, scale: tuple[float, ...] = (1.0,)):
        super().__init__(variance, sigma, scale)

    def distribution(self, output: Tensor) -> GammaDistribution:
        shape = self.width(output).square().reciprocal()  # eq. 1
        return GammaDistribution(shape, shape * (-self.log_centre(output)).exp(), validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        shape, log_y = self.width(output).square().reciprocal(), y.log()
        u = log_y - self.log_centre(output)
        return shape * (torch.expm1(u) - u) + rest(shape) + log_y  # eq. 2


class GammaDistribution(TorchGamma):
    """torch's density, with quantiles."""

    def icdf(self, value: Tensor) -> Tensor:
        standard = gamma_quantile(self.concentration, value)
        return standard.to(self.rate.device, self.rate.dtype) / self.rate
