"""Von Mises: y is an angle in radians, and gathers around a mean direction as on a circle.

    p(y) = e^{κ cos(y - μ)} / (2π I0(κ))                                                    (1)
    loss = -κ cos(y - μ) + log I0(κ) + log 2π                                               (2)
    (cos μ, sin μ) = (o1, o2) / |o|               an arrow has no seam where -π meets π     (3)
    fixed     κ = kappa                                                                     (4)
    learned   κ = exp(gentle(PACE · ρ))           one for all inputs                        (5)
    input     κ = |o|                             the longer the arrow, the surer           (6)

Notation   μ -> mean direction, in (-π, π];  κ -> concentration: 0 is no direction at all, 1/√κ about the deviation
Shapes     output (B, 2); y (B,), of any turn from -2π to 2π
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from leadline.data.target import Target
from leadline.likelihoods.angles import (
    TURN,
    angular_distance,
    below,
    check_angles,
    drawn,
    half_width,
    log_i0,
    mean_length,
    wrap,
)
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import PACE, check_variance, full, gentle, learned
from leadline.likelihoods.prediction import Prediction, check_probability
from leadline.settings import real

_SHORTEST = 1e-6  # an arrow of length 0 points nowhere, and its gradient is not defined


class VonMises(Likelihood):
    """Args:
        variance: "fixed", "learned" (one κ for all rows) or "input" (the network predicts one for each row).
        kappa: κ of "fixed", and where "learned" begins, above 0.

    >>> round(float(VonMises("fixed", kappa=2.0).loss(torch.tensor([[0.0, 1.0]]), torch.tensor([math.pi / 2]))), 4)
    0.6619
    """

    headline = "mae"
    kinds = ("angle", "real", "positive")
    dim_output = 2

    def __init__(self, variance: str = "learned", kappa: float = 1.0):
        super().__init__()
        self.variance = check_variance(variance)
        self.kappa = real("kappa", kappa, 0, above=True, usual=1.0)
        if self.variance == "learned":
            self.rho = learned(math.log(self.kappa))

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> VonMises:
        return cls(**options)

    def concentration(self, output: Tensor) -> Tensor:
        """κ of each row, (B,)."""
        if self.variance == "input":
            return _length(output)  # eq. 6
        kappa = gentle(PACE * self.rho).exp() if self.variance == "learned" else output.new_tensor(self.kappa)
        return kappa.expand(len(output))  # eqs. 4 and 5

    def distribution(self, output: Tensor) -> VonMisesDistribution:
        output = full(output)
        return VonMisesDistribution(torch.atan2(output[:, 1], output[:, 0]), self.concentration(output))

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        output = full(output)
        kappa = self.concentration(output)
        along = output[:, 0] * y.cos() + output[:, 1] * y.sin()  # |o| cos(y - μ)
        if self.variance == "input":
            return log_i0(kappa) + math.log(TURN) - along
        return log_i0(kappa) + math.log(TURN) - kappa * along / _length(output)  # eq. 2

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        output = full(output)
        off = angular_distance(y, torch.atan2(output[:, 1], output[:, 0]))
        return {"nll": self.loss(output, y), "mae": off}

    def prediction(self, output: Tensor) -> VonMisesPrediction:
        return VonMisesPrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        check_angles(y)


def _length(arrow: Tensor) -> Tensor:
    return (arrow.square().sum(-1) + _SHORTEST**2).sqrt()


class VonMisesDistribution(Distribution):
    """Eq. 1 as torch has distributions. Torch's own knows I0 to seven digits, this one to all of them; and a million
    draws of torch's take seconds, since it draws all of them again until the last is kept.

    Args:
        loc: μ, in (-π, π].
        concentration: κ, above 0.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 - as torch declares it

    def __init__(self, loc: Tensor, concentration: Tensor):
        self.loc, self.concentration = loc, concentration
        super().__init__(loc.shape, validate_args=False)

    @property
    def mean(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """√(-2 log |mean arrow|), which is about 1/√κ for large κ."""
        return (-2 * mean_length(self.concentration).log()).sqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        return self.concentration * torch.cos(value - self.loc) - math.log(TURN) - log_i0(self.concentration)

    def entropy(self) -> Tensor:
        kappa = self.concentration
        return math.log(TURN) + log_i0(kappa) - kappa * mean_length(kappa)

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(torch.Size(sample_shape))
        return wrap(self.loc + drawn(self.concentration.expand(shape)).to(self.loc.dtype))

    def cdf(self, value: Tensor) -> Tensor:
        """The mass of the arc from the point opposite the mean direction to `value`."""
        d = wrap(value - self.loc)
        kappa = self.concentration.expand_as(d)
        return below(d.double().flatten(), kappa.double().flatten()).view_as(d).to(d.dtype)


class VonMisesPrediction(Prediction):
    """A direction for each row. Quantiles and intervals are counted from the mean direction, and may pass ±π."""

    distribution: VonMisesDistribution
    circular = True

    @property
    def mode(self) -> Tensor:
        return self.distribution.loc

    def quantile(self, q: float) -> Tensor:
        """The end of the arc that begins opposite the mean direction and holds y with probability `q`."""
        check_probability("q", q)
        half = half_width(abs(2 * q - 1), self.distribution.concentration) if q != 0.5 else 0.0
        return (self.mode + math.copysign(1, q - 0.5) * half).to(self.mode.dtype)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Ends of the arc around the mean direction that holds y with probability `level`: low <= mean <= high.

        An end beyond ±π has passed the seam: `wrap` brings it back, and `holds` compares rightly.
        """
        return super().interval(level)


__all__ = ["VonMises", "VonMisesDistribution", "VonMisesPrediction", "wrap"]
