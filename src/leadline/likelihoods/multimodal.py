"""What to ask of a mixture: every mode, quantiles, and the region of highest density. None has a closed form.

    modes      where p' changes from + to -: looked for on a grid that is fine wherever a component is     (1)
               (five points to each deviation), then halved to machine precision
    quantile   P(Y <= y) = q by Newton's steps, halved where they leave the range that holds it            (2)
    region     the cells of highest density, until they hold `level`                                       (3)

On a circle, quantiles count from the point opposite the mean direction.
Legend     B rows, K components, G grid points, M modes, R parts of a region
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.distributions import MixtureSameFamily

from leadline.likelihoods.angles import TURN, below, mean_length, wrap
from leadline.likelihoods.prediction import Prediction, check_probability

_ROWS = 4096  # rows at a time
_HALVINGS = 60


class MixturePrediction(Prediction):
    """Several bumps for each row.

    Args:
        distribution: of Normal or von Mises components.
        circular: whether they are von Mises, and y an angle.
    """

    distribution: MixtureSameFamily

    def __init__(self, distribution: MixtureSameFamily, circular: bool = False):
        super().__init__(distribution)
        self.circular = circular
        parts: Any = distribution.component_distribution
        self.log_w = distribution.mixture_distribution.logits.double()
        self.loc = parts.loc.double()
        self.spread = (parts.concentration if circular else parts.scale).double()
        self._dtype = parts.loc.dtype

    @property
    def mean(self) -> Tensor:
        """The expected value; for angles, the mean direction."""
        return self._mean_arrow()[0].to(self._dtype) if self.circular else self.distribution.mean

    @property
    def std(self) -> Tensor:
        if not self.circular:
            return self.distribution.stddev
        return (-2 * self._mean_arrow()[1].log()).clamp(min=0).sqrt().to(self._dtype)

    def _mean_arrow(self) -> tuple[Tensor, Tensor]:
        weight = self.log_w.exp() * mean_length(self.spread)
        x, y = (weight * self.loc.cos()).sum(-1), (weight * self.loc.sin()).sum(-1)
        return torch.atan2(y, x), (x.square() + y.square()).sqrt()

    @cached_property
    def modes(self) -> Tensor:
        """All values at which the density has a peak, the highest first; (B, M), NaN where a row has fewer."""
        blocks = [self._modes(rows) for rows in torch.arange(len(self)).split(_ROWS)] or [self.loc[:, :1]]
        most = max(block.shape[1] for block in blocks)
        padded = [torch.nn.functional.pad(block, (0, most - block.shape[1]), value=math.nan) for block in blocks]
        return torch.cat(padded).to(self._dtype)

    @property
    def mode(self) -> Tensor:
        """The highest of the modes."""
        return self.modes[:, 0]

    def quantile(self, q: float) -> Tensor:
        check_probability("q", q)
        if self.circular:
            centre = self._mean_arrow()[0]
            low, high = centre - math.pi, centre + math.pi
        else:
            own = self.loc + self.spread * float(torch.special.ndtri(torch.tensor(q, dtype=torch.float64)))
            low, high = own.amin(-1), own.amax(-1)
        start, rows = (self._mass(low) if self.circular else 0.0), torch.arange(len(self), device=low.device)
        y = (low + high) / 2
        for turn in range(2 * _HALVINGS):
            off = self._mass(y) - start - q
            low, high = torch.where(off < 0, y, low), torch.where(off < 0, high, y)
            step = y - off / self._density(y, rows)
            # every third step halves, come what may: in a flat tail Newton's steps creep
            moved = torch.where((step > low) & (step < high) & (turn % 3 < 2), step, (low + high) / 2)
            reached = (off.abs() <= 1e-12) | ((moved - y).abs() <= 1e-14 * (1 + y.abs()))
            y = torch.where(reached, y, moved)
            if bool(reached.all()):
                break
        return y.to(self._dtype)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Ends of the central interval: as much lies below it as above. It may hold unlikely values: see `region`."""
        return super().interval(level)

    def region(self, level: float = 0.9) -> Tensor:
        """The likeliest values that together hold y with probability `level` (at least): (B, R, 2), low and high of
        each part, in rising order; NaN where a row has fewer parts."""
        check_probability("level", level)
        blocks = [self._region(rows, level) for rows in torch.arange(len(self)).split(_ROWS)]
        most = max(block.shape[1] for block in blocks)
        padded = [torch.nn.functional.pad(b, (0, 0, 0, most - b.shape[1]), value=math.nan) for b in blocks]
        return torch.cat(padded).to(self._dtype)

    def __len__(self) -> int:
        return len(self.loc)

    # ── the density and its slope ──

    def _log_parts(self, y: Tensor, rows: Tensor) -> Tensor:
        """log w_k p_k(y), up to the one constant of the family; y (N, G) -> (N, G, K)."""
        log_w, loc, spread = self.log_w[rows, None], self.loc[rows, None], self.spread[rows, None]
        if self.circular:
            return log_w - 2 * spread * ((y[..., None] - loc) / 2).sin().square() - torch.special.i0e(spread).log()
        return log_w - 0.5 * ((y[..., None] - loc) / spread).square() - spread.log()

    def _slope(self, y: Tensor, rows: Tensor) -> Tensor:
        """p'(y), scaled to be neither 0 nor infinite far from all components; (N, G)."""
        parts = self._log_parts(y, rows)
        share = (parts - parts.amax(-1, keepdim=True)).exp()
        loc, spread = self.loc[rows, None], self.spread[rows, None]
        pull = spread * (loc - y[..., None]).sin() if self.circular else (loc - y[..., None]) / spread.square()
        return (share * pull).sum(-1)

    def _density(self, y: Tensor, rows: Tensor) -> Tensor:
        """p(y), (N,)."""
        constant = TURN if self.circular else math.sqrt(TURN)
        return self._log_parts(y[:, None], rows).logsumexp(-1)[:, 0].exp() / constant

    def _mass(self, y: Tensor) -> Tensor:
        """P(Y <= y), on a circle up to a constant of the row; (B,)."""
        d = y[:, None] - self.loc
        if self.circular:
            part = below(d.reshape(-1), self.spread.reshape(-1)).view_as(d)
        else:
            part = torch.special.ndtr(d / self.spread)
        return (self.log_w.exp() * part).sum(-1)

    # ── grids ──

    def _grid(self, rows: Tensor, per_deviation: int, reach: float) -> Tensor:
        """Points around each component, (N, G), sorted; on a circle one turn of them, the first repeated at the end."""
        steps = torch.linspace(-reach, reach, int(2 * reach * per_deviation) + 1, dtype=torch.float64)
        steps = steps.to(self.loc.device)
        unit = self.spread[rows].clamp(min=1.0).rsqrt() if self.circular else self.spread[rows]
        points = (self.loc[rows, :, None] + unit[..., None] * steps).flatten(1)
        if not self.circular:
            return points.sort(-1).values
        around = torch.linspace(-math.pi, math.pi, 65, dtype=torch.float64, device=points.device)[1:]
        points = torch.cat([wrap(points), around.expand(len(points), -1)], 1).sort(-1).values
        return torch.cat([points, points[:, :1] + TURN], 1)

    def _modes(self, rows: Tensor) -> Tensor:
        grid = self._grid(rows, 5, 10.0)  # a narrow bump on the slope of a broad one leaves a valley up to 9 σ away
        slope = self._slope(grid, rows)
        row, left = ((slope[:, :-1] > 0) & (slope[:, 1:] <= 0)).nonzero(as_tuple=True)
        low, high = grid[row, left], grid[row, left + 1]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            rises = self._slope(middle[:, None], rows[row])[:, 0] > 0
            low, high = torch.where(rises, middle, low), torch.where(rises, high, middle)
        peak = wrap(high) if self.circular else high
        height = self._log_parts(peak[:, None], rows[row]).logsumexp(-1)[:, 0]
        order = height.argsort(descending=True)
        order = order[row[order].argsort(stable=True)]  # by row, the highest first
        row, peak = row[order], peak[order]
        count = torch.bincount(row, minlength=len(rows))
        place = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
        found = torch.full((len(rows), max(int(count.max()), 1)), math.nan, dtype=torch.float64, device=peak.device)
        found[row, place] = peak
        best = self._log_parts(grid, rows).logsumexp(-1).argmax(-1, keepdim=True)
        flat = count == 0  # no direction at all: any point is as good
        found[flat, 0] = grid.gather(1, best)[flat, 0]
        return found

    def _region(self, rows: Tensor, level: float) -> Tensor:
        grid = self._grid(rows, 20, 6.0)
        if self.circular:  # begin where nothing is, so that no part is cut in two by the seam
            lowest = self._log_parts(grid[:, :-1], rows).logsumexp(-1).argmin(-1, keepdim=True)
            turned = grid[:, :-1] + TURN * (torch.arange(grid.shape[1] - 1, device=grid.device) < lowest)
            grid = turned.sort(-1).values
            grid = torch.cat([grid, grid[:, :1] + TURN], 1)
        middle, width = (grid[:, :-1] + grid[:, 1:]) / 2, grid.diff(dim=-1)
        height = self._log_parts(middle, rows).logsumexp(-1)
        mass = (height - height.amax(-1, keepdim=True)).exp() * width
        mass = mass / mass.sum(-1, keepdim=True)
        order = height.argsort(-1, descending=True)
        sorted_mass = mass.gather(1, order)
        wanted = sorted_mass.cumsum(-1) - sorted_mass < level
        inside = torch.zeros_like(wanted).scatter(1, order, wanted)
        starts = inside & ~torch.nn.functional.pad(inside[:, :-1], (1, 0))
        ends = inside & ~torch.nn.functional.pad(inside[:, 1:], (0, 1))
        count = starts.sum(-1)
        most = int(count.max())
        place = torch.arange(most, device=grid.device) < count[:, None]
        region = torch.full((len(rows), most, 2), math.nan, dtype=torch.float64, device=grid.device)
        region[..., 0][place] = grid[:, :-1][starts]
        region[..., 1][place] = grid[:, 1:][ends]
        return region
