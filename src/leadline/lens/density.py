"""The distribution of predicted rows, drawn: a density, bars of probability, an angle, a mixture with its parts.

    p(y | x)                      of one row or of a few, with mean, mode and interval                       (1)
    q(y) = (1/I) Σ_i δ[y - y_i]   values that were seen: spikes of weight 1/I beside it                      (2)
    H[q, p] = -(1/I) Σ_i log p(y_i)                                                                          (3)

(3) is KL[q || p] up to a constant: of values that can be counted, that constant is q's entropy, and the divergence is
known; of values on a line, spikes have no density, and only differences of (3) have a meaning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leadline.errors import DataError, UserError
from leadline.lens.answers import Answer, answer_of, wrapped
from leadline.lens.style import DASHED, HUES, INK, SOFT, blank, label, percent, short, styled
from leadline.lens.view import View
from leadline.likelihoods import Prediction
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TAIL = 0.002  # of the mass on either side that a drawing may leave out
_COUNTS = 200  # bars of a distribution of counts; of more, a curve


@dataclass(frozen=True, eq=False)
class Density(View):
    """The distributions of some rows.

    Args:
        rows: their numbers; `kind` numbers, angles, counts or classes.
        names: of the classes, or of the items of a ranking; none of numbers.
        y: values, (G,).  p: density, or probability of each value, (G, rows).
        parts: w_k p_k(y) of a mixture's components, (K, G, rows); none of others.
        mean: (rows,); none of classes.  modes: (rows, M), NaN where a row has fewer.
        band: (rows, R, 2), parts of the interval of `level`; R is 0 where there is none.
        seen: values that were seen, (I,).
        cross_entropy: eq. 3 of each row; divergence: KL[q || p], NaN where spikes have no density.
        target: name of the column, where it is one of several.
        ranked: whether p is each item's chance of the first place.
    """

    rows: tuple[int, ...]
    kind: str
    names: tuple[str, ...]
    y: np.ndarray
    p: np.ndarray
    parts: np.ndarray
    mean: np.ndarray
    modes: np.ndarray
    band: np.ndarray
    level: float | None
    seen: np.ndarray
    cross_entropy: np.ndarray
    divergence: np.ndarray
    target: str = ""
    ranked: bool = False

    @styled
    def plot(self) -> Figure:
        figure = blank(6.6, 3.9)
        ax = figure.subplots()
        (self._curves if self.kind in ("numbers", "angles") else self._bars)(ax)
        of = f" of {self.target}" if self.target else ""
        title = f"Predicted distribution{of}"
        if len(self.rows) > 1:
            title = f"Predicted distributions{of}{', ' if of else ' of '}{len(self.rows)} rows"
        if len(self.seen):
            many = len(self.seen)
            if math.isnan(self.divergence[0]):
                title += f": −mean log p of {many} values {', '.join(short(h) for h in self.cross_entropy)}"
            else:
                title += f": KL[q‖p] of {many} values {', '.join(short(d) for d in self.divergence)}"
        word = "density" if self.kind in ("numbers", "angles") else "probability"
        axis = {"angles": "angle (radians)", "counts": "count", "classes": "class"}.get(self.kind, "y")
        if self.target:
            axis = self.target if self.kind == "numbers" else f"{self.target}: {axis}"
        if self.ranked:
            axis, word = "item", "chance of the first place"
        label(ax, title, axis, word, legend=5)
        return figure

    def _curves(self, ax: Axes) -> None:
        edge = max(1, len(self.y) // 100)  # a density may be infinite where its support ends
        top = float(self.p[edge:-edge].max()) or 1.0
        for j, row in enumerate(self.rows):
            hue, p = HUES[j % len(HUES)], self.p[:, j]
            alone = len(self.rows) == 1
            ax.fill_between(self.y, p, color=hue, alpha=0.12, lw=0)
            for k, part in enumerate(self.parts):
                word = "components" if k == 0 and j == 0 else None
                ax.plot(self.y, part[:, j], color=hue, lw=1.1, ls=DASHED, label=word)
            ax.plot(self.y, p, color=hue, lw=2, label="density p" if alone else f"row {row}")
            foot = -top * (0.05 + 0.05 * j)
            for low, high in self._arcs(j):
                ax.plot([low, high], [foot, foot], color=hue, lw=4, solid_capstyle="butt", alpha=0.6)
            mode = self.modes[j][~np.isnan(self.modes[j])]
            centre = self.mean[j : j + 1]
            if self.kind == "angles":
                mode, centre = wrapped(mode), wrapped(centre)
            mode = mode[(self.y[0] <= mode) & (mode <= self.y[-1])]  # of a component without weight, beyond the picture
            ax.plot(mode, [foot] * len(mode), "^", ms=6, color=hue, mec="white", clip_on=False)
            ax.plot(centre, [foot], "o", ms=5.5, color=hue, mec="white", clip_on=False)
        self._key(ax)
        if len(self.seen):
            self._spikes(ax, top)
        ax.axhline(0, color=SOFT, lw=0.7)
        ax.set_ylim(-top * (0.06 + 0.05 * len(self.rows)), 1.08 * top)
        ax.set_xlim(float(self.y[0]), float(self.y[-1]))
        if self.kind == "angles":
            ax.set_xticks(np.linspace(-1, 1, 5) * math.pi, ["−π", "−π/2", "0", "π/2", "π"])
        ax.set_yticks([tick for tick in ax.get_yticks() if 0 <= tick <= 1.08 * top])

    def _spikes(self, ax: Axes, top: float) -> None:
        values, count = np.unique(wrapped(self.seen) if self.kind == "angles" else self.seen, return_counts=True)
        height = 0.5 * top * count / count.max()
        ax.vlines(values, 0, height, color=INK, lw=1.1, alpha=0.75, label=f"values seen, mass 1/{len(self.seen)} each")
        ax.plot(values, height, "o", ms=2.6, color=INK)

    def _bars(self, ax: Axes) -> None:
        many = len(self.y) > _COUNTS
        wide = 0.8 / len(self.rows)
        for j, row in enumerate(self.rows):
            hue = HUES[j % len(HUES)]
            at = self.y + wide * (j - (len(self.rows) - 1) / 2)
            alone = "chance of the first place" if self.ranked else "probability p"
            word = alone if len(self.rows) == 1 else f"row {row}"
            if many:
                ax.plot(self.y, self.p[:, j], color=hue, label=word)
            else:
                ax.bar(at, self.p[:, j], 0.92 * wide, color=hue, alpha=0.75, label=word)
            foot = -float(self.p.max()) * (0.05 + 0.05 * j)
            for low, high in self._arcs(j):
                ax.plot([low - 0.4, high + 0.4], [foot, foot], color=hue, lw=4, solid_capstyle="butt", alpha=0.6)
            if len(self.mean):
                ax.plot(self.mean[j], foot, "o", ms=5.5, color=hue, mec="white")
            ax.plot(self.modes[j][0], foot, "^", ms=6, color=hue, mec="white")
        self._key(ax)
        if len(self.seen):
            values, count = np.unique(self.seen, return_counts=True)
            share = count / len(self.seen)
            ax.vlines(values, 0, share, color=INK, lw=1.2, label=f"part of the {len(self.seen)} values seen")
            ax.plot(values, share, "o", ms=3, color=INK)
        if self.names:
            words = [name if len(name) <= 14 else f"{name[:13]}…" for name in self.names]
            long = sum(map(len, words)) > 60
            ax.set_xticks(self.y, words, rotation=45 if long else 0, ha="right" if long else "center")
        ax.axhline(0, color=SOFT, lw=0.7)
        ax.set_yticks([tick for tick in ax.get_yticks() if tick >= 0])

    def _arcs(self, j: int) -> list[tuple[float, float]]:
        """Parts of the interval; on a circle one that passes the seam is seen on both sides."""
        found = [(float(low), float(high)) for low, high in self.band[j] if not math.isnan(low)]
        if self.kind != "angles":
            return found
        cut = []
        for low, high in found:
            for turn in (-2 * math.pi, 0.0, 2 * math.pi):
                a, b = max(low + turn, -math.pi), min(high + turn, math.pi)
                if a < b:
                    cut.append((a, b))
        return cut

    def _key(self, ax: Axes) -> None:
        if len(self.mean):
            ax.plot([], [], "o", ms=5.5, color=SOFT, label="mean direction" if self.kind == "angles" else "mean")
        ax.plot([], [], "^", ms=6, color=SOFT, label="mode" if self.modes.shape[1] == 1 else "modes")
        if self.band.shape[1] and self.level is not None:
            word = "likeliest" if len(self.parts) else "interval of"
            ax.plot([], [], color=SOFT, lw=4, alpha=0.6, label=f"{word} {percent(self.level)}")


@torch.no_grad()
def density(
    prediction: Prediction,
    rows: int | Sequence[int] = 0,
    y: Any = None,
    *,
    level: float | None = None,
    names: Sequence[str] = (),
    output: int | str = 0,
    num: int = 801,
) -> Density:
    """The predicted distribution of one row or a few.

    Args:
        prediction: what `run.predict` gives; of the rows to draw alone, where rows are many.
        rows: number of a row, or of up to ten.
        y: values that were seen, to lay beside the rows' distributions (2).
        level: of the interval; None is 0.9, or the widest that a Quantile has trained.
        names: of the classes; 0, 1 … where they are left out, and the items of a ranking by their own.
        output: which of several columns, by number or name.  num: points of a curve.

    >>> import torch
    >>> from leadline.likelihoods import Normal
    >>> view = density(Normal("fixed").prediction(torch.zeros(1, 1)), y=[-1.0, 1.0])
    >>> round(float(view.p.max()), 4), round(float(view.cross_entropy[0]), 4)  # 1/√2π, ½ log 2π + ½
    (0.3989, 1.4189)
    """
    answer, num = answer_of(prediction, output), whole("num", num, 16, usual=801)
    if answer.kind == "point":
        raise UserError("only a likelihood has a density", got="a loss that has none", do="Fit with another likelihood")
    chosen = _rows(rows, len(answer))
    places = np.array(chosen)
    seen = _seen(y)
    if answer.kind == "classes":
        p = answer.probabilities[places].T
        values = np.arange(float(len(p)))
        own = answer.prediction.names if answer.ranked else ()
        labels = tuple(names) or own or tuple(str(c) for c in range(len(p)))
        if len(labels) != len(p):
            raise UserError("names must name every class", got=f"{len(labels)} for {len(p)}", do="Name them all")
        if ((seen < 0) | (seen >= len(p)) | (seen != np.round(seen))).any():
            raise DataError(f"values of classes must be codes 0 … {len(p) - 1}", got=short(seen.min()), do="Pass codes")
        cross, divergence = _counted(seen, lambda at: np.log(np.maximum(p[at.astype(int)], 1e-300)))
        mode = p.argmax(0).astype(float)[:, None]
        return Density(
            chosen, "classes", labels, values, p, np.zeros((0, *p.shape)), np.zeros(0), mode,
            np.zeros((len(chosen), 0, 2)), None, seen, cross, divergence, answer.name, answer.ranked,
        )  # fmt: skip
    level = answer.level(level)
    band = np.zeros((len(answer), 0, 2)) if level is None else answer.region(level)
    values = _values(answer, places, num, seen)
    grid = np.broadcast_to(values[:, None], (len(values), len(answer)))
    log_p = answer.log_prob(grid)[:, places]
    parts = np.zeros((0, *log_p.shape))
    if answer.parts:
        each = [
            weight[places] * np.exp(answer.part_log_prob(k, grid)[:, places]) for k, weight in enumerate(answer.parts)
        ]
        parts = np.stack(each)
    at = lambda v: answer.log_prob(np.broadcast_to(v[:, None], (len(v), len(answer))))[:, places]  # noqa: E731
    if answer.kind == "counts":
        if ((seen < 0) | (seen != np.round(seen))).any():
            raise DataError("counts must be whole numbers of at least 0", got=short(seen.min()), do="Pass counts")
        cross, divergence = _counted(seen, at)
    else:
        cross = -at(seen).mean(0) if len(seen) else np.zeros(0)
        divergence = np.full(len(cross), math.nan)
    return Density(
        chosen, answer.kind, (), values, np.exp(log_p), parts, answer.mean[places], answer.modes[places],
        band[places], level, seen, cross, divergence, answer.name,
    )  # fmt: skip


def _rows(rows: Any, count: int) -> tuple[int, ...]:
    wanted = rows if isinstance(rows, (list, tuple, range, np.ndarray)) else [rows]
    if not 1 <= len(wanted) <= len(HUES):
        raise UserError(f"rows must be 1 to {len(HUES)} numbers of rows", got=f"{len(wanted)}", do="Pick a few")
    return tuple(whole("rows", row, 0, count - 1, usual=0) for row in wanted)


def _seen(y: Any) -> np.ndarray:
    if y is None:
        return np.zeros(0)
    try:
        seen = np.array(y.detach().cpu() if hasattr(y, "detach") else y, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        seen = np.array([math.nan])
    if not len(seen) or not np.isfinite(seen).all():
        raise DataError("y must be a list of finite numbers", got=f"{type(y).__name__}", do="Pass values of y")
    return seen


def _counted(seen: np.ndarray, log_p: Any) -> tuple[np.ndarray, np.ndarray]:
    """Cross-entropy (3) and KL[q || p] of values that can be counted."""
    if not len(seen):
        return np.zeros(0), np.zeros(0)
    values, count = np.unique(seen, return_counts=True)
    q = count / len(seen)
    cross = -(q[:, None] * log_p(values)).sum(0)
    return cross, cross + float((q * np.log(q)).sum())


def _values(answer: Answer, places: np.ndarray, num: int, seen: np.ndarray) -> np.ndarray:
    """Where the distributions are drawn: all but a little of their mass, and what was seen."""
    if answer.kind == "angles":
        return np.linspace(-math.pi, math.pi, num)
    tail = max(_TAIL, answer.trained[0]) if answer.trained else _TAIL
    top = max(_TAIL, 1 - answer.trained[-1]) if answer.trained else _TAIL
    low, high = float(answer.quantile(tail)[places].min()), float(answer.quantile(1 - top)[places].max())
    if answer.trained:  # tails fall off beyond the levels that were trained
        low, high = low - 0.5 * (high - low), high + 0.5 * (high - low)
    low, high = min([low, *seen]), max([high, *seen])
    if answer.kind == "counts":
        low = max(low, 0.0) if low > 0.3 * high else 0.0
        whole_values = np.arange(low, high + 1)
        return whole_values if len(whole_values) <= num else np.unique(np.round(np.linspace(low, high, num)))
    margin = 0.04 * (high - low) or 1.0
    least, most = answer.ends
    inner = 1e-4 * (high - low)  # a density may be infinite at the very end of its support
    return np.linspace(max(low - margin, least + inner), min(high + margin, most - inner), num)
