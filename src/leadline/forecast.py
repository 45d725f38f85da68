"""Forecasts of a run on series, and what they are worth beside the value of a season ago.

    forecast(run, rows)     the next H values after the last window of each series, with an interval          (1)
    naive_{o+h}             v_{o+h-m⌈h/m⌉}, spread by the deviation of its error h steps ahead in training      (2)
    scores(run, split)      of (1) and (2):  CRPS,  coverage,  MASE  (engine/forecast_scores.py)               (3)

Notation   v -> the series,  o -> origin,  m -> season,  H -> horizon,  h = 1 … H
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.cells import table_of
from leadline.data.data import Split
from leadline.data.series_moments import with_dates
from leadline.data.series_windows import Laid, Windows
from leadline.data.table import read_rows
from leadline.engine.forecast_scores import LEVEL, Scores, centre_of, interval_of, judged
from leadline.errors import DataError, UserError
from leadline.likelihoods.hindsight import Hindsight, at_end
from leadline.likelihoods.prediction import check_probability
from leadline.run import Run


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


def forecasts(run: Run) -> bool:
    """Whether a run was trained on series.

    >>> import leadline as ll
    >>> forecasts(ll.fit(ll.models.MLP(2, (4,), 1), ll.data.moons(num=60), epochs=1, progress=False))
    False
    """
    return isinstance(run.inputs, Windows)


def forecast(run: Run, rows: Any = None, level: float = LEVEL) -> Forecast:
    """The next values after the last window of each series (eq. 1), in the unit of the table.

    Args:
        rows: a table with what was measured so far, or its file; None is the file that the run was trained on.
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
    table = _table(run) if rows is None else read_rows(rows) if isinstance(rows, (str, Path)) else with_dates(rows)[0]
    x, every = inputs.last(table_of(table))
    prediction = run.predict(x)
    shape = (len(x), inputs.horizon)
    known = _hindsight(run, x, every, level)
    ends = (
        known.moved(prediction, centre_of(prediction)),
        *(known.end(prediction, e) for e in interval_of(prediction, level)),
    )
    unit = [(laid.figures.shift, laid.figures.scale) for laid in every]
    shift, scale = torch.tensor(unit, dtype=torch.float64).split(1, 1)
    predicted, low, high = (
        tuple(inputs.as_measured(end.double().cpu().reshape(shape), x, shift, scale).flatten().tolist()) for end in ends
    )
    moments: list[str] = []
    for laid in every:
        ahead = laid.one.moments[len(laid.one) - 1 :][: inputs.horizon + 1]  # those that the table tells
        meant = inputs.clock.day_of(laid.one.name, laid.one.moments)
        behind = np.append(ahead[1:], inputs.clock.later(float(ahead[-1]), inputs.horizon + 1 - len(ahead), meant))
        steps = np.arange(1.0, inputs.horizon + 1)
        moments += inputs.clock.written(steps if inputs.roles.time is None else behind)
    names = tuple(laid.one.name for laid in every for _ in range(inputs.horizon))
    read = tuple(min(len(laid.one), inputs.window) for laid in every for _ in range(inputs.horizon))
    roles = inputs.roles
    return Forecast(roles.target, roles.time, roles.group, names, tuple(moments), predicted, low, high, level, read)


def scores(run: Run, split: str = "test", level: float = LEVEL) -> Scores:
    """What the run's forecasts of a split are worth beside the value of a season ago (eq. 3).

    Args:
        level: of the intervals whose coverage is told, between 0 and 1.
    """
    inputs, data = _inputs(run), run.need_data()
    check_probability("level", level)
    if not len(data[split]):
        have = " or ".join(name for name, _ in data.splits())
        raise DataError(f"split {split} must have rows", got="none", do=f"Take {have}")
    both = judged(inputs, data, split, lambda name: run.predict(data[name].x), level)
    return Scores.of(inputs, data[split], both, level)


def _hindsight(run: Run, x: Tensor, every: list[Laid], level: float) -> Hindsight:
    """What is known after the last value of each series, whose last windows are x."""
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
    """The windows of a series after the training part; those that the table does not hold from the run's own data."""
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
