"""What forecasts of a split are worth beside the value of a season ago.

    judged     of each value v of each window:  CRPS,  |v - median|,  whether the interval holds v            (1)
    MASE       = mean |v - median| / mean_t |v_t - v_{t-m}|, the second mean over training                     (2)

Both are judged with what is known at the origin (hindsight.py). A MASE below 1 errs less than the value of a season ago
does one season ahead. CRPS is in the unit of the target; of several series, whose units may differ, in deviations of
each from its mean in training. Windows that overlap are not independent: the interval of a coverage counts those that
do not.

Notation   v -> the series,  m -> season
Shapes     (N, H): N windows, H steps ahead
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.data import Data, Split
from leadline.data.series_windows import Windows
from leadline.engine.evaluation import wilson
from leadline.errors import UserError
from leadline.likelihoods.crps import crps
from leadline.likelihoods.hindsight import Hindsight, apart_in, of_parts
from leadline.likelihoods.prediction import Prediction
from leadline.likelihoods.season_ago import season_law

LEVEL = 0.9  # probability of the interval, where none is asked for
OF_A_STEP = re.compile(r"_\d+$")  # at the end of the name of a metric of one step ahead


@dataclass(frozen=True)
class Score:
    """CRPS, mean distance of the median and MASE: less is better; but coverage should be the level. nan where a figure
    is not known. `low` and `high` are the ends of the 95 % interval of the coverage.
    """

    crps: float
    coverage: float
    mase: float
    mae: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True, eq=False)
class Judged:
    """One forecaster, value by value (eq. 1), in float64 on the CPU.

    Args:
        crps, away: (N, H), in the unit of the scores.
        held: (N, H), 1 where the interval holds the value; nan where there is none.
        known: at the origin of each window.
    """

    crps: Tensor
    away: Tensor
    held: Tensor
    known: Hindsight

    @classmethod
    def of(cls, prediction: Prediction, y: Tensor, known: Hindsight, unit: Tensor, level: float) -> Judged:
        """Args:
        unit: of the scores, in that of y, (N, 1).
        """
        y, count = y.to(prediction.mode.device).double(), len(y)
        low, high = (known.end(prediction, end).double().reshape(y.shape) for end in interval_of(prediction, level))
        held = torch.where(low.isnan(), math.nan, ((low <= y) & (y <= high)).double())
        away = (y - known.moved(prediction, median_of(prediction)).double().reshape(y.shape)).abs()
        whole = crps(prediction, y.to(prediction.mode.dtype)) if known.still else known.crps(prediction, y)
        whole, away, held = (values.double().cpu().reshape(count, -1) for values in (whole, away, held))
        return cls(whole * unit, away * unit, held, known)

    def score(self, error: Tensor, apart: int) -> Score:
        """Args:
        error: the divisor of eq. 2 for each window, (N, 1).
        apart: windows that do not overlap.
        """
        mase = (self.away / error)[error.expand_as(self.away) > 0]
        held = self.held.mean(1)
        share, ends = float(held.mean()), (math.nan, math.nan)
        if math.isfinite(share):  # as many coins as vary between windows as these do
            strays = float(held.var(correction=0))
            ends = wilson(share, apart * max(1.0, share * (1 - share) / strays) if strays > 0 else apart)
        return Score(float(self.crps.mean()), share, float(mase.mean()), float(self.away.mean()), *ends)


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

    @classmethod
    def of(cls, inputs: Windows, rows: Split, both: tuple[Judged, Judged], level: float) -> Scores:
        """Of what `judged` found for the run and for the value of a season ago."""
        error, apart, known = _steady(inputs, rows.group, len(rows)), apart_in(rows, inputs.horizon), both[0].known
        model, naive = (each.score(error, apart) for each in both)
        words = "deviations of each series" if inputs.scaled else inputs.roles.target
        ways = (None, None) if known.a is None else (float(known.v.mean()), float(known.w.mean()))
        return cls(model, naive, inputs.season, len(rows), apart, level, words, *ways)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        finite = lambda score: {k: v if math.isfinite(v) else None for k, v in vars(score).items()}  # noqa: E731
        told = {"season": self.season, "rows": self.rows, "apart": self.apart, "level": self.level, "unit": self.unit}
        told |= {"followed": self.followed, "share": self.share}
        return {"model": finite(self.model), "naive": finite(self.naive), **told}


@torch.no_grad()
def judged(
    inputs: Windows, data: Data, split: str, told: Callable[[str], Prediction], level: float = LEVEL
) -> tuple[Judged, Judged]:
    """The forecasts of a split, and the values of a season ago.

    Args:
        told: what the network says of a split.
    """
    rows = data[split]
    names = ["val", "test"] if split == "test" and len(data.val) else [split]  # what is known by then, and the split
    held, unit = [data[name] for name in names], inputs.unit(rows.x).cpu()
    laws: list[list[Prediction]] = [[told(name) for name in names], [season_law(inputs, data.train, p) for p in held]]
    found = []
    for every, weighed in zip(laws, (True, False)):
        known = Hindsight.none(len(rows))
        if split != "train":
            known = of_parts(inputs, every, held, level, weighed).last(len(rows))
        found.append(Judged.of(every[-1], rows.y, known, unit, level))
    return found[0], found[1]


def naive_in_words(season: int) -> str:
    """The value that forecasts are measured by, in words.

    >>> naive_in_words(7)
    'the value 7 steps before'
    """
    return f"the value {counted(season, 'step')} before"


def centre_of(prediction: Prediction) -> Tensor:
    """The mean, or the mode where the mean is of another shape, as that of classes."""
    mean = prediction.mean
    return mean if mean.shape == prediction.mode.shape else prediction.mode


def interval_of(prediction: Prediction, level: float) -> tuple[Tensor, Tensor]:
    """nan where a family has no interval of that level."""
    try:
        return prediction.interval(level)
    except UserError:
        return torch.full_like(prediction.mean, math.nan), torch.full_like(prediction.mean, math.nan)


def median_of(prediction: Prediction) -> Tensor:
    """The value that errs least; the mean where no median was learned."""
    try:
        return prediction.quantile(0.5)
    except UserError:
        return centre_of(prediction)


def _steady(inputs: Windows, code: Tensor | None, count: int) -> Tensor:
    """The divisor of eq. 2 for each row in the unit of y, (N, 1)."""
    _, scale, error = inputs.units(code, count)
    return error / scale if inputs.scaled else error
