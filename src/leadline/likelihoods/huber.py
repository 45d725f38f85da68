"""Huber: y is real, and misses by a bell curve whose tails are cut short to exponentials.

    ρ(z) = ½ z²            for |z| <= δ,    z = (y - μ)/σ                  (1)
         = δ |z| - ½ δ²    beyond
    Z    = √2π (2Φ(δ) - 1) + (2/δ) e^{-δ²/2}                               (2)   the integral of e^-ρ
    loss = ρ(z) + log Z + log σ                                            (3)

Small misses are squared, large ones count by their size alone: a wild value pulls with force δ/σ and no more. As a
density it knows its own width. μ and σ come from the output as in location_scale.py.
Notation   Φ, φ -> distribution function and density of the standard normal
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from leadline.likelihoods.location_scale import LocationScale
from leadline.settings import real


class Huber(LocationScale):
    """Args:
        variance: "fixed", "learned" (one for all rows) or "input" (the network predicts one for each row): of σ.
        sigma: σ of "fixed", and where "learned" begins, in units of the target's deviation; above 0.
        delta: where the square ends, in units of σ; above 0. At 1.345 a normal y costs 5 % more rows than with Normal.
        dim: number of real outputs, at least 1.
        shift, scale: one per output.
        names: of several outputs, for their metrics; 1, 2 … where they are left out.

    >>> round(float(Huber("fixed", delta=50.0).loss(torch.zeros(1, 1), torch.zeros(1))), 4)  # as Normal: ½ log 2π
    0.9189
    """

    def __init__(
        self,
        variance: str = "learned",
        sigma: float = 1.0,
        delta: float = 1.345,
        dim: int = 1,
        shift: tuple[float, ...] = (0.0,),
        scale: tuple[float, ...] = (1.0,),
        names: tuple[str, ...] = (),
    ):
        super().__init__(variance, sigma, dim, shift, scale, names)
        self.delta = real("delta", delta, 0, above=True, usual=1.345)
        self.log_normaliser = math.log(normaliser(self.delta))

    def standard_loss(self, z: Tensor) -> Tensor:
        size = z.abs()
        near = size.clamp(max=self.delta)
        return near * (size - near / 2) + self.log_normaliser  # eqs. 1 and 3

    def distribution(self, output: Tensor) -> HuberDistribution:
        return HuberDistribution(*self.of_y(output), self.delta)


def normaliser(delta: float) -> float:
    """Z of eq. 2.

    >>> round(normaliser(50.0) ** 2 / math.pi, 6)
    2.0
    """
    return math.sqrt(2 * math.pi) * math.erf(delta / math.sqrt(2)) + 2 / delta * math.exp(-(delta**2) / 2)


class HuberDistribution(Distribution):
    """A bell with exponential tails, (2): each tail holds e^{-δ²/2} / (δ Z)."""

    def __init__(self, loc: Tensor, scale: Tensor, delta: float):
        self.loc, self.scale, self.delta = loc, scale, delta
        self.total = normaliser(delta)
        self.tail = math.exp(-(delta**2) / 2) / (delta * self.total)
        super().__init__(loc.shape, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        d = self.delta
        middle = math.sqrt(2 * math.pi) * math.erf(d / math.sqrt(2)) - 2 * d * math.exp(-(d**2) / 2)
        tails = 2 * math.exp(-(d**2) / 2) * (d + 2 / d + 2 / d**3)
        return self.scale.square() * ((middle + tails) / self.total)

    def log_prob(self, value: Tensor) -> Tensor:
        size = ((value - self.loc) / self.scale).abs()
        near = size.clamp(max=self.delta)
        return -near * (size - near / 2) - self.scale.log() - math.log(self.total)

    def cdf(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        size = z.abs()
        beyond = self.tail * torch.exp(-self.delta * (size - self.delta))  # P(Z > |z|) in the tail
        bell = math.sqrt(2 * math.pi) / self.total
        within = self.tail + bell * (torch.special.ndtr(-size) - torch.special.ndtr(torch.full_like(z, -self.delta)))
        above = torch.where(size > self.delta, beyond, within)
        return torch.where(z < 0, above, 1 - above)

    def icdf(self, value: Tensor) -> Tensor:
        tail = torch.minimum(value, 1 - value)
        beyond = self.delta - torch.log(tail / self.tail) / self.delta
        start = torch.special.ndtr(torch.full_like(tail, -self.delta))
        bell = math.sqrt(2 * math.pi) / self.total
        within = -torch.special.ndtri((start + (tail - self.tail) / bell).clamp(0, 0.5))
        size = torch.where(tail < self.tail, beyond, within)
        return self.loc + self.scale * torch.sign(value - 0.5) * size

    def sample(self, sample_shape: Any = ()) -> Tensor:
        u = torch.rand(self._extended_shape(torch.Size(sample_shape)), dtype=self.loc.dtype, device=self.loc.device)
        with torch.no_grad():
            return self.icdf(u.clamp(min=torch.finfo(u.dtype).tiny))
