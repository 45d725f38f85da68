"""The clock of a series: how far apart its moments are, which comes next, and where each stands in day, week and year.

    t_k = t_0 + k s                          numbers, or dates that are s days apart           (1)
    t_k = the same day, k s months later     dates of a calendar; a last day stays a last day   (2)
    angle = 2π frac(t / cycle)               read as its sine and cosine                        (3)

Notation   s -> size
A moment is a float64: the number itself, days since the start of 1970, or without any time the number of the row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from leadline.data.columns import CYCLES
from leadline.data.periods import period
from leadline.data.stamps import in_zone, stamp
from leadline.data.words import plain_text

UNITS = ("row", "number", "day", "month")
_SECONDS = 86400.0
_SHORTEST_MONTH = 28.0
_WORKDAYS = (0, 1, 2, 3, 4)
_OFF = 0.01  # parts of a step by which a moment may miss its place
_STEPS_A_YEAR = {1: 12, 3: 4, 6: 2}  # by the months of a step


@dataclass(frozen=True)
class Clock:
    """Args:
        unit: what a step is counted in, one of `UNITS`.
        size: s, above 0.
        last: moments are the last days of their months.
        form: how dates are written, as `leadline.data.periods` has it; empty for 2024-12-31, or 2024-12-31 18:00.
        order: of day, month and year in the dates of training, "dmy" or "mdy"; empty where the year comes first.
        weekdays: those on which a series of days goes on, 0 is Monday; none where it does on all. Months have the last
            of these days.
        day: of the month that is meant, counted from 0, where shorter months have their last day in its place.
        days: that of each series by its name, where they differ and it is later than the 28th.
        look: how dates in digits are written, as `leadline.data.stamps` has it; empty where `form` says it.
        zone: in which hours are written, where a table has times in one.

    >>> clock = Clock.of([np.array([0.0, 31.0, 59.0, 90.0])], dated=True)
    >>> clock.unit, clock.size, clock.season, clock.written(clock.later(90.0, 2))
    ('month', 1.0, 12, ['1970-05-01', '1970-06-01'])
    """

    unit: str
    size: float = 1.0
    last: bool = False
    form: str = ""
    order: str = ""
    weekdays: tuple[int, ...] = ()
    day: int = 0
    look: str = ""
    days: Mapping[str, int] = field(default_factory=dict)
    zone: str = ""

    @classmethod
    def of(cls, parts: Sequence[np.ndarray], dated: bool, names: Sequence[str] = ()) -> Clock:
        """The clock of moments in ascending order, a part for each series: its step is the commonest distance.

        Args:
            names: of the series, where there are several.
        """
        apart = np.concatenate([np.diff(part) for part in parts]) if parts else np.empty(0)
        unit = "day" if dated else "number"
        if not len(apart):
            return cls(unit)
        every = np.concatenate(parts)
        if dated and apart.min() >= _SHORTEST_MONTH and (every == np.floor(every)).all():
            found = cls._of_months(parts, every, names or [""] * len(parts))
            if found is not None:
                return found
        if dated:
            return cls(unit, float(_commonest(np.round(apart * _SECONDS, 3))) / _SECONDS)
        unit_of = float(np.median(apart))
        return cls(unit, float(_commonest(np.round(apart / unit_of, 6))) * unit_of)

    @classmethod
    def _of_months(cls, parts: Sequence[np.ndarray], every: np.ndarray, names: Sequence[str]) -> Clock | None:
        """Of days that are the same in each month of a series, or the last that it has; None where they are not."""
        months, day, last = _months(every)
        steps = np.concatenate([np.diff(_months(part)[0]) for part in parts])
        size = float(_commonest(steps))
        if last.all():  # whole years differ by it in February alone
            differ = bool((day != day[0]).any() or (size % 12 != 0 or months[0] % 12 == 1))
            return cls("month", size, differ)
        each = [_months(part) for part in parts]
        same = all((own == np.minimum(own.max(), _lengths(of) - 1)).all() for of, own, _ in each)
        # one day that is the last of each of its months, such as 28 February, leaves open which is meant
        meant = {
            name: int(own.max()) for name, (_, own, ends) in zip(names, each) if not ends.all() or own.min() < own.max()
        }
        late = {name: own for name, own in meant.items() if own >= _SHORTEST_MONTH}
        if same and len(set(meant.values())) == 1:
            return cls("month", size, day=max(late.values(), default=0))
        if (every == _last_open(months, _WORKDAYS)).all() and steps.min() > 0:
            return cls("month", size, True, weekdays=_WORKDAYS)
        return cls("month", size, days=late) if same else None

    @property
    def dated(self) -> bool:
        """Whether moments are dates."""
        return self.unit in ("day", "month")

    def places(self, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many steps each moment is after the first, and which fall between two steps."""
        if self.unit == "month":
            months = _months(moments)[0]
            steps = (months - months[0]) / self.size
        else:
            steps = (moments - moments[0]) / self.size
        near = np.rint(steps)
        return near.astype(np.int64), np.abs(steps - near) > _OFF

    def begin(self, moment: float) -> int:
        """The place of a moment among all steps of this clock, so that series can be laid side by side."""
        count = float(_months(np.array([moment]))[0][0]) if self.unit == "month" else moment
        return math.floor(count / self.size + _OFF)

    def day_of(self, name: str, moments: np.ndarray) -> int:
        """The day of the month that a series means, counted from 0."""
        if self.unit != "month":
            return 0
        _, own, last = _months(moments)
        return self.days.get(name, self.day if last.all() else int(own.max()))

    def later(self, moment: float, count: int, meant: int | None = None) -> np.ndarray:
        """The `count` moments after one (eqs. 1, 2).

        Args:
            meant: the day of the month that its series means; None is that of all.
        """
        steps = np.arange(1, count + 1)
        if self.weekdays and self.unit != "month":
            days = moment + np.arange(1, 7 * (count // len(self.weekdays) + 1) + 1)
            return days[np.isin(_weekdays(days), self.weekdays)][:count]
        if self.unit != "month":
            return moment + steps * self.size
        months, day, last = _months(np.array([moment]))
        coming = months + np.rint(steps * self.size).astype(np.int64)
        if self.weekdays:
            return _last_open(coming, self.weekdays)
        asked = self.day if meant is None else meant
        own = 31 if self.last else max(int(day[0]), asked) if last[0] else int(day[0])
        return (_begins(coming) + np.minimum(own, _lengths(coming) - 1)).astype(np.float64)

    @property
    def season(self) -> int | None:
        """Steps after which the calendar repeats itself: of hours a day, of days a week, of months a year."""
        if self.unit == "month":
            return _STEPS_A_YEAR.get(round(self.size))
        if self.unit != "day":
            return None
        for cycle, shortest in ((1.0, 2), (7.0, 2), (364.0, 12)):
            steps = cycle / self.size
            if steps > shortest - 0.5 and abs(steps - round(steps)) < _OFF * steps:
                return round(steps)
        return None

    @property
    def annual(self) -> bool:
        """Whether its season is a year of days, such as 52 weeks: many a series of such steps has none."""
        return self.unit == "day" and self.season is not None and self.season * self.size > 8

    def cycles(self, moments: np.ndarray) -> tuple[str, ...]:
        """The cycles in which the moments of a training part have gone round at least once."""
        if not self.dated or not len(moments):
            return ()
        step = self.size * (CYCLES["year"] / 12 if self.unit == "month" else 1.0)
        span = float(np.ptp(moments)) + step
        return tuple(name for name, days in CYCLES.items() if 2 * step <= days * (1 + _OFF) and span >= days)

    def waves(self, moments: np.ndarray, cycles: Sequence[str]) -> np.ndarray:
        """Sine and cosine of the place in each cycle (eq. 3), (n, 2 · cycles)."""
        if not cycles:
            return np.empty((len(moments), 0))
        turns = [
            np.mod(_months(moments)[0], 12) / 12
            if self.unit == "month" and name == "year"
            else np.mod(moments / CYCLES[name], 1)
            for name in cycles
        ]
        angles = [2 * math.pi * turn for turn in turns]
        return np.stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)], 1)

    def written(self, moments: np.ndarray) -> list[str]:
        """Moments as a table holds them."""
        if not self.dated:
            return [plain_text(moment if moment == round(moment) else float(f"{moment:.12g}")) for moment in moments]
        if self.zone:
            return [str(in_zone(moment, self.zone)) for moment in moments.tolist()]
        whole = self.unit == "month" or bool((moments == np.floor(moments)).all() and self.size == round(self.size))
        seconds = np.rint(moments * _SECONDS).astype(np.int64)
        if self.form:
            return [period(day, self.form) for day in (seconds // 86400).astype("datetime64[D]").tolist()]
        if self.look:
            return [stamp(moment, self.look) for moment in moments.tolist()]
        if whole:
            return [str(day) for day in (seconds // 86400).astype("datetime64[D]")]
        parts = np.rint(moments * _SECONDS * 1000).astype(np.int64)
        if (parts % 1000).any():  # of seconds
            return [str(moment).replace("T", " ") for moment in parts.astype("datetime64[ms]")]
        return [str(moment).replace("T", " ") for moment in seconds.astype("datetime64[s]")]

    def step(self) -> str:
        """A step in words.

        >>> Clock("month").step(), Clock("day", 0.25).step(), Clock("number", 2.0).step()
        ('1 month', '6 hours', '2')
        """
        size, unit = self.size, self.unit
        if unit == "row":
            return "1 row"
        if unit == "number":
            return f"{size:g}"
        if unit == "day":
            lengths = (("day", 1.0), ("hour", 1 / 24), ("minute", 1 / 1440), ("second", 1 / _SECONDS))
            unit, days = next((own for own in lengths if size >= own[1] * (1 - 1e-9)), lengths[-1])
            size /= days
        return f"{size:g} {unit}" + ("" if abs(size - 1) < 1e-9 else "s")


def open_weekdays(moments: np.ndarray) -> tuple[int, ...]:
    """The days of the week on which a series of days had values, if it lasted four weeks and had none on others.

    >>> open_weekdays(np.array([4.0 + 7 * week + day for week in range(5) for day in range(5)]))
    (0, 1, 2, 3, 4)
    """
    found = tuple(np.unique(_weekdays(moments)).tolist())
    return found if len(found) < 7 and np.ptp(moments) >= 27 else ()


def _weekdays(moments: np.ndarray) -> np.ndarray:
    return (np.floor(moments).astype(np.int64) + 3) % 7  # the first of 1970 was a Thursday


def _last_open(months: np.ndarray, weekdays: tuple[int, ...]) -> np.ndarray:
    """The last day of each month that is one of the days of the week."""
    ends = (_begins(months) + _lengths(months) - 1).astype(np.float64)
    return np.max([np.where(np.isin(_weekdays(ends - k), weekdays), ends - k, -np.inf) for k in range(7)], 0)


def _begins(months: np.ndarray) -> np.ndarray:
    """The first day of months since the start of 1970."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _lengths(months: np.ndarray) -> np.ndarray:
    return _begins(months + 1) - _begins(months)


def _months(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Months since the start of 1970, days since the start of each month, and whether that is its last day."""
    days = np.floor(moments).astype(np.int64).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    day = (days - months.astype("datetime64[D]")).astype(np.int64)
    last = days + 1 == (months + 1).astype("datetime64[D]")
    return months.astype(np.int64), day, last


def _commonest(values: np.ndarray) -> float:
    """The value that occurs most often; of several the smallest."""
    found, counts = np.unique(values, return_counts=True)
    return float(found[counts.argmax()])
