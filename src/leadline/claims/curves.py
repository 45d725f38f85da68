"""The view of a claim that is a figure: measured points beside the curve that they are said to follow."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from leadline.lens.style import DASHED, HALF, HUES, INK, SOFT, blank, label, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MANY, _SHORT, _LONG = 60, 1e-3, 1e5
_WIDE = 70  # letters of all names that stand side by side

Points = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Curves(View):
    """Args:
    measured: points by name, drawn as dots on a line; a line alone where they are many.
    expected: curves by name, drawn dashed.
    marks: places on the horizontal axis, by name.
    log: axes on a logarithmic scale: "", "x", "y" or "xy".
    joined: whether a line joins the points.
    names: of the places 0, 1, … of the horizontal axis, where these are cases and no numbers: points are not joined.
    """

    title: str
    x: str
    y: str
    measured: dict[str, Points]
    expected: dict[str, Points] = field(default_factory=dict)
    marks: dict[str, float] = field(default_factory=dict)
    log: str = ""
    joined: bool = True
    names: tuple[str, ...] = ()

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF + 1.2, 3.6)
        axes = figure.subplots()
        for hue, (name, (x, y)) in zip(HUES * 2, self.measured.items()):
            line = "" if self.names or not self.joined else "-"
            axes.plot(x, y, ("" if len(x) > _MANY else "o") + line, ms=3.5, lw=1.2, color=hue, label=name)
        hues = HUES if len(self.expected) > 1 else (INK,)
        for hue, (name, (x, y)) in zip(hues * 2, self.expected.items()):
            if self.names:
                axes.plot(x, y, "_", ms=11, mew=1.5, color=hue, label=name)
            else:
                axes.plot(x, y, lw=1.3, ls=DASHED, color=hue, label=name)
        for name, place in self.marks.items():
            axes.axvline(place, color=SOFT, lw=1, ls=":", label=name)
        axes.set(xscale="log" if "x" in self.log else "linear", yscale="log" if "y" in self.log else "linear")
        self._number(axes)
        label(axes, self.title, self.x, self.y, legend=2)
        return figure

    def _number(self, axes: Axes) -> None:
        """Numbers at the axes that a reader can use: names of cases, counts without fractions, the few sizes that were
        measured; and where a logarithmic axis holds no two powers of ten, numbers between them.
        """
        from matplotlib.ticker import LogLocator, MaxNLocator

        sizes = sorted({float(x) for xs, _ in self.measured.values() for x in xs})
        if self.names:
            crowded = sum(map(len, self.names)) > _WIDE
            turned = {"rotation": 40, "ha": "right"} if crowded else {}
            axes.set_xticks(range(len(self.names)), self.names, **turned)
            axes.set_xlim(-0.5, len(self.names) - 0.5)
        elif "x" not in self.log:
            if all(x == int(x) for x in sizes if math.isfinite(x)):
                axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 2.5, 5, 10], integer=True))
        elif _apart(sizes):
            axes.set_xticks(sizes, [f"{x:,.0f}" if x == int(x) else f"{x:g}" for x in sizes])
        for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
            if name not in self.log:
                continue
            axis.set_minor_formatter("")
            low, high = axis.get_view_interval()
            powers = math.floor(math.log10(high)) - math.ceil(math.log10(low)) + 1
            if powers < 2 and not (name == "x" and _apart(sizes)):
                axis.set_major_locator(MaxNLocator(5) if high < 4 * low else LogLocator(subs=(1.0, 2.0, 5.0)))
                axis.set_major_formatter("{x:g}")


def _apart(sizes: list[float]) -> bool:
    """Whether there are so few, and so far apart on a logarithmic axis, that each can have its number, a short one.

    >>> _apart([4.0, 16.0, 64.0]), _apart([100.0, 101.0, 1000.0])
    (True, False)
    """
    if not 1 < len(sizes) <= 8 or not _SHORT <= sizes[0] <= sizes[-1] < _LONG:
        return False
    steps = [math.log(b / a) for a, b in pairwise(sizes)]
    return min(steps) > 0.09 * sum(steps)
