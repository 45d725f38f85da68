"""Forecasts of a run on series, and what they are worth beside the value of a season ago.

    forecast(run, rows)     the next H values behind the last window of each series, with an interval          (1)
    naive_{o+h}             v_{o+h-m⌈h/m⌉}, spread by the deviation of its error h steps ahead in training      (2)
    scores(run, split)      of (1) and (2):  CRPS,  coverage,  MASE                                            (3)
    MASE = mean |v - median| / mean_t |v_t - v_{t-m}|                         the second mean over training    (4)

A MASE below 1 errs less than the value of a season ago does one season ahead. CRPS is in the unit of the target; of
several series, whose units may differ, in deviations of each from its mean in training.

Notation   v -> the series,  o -> origin,  m -> season,  H -> horizon,  h = 1 … H
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Normal

from leadline.data.cells import table_of
from leadline.data.data import Split
from leadline.data.series_windows import Windows
from leadline.data.table import read_rows
from leadline.errors import DataError, UserError
from leadline.likelihoods.continuous import ContinuousPrediction
from leadline.likelihoods.crps import crps
from leadline.likelihoods.prediction import Prediction, check_probability
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
    is not known.
    """

    crps: float
    coverage: float
    mase: float
    mae: float


@dataclass(frozen=True)
class Scores:
    """What forecasts of a split are worth.

    Args:
        model, naive: of the run, and of the value of a season ago.
        season: m.
        rows: windows of the split.
        level: of the intervals whose coverage is told.
        unit: of crps.
    """

    model: Score
    naive: Score
    season: int
    rows: int
    level: float
    unit: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        finite = lambda score: {k: v if math.isfinite(v) else None for k, v in vars(score).items()}  # noqa: E731
        told = {"season": self.season, "rows": self.rows, "level": self.level, "unit": self.unit}
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
    x, every = inputs.last(table_of(_table(run) if rows is None else rows))
    prediction = run.predict(x)
    shape = (len(x), inputs.horizon)
    ends = (_centre(prediction), *_interval(prediction, level))
    unit = [(laid.figures.shift, laid.figures.scale) for laid in every]
    shift, scale = torch.tensor(unit, dtype=torch.float64).split(1, 1)
    predicted, low, high = (
        tuple(inputs.as_measured(end.double().cpu().reshape(shape), x, shift, scale).flatten().tolist()) for end in ends
    )
    moments: list[str] = []
    for laid in every:
        behind = inputs.clock.later(float(laid.one.moments[len(laid.one) - 1]), inputs.horizon)
        steps = np.arange(1.0, inputs.horizon + 1)
        moments += inputs.clock.written(steps if inputs.roles.time is None else behind)
    names = tuple(laid.one.name for laid in every for _ in range(inputs.horizon))
    roles = inputs.roles
    return Forecast(roles.target, roles.time, roles.group, names, tuple(moments), predicted, low, high, level)


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
    y = rows.y.double()
    prediction = run.predict(rows.x)
    error = _steady(inputs, rows.group, len(rows))
    model = _score(prediction, y, _median(prediction), error, level)
    centre, deviation = seasonal(inputs, data.train, rows)
    centre, deviation = (part.reshape(y.shape) for part in (centre, deviation))
    naive = _score(ContinuousPrediction(Normal(centre, deviation)), y, centre, error, level)
    unit = "deviations of each series" if inputs.scaled else inputs.roles.target
    return Scores(model, naive, inputs.season, len(rows), level, unit)


def seasonal(inputs: Windows, train: Split, rows: Split) -> tuple[Tensor, Tensor]:
    """The value of a season ago for the windows of a split, and its deviation (eq. 2), (N, H), in the unit of y.

    Args:
        train: the training split, whose errors give the deviation.
        rows: the split.
    """
    known = _naive(inputs, train)
    unit = _unit(inputs, train)
    spread = ((train.y.double().reshape(known.shape) - known) / unit).square().mean(0).sqrt()
    centre = _naive(inputs, rows)
    return centre, (spread * _unit(inputs, rows)).clamp(min=1e-9).expand_as(centre)


def _naive(inputs: Windows, rows: Split) -> Tensor:
    return inputs.as_asked(inputs.naive(rows.x), rows.x, rows.group)


def _unit(inputs: Windows, rows: Split) -> Tensor:
    """The deviation of the series of each row in the unit of y, (N, 1)."""
    return inputs.units(rows.group, len(rows))[1] if not inputs.scaled else torch.ones(len(rows), 1).double()


def _steady(inputs: Windows, code: Tensor | None, count: int) -> Tensor:
    """The divisor of eq. 4 for each row in the unit of y, (N, 1)."""
    _, scale, error = inputs.units(code, count)
    return error / scale if inputs.scaled else error


def _score(prediction: Prediction, y: Tensor, point: Tensor, error: Tensor, level: float) -> Score:
    y = y.to(prediction.mode.device)
    low, high = _interval(prediction, level)
    held = torch.where(low.isnan(), math.nan, ((low.double() <= y) & (y <= high.double())).double()).mean()
    apart = (y - point.double()).abs().reshape(len(y), -1).cpu()
    mase = (apart / error)[error.expand_as(apart) > 0]
    whole = crps(prediction, y.to(prediction.mode.dtype)).double().mean()
    return Score(float(whole), float(held), float(mase.mean()), float(apart.mean()))


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
