"""Quantile: y is real, and the network says below which values it stays with given probabilities.

    q_1 = shift + scale · output_1                                                 (1)
    q_k = q_{k-1} + scale · positive(output_k)                                     (2)   quantiles never cross
    pinball_τ(y, q) = τ (y - q)  or, where y < q,  (1 - τ) (q - y)                 (3)
    loss = mean_k pinball_{τ_k}(y, q_k) / scale                                    (4)   least where P(Y <= q_k) = τ_k

(4) is no log-likelihood. The distribution with these quantiles that says least beyond them is flat between two
neighbours and falls off exponentially outside, from the density of the piece beside it:

    p(y) = (τ_{k+1} - τ_k) / (q_{k+1} - q_k)   for q_k <= y < q_{k+1}              (5)
    p(y) = τ_1 e^{(y - q_1)/w} / w             below q_1, and likewise above       (6)

With one level there is no piece, and w = scale. `nll`, mean, samples and what lies between two levels are those of
(5) and (6); beyond the outermost levels nothing was learned, and `quantile` and `interval` refuse.
Notation   τ -> levels
Shapes     output (B, K), K levels; y (B,)
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Distribution

from leadline.data.target import Target
from leadline.errors import UserError
from leadline.likelihoods.continuous import ContinuousPrediction
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import full, positive
from leadline.likelihoods.prediction import check_probability
from leadline.likelihoods.values import check_one_output, check_values

_SAME = 1e-9  # levels nearer than this are one level written twice


class Quantile(Likelihood):
    """Args:
        levels: τ, increasing, each between 0 and 1.
        shift, scale: of y.

    >>> median = Quantile(levels=(0.5,))
    >>> float(median.loss(torch.zeros(1, 1), torch.tensor([3.0])))  # half the absolute error
    1.5
    """

    headline = "pinball"
    loss_is_nll = False
    _shift: Tensor
    _scale: Tensor
    _levels: Tensor

    def __init__(
        self,
        levels: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95),
        shift: tuple[float, ...] = (0.0,),
        scale: tuple[float, ...] = (1.0,),
    ):
        super().__init__()
        self.levels, self.shift, self.scale = check_levels(levels), tuple(shift), tuple(scale)
        self.dim_output = len(self.levels)
        for name, values in (("_levels", self.levels), ("_shift", self.shift), ("_scale", self.scale)):
            self.register_buffer(name, torch.tensor(values), persistent=False)

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Quantile:
        check_one_output(cls.__name__, target)
        return cls(shift=target.shift, scale=target.scale, **options)

    def distribution(self, output: Tensor) -> PiecewiseDistribution:
        output = full(output)
        first = self._shift + self._scale * output[:, 0]  # eq. 1
        return PiecewiseDistribution(self._levels, first, self._scale * positive(output[:, 1:]), self._scale)  # eq. 2

    def knots(self, output: Tensor) -> Tensor:
        """q, (B, K), in y's own unit."""
        output = full(output)
        rises = torch.cat([output[:, :1], positive(output[:, 1:])], dim=1)
        return self._shift + self._scale * rises.cumsum(1)  # eqs. 1 and 2

    def pinball(self, output: Tensor, y: Tensor) -> Tensor:
        """Eq. 3 in y's own unit, its mean over the levels, (B,)."""
        short = y[:, None] - self.knots(output)
        return torch.maximum(self._levels * short, (self._levels - 1) * short).mean(1)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        return self.pinball(output, y) / self._scale  # eq. 4

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        q = self.knots(output)
        inside = y <= q[:, -1] if len(self.levels) == 1 else (q[:, 0] <= y) & (y <= q[:, -1])
        return {
            "nll": -self.distribution(output).log_prob(y),
            "pinball": self.pinball(output, y),
            "below" if len(self.levels) == 1 else "coverage": inside.to(q.dtype),
        }

    def prediction(self, output: Tensor) -> QuantilePrediction:
        return QuantilePrediction(self.distribution(output), self.levels)

    def check(self, y: Tensor) -> None:
        check_values(y)


def check_levels(levels: Any) -> tuple[float, ...]:
    """Levels of quantiles: numbers between 0 and 1, increasing."""
    try:
        found = tuple(float(level) for level in ([levels] if isinstance(levels, (int, float)) else levels))
    except (TypeError, ValueError):
        found = ()
    apart = all(b - a > _SAME for a, b in itertools.pairwise(found))
    if not found or not apart or not all(0 < level < 1 for level in found):
        raise UserError(
            "levels must be numbers between 0 and 1, in increasing order",
            got=f"levels={levels!r}",
            do="Write levels=(0.05, 0.5, 0.95)",
        )
    return found


class PiecewiseDistribution(Distribution):
    """Eqs. 5 and 6.

    Args:
        levels: (K,), increasing.
        first: q_1, (B,).
        gaps: q_{k+1} - q_k, (B, K-1), above 0: differences of the q themselves could round to 0.
        unit: w where there is one level only.
    """

    def __init__(self, levels: Tensor, first: Tensor, gaps: Tensor, unit: Tensor):
        self.levels, self.masses, self.first, self.gaps = levels, levels.diff(), first, gaps
        self.knots = torch.cat([first[:, None], first[:, None] + gaps.cumsum(1)], dim=1)
        self.last = self.knots[:, -1]
        ends = (levels[0], 1 - levels[-1])
        if len(levels) > 1:
            self.below = ends[0] * self.gaps[:, 0] / self.masses[0]
            self.above = ends[1] * self.gaps[:, -1] / self.masses[-1]
        else:
            self.below = self.above = unit.expand_as(self.first)
        # densities of the K + 1 pieces, the tails' where they begin
        inner = self.masses.log() - self.gaps.log()
        tails = [(end.log() - width.log())[:, None] for end, width in zip(ends, (self.below, self.above), strict=True)]
        self.log_heights = torch.cat([tails[0], inner, tails[1]], dim=1)
        super().__init__(self.first.shape, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        piece = (value[..., None] >= self.knots).sum(-1, keepdim=True)
        height = self.log_heights.expand(*value.shape, -1).gather(-1, piece).squeeze(-1)
        return height - F.relu(self.first - value) / self.below - F.relu(value - self.last) / self.above

    def cdf(self, value: Tensor) -> Tensor:
        inside = self.levels[0] + (((value[..., None] - self.knots[:, :-1]) / self.gaps).clamp(0, 1) * self.masses).sum(
            -1
        )
        low = self.levels[0] * torch.exp(-F.relu(self.first - value) / self.below)
        high = 1 - (1 - self.levels[-1]) * torch.exp(-F.relu(value - self.last) / self.above)
        return torch.where(value < self.first, low, torch.where(value > self.last, high, inside))

    def icdf(self, value: Tensor) -> Tensor:
        part = ((value[..., None] - self.levels[:-1]) / self.masses).clamp(0, 1)
        inside = self.first + (part * self.gaps).sum(-1)
        low = self.below * torch.log((value / self.levels[0]).clamp(max=1))
        high = self.above * torch.log(((1 - value) / (1 - self.levels[-1])).clamp(max=1))
        return inside + low - high

    def sample(self, sample_shape: Any = ()) -> Tensor:
        u = torch.rand(self._extended_shape(torch.Size(sample_shape)), dtype=self.knots.dtype, device=self.knots.device)
        with torch.no_grad():
            return self.icdf(u.clamp(min=torch.finfo(u.dtype).tiny))

    @property
    def mean(self) -> Tensor:
        return self.first + self._moments()[0]

    @property
    def variance(self) -> Tensor:
        first, second = self._moments()
        return second - first.square()

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Means of y - q_1 and of its square."""
        start, gap = self.gaps.cumsum(1) - self.gaps, self.gaps
        low, high, end = self.levels[0], 1 - self.levels[-1], self.gaps.sum(1)
        first = (self.masses * (start + gap / 2)).sum(1) - low * self.below + high * (end + self.above)
        second = (self.masses * (start.square() + start * gap + gap.square() / 3)).sum(1)
        second = second + 2 * low * self.below.square()
        return first, second + high * (end.square() + 2 * end * self.above + 2 * self.above.square())

    @property
    def mode(self) -> Tensor:
        """The middle of the densest piece."""
        if not self.gaps.shape[1]:
            return self.first
        middles = self.knots[:, :-1] + self.gaps / 2
        return middles.gather(1, self.log_heights[:, 1:-1].argmax(1, keepdim=True)).squeeze(1)


class QuantilePrediction(ContinuousPrediction):
    """Quantiles at the levels that were trained, and a line between two neighbours."""

    def __init__(self, distribution: PiecewiseDistribution, levels: tuple[float, ...]):
        super().__init__(distribution)
        self.levels = levels

    def quantile(self, q: float) -> Tensor:
        check_probability("q", q)
        if not self.levels[0] - _SAME <= q <= self.levels[-1] + _SAME:
            raise UserError(
                "a quantile must lie within the levels that were trained",
                got=f"q={q:g} of a Quantile prediction of {', '.join(f'{level:g}' for level in self.levels)}",
                do=f"Train with levels that reach {q:g}",
            )
        return super().quantile(min(max(q, self.levels[0]), self.levels[-1]))
