"""Heat maps: y is the places of J points of a picture, and the network draws a bump at each (Tompson et al., 2014).

    d(c)²  = (c_x + ½ - X x)² + (c_y + ½ - Y y)²                                (1)   cell c, in cells
    t(c)   = exp(-d(c)² / (2 s²))                                               (2)
    loss   = Σ_seen points Σ_c (output(c) - t(c))²                              (3)
    peak   = argmax_c output(c)                                                 (4)
    x      = (peak_x + ½ + s² (log output(peak + 1) - log output(peak - 1)) / 2) / X           (5)   and y likewise

Logarithms of (2) are parabolas of the known curvature -1/s², so (5) finds the place of a true bump exactly, between
cells too. At the rim the missing neighbour follows from the other one by that curvature.

    pck_r    = share of the seen points that are missed by less than r of the picture's longer side           (6)
    distance = mean miss of the seen points, in longer sides                                                  (7)

Notation   s -> bump;  (x, y) -> a point, relative to the picture
Shapes     output (B, J, Y, X); y (B, J, 3) of (x, y, seen), seen 1 or 0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError
from leadline.likelihoods.likelihood import Likelihood, full
from leadline.likelihoods.margin import Undistributed, no_density
from leadline.likelihoods.values import names_of
from leadline.settings import real, whole

SHARES = (0.05, 0.1)  # r of eq. 6
_WHAT = "the loss of heat maps"
_INSTEAD = "Use points, and scores, the heights of their peaks"


class HeatMaps(Likelihood):
    """Args:
        num_points: J, at least 1.
        bump: s of eq. 2, the width of a bump in cells of the map, above 0.
        names: of the points; 0, 1 … where they are left out.

    >>> y = torch.tensor([[[0.3, 0.7, 1.0]]])
    >>> maps = HeatMaps(1).bumps(y, (16, 16))
    >>> HeatMaps(1).prediction(maps).points
    tensor([[[0.3000, 0.7000]]])
    """

    headline = "pck_0.1"
    higher_is_better = True
    has_density = False
    kinds = ("points",)

    def __init__(self, num_points: int, bump: float = 1.5, names: Sequence[str] = ()):
        super().__init__()
        self.num_points = self.dim_output = whole("num_points", num_points)
        self.bump = real("bump", bump, 0, above=True, usual=1.5)
        self.names = names_of(names or range(num_points), num_points)  # type: ignore[arg-type]

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> HeatMaps:
        return cls(len(target.classes), names=target.classes, **options)

    def distribution(self, output: Tensor) -> NoReturn:
        raise no_density(_WHAT, "distribution", _INSTEAD)

    def bumps(self, y: Tensor, size: tuple[int, int]) -> Tensor:
        """Eq. 2 of each point on a map of `size` rows and columns, (B, J, Y, X)."""
        across, down = (
            (-((torch.arange(n, device=y.device) + 0.5 - n * y[..., k, None]) ** 2) / (2 * self.bump**2)).exp()
            for k, n in ((0, size[1]), (1, size[0]))
        )
        return down[..., :, None] * across[..., None, :]

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        output = full(output)
        y = y.to(output.dtype)
        seen = y[..., 2] > 0
        off = (output - self.bumps(y, (output.shape[2], output.shape[3]))).square().sum((2, 3))  # (B, J)
        return torch.where(seen, off, 0).sum(1)  # eq. 3

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        output = full(output)
        y = y.to(output.dtype)
        sides = output.new_tensor([output.shape[3], output.shape[2]])
        miss = ((self.prediction(output).points - y[..., :2]) * sides / sides.max()).norm(dim=-1)  # (B, J)
        seen = y[..., 2] > 0
        found = {"loss": self.loss(output, y), "miss": torch.where(seen, miss, 0).sum(1)}
        near = {f"near_{r}": (seen & (miss < r)).sum(1).to(output.dtype) for r in SHARES}
        return found | near | {"seen": seen.sum(1).to(output.dtype)}

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        seen = means["seen"] if means["seen"] > 0 else math.nan  # of nothing there is no mean
        near = {f"pck_{r}": min(means[f"near_{r}"] / seen, 1.0) for r in SHARES}  # eq. 6
        return {"loss": means["loss"], "distance": means["miss"] / seen} | near

    def prediction(self, output: Tensor) -> HeatMapsPrediction:
        return HeatMapsPrediction(full(output), self.bump).named(self.names)

    def check(self, y: Tensor) -> None:
        if y.dim() != 3 or y.shape[1:] != (self.num_points, 3):
            raise ShapeError(
                f"points must have shape (n, {self.num_points}, 3)",
                got=f"y of shape {tuple(y.shape)}",
                do="Pass (x, y, seen) of each point",
            )
        if not y.is_floating_point():
            raise DataError("points must be floating-point numbers", got=f"y of type {y.dtype}", do="Pass y.float()")
        seen = y[..., 2]
        inside = ((y[..., :2] >= 0) & (y[..., :2] <= 1)).all(-1) | (seen == 0)
        for fits, must, do in (
            ((seen == 0) | (seen == 1), "the third number of a point must be 1 where it is seen, else 0", "Recode it"),
            (inside, "points must be given relative to the picture, 0 to 1", "Divide by its width and height"),
        ):
            if not bool(fits.all()):
                row, place = (~fits).nonzero()[0].tolist()
                values = ", ".join(f"{value:g}" for value in y[row, place].tolist())
                raise DataError(must, got=f"{int((~fits).sum())} others, the first ({values}) in picture {row}", do=do)
        if not bool((seen > 0).any()):
            raise DataError("at least one point must be seen", got="none in all pictures", do="Set seen to 1")

    def check_output(self, output: Tensor, y: Tensor) -> None:
        if output.dim() != 4 or output.shape[:2] != (len(y), self.num_points):
            raise ShapeError(
                f"HeatMaps needs {self.num_points} maps for each picture",
                got=f"model output of shape {tuple(output.shape)} for {len(y)} pictures",
                do=f"Take a model that answers with maps, such as Hourglass, with dim_output={self.num_points}",
            )


class HeatMapsPrediction(Undistributed):
    """A map for each point.

    Args:
        maps: (B, J, Y, X).
        bump: their width, in cells.
    """

    def __init__(self, maps: Tensor, bump: float):
        super().__init__(_WHAT, _INSTEAD)
        self.maps, self.bump = maps, bump

    @property
    def scores(self) -> Tensor:
        """The height of each point's peak, from 0 to 1, (B, J)."""
        return self.maps.flatten(2).amax(2).clamp(0, 1)

    @property
    def points(self) -> Tensor:
        """x and y of each point, relative to the picture, by eq. 4 and 5, (B, J, 2)."""
        Y, X = self.maps.shape[2:]
        peak = self.maps.flatten(2).argmax(2)
        row, column = peak // X, peak % X
        x = self._between(_line(self.maps, row, 2), column)
        y = self._between(_line(self.maps, column, 3), row)
        return torch.stack([x / X, y / Y], -1)

    def _between(self, line: Tensor, peak: Tensor) -> Tensor:
        """Eq. 5 along a line of cells (B, J, K), in cells."""
        last, curvature = line.shape[-1] - 1, -1 / self.bump**2
        top = line.gather(-1, peak[..., None]).clamp(min=1e-12)
        height = (line.clamp(min=0) / top).clamp(min=1e-6).log()  # 0 at the peak
        before, after = (height.gather(-1, (peak + step).clamp(0, last)[..., None])[..., 0] for step in (-1, 1))
        before, after = (
            torch.where(peak == 0, curvature - after, before),
            torch.where(peak == last, curvature - before, after),
        )
        offset = ((after - before) * self.bump**2 / 2).clamp(-0.5, 0.5)
        return peak + 0.5 + torch.where(line.amax(-1) > 0, offset, 0)

    @property
    def mode(self) -> Tensor:
        """The points in the form of y, (B, J, 3): x, y and the score."""
        return torch.cat([self.points, self.scores[..., None]], -1)

    def __len__(self) -> int:
        return len(self.maps)


def _line(maps: Tensor, place: Tensor, axis: int) -> Tensor:
    """The row (axis 2) or column (axis 3) of each map at its place, (B, J, K)."""
    across = maps.movedim(axis, -1)
    return across.gather(-1, place[:, :, None, None].expand(*across.shape[:3], 1)).squeeze(-1)
