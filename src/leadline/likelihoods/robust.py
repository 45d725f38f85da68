"""Robust: one number says how little far misses count (Barron, 2019).

    ρ(z) = (b/α) ((z²/b + 1)^{α/2} - 1),   b = |α - 2|,   z = (y - μ)/σ            (1)
         = ½ z²             at α = 2, the normal density's
         = log(½ z² + 1)    at α = 0, Cauchy's (of width √2)
    Z(α) = ∫ e^-ρ(z) dz                                                            (2)   finite for α >= 0 only
    loss = ρ(z) + log Z(α) + log σ                                                 (3)
    learned  α = LOW + (HIGH - LOW) sigmoid(PACE · η)                              (4)   one for all rows

Between the two, α = 1 is a smooth |z|. With α < 0 the loss goes flat and is that of no density, so α lies in [0, 2].
(2) is a sum over z = sinh(π/2 sinh t), t equally spaced: exact to twelve digits with some hundred terms, and its
gradient in α is autograd's. μ and σ come from the output as in location_scale.py. A prediction's `mean` is μ for
every α, the median too.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from leadline.errors import UserError
from leadline.likelihoods.links import PACE, learned
from leadline.likelihoods.location_scale import LocationScale
from leadline.settings import real

LOW, HIGH = 0.01, 1.99  # of a learned α: (1) divides by α and by 2 - α


class Robust(LocationScale):
    """Args:
        variance: "fixed", "learned" (one for all rows) or "input" (the network predicts one for each row): of σ.
        sigma: σ of "fixed", and where "learned" begins, in units of the target's deviation; above 0.
        alpha: α, from 0 to 2, or where learning begins, between 0.01 and 1.99.
        learn_alpha: whether α is learned.
        dim: number of real outputs, at least 1.
        shift, scale: one per output.
        names: of several outputs, for their metrics; 1, 2 … where they are left out.

    >>> round(float(Robust("fixed", alpha=2.0, learn_alpha=False).loss(torch.zeros(1, 1), torch.zeros(1))), 4)
    0.9189
    """

    def __init__(
        self,
        variance: str = "learned",
        sigma: float = 1.0,
        alpha: float = 1.0,
        learn_alpha: bool = True,
        dim: int = 1,
        shift: tuple[float, ...] = (0.0,),
        scale: tuple[float, ...] = (1.0,),
        names: tuple[str, ...] = (),
    ):
        super().__init__(variance, sigma, dim, shift, scale, names)
        self.alpha, self.learn_alpha = real("alpha", alpha, usual=1.0), learn_alpha
        least, most = (LOW, HIGH) if learn_alpha else (0.0, 2.0)
        if not least <= alpha <= most or (learn_alpha and alpha in (LOW, HIGH)):
            raise UserError(
                f"alpha must lie {'between' if learn_alpha else 'from'} {least:g} {'and' if learn_alpha else 'to'} "
                f"{most:g}" + (" to be learned" if learn_alpha else ""),
                got=f"alpha={alpha:g}",
                do="Write alpha=1; 2 is the normal density, smaller is more robust",
            )
        if learn_alpha:
            part = (alpha - LOW) / (HIGH - LOW)
            self.eta = learned(math.log(part / (1 - part)))
        else:
            self._log_total = float(log_total(torch.tensor(alpha, dtype=torch.float64)))

    def robustness(self) -> Tensor:
        """α, of the parameters' own type."""
        if self.learn_alpha:
            return LOW + (HIGH - LOW) * torch.sigmoid(PACE * self.eta[0])  # eq. 4
        return torch.full_like(self._scale[0], self.alpha)

    def standard_loss(self, z: Tensor) -> Tensor:
        alpha = self.robustness()
        if self.learn_alpha:
            return penalty(z, alpha) + log_total(alpha)  # eq. 3
        return (penalty_at(z, self.alpha) if self.alpha in (0, 2) else penalty(z, alpha)) + self._log_total

    def distribution(self, output: Tensor) -> RobustDistribution:
        return RobustDistribution(*self.of_y(output), self.robustness())


def penalty(z: Tensor, alpha: Tensor) -> Tensor:
    """Eq. 1 between its ends, 0 < α < 2."""
    b = 2 - alpha
    return b / alpha * torch.expm1(alpha / 2 * torch.log1p(z.square() / b))


def penalty_at(z: Tensor, end: float) -> Tensor:
    """Eq. 1 at α = 0 or α = 2."""
    return z.square() / 2 if end == 2 else torch.log1p(z.square() / 2)


def log_total(alpha: Tensor, nodes: int = 301) -> Tensor:
    """log Z of eq. 2.

    >>> round(math.exp(float(log_total(torch.tensor(0.0).double())) - math.log(math.pi)), 6)  # √2
    1.414214
    """
    z, weight = _nodes(nodes, 3.6, alpha.dtype, alpha.device)
    return torch.log((torch.exp(-_any_penalty(z, alpha)) * weight).sum())


def _any_penalty(z: Tensor, alpha: Tensor) -> Tensor:
    if alpha.requires_grad:
        return penalty(z, alpha)
    return penalty_at(z, float(alpha)) if float(alpha) in (0.0, 2.0) else penalty(z, alpha)


def _nodes(count: int, reach: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Values of z and their weights in an integral over z; `reach` 3.6 ends at 10^12, where even Cauchy's is over."""
    t = torch.linspace(-reach, reach, count, dtype=torch.float64)
    inner = math.pi / 2 * torch.sinh(t)
    weight = torch.cosh(inner) * math.pi / 2 * torch.cosh(t) * (2 * reach / (count - 1))
    return torch.sinh(inner).to(device, dtype), weight.to(device, dtype)


class RobustDistribution(Distribution):
    """The density of (1), with one α for all rows; probabilities come from a table of e^-ρ summed up in float64."""

    def __init__(self, loc: Tensor, scale: Tensor, alpha: Tensor):
        self.loc, self.scale, self.alpha = loc, scale, alpha
        self._table: tuple[Tensor, Tensor] | None = None
        super().__init__(loc.shape, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinite at α = 0."""
        alpha = self.alpha.detach().cpu().double()
        z, weight = _nodes(2001, 4.6, torch.float64, torch.device("cpu"))
        density = torch.exp(-_any_penalty(z, alpha)) * weight
        ratio = float((density * z.square()).sum() / density.sum()) if float(alpha) > 0 else math.inf
        return self.scale.square() * ratio

    def log_prob(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        return -_any_penalty(z, self.alpha) - log_total(self.alpha) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        z, below = self._lower()
        at = ((value - self.loc) / self.scale).detach().cpu().double()
        half = _interpolate(torch.asinh(-at.abs()), torch.asinh(z), below)
        return torch.where(at < 0, half, 1 - half).to(self.loc.device, self.loc.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        z, below = self._lower()
        q = value.detach().cpu().double()
        size = torch.sinh(-_interpolate(torch.minimum(q, 1 - q), below, torch.asinh(z)))
        return self.loc + self.scale * (torch.sign(q - 0.5) * size).to(self.loc.device, self.loc.dtype)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        u = torch.rand(self._extended_shape(torch.Size(sample_shape)), dtype=self.loc.dtype, device=self.loc.device)
        with torch.no_grad():
            return self.icdf(u.clamp(min=torch.finfo(u.dtype).tiny))

    def _lower(self) -> tuple[Tensor, Tensor]:
        """z <= 0 and P(Z <= z): the lower half, which the symmetry mirrors."""
        if self._table is None:
            alpha = self.alpha.detach().cpu().double()
            z, weight = _nodes(20001, 3.6, torch.float64, torch.device("cpu"))
            z, density = z[:10001], (torch.exp(-_any_penalty(z, alpha)) * weight)[:10001]
            steps = torch.cumsum((density[1:] + density[:-1]) / 2, 0)
            below = torch.cat([density[:1] * 0, steps])
            self._table = z, below / (2 * below[-1])
        return self._table


def _interpolate(at: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The straight line through neighbours of an increasing table."""
    k = torch.searchsorted(x, at.contiguous()).clamp(1, len(x) - 1)
    width = x[k] - x[k - 1]
    part = torch.where(width > 0, (at - x[k - 1]) / width, 0.0)
    return y[k - 1] + part.clamp(0, 1) * (y[k] - y[k - 1])
