"""The view of a claim that is a figure: measured points beside the curve that they are said to follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leadline.lens.style import DASHED, HALF, HUES, INK, SOFT, blank, label, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MANY = 60

Points = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Curves(View):
    """Args:
    measured: points by name, drawn as dots on a line; a line alone where they are many.
    expected: curves by name, drawn dashed.
    marks: places on the horizontal axis, by name.
    log: axes on a logarithmic scale: "", "x", "y" or "xy".
    joined: whether a line joins the points.
    """

    title: str
    x: str
    y: str
    measured: dict[str, Points]
    expected: dict[str, Points] = field(default_factory=dict)
    marks: dict[str, float] = field(default_factory=dict)
    log: str = ""
    joined: bool = True

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF + 1.2, 3.6)
        axes = figure.subplots()
        for hue, (name, (x, y)) in zip(HUES * 2, self.measured.items()):
            axes.plot(x, y, ("" if len(x) > _MANY else "o") + "-" * self.joined, ms=3.5, lw=1.2, color=hue, label=name)
        hues = HUES if len(self.expected) > 1 else (INK,)
        for hue, (name, (x, y)) in zip(hues * 2, self.expected.items()):
            axes.plot(x, y, lw=1.3, ls=DASHED, color=hue, label=name)
        for name, place in self.marks.items():
            axes.axvline(place, color=SOFT, lw=1, ls=":", label=name)
        for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
            if name in self.log:
                axes.set(**{f"{name}scale": "log"})
                axis.set_minor_formatter("")
        label(axes, self.title, self.x, self.y, legend=2)
        return figure
