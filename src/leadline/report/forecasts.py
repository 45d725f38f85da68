"""Forecasts of a split beside what came, and beside the value of a season ago: a figure for the first series.

Of windows that overlap, those are drawn whose values follow one another, so that every value is forecast once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leadline.data.account import counted
from leadline.data.series_windows import Windows
from leadline.errors import UserError
from leadline.likelihoods.hindsight import Hindsight, of_parts
from leadline.likelihoods.season_ago import season_law
from leadline.report.facts import Facts
from leadline.report.figures import PAD, blank, styled
from leadline.report.numbers import Answers, array
from leadline.report.style import FULL, LIGHT
from leadline.report.words import escape, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL = 0.9
MOST = 240  # values that are drawn: more are a blot


@dataclass(frozen=True, eq=False)
class Beside:
    """What is drawn, in the order of time, all (n,) and in the unit of the table.

    Args:
        moments: when each value was: days since 1970 where they are dates.
        came, predicted, low, high, naive: what came, the median, the ends of its interval, and the season ago.
        begins: places at which a new forecast begins.
        name: of the series; empty where there is one.
    """

    moments: np.ndarray
    came: np.ndarray
    predicted: np.ndarray
    low: np.ndarray
    high: np.ndarray
    naive: np.ndarray
    begins: np.ndarray
    name: str = ""


def forecasts(facts: Facts, split: str, draw: Callable[..., str]) -> str:
    """HTML of the figure; empty where the data are not series, or where a family has no such interval."""
    if not isinstance(facts.data.inputs, Windows):
        return ""
    try:
        found = beside(facts, split)
    except UserError:
        return ""
    inputs = facts.data.inputs
    of = f" of {escape(inputs.roles.group)} {escape(found.name)}" if found.name else ""
    plate = draw(
        "forecasts", drawn(found, inputs, split),
        f"Forecasts{of} of {counted(inputs.horizon, 'step')}, one after the other, each from what was known before it. "
        "The band is the 90 % interval: nine values in ten should lie in it.", full=True,
    )  # fmt: skip
    return f'<div class="grid"><div class="card wide">{plate}</div></div>'


def hindsight(facts: Facts, split: str, level: float) -> Hindsight:
    """What is known at the origin of each row of a split, for intervals of a level: as `leadline.forecast` has it."""
    data, inputs = facts.data, facts.data.inputs
    if split == "train" or not isinstance(inputs, Windows):
        return Hindsight.none(len(data[split]))
    parts: list[str] = [name for name in ("val", "test") if name in facts.outputs and len(data[name])]
    parts = parts[: parts.index(split) + 1] if split in parts else [split]
    told = [facts.likelihood.prediction(facts.outputs[name]) for name in parts]
    return of_parts(inputs, told, [data[name] for name in parts], level).last(len(data[split]))


@dataclass(frozen=True, eq=False)
class Forecasts(Answers):
    """Answers of a run on series: its forecasts, weighed and paced, in place of what the network says.

    Args:
        known: what is known at the origin of each row, for intervals of a level.
    """

    known: Callable[[float], Hindsight]

    @classmethod
    def of(cls, facts: Facts, split: str) -> Forecasts:
        said = Answers.of(facts, split)
        return cls(said.y, said.prediction, said.nll, partial(hindsight, facts, split))

    @property
    def mean(self) -> np.ndarray | None:
        if super().mean is None:
            return None
        return _rows(self.known(LEVEL).moved(self.prediction, self.prediction.mean))

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray] | None:
        if super().interval(level) is None:
            return None
        known, (low, high) = self.known(level), self.prediction.interval(level)
        return _rows(known.end(self.prediction, low)), _rows(known.end(self.prediction, high))

    @property
    def network(self) -> Answers:
        """What the network alone says."""
        return Answers(self.y, self.prediction, self.nll)


def _rows(values: torch.Tensor) -> np.ndarray:
    return array(values.reshape(len(values), -1))


def beside(facts: Facts, split: str) -> Beside:
    """The last forecasts of a split that do not overlap, of its first series."""
    data, inputs = facts.data, facts.data.inputs
    if not isinstance(inputs, Windows):
        raise TypeError(f"{type(inputs).__name__} are no windows of series")
    rows, said = data[split], facts.likelihood.prediction(facts.outputs[split])
    known = hindsight(facts, split, LEVEL)
    code = 0 if rows.group is None else int(rows.group[0])
    mine = torch.arange(len(rows)) if rows.group is None else (rows.group == code).nonzero().flatten()
    mine = mine.flip(0)[:: inputs.horizon][: max(1, MOST // inputs.horizon)].flip(0)  # the last is among them
    shift, scale, _ = inputs.units(None if rows.group is None else rows.group[mine], len(mine))

    def measured(values: torch.Tensor) -> np.ndarray:
        flat = values.detach().double().cpu().reshape(len(rows), -1)[mine]
        return inputs.as_measured(flat, rows.x[mine], shift, scale).flatten().numpy()

    ends = [known.moved(said, said.quantile(0.5)), *(known.end(said, end) for end in said.interval(LEVEL))]
    origins = rows.time[mine].tolist() if rows.time is not None else mine.tolist()
    return Beside(
        np.concatenate([inputs.clock.later(float(origin), inputs.horizon) for origin in origins]),
        measured(rows.y),
        measured(ends[0]),
        measured(ends[1]),
        measured(ends[2]),
        measured(season_law(inputs, data.train, rows).mode),
        np.arange(0, len(mine) * inputs.horizon, inputs.horizon),
        inputs.figures[code].name,
    )


@styled
def drawn(found: Beside, inputs: Windows, colour: str) -> Figure:
    """What came as a line with points, forecasts as a line in a band, the season ago dashed."""
    figure = blank(FULL, 3.7)
    ax = figure.subplots()
    when: Any = found.moments
    if inputs.clock.dated:
        when = np.rint(found.moments * 86400).astype("datetime64[s]")
    for k, first in enumerate(found.begins):
        own = slice(first, first + inputs.horizon)
        label = lambda words: words if k == 0 else None  # noqa: B023, E731 - used in this turn alone
        many = inputs.horizon > 1
        at = (when[own], found.low[own], found.high[own])
        if many:
            ax.fill_between(*at, color=LIGHT[colour], alpha=0.18, lw=0, label=label("90 % interval"))
        else:
            ax.vlines(*at, color=LIGHT[colour], alpha=0.3, lw=3, label=label("90 % interval"))
        marks: dict[str, Any] = {} if many else {"marker": "_", "ls": "none"}
        dashes: dict[str, Any] = {"ls": (0, (3, 2))} if many else marks
        season = f"value {inputs.season} step{'s' if inputs.season > 1 else ''} before"
        ax.plot(when[own], found.naive[own], color=LIGHT["soft"], lw=1.1, label=label(season), **dashes)
        ax.plot(when[own], found.predicted[own], color=LIGHT[colour], lw=1.6, label=label("forecast"), **marks)
    ax.plot(when, found.came, color=LIGHT["ink"], lw=0.8, marker="o", ms=2.4, label="what came")
    target, time = inputs.roles.target, inputs.roles.time
    of = f", {shorten(inputs.roles.group, 20)} {shorten(found.name, 20)}," if found.name and inputs.roles.group else ""
    ax.set_title(f"Forecasts of {shorten(target, 30)}{of} and what happened", pad=PAD)
    ax.set(xlabel=shorten(time, 30) if time else "row", ylabel=shorten(target, 30))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, frameon=False, borderaxespad=0.1)
    ax.margins(x=0.01)
    return figure
