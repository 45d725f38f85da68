"""Scores of many runs against a number: width, rows, epochs, learning rate. Every point is a mean over seeds.

    score(point) = 1/S Σ_s score of the run with seed s,     error bar = deviation over seeds / √S          (1)
    rise         = max over points of score - the least score before that point                             (2)
    descent      = the least score from the peak of (2) on - the least before it                            (3)

All runs of a sweep are one population, so points of one architecture are one computation. A curve that falls, rises
(2) and falls again below where it was (3 < 0) is a double descent; it is looked for near the point at which a network
has as many parameters as there are rows to fit, the dashed line of the figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from leadline.data.data import Data
from leadline.engine.evaluation import Evaluation
from leadline.errors import UserError
from leadline.lens.style import DASHED, FULL, HALF, HUES, INK, blank, label, styled
from leadline.lens.view import View
from leadline.names import lookup
from leadline.population import Population, fit_many
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Bump:
    """Eq. 2 and 3 of one line of a sweep: places on the axis, and sizes with their standard errors over seeds.

    Args:
        valley, peak, end: where the score is least before the rise, highest after it, and least from there on.
    """

    valley: float
    peak: float
    end: float
    rise: float
    rise_error: float
    descent: float
    descent_error: float


@dataclass(frozen=True, eq=False)
class Sweep(View):
    """Args:
    axis: what is varied, and `at` its values.
    lines: names of the conditions that are compared.
    metric: what is measured; "error" is 1 - accuracy.
    train, test: scores, (lines, points, seeds).
    parameters, rows: numbers that are fitted, and that they are fitted to, of each point.
    log: whether the axis is drawn in powers of ten.
    """

    axis: str
    at: np.ndarray
    lines: tuple[str, ...]
    metric: str
    train: np.ndarray
    test: np.ndarray
    parameters: np.ndarray
    rows: np.ndarray
    log: bool = False

    def mean(self, split: str = "test") -> np.ndarray:
        """Eq. 1, (lines, points)."""
        return self._of(split).mean(-1)

    def error(self, split: str = "test") -> np.ndarray:
        """Standard errors of the means, (lines, points); nan for one seed."""
        scores = self._of(split)
        if scores.shape[-1] < 2:
            return np.full(scores.shape[:-1], math.nan)
        return scores.std(-1, ddof=1) / math.sqrt(scores.shape[-1])

    @property
    def crossing(self) -> float | None:
        """Where there are as many parameters as rows, between two points by their logarithms; None if nowhere."""
        gap = np.log(self.parameters) - np.log(self.rows)
        place = np.log(self.at) if self.log else self.at
        for k in np.flatnonzero(gap[:-1] * gap[1:] <= 0):
            if gap[k] != gap[k + 1]:
                found = place[k] + (place[k + 1] - place[k]) * gap[k] / (gap[k] - gap[k + 1])
                return float(np.exp(found) if self.log else found)
        return None

    def bump(self, line: int | str = 0, split: str = "test") -> Bump:
        """Where a line rises most above what it had reached, and how far it falls from there."""
        index = line if isinstance(line, int) else lookup(line, {name: k for k, name in enumerate(self.lines)}, "line")
        mean, error = self.mean(split)[index], self.error(split)[index]
        if len(mean) < 2:
            raise UserError("a rise needs at least two points", got=f"{len(mean)}", do="Sweep over more values")
        rises = [mean[j] - mean[:j].min() for j in range(1, len(mean))]
        peak = 1 + int(np.argmax(rises))
        valley = int(mean[:peak].argmin())
        end = peak + int(mean[peak:].argmin())
        return Bump(
            float(self.at[valley]),
            float(self.at[peak]),
            float(self.at[end]),
            float(mean[peak] - mean[valley]),
            math.hypot(error[peak], error[valley]),
            float(mean[end] - mean[valley]),
            math.hypot(error[end], error[valley]),
        )

    def _of(self, split: str) -> np.ndarray:
        return lookup(split, {"train": self.train, "test": self.test}, "split of a sweep")

    @styled
    def plot(self) -> Figure:
        two = len(self.lines) > 1
        figure = blank(FULL if two else HALF + 1.2, 3.8)
        percent = self.metric == "error"
        panels = figure.subplots(1, 2) if two else [figure.subplots()] * 2
        for panel, split in zip(panels, SPLITS, strict=True):
            for k, name in enumerate(self.lines):
                self._line(panel, k, split, name if two else split, HUES[(k if two else SPLITS.index(split)) % 10])
        what = f"{self.metric} in %" if percent else self.metric
        seeds = self.test.shape[-1]
        said = f"mean and standard error of {seeds} seeds" if seeds > 1 else "one seed"
        for panel, title in zip(panels, ("Training rows", "Test rows") if two else (said[0].upper() + said[1:],)):
            if self.crossing is not None:
                panel.axvline(self.crossing, color=INK, lw=1, ls=DASHED, label="parameters = rows", zorder=0)
            if self.log:
                panel.set_xscale("log")
                _plain_ticks(panel, self.at)
            if percent and panel is panels[0] and np.isfinite(self.train).any():
                panel.set_ylim(bottom=0)  # test errors have a scale of their own, or a rise would hardly show
            label(panel, f"{title}: {said}" if two and title == "Test rows" else title, self.axis, what, legend=3)
        return figure

    def _line(self, axes: Axes, index: int, split: str, name: str, hue: str) -> None:
        factor = 100 if self.metric == "error" else 1
        mean, error = factor * self.mean(split)[index], factor * self.error(split)[index]
        if np.isnan(mean).all():  # of a fit in closed form, whose training error was not taken
            return
        error = np.where(np.isfinite(error), error, 0.0)
        axes.errorbar(self.at, mean, error, fmt="o-", ms=3, lw=1.3, elinewidth=1, capsize=2, color=hue, label=name)


def sweep(
    model: nn.Module | Callable[..., nn.Module],
    data: Data,
    points: Mapping[float, Mapping[str, Any]],
    lines: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    axis: str,
    seeds: int | Sequence[int] = 5,
    metric: str = "",
    log: bool = False,
    **settings: Any,
) -> Sweep:
    """Fit every point of every line with every seed, as one population, and collect the scores.

    Args:
        model: as for `fit_many`: a template, or a function of what `model` of a point or line holds.
        points: options of a member, by their place on the axis: settings, `model`, and `data`, which may be a function
            of the seed.
        lines: options of a member, by name; what line and point both say is merged, the point's last. None is one line.
        axis: what the points are.
        seeds: how many, or which.
        metric: of the likelihood, or "error", 1 - accuracy; "" takes error for classes, else the headline.
        log: draw the axis in powers of ten.
        settings: of all members.

    >>> import leadline as ll
    >>> data = ll.data.moons(num=60)
    >>> found = sweep(ll.models.MLP(2, (4,), 1), data, {r: {"lr": r} for r in (0.01, 0.1)}, axis="learning rate",
    ...               seeds=2, epochs=2, progress=False)
    >>> found.test.shape, found.metric
    ((1, 2, 2), 'error')
    """
    numbers = list(range(whole("seeds", seeds, 1))) if isinstance(seeds, int) else list(seeds)
    names = lines if lines else {"": {}}
    if not points or not numbers:
        raise UserError("a sweep needs a point and a seed", got="none", do="Pass points={0.1: {'lr': 0.1}}, seeds=5")
    members = [
        _merged(line, point, seed, data) for line in names.values() for point in points.values() for seed in numbers
    ]
    population = fit_many(model, data, members, **settings)
    shape = (len(names), len(points), len(numbers))
    one = [population[k * len(numbers)] for k in range(len(points))]
    chosen = metric or _usual(population)
    train, test = (
        np.array([score(run.evaluate(split), chosen) for run in population]).reshape(shape) for split in SPLITS
    )
    return Sweep(
        axis,
        np.array(list(points), float),
        tuple(names),
        chosen,
        train,
        test,
        np.array([sum(p.numel() for p in run.model.parameters() if p.requires_grad) for run in one]),
        np.array([len(run.need_data().train) for run in one]),
        log,
    )


def score(evaluation: Evaluation | Mapping[str, float], metric: str) -> float:
    """One number of an evaluation: a metric by name, or the error."""
    if metric == "error":
        return 1.0 - lookup("accuracy", dict(evaluation), "metric")
    return float(lookup(metric, dict(evaluation), "metric"))


def _usual(population: Population) -> str:
    likelihood = population[0].likelihood
    return "error" if likelihood.headline == "accuracy" else likelihood.headline


def _merged(line: Mapping[str, Any], point: Mapping[str, Any], seed: int, data: Data) -> dict[str, Any]:
    options = {"seed": seed, **line, **point}
    options["model"] = {**line.get("model", {}), **point.get("model", {})}
    if callable(options.get("data")):
        options["data"] = options["data"](seed)
    return options


def _plain_ticks(axes: Axes, at: np.ndarray) -> None:
    """Round numbers on a logarithmic axis, written out where they are of everyday size."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    if at.max() / at.min() < 10_000 and at.min() >= 0.001:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_formatter("")
