"""Laplace: y is real, and misses by an exponential to either side: mean absolute error, with its width.

    p(y) = exp(-|y - μ| / σ) / 2σ                                                 (1)
    loss = |y - μ| / σ + log 2σ                                                   (2)

The best μ is the median of y, which a few wild values do not move. μ and σ come from the output as in
location_scale.py; the standard deviation is √2 σ.
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.distributions import Laplace as LaplaceDistribution

from leadline.likelihoods.location_scale import LocationScale


class Laplace(LocationScale):
    """Args:
        variance: "fixed", "learned" (one for all rows) or "input" (the network predicts one for each row).
        sigma: σ of "fixed", and where "learned" begins, in units of the target's deviation; above 0.
        dim: number of real outputs, at least 1.
        shift, scale: one per output.
        names: of several outputs, for their metrics; 1, 2 … where they are left out.

    >>> import torch
    >>> float(Laplace("fixed").loss(torch.zeros(1, 1), torch.zeros(1)))  # log 2
    0.6931471824645996
    """

    def standard_loss(self, z: Tensor) -> Tensor:
        return z.abs() + math.log(2)  # eq. 2

    def distribution(self, output: Tensor) -> LaplaceDistribution:
        return LaplaceDistribution(*self.of_y(output), validate_args=False)
