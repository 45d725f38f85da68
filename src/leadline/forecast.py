"""Forecasts of a run on series, and what they are worth beside the value of a season ago.

    forecast(run, rows)     the next H values behind the last window of each series, with an interval          (1)
    naive_{o+h}             v_{o+h-m⌈h/m⌉}, spread by the deviation of its error h steps ahead in training      (2)
    scores(run, split)      of (1) and (2):  CRPS,  coverage,  MASE;  both in hindsight.py's hindsight         (3)
    MASE = mean |v - median| / mean_t |v_t - v_{t-m}|                         the second mean over training    (4)

A MASE below 1 errs less than the value of a season ago does one season ahead. CRPS is in the unit of the target; of
several series, whose units may differ, in deviations of each from its mean in training. Windows that overlap are not
independent: the interval of a coverage counts those that do not.

Notation   v -> the series,  o -> origin,  m -> season,  H -> horizon,  h = 1 … H
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.cells import table_of
from leadline.data.data import Split
from leadline.data.series_rows import with_dates
from leadline.data.series_windows import Laid, Windows
from leadline.data.table import read_rows
from leadline.engine.evaluation import wilson
from leadline.errors import DataError, UserError
from leadline.likelihoods.crps import crps
from leadline.likelihoods.hindsight import Hindsight, apart_in, at_end, of_parts
from leadline.likelihoods.prediction import Prediction, check_probability
from leadline.likelihoods.season_ago import season_law
from leadline.run import Run

LEVEL = 0.9  # probability of the interval, where none is asked for


@dataclass(frozen=True, eq=False)
class Forecast:
    """The next values of each series, one after the other.

    Args:
        target, time, group: names of the columns; None where there is no time, no group.
        series: the series of each value.
        moments: when it will be, as the table writes time; steps ahead where it has none.
        predicted: the mean.
        low, high: ends of the interval that holds the value with probability `level`.
        level: of the interval.
        read: steps of its series that each was made from, at most those of a window.
    """

    target: str
    time: str | None
    group: str | None
    series: tuple[str, ...]
    moments: tuple[str, ...]
    predicted: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float = LEVEL
    read: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.predicted)

    def columns(self) -> dict[str, tuple[Any, ...]]:
        """The forecast as a table."""
        own = {} if self.group is None else {self.group: self.series}
        ends = {"predicted": self.predicted, "low": self.low, "high": self.high}
        return {**own, self.time or "step": self.moments, **ends}

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"target": self.target, "level": self.level, **{k: list(v) for k, v in self.columns().items()}}


@dataclass(frozen=True)
class Score:
    """Eq. 3, and the mean distance of the median: less is better, but coverage should be the level. nan where a figure
    is not known. `low` and `high` are the ends of the 95 % interval of the coverage.
    """

    crps: float
    coverage: float
    mase: float
    mae: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Scores:
    """What forecasts of a split are worth.

    Args:
        model, naive: of the run, and of the value of a season ago.
        season: m.
        rows: windows of the split.
        apart: how many of them do not overlap in what they ask.
        level: of the intervals whose coverage is told.
        unit: of crps.
        followed: how far the run's forecasts go from the value of a season ago to the linear one, on average; None
            where nothing is weighed.
        share: how far they go from there to the network's.
    """

    model: Score
    naive: Score
    season: int
    rows: int
    apart: int
    level: float
    unit: str
    followed: float | None = None
    share: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        finite = lambda score: {k: v if math.isfinite(v) else None for k, v in vars(score).items()}  # noqa: E731
        told = {"season": self.season, "rows": self.rows, "apart": self.apart, "level": self.level, "unit": self.unit}
        told |= {"followed": self.followed, "share": self.share}
        return {"model": finite(self.model), "naive": finite(self.naive), **told}


def forecasts(run: Run) -> bool:
    """Whether a run was trained on series.

    >>> import leadline as ll
    >>> forecasts(ll.fit(ll.models.MLP(2, (4,), 1), ll.data.moons(num=60), epochs=1, progress=False))
    False
    """
    return isinstance(run.inputs, Windows)


def forecast(run: Run, rows: Any = None, level: float = LEVEL) -> Forecast:
    """The next values behind the last window of each series (eq. 1), in the unit of the table.

    Args:
        rows: a table with what was measured so far; None is the file that the run was trained on.
        level: of the interval, between 0 and 1.

    >>> import leadline as ll
    >>> table = {"year": list(range(1900, 1980)), "count": [float(k % 4) for k in range(80)]}
    >>> data = ll.data.series(table, "count", time="year", horizon=2, window=8)
    >>> run = ll.fit(ll.models.build("Linear", data, 2), data, epochs=60, lr=0.03, progress=False)
    >>> found = forecast(run, table)
    >>> found.moments, [round(value, 1) + 0 for value in found.predicted]
    (('1980', '1981'), [0.0, 1.0])
    """
    inputs = _inputs(run)
    check_probability("level", level)
    x, every = inputs.last(table_of(_table(run) if rows is None else with_dates(rows)[0]))
    prediction = run.predict(x)
    shape = (len(x), inputs.horizon)
    known = _hindsight(run, x, every, level)
    ends = (
        known.moved(prediction, _centre(prediction)),
        *(known.end(prediction, e) for e in _interval(prediction, level)),
    )
    unit = [(laid.figures.shift, laid.figures.scale) for laid in every]
    shift, scale = torch.tensor(unit, dtype=torch.float64).split(1, 1)
    predicted, low, high = (
        tuple(inputs.as_measured(end.double().cpu().reshape(shape), x, shift, scale).flatten().tolist()) for end in ends
    )
    moments: list[str] = []
    for laid in every:
        ahead = laid.one.moments[len(laid.one) - 1 :][: inputs.horizon + 1]  # those that the table tells
        behind = np.append(ahead[1:], inputs.clock.later(float(ahead[-1]), inputs.horizon + 1 - len(ahead)))
        steps = np.arange(1.0, inputs.horizon + 1)
        moments += inputs.clock.written(steps if inputs.roles.time is None else behind)
    names = tuple(laid.one.name for laid in every for _ in range(inputs.horizon))
    read = tuple(min(len(laid.one), inputs.window) for laid in every for _ in range(inputs.horizon))
    roles = inputs.roles
    return Forecast(roles.target, roles.time, roles.group, names, tuple(moments), predicted, low, high, level, read)


def scores(run: Run, split: str = "test", level: float = LEVEL) -> Scores:
    """What the run's forecasts of a split are worth beside the value of a season ago (eqs. 2 to 4).

    Args:
        level: of the intervals whose coverage is told, between 0 and 1.
    """
    inputs, data = _inputs(run), run.need_data()
    check_probability("level", level)
    rows = data[split]
    if not len(rows):
        have = " or ".join(name for name, _ in data.splits())
        raise DataError(f"split {split} must have rows", got="none", do=f"Take {have}")
    held = [data.val, rows] if split == "test" and len(data.val) else [rows]  # what is known by then, and behind it
    told = [run.predict(part.x) for part in held]
    laws = [season_law(inputs, data.train, part) for part in held]
    error, unit = _steady(inputs, rows.group, len(rows)), inputs.unit(rows.x).cpu()
    found, ways, apart = [], [], apart_in(rows, inputs.horizon)
    for every, weighed in ((told, True), (laws, False)):
        known = Hindsight.none(len(rows))
        if split != "train":
            known = of_parts(inputs, every, held, level, weighed).last(len(rows))
        found.append(_score(every[-1], rows.y.double(), known, unit, error, level, apart))
        ways.append((None, None) if known.a is None else (float(known.v.mean()), float(known.w.mean())))
    words = "deviations of each series" if inputs.scaled else inputs.roles.target
    return Scores(found[0], found[1], inputs.season, len(rows), apart, level, words, *ways[0])


def _hindsight(run: Run, x: Tensor, every: Sequence[Laid], level: float) -> Hindsight:
    """What is known behind the last value of each series, whose last windows are x."""
    inputs, found = _inputs(run), []
    for laid in every:
        rows = _unlearned(run, laid)
        found.append(at_end(inputs, run.predict(rows.x) if len(rows) else None, rows, level))
    v, w, q, f, g = torch.cat(found).split(1, 1)
    line = inputs.by_line(x, None)
    if line is None:
        return Hindsight(v, w, f, g)
    s, b, _, stretch = line
    return Hindsight(v, w, f * stretch[:, :1] ** q, g, s + v * (b - s))


def _unlearned(run: Run, laid: Laid) -> Split:
    """The windows of a series behind the training part; those that the table does not hold from the run's own data."""
    inputs = _inputs(run)
    rows, code = inputs.unlearned(laid), inputs.place(laid.one.name)
    if run.data is None or code is None or (inputs.roles.time is None and len(rows)):
        return rows
    held: list[Split] = []
    for part in (run.data.val, run.data.test):
        own = torch.ones(len(part), dtype=torch.bool) if part.group is None else part.group == code
        if part.time is not None and len(rows) and rows.time is not None:
            own &= part.time < rows.time[0]
        held.append(Split(part.x[own], part.y[own]))
    return Split(torch.cat([part.x for part in (*held, rows)]), torch.cat([part.y for part in (*held, rows)]))


def _steady(inputs: Windows, code: Tensor | None, count: int) -> Tensor:
    """The divisor of eq. 4 for each row in the unit of y, (N, 1)."""
    _, scale, error = inputs.units(code, count)
    return error / scale if inputs.scaled else error


def _score(
    prediction: Prediction, y: Tensor, known: Hindsight, unit: Tensor, error: Tensor, level: float, apart: int
) -> Score:
    """Args:
    known, unit, error: at each row, its own unit, and the divisor of eq. 4, (N, 1).
    """
    y = y.to(prediction.mode.device)
    low, high = (known.end(prediction, end).double().reshape(y.shape) for end in _interval(prediction, level))
    held = torch.where(low.isnan(), math.nan, ((low <= y) & (y <= high)).double()).reshape(len(y), -1).mean(1)
    away = (y - known.moved(prediction, _median(prediction)).double().reshape(y.shape)).abs().reshape(
        len(y), -1
    ).cpu() * unit
    mase = (away / error)[error.expand_as(away) > 0]
    whole = crps(prediction, y.to(prediction.mode.dtype)) if known.still else known.crps(prediction, y)
    whole = whole.double().cpu().reshape(len(y), -1) * unit
    share, ends = float(held.mean()), (math.nan, math.nan)
    if math.isfinite(share):  # as many coins as vary between windows as these do
        strays = float(held.var(correction=0))
        ends = wilson(share, apart * max(1.0, share * (1 - share) / strays) if strays > 0 else apart)
    return Score(float(whole.mean()), share, float(mase.mean()), float(away.mean()), *ends)


def _centre(prediction: Prediction) -> Tensor:
    mean = prediction.mean
    return mean if mean.shape == prediction.mode.shape else prediction.mode


def _median(prediction: Prediction) -> Tensor:
    """The value that errs least; the mean where no median was learned."""
    try:
        return prediction.quantile(0.5)
    except UserError:
        return _centre(prediction)


def _interval(prediction: Prediction, level: float) -> tuple[Tensor, Tensor]:
    """nan where a family has no interval of that level."""
    try:
        return prediction.interval(level)
    except UserError:
        return torch.full_like(prediction.mean, math.nan), torch.full_like(prediction.mean, math.nan)


def _table(run: Run) -> Any:
    recipe = run.need_data().recipe
    if recipe is None:
        raise DataError(
            "a run on a table in memory must be told what was measured so far",
            got="no rows",
            do="Pass the table: forecast(run, frame)",
        )
    return read_rows(recipe["options"]["path"])


def _inputs(run: Run) -> Windows:
    if isinstance(run.inputs, Windows):
        return run.inputs
    raise UserError(
        "a run must be of series to forecast",
        got=f"{type(run.inputs).__name__} inputs",
        do="Train one on ll.data.series(path, target=…, time=…, horizon=…)",
    )
