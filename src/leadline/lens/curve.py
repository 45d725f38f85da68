"""What a model answers over one feature, the others held: a curve with its band, or the probabilities of classes.

    p(y | x_i = s, all others held)          for s over the range of x_i                                     (1)
    band    the interval that holds y with probability `level`, or mean ± k deviations                      (2)

Numbers are drawn as fits the family: mean and band; the modes of a mixture, and its likeliest values; trained
quantiles; whole numbers for counts; angles from -π to π, broken at the seam. Classes are drawn by `ClassCurve`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.engine.evaluation import outputs
from leadline.errors import UserError
from leadline.lens.answers import Answer, answer_of, wrapped
from leadline.lens.at_rest import at_rest
from leadline.lens.class_curve import ClassCurve
from leadline.lens.column import column_of, one_of
from leadline.lens.held import Feature, Held, around
from leadline.lens.rows import Fitted, asked, fit_to
from leadline.lens.style import DASHED, HUES, INK, blank, label, percent, short, some, styled
from leadline.lens.view import View
from leadline.likelihoods import Likelihood, PlackettLuce, Signs
from leadline.likelihoods.plackett_luce import order_of
from leadline.settings import given, real, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_JUDGED = 8192  # rows whose own bands are asked for: a mixture's take a search each


@dataclass(frozen=True, eq=False)
class Curve(View):
    """A predicted number over one feature, with the rows.

    Args:
        feature: what the curve runs over, and what is held; `x` its values, or the codes of its levels.
        target, family: names of y and of the likelihood; `kind` numbers, angles, counts or point.
        mean: (num,).  modes: (num, M), the highest first, NaN where there are fewer.
        band: (num, R, 2), low and high of each part, as (2); R is 0 where there is none.
        level, deviations: what the band is; None where it is not of that sort.
        quantiles: trained level → its curve.
        points, y, said: of each row its place, its value, and the mean answered to the whole row.
        inside: part of the rows that lie in their own band (of more than 8,192, those spread evenly); NaN without one.
        loss: mean of the rows.
    """

    feature: Feature
    x: np.ndarray
    target: str
    family: str
    kind: str
    mean: np.ndarray
    modes: np.ndarray
    band: np.ndarray
    level: float | None
    deviations: float | None
    quantiles: dict[float, np.ndarray]
    points: np.ndarray
    y: np.ndarray
    said: np.ndarray
    inside: float
    loss: float

    @styled
    def plot(self, residuals: bool = False) -> Figure:
        """A new matplotlib Figure; `residuals` draws a bar from each row to the answer that it got."""
        figure = blank(6.6, 4.3)
        ax = figure.subplots()
        self.draw(ax, residuals)
        label(ax, f"Predicted {self.target}: loss {short(self.loss)} a row ({self.family})", "", self.target, legend=4)
        self.feature.mark(ax, self.x)
        return figure

    def draw(self, ax: Axes, residuals: bool = False) -> None:
        """Band, curve and rows, without title and names."""
        shown = some(np.flatnonzero(~np.isnan(self.points)))
        x, y, said = self.points[shown], self.y[shown], self.said[shown]
        if self.feature.levels:  # rows of one level side by side, in an order that looks like none
            x = x + 0.5 * (np.arange(len(x)) * 0.618034 % 1 - 0.5)
        if self.band.shape[1]:
            self._band(ax)
        if residuals:
            start = y - wrapped(y - said) if self.kind == "angles" else said
            ax.vlines(x, start, y, color=HUES[1], lw=0.9, ls=DASHED, label="residual")
            if self.feature.held:
                ax.plot(x, said, "_", ms=5, color=HUES[1], label="answer to the row")
        ax.plot(x, y, "o", ms=3.6, color=INK, alpha=0.55, mec="white", mew=0.4, label="row")
        if self.feature.levels:
            ax.plot(self.x, self.mean, "o", ms=7, color=HUES[0], mec="white", label=self._centre, zorder=4)
            return
        for level, line in self.quantiles.items():
            word = "trained quantiles" if level == next(iter(self.quantiles)) else None
            ax.plot(self.x, line, color=HUES[0], lw=0.8, label=word)
        several = self.modes.shape[1] > 1
        if several:
            for k in range(self.modes.shape[1]):
                word = "modes, the highest darkest" if k == 0 else None
                alpha = 1.0 if k == 0 else 0.45
                ax.plot(self.x, self.modes[:, k], ".", ms=3.5, color=HUES[0], alpha=alpha, label=word)
        elif self.kind == "numbers" and not self.quantiles:
            apart = np.abs(self.modes[:, 0] - self.mean).max() > 0.01 * np.ptp(np.append(self.y, self.mean))
            if apart:
                ax.plot(self.x, self.modes[:, 0], color=HUES[0], lw=1.2, ls=":", label="mode")
        mean = _broken(self.mean) if self.kind == "angles" else self.mean
        ax.plot(self.x, mean, color=HUES[0], lw=1 if several else 2, ls=DASHED if several else "-", label=self._centre)
        if self.kind == "angles":
            ax.set_ylim(-math.pi, math.pi)
            ax.set_yticks(np.linspace(-1, 1, 5) * math.pi, ["−π", "−π/2", "0", "π/2", "π"])

    @property
    def _centre(self) -> str:
        return {"angles": "mean direction", "point": "answer"}.get(self.kind, "mean")

    def _band(self, ax: Axes) -> None:
        own = (
            "; each row's own holds" if self.feature.held else ": holds"
        )  # this one is of no row where others are held
        held = (
            ""
            if math.isnan(self.inside)
            else f"{own} {percent(self.inside)}" + ("" if self.feature.held else " of the rows")
        )
        if self.deviations is not None:
            word = f"mean ± {short(self.deviations)} deviations{held}"
        elif self.modes.shape[1] > 1:
            word = f"likeliest {percent(self.level or 0)}{held}"
        else:
            word = f"{percent(self.level or 0)} interval{held}"
        if self.band.shape[1] == 1 and self.kind != "angles" and not self.feature.levels:
            ax.fill_between(self.x, *self.band[:, 0].T, color=HUES[0], alpha=0.18, lw=0, label=word)
            return
        from matplotlib.collections import PolyCollection

        wide = 0.3 if self.feature.levels else (self.x[1] - self.x[0]) / 2
        low, high = self.band[..., 0].ravel(), self.band[..., 1].ravel()
        x = np.repeat(self.x, self.band.shape[1])
        if self.kind == "angles":  # a part that passes the seam is seen on both of its sides
            turns = 2 * math.pi * np.array([-1, 0, 1])[:, None]
            x, low, high = np.tile(x, 3), (low + turns).ravel(), (high + turns).ravel()
        there = ~np.isnan(low)
        x, low, high = x[there], low[there], high[there]
        corners = np.stack([(x - wide, low), (x + wide, low), (x + wide, high), (x - wide, high)]).transpose(2, 0, 1)
        ax.add_collection(PolyCollection(list(corners), facecolor=HUES[0], alpha=0.18, lw=0, label=word))
        ax.autoscale_view()


def curve(
    model: nn.Module | Fitted,
    data: Any = None,
    feature: str | int = 0,
    *,
    likelihood: Likelihood | str | None = None,
    held: str | dict[str | int, Any] = "median",
    level: float | None = None,
    deviations: float | None = None,
    window: tuple[float, float] | None = None,
    num: int = 201,
    split: str = "train",
    output: int | str = 0,
) -> Curve | ClassCurve:
    """What `model` answers over one feature of `data`.

    Args:
        model: a run, or a module with data.
        data: Data, or with a likelihood a Split or a pair (x, y) of the network's own inputs; None takes the run's.
        feature: name or number; a category is drawn level by level.
        likelihood: None takes the run's or the target's.
        held: "median" or "mean" of the rows, or values of single features by name or number, the rest at the median.
        level: of the band; None is 0.9, or the widest that a Quantile has trained.
        deviations: the band is mean ± so many deviations instead.
        window: (least, largest); by default the rows and a margin.
        num: points of the curve.  output: which of several columns, by number or name.

    >>> import leadline as ll
    >>> data = ll.data.arrays([[0.0], [1.0], [2.0], [3.0]] * 9, [0.1, 1.2, 1.9, 3.3] * 9)
    >>> view = curve(ll.models.build("Linear", 1, 1), data)
    >>> view.band.shape, view.feature.name
    ((201, 1, 2), 'x1')
    """
    module, rows, family = asked(model, data, split, likelihood)
    if rows.raw.ndim != 2:
        raise UserError(
            "one feature can be picked from rows that are lists of features",
            got=f"rows of shape {tuple(rows.raw.shape[1:])}",
            do="Look at an image with ll.lens.boundary(model, data, 'pca')",
        )
    seen = Held(rows, [feature], held)
    drawn, points = seen.feature(), seen.points[:, 0].copy()
    x = np.arange(float(len(drawn.levels))) if drawn.levels else _grid(window, num, points)
    with at_rest(module):
        raw = outputs(module, fit_to(module, seen.inputs(torch.tensor(x)[:, None])))
        own = outputs(module, rows.encoded(module))
        family.check_output(own, rows.y)
        y = rows.y.to(own.device, own.dtype if rows.y.is_floating_point() else None)
        column = column_of(output, rows, family)
        name, classes, output = column.name, column.classes, column.place
        family, y, (raw, own) = one_of(family, output, y, raw, own)
        loss = _mean(family.loss(own, y), rows.weight)
        if y.dim() > 1 and not isinstance(family, (PlackettLuce, Signs)):
            y = y[:, output]
        answer, of_rows = (answer_of(family.prediction(out), output) for out in (raw, own))
        if answer.kind == "classes" or (answer.kind == "point" and "classes" in family.kinds):
            if deviations is not None:
                raise UserError("a band of deviations needs numbers", got=f"classes of {name}", do="Leave it out")
            return _classes(drawn, x, points, name, classes, family, raw, answer, of_rows, y, loss)
        level = None if deviations is not None else answer.level(level)
        band = answer.band(level, deviations)
        few = answer_of(family.prediction(some(own, _JUDGED)), output)
        inside = _inside(few.band(level, deviations), some(y, _JUDGED), answer)
        quantiles = {q: answer.quantile(q) for q in answer.trained}
        return Curve(
            drawn, x, name, type(family).__name__, answer.kind, answer.mean, answer.modes,
            np.zeros((len(x), 0, 2)) if band is None else band,
            level if band is not None else None, deviations if band is not None else None, quantiles,
            points, y.double().cpu().numpy(), of_rows.mean, inside, loss,
        )  # fmt: skip


def _grid(window: Any, num: int, points: np.ndarray) -> np.ndarray:
    num = whole("num", num, 2, usual=201)
    if window is None:
        if np.isnan(points).all():
            raise UserError("a feature must have values", got="missing ones only", do="Pass another, or a window")
        window = around(points[:, None])[0]
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise UserError("window must be (least, largest)", got=given("window", window), do="Write window=(0, 1)")
    low, high = (real("window", end) for end in window)
    if not low < high:
        raise UserError("window must be (least, largest)", got=given("window", window), do="Swap the two")
    return np.linspace(low, high, num)


def _mean(loss: Tensor, weight: Tensor | None) -> float:
    loss = loss.double()
    if weight is None:
        return float(loss.mean())
    weight = weight.to(loss.device, loss.dtype)
    return float((loss * weight).sum() / weight.sum())


def _inside(band: np.ndarray | None, y: Tensor, answer: Answer) -> float:
    if band is None:
        return math.nan
    value = y.double().cpu().numpy()[:, None]
    turns = (-2 * math.pi, 0.0, 2 * math.pi) if answer.kind == "angles" else (0.0,)
    slack = 1e-6 * np.abs(value)  # y and the ends are float32
    hit = [(band[..., 0] - slack <= value + turn) & (value + turn <= band[..., 1] + slack) for turn in turns]
    return float(np.any(hit, 0).any(1).mean())


def _classes(
    feature: Feature, x: np.ndarray, points: np.ndarray, target: str, classes: tuple[str, ...], family: Likelihood,
    raw: Tensor, answer: Answer, of_rows: Answer, y: Tensor, loss: float,
) -> ClassCurve:  # fmt: skip
    if isinstance(family, PlackettLuce):
        y = order_of(y, family.form)[:, 0]
    elif isinstance(family, Signs):
        bit = answer.column or 0
        raw, y, classes = raw[:, [bit]], (y[:, bit] > 0).long(), ("−1", "+1")
    codes = y.long().cpu().numpy()
    if answer.kind == "point":  # it names a class and no probability
        count = max(len(classes), int(codes.max(initial=1)) + 1)
        probability, said = np.eye(count)[answer.mean.astype(int)], of_rows.mean.astype(int)
    else:
        probability, said = answer.probabilities, of_rows.probabilities.argmax(1)
    names = classes or tuple(f"class {c}" for c in range(probability.shape[1]))
    cuts: Any = getattr(family, "cut_points", torch.zeros(0))
    return ClassCurve(
        feature, x, target, type(family).__name__, names, raw.double().cpu().numpy(), cuts.double().cpu().numpy(),
        probability, answer.kind == "classes", isinstance(family, PlackettLuce), points, codes, said != codes, loss,
    )  # fmt: skip


def _broken(angle: np.ndarray) -> np.ndarray:
    """The angles, with a gap where the seam is passed."""
    angle = wrapped(angle)
    jump = np.flatnonzero(np.abs(np.diff(angle)) > math.pi)
    angle[jump] = np.nan
    return angle
