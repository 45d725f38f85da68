"""Log-normal: y > 0, and misses by a factor: log y is normal.

    z    = (log y - log m) / σ,   m the median of y                               (1)
    loss = ½ z² + log σ + ½ log 2π + log y                                        (2)
    mean = m e^{σ²/2},   mode = m e^{-σ²}                                         (3)

m and σ come from the output as in positive.py. Fits prices and sizes, whose misses are percentages. The mean hangs on
σ: where log y is not normal, Gamma predicts it more safely.
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.distributions import LogNormal as LogNormalDistribution

from leadline.likelihoods.links import EXACT
from leadline.likelihoods.positive import Positive
from leadline.likelihoods.values import errors


class LogNormal(Positive):
    """Args:
        variance: "fixed", "learned" (one for all rows) or "input" (the network predicts one for each row): of σ.
        sigma: σ of "fixed", and where "learned" begins: the deviation of log y; above 0.
        scale: unit of y.

    >>> import torch
    >>> float(LogNormal("fixed").loss(torch.zeros(1, 1), torch.ones(1)))  # ½ log 2π
    0.9189385175704956
    """

    def __init__(self, variance: str = "learned", sigma: float = 1.0, scale: tuple[float, ...] = (1.0,)):
        super().__init__(variance, sigma, scale)

    def distribution(self, output: Tensor) -> LogNormalDistribution:
        return LogNormalDistribution(self.log_centre(output), self.width(output), validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        sigma, log_y = self.width(output), y.log()
        z = (log_y - self.log_centre(output)) / sigma  # eq. 1
        return 0.5 * z.square() + sigma.log() + 0.5 * math.log(2 * math.pi) + log_y  # eq. 2

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        # e^{σ²/2} of an untrained network may overflow, and an infinite error would hide all others
        log_mean = self.log_centre(output) + self.width(output).square() / 2
        mean = self._unit * (log_mean - self._unit.log()).clamp(max=EXACT).exp()
        return {"nll": self.loss(output, y), **errors(mean[:, None], y[:, None], self._unit, self._unit)}
