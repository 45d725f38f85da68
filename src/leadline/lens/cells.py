"""Linear regions of a network in a box of any dimension, by linear programming.

    largest r  such that  a_i · x + |a_i| r <= b_i  for every side i of the cell        (1)

A cell exists when the largest ball inside of it (1) has a radius. Each unit's hyperplane splits the cells that have a
ball on both of its sides. In one and two dimensions `joints` and `regions` give the same counts and are far faster;
this one serves three and more, for small networks: two linear programs a unit and cell, about 2 ms each.
Limits: see `leadline.lens.piecewise`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from leadline.errors import UserError
from leadline.lens.piecewise import Piecewise, piecewise
from leadline.lens.style import HALF, HUES, blank, label, styled
from leadline.lens.view import View
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_THIN = 1e-9  # a cell is there when its ball is at least this part of the box


@dataclass(frozen=True, eq=False)
class Cells(View):
    """The activation regions of a network in a box.

    Args:
        low, high: corners of the box.
        count: number of regions.
        patterns: state of every unit in each, (regions, units).
        centres: of the largest ball in each, (regions, d); `radii` of these balls, in units of the box's shortest side.
        slopes: derivatives of the outputs in each, (regions, d, K).
    """

    low: np.ndarray
    high: np.ndarray
    count: int
    patterns: np.ndarray
    centres: np.ndarray
    radii: np.ndarray
    slopes: np.ndarray

    @styled
    def plot(self) -> Figure:
        """How large the regions are."""
        figure = blank(HALF * 1.2, 3.2)
        ax = figure.subplots()
        ax.hist(self.radii, min(40, max(5, self.count // 4)), color=HUES[0], alpha=0.8, rwidth=0.94)
        ax.yaxis.get_major_locator().set_params(integer=True)
        title = f"{self.count:,} linear regions in {len(self.low)} dimensions"
        label(ax, title, "radius of the largest ball inside (shortest side of the box)", "regions")
        return figure


def cells(model: nn.Module, low: Any, high: Any, most: int = 20_000) -> Cells:
    """The linear regions of `model` in the box between the corners `low` and `high`; more than `most` are refused.

    >>> net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> _ = nn.init.eye_(net[0].weight), nn.init.zeros_(net[0].bias)
    >>> cells(net, [-1, -1, -1], [1, 1, 1]).count  # the eight octants
    8
    """
    least, largest = (np.atleast_1d(np.array(end, dtype=np.float64)) for end in (low, high))
    if least.shape != largest.shape or least.ndim != 1 or not (least < largest).all():
        raise UserError(
            "low and high must be corners of a box, low below high in each coordinate",
            got=f"{given('low', low)} and {given('high', high)}",
            do="Write low=[-1, -1, -1], high=[1, 1, 1]",
        )
    most, side = whole("most", most), float((largest - least).min())
    with piecewise(model, np.zeros(len(least)), np.eye(len(least))) as seen:
        box = np.concatenate([np.eye(len(least)), -np.eye(len(least))])
        found = [_Cell(box, np.concatenate([largest, -least]), (least + largest) / 2, side / 2)]
        for stage in range(seen.num_stages):
            found = _split(seen, found, stage, _THIN * side, most)
        centres, radii = np.array([cell.centre for cell in found]), np.array([cell.radius for cell in found])
        values, slopes = seen.output(centres), seen.slopes(centres)
        for axis in np.eye(len(least)):
            seen.check(centres + 0.9 * radii[:, None] * axis, slopes, centres, values)
        return Cells(least, largest, len(found), seen.patterns(centres), centres, radii / side, slopes)


@dataclass(frozen=True, eq=False)
class _Cell:
    """{x: sides · x <= offsets}, with its largest ball."""

    sides: np.ndarray
    offsets: np.ndarray
    centre: np.ndarray
    radius: float


def _split(seen: Piecewise, found: list[_Cell], stage: int, thin: float, most: int) -> list[_Cell]:
    centres = np.array([cell.centre for cell in found])
    z, rise = seen.sides(centres, stage), seen.rise(centres, stage)
    after: list[_Cell] = []
    for k, cell in enumerate(found):
        parts = [cell]
        for unit in range(z.shape[1]):
            a = rise[k, :, unit]
            size = float(np.linalg.norm(a))
            if size <= 1e-12 * max(float(np.abs(rise[k]).max()), 1e-300):
                continue  # this unit is constant here
            b = float(a @ cell.centre - z[k, unit])  # the hyperplane a · x = b
            parts = [piece for part in parts for piece in _halves(part, a / size, b / size, thin)]
        after += parts
        if len(after) > most:
            raise UserError(f"there must be at most {most:,} regions", got="more", do="Pass a larger most=, or a box")
    return after


def _halves(cell: _Cell, a: np.ndarray, b: float, thin: float) -> list[_Cell]:
    away = float(a @ cell.centre) - b  # the ball's own side is there already; the other one must show itself
    other = _ball(cell, a if away > 0 else -a, b if away > 0 else -b)
    if other is None or other.radius <= thin:
        return [cell]
    own = _ball(cell, -a if away > 0 else a, -b if away > 0 else b)
    return [other] if own is None or own.radius <= thin else [own, other]


def _ball(cell: _Cell, a: np.ndarray, b: float) -> _Cell | None:
    """The part of the cell with a · x <= b and its largest ball (1); None where there is none."""
    from scipy.optimize import linprog

    sides, offsets = np.vstack([cell.sides, a]), np.append(cell.offsets, b)
    length = np.linalg.norm(sides, axis=1)
    goal = np.append(np.zeros(len(a)), -1.0)
    free = [(None, None)] * len(a) + [(0, None)]
    answer = linprog(goal, np.hstack([sides, length[:, None]]), offsets, bounds=free, method="highs")
    return _Cell(sides, offsets, answer.x[:-1], float(answer.x[-1])) if answer.status == 0 else None
