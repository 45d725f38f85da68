"""Outputs and probabilities of a classifier over one feature (figures 5.7 and 5.9 of Prince's book)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leadline.lens.held import Feature
from leadline.lens.style import DASHED, HUES, INK, SOFT, blank, label, percent, short, some, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LANES = 6  # classes up to which the rows of each have a lane of their own


@dataclass(frozen=True, eq=False)
class ClassCurve(View):
    """What a classifier says over one feature, with the rows.

    Args:
        feature: what the curves run over, and what is held; `x` its values, or the codes of its levels.
        target, family: names of y and of the likelihood; `classes` names of the classes, or of the items of a ranking.
        outputs: of the network, (num, K).  cuts: between which outputs a class of an order is likeliest; else none.
        probabilities: (num, C), of each class; of a ranking, of the first place.
        sure: whether they are probabilities; a margin names a class, with 1, and no probability.
        ranked: whether y is a ranking.
        points, y, wrong: of each row its place, its class, and whether the answer to the whole row is wrong.
        loss: mean of the rows.
    """

    feature: Feature
    x: np.ndarray
    target: str
    family: str
    classes: tuple[str, ...]
    outputs: np.ndarray
    cuts: np.ndarray
    probabilities: np.ndarray
    sure: bool
    ranked: bool
    points: np.ndarray
    y: np.ndarray
    wrong: np.ndarray
    loss: float

    @styled
    def plot(self) -> Figure:
        figure = blank(6.6, 5.8)
        top, low = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.6])
        self._outputs(top)
        order = np.argsort(-self.probabilities.max(0), kind="stable")[: len(HUES)]
        shown = sorted(order.tolist())
        if self.feature.levels:
            self._bars(low, shown)
        else:
            for c in shown:
                low.plot(self.x, self.probabilities[:, c], color=self._hue(c), lw=2, label=self._name(c))
            if len(shown) < len(self.classes):
                rest = np.delete(self.probabilities, shown, 1)
                low.plot(self.x, rest, color=SOFT, lw=0.6, alpha=0.5)
        self._rows(low)
        what = "chance of the first place" if self.ranked else "probability" if self.sure else "1 for the class named"
        title = f"Predicted {self.target}: loss {short(self.loss)} a row ({self.family})"
        label(low, f"{title}, {percent(1 - float(self.wrong.mean()))} right", "", what, legend=5)
        self.feature.mark(low, self.x)
        return figure

    def _outputs(self, ax: Axes) -> None:
        count = self.outputs.shape[1]
        own = count == len(self.classes)
        for k in range(min(count, len(HUES))):
            style = {"marker": "o", "ls": "none"} if self.feature.levels else {"lw": 1.8}
            ax.plot(self.x, self.outputs[:, k], color=self._hue(k) if own else INK, **style)
        for k, cut in enumerate(self.cuts):
            ax.axhline(cut, color=SOFT, lw=0.9, ls=DASHED, label="cut points" if k == 0 else None)
        if count == 1 and not len(self.cuts):
            ax.axhline(0, color=SOFT, lw=0.9, ls=DASHED)
        label(ax, "Network's output" + ("" if count == 1 else "s, coloured as below" if own else "s"), "", "output", 2)

    def _bars(self, ax: Axes, shown: list[int]) -> None:
        bottom = np.zeros(len(self.x))
        for c in shown:
            ax.bar(self.x, self.probabilities[:, c], 0.6, bottom, color=self._hue(c), alpha=0.75, label=self._name(c))
            bottom = bottom + self.probabilities[:, c]

    def _rows(self, ax: Axes) -> None:
        """Rows below the axis, a lane for each class; of two classes, at 0 and at 1."""
        rows = some(np.flatnonzero(~np.isnan(self.points)))
        x, y = self.points[rows], self.y[rows]
        if self.feature.levels:
            x = x + 0.5 * (np.arange(len(x)) * 0.618034 % 1 - 0.5)
        two = len(self.classes) == 2 and not self.feature.levels
        lanes = len(self.classes) <= _LANES
        place = (1.14 * y - 0.07) if two else -0.06 - 0.05 * (y if lanes else np.arange(len(y)) * 0.618034 % 1 * 3)
        for c in np.unique(y):
            ax.plot(x[y == c], place[y == c], "|", ms=6, mew=0.9, color=self._hue(int(c)), alpha=0.7)
        ax.plot([], [], "|", ms=6, color=SOFT, label="row, coloured by its class")
        low = -0.12 if two else -0.11 - 0.05 * (len(self.classes) - 1 if lanes else 3)
        ax.set_ylim(low, 1.12 if two else 1.03)
        ax.set_yticks(np.linspace(0, 1, 5))

    def _hue(self, c: int) -> str:
        return HUES[c % len(HUES)]

    def _name(self, c: int) -> str:
        return self.classes[c] if len(self.classes[c]) <= 18 else f"{self.classes[c][:17]}…"
