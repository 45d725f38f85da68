"""Normal: y is real, and misses its mean by a bell curve.

    p_standard(z) = e^{-z²/2} / √(2π)                                             (1)
    loss = ½ ((y - μ) / σ)² + log σ + ½ log 2π                                    (2)   fixed σ: least squares

Notation   μ, σ and the three ways to have σ -> location_scale.py
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.distributions import Normal as NormalDistribution

from leadline.likelihoods.location_scale import LocationScale


class Normal(LocationScale):
    """Args:
        variance: "fixed", "learned" (one for all rows) or "input" (the network predicts one for each row).
        sigma: σ of "fixed", and where "learned" begins, in units of the target's deviation; above 0.
        dim: number of real outputs, at least 1.
        shift, scale: one per output.
        names: of several outputs, for their metrics; 1, 2 … where they are left out.

    >>> import torch
    >>> float(Normal(variance="fixed").loss(torch.zeros(1, 1), torch.zeros(1)))  # ½ log 2π
    0.9189385175704956
    """

    headline = "rmse"

    def standard_loss(self, z: Tensor) -> Tensor:
        return 0.5 * z.square() + 0.5 * math.log(2 * math.pi)  # eq. 1

    def distribution(self, output: Tensor) -> NormalDistribution:
        return NormalDistribution(*self.of_y(output), validate_args=False)
