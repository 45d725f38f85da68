"""Exponential: y >= 0, the waiting time for something that may happen at any moment alike.

    p(y) = e^{-y/m} / m,   m the mean                                             (1)
    loss = y/m + log m                                                            (2)

log m comes from the output as in positive.py. The deviation equals the mean; where it does not, Gamma learns it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Exponential as ExponentialDistribution

from leadline.likelihoods.positive import Positive
from leadline.likelihoods.values import check_values


class Exponential(Positive):
    """Args:
        scale: unit of y.

    >>> float(Exponential().loss(torch.zeros(1, 1), torch.ones(1)))
    1.0
    """

    def __init__(self, scale: tuple[float, ...] = (1.0,)):
        super().__init__(None, None, scale)

    def distribution(self, output: Tensor) -> ExponentialDistribution:
        return ExponentialDistribution((-self.log_centre(output)).exp(), validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        log_m = self.log_centre(output)
        return y * torch.exp(-log_m) + log_m  # eq. 2

    def check(self, y: Tensor) -> None:
        check_values(y, least=0)
