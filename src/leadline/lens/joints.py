"""Joints of a network along a line: where a unit switches, exactly.

A scalar network is straight between its joints (figure 3.3 of Prince's book). Joints are found one activation after
another: between two neighbouring known joints the next activation is affine, so where it crosses its level follows
from its values at the two by one division. Limits: see `leadline.lens.piecewise`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from leadline.errors import UserError
from leadline.lens.piecewise import Piecewise, merge, piecewise
from leadline.lens.style import FULL, HUES, SOFT, blank, label, short, styled
from leadline.lens.view import View
from leadline.settings import given

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MERGE = 1e-12  # two joints nearer than this part of the line are one


@dataclass(frozen=True, eq=False)
class Joints(View):
    """Joints along a line, and the pieces between them.

    Args:
        x: the joints, ascending; for a line through a larger space, its parameter, 0 at the start and 1 at the end.
        units: which units switch at each joint, as (activation, unit), both from 0.
        bends: whether the output bends there (a unit can switch without being heard in the output).
        ends: the first and last x.
        values: the output at the start, at each joint and at the end, (joints + 2, K).
        slopes: of the output between them, (joints + 1, K).
        patterns: the state of every unit between them, (joints + 1, units).
        count: activation regions, joints + 1.
        pieces: straight pieces of the output: neighbours of one slope are one.
        scalar: whether x is the network's one input.
    """

    x: np.ndarray
    units: tuple[tuple[tuple[int, int], ...], ...]
    bends: np.ndarray
    ends: tuple[float, float]
    values: np.ndarray
    slopes: np.ndarray
    patterns: np.ndarray
    count: int
    pieces: int
    scalar: bool

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL * 0.7, 3.4)
        ax = figure.subplots()
        at = np.concatenate([[self.ends[0]], self.x, [self.ends[1]]])
        for k in range(self.values.shape[1])[: len(HUES)]:
            name = "output" if self.values.shape[1] == 1 else f"output {k + 1}"
            ax.plot(at, self.values[:, k], color=HUES[k], label=name)
        many = len(self.x) > 60
        for bend, name, face in ((True, "joint", None), (False, "switch without a bend", "white")):
            there = self.bends == bend
            if there.any():
                ax.plot(
                    self.x[there], self.values[1:-1][there, 0], "o", ms=2.5 if many else 4.5, color=HUES[0],
                    mfc=face, mew=1, label=name,
                )  # fmt: skip
        if not many:
            for x in self.x:
                ax.axvline(x, color=SOFT, lw=0.6, alpha=0.5, zorder=0)
        title = f"{self.pieces} straight pieces" + (
            f" in {self.count} activation regions" if self.count != self.pieces else ""
        )
        x = "x" if self.scalar else "place on the line (0 start, 1 end)"
        label(ax, title, x, "output", legend=4)
        ax.set_xlim(*self.ends)
        return figure


def joints(model: nn.Module, low: Any = -1.0, high: Any = 1.0) -> Joints:
    """The joints of `model` from `low` to `high`: two numbers for one input, or two points of any input space.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> with torch.no_grad():
    ...     _ = net[0].weight.copy_(torch.tensor([[1.0], [2.0]])), net[0].bias.copy_(torch.tensor([0.0, -1.0]))
    >>> joints(net).x.tolist()
    [0.0, 0.5]
    """
    start, end = end_of("low", low), end_of("high", high)
    if start.shape != end.shape or (start == end).all() or (start.size == 1 and start.item() >= end.item()):
        raise UserError(
            "low and high must be two ends of a line, low first",
            got=f"{given('low', low)} and {given('high', high)}",
            do="Pass two numbers, or two points of one shape",
        )
    scalar = start.size == 1
    # a scalar line is measured by x itself, so that a joint carries no rounding of a change of scale
    origin, axis = (np.zeros_like(start), np.ones_like(start)) if scalar else (start, end - start)
    ends = (float(start.item()), float(end.item())) if scalar else (0.0, 1.0)
    with piecewise(model, origin, axis[None]) as line:
        at = np.array(ends)
        for stage in range(line.num_stages):
            at = _cut(line, at, stage)
        return _joints(line, at, ends, scalar)


def end_of(name: str, value: Any) -> np.ndarray:
    """A number, or a point of the input space, as an array."""
    try:
        point = np.array(value.detach().cpu() if hasattr(value, "detach") else value, dtype=np.float64)
    except (TypeError, ValueError):
        point = np.array(np.nan)
    if not np.isfinite(point).all():
        raise UserError(f"{name} must be a number or a point", got=given(name, value), do=f"Write {name}=1.0")
    return np.atleast_1d(point)


def _cut(line: Piecewise, at: np.ndarray, stage: int) -> np.ndarray:
    """Known joints and those of one more activation."""
    z = line.sides(at[:, None], stage)
    left, right = z[:-1], z[1:]
    place, _ = np.nonzero(left * right < 0)
    a, b = left[left * right < 0], right[left * right < 0]
    new = at[place] + (at[place + 1] - at[place]) * (a / (a - b))
    at = np.sort(np.concatenate([at, new]))
    keep = np.concatenate([[True], np.diff(at) > _MERGE * (at[-1] - at[0])])
    keep[-1] = True
    return at[keep]


def _joints(line: Piecewise, at: np.ndarray, ends: tuple[float, float], scalar: bool) -> Joints:
    middle = (at[:-1] + at[1:]) / 2
    patterns, slopes, values = line.patterns(middle[:, None]), line.slopes(middle[:, None]), line.output(at[:, None])
    heights = line.output(middle[:, None])
    for corner in (at[:-1], at[1:]):
        line.check(corner[:, None], slopes, middle[:, None], heights)
    slopes = slopes[:, 0]
    switch = patterns[1:] != patterns[:-1]
    bends = np.abs(np.diff(slopes, axis=0)).max(1, initial=0) > 1e-9 * np.abs(slopes).max(initial=0)
    stage = np.repeat(np.arange(line.num_stages), line.widths)
    unit = np.concatenate([np.arange(width) for width in line.widths]) if line.widths else np.zeros(0, int)
    units = tuple(tuple((int(stage[k]), int(unit[k])) for k in np.flatnonzero(row)) for row in switch)
    straight = np.flatnonzero(~bends)
    pieces = merge(len(middle), straight, straight + 1)
    return Joints(at[1:-1], units, bends, ends, values, slopes, patterns, len(middle), pieces, scalar)


def describe(found: Joints) -> list[str]:
    """One line a piece: from where to where, its slope, and which units are active.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    >>> for p in net.parameters():
    ...     _ = nn.init.ones_(p)
    >>> describe(joints(net, -2.0, 2.0))
    ['−2 … −1: slope 0, active none', '−1 … 2: slope 1, active 1']
    """
    at = [found.ends[0], *found.x, found.ends[1]]
    lines = []
    for k in range(found.count):
        active = ", ".join(str(unit + 1) for unit in np.flatnonzero(found.patterns[k])) or "none"
        slope = ", ".join(short(s) for s in found.slopes[k])
        lines.append(f"{short(at[k])} … {short(at[k + 1])}: slope {slope}, active {active}")
    return lines
