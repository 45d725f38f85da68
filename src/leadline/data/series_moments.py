"""When each row of a table was: dates, times or numbers, as they are written in one column.

1/2/2024           has its parts in the order of training; there in the one that leaves fewer steps missing
2024Q4, 2024-W05   are the time at which they begin
times of zones     are days where all of them begin one there
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import time
from typing import Any

import numpy as np

from leadline.data.cells import Cells, Table, Text
from leadline.data.clock import Clock
from leadline.data.periods import periods_of
from leadline.data.raw import EMPTY, dates_style, days_alone, raw_values, read_numbers, shown
from leadline.data.stamps import in_zone, look_of, timed_periods
from leadline.data.words import DAY, zoned
from leadline.errors import DataError

FIRST = {"mdy": "month", "dmy": "day"}  #: orders between which 1/2/2024 leaves the choice
_MIDNIGHT = time()
_MICROSECONDS = 86400e6  # of a day
_WRITE = (
    "Write dates in every row, in one way and with all digits of the year, such as 2024-12-31, 2024-12-31 18:00, "
    "2024-12-31 18:00+01:00, 2024-12, Dec 2024, 2024Q4 or 2024-W05"
)


def with_dates(rows: Any) -> tuple[Any, str | None]:
    """A data frame with what its index of pandas holds, if these are dates, as a column, and the name of it: that of
    the index, or `time`. What is no frame stays as it is.

    >>> with_dates({"v": [1.0, 2.0]})
    ({'v': [1.0, 2.0]}, None)
    """
    index: Any = getattr(rows, "index", None)
    name = None
    if type(index).__name__ in ("DatetimeIndex", "PeriodIndex") and hasattr(rows, "assign"):
        name = "time" if index.name is None else str(index.name)
        name, rows = (None, rows) if name in rows.columns else (name, rows.assign(**{name: index}))
    return rows, name


def days_of_zones(table: Table) -> Table:
    """A table in which times of a zone are days where all of them begin one there."""
    columns, zones = dict(table.columns), {}
    for name, zone in table.zones.items():
        known, code = np.unique(np.asarray(table.columns[name]), return_inverse=True)
        moments = (known[~np.isnat(known)].astype(np.int64) / _MICROSECONDS).tolist()
        if moments and all(in_zone(moment, zone).time() == _MIDNIGHT for moment in moments):
            days = [in_zone(moment, zone).replace(tzinfo=None) for moment in moments]
            columns[name] = np.append(np.array(days, known.dtype), known[len(days) :])[code]
        else:
            zones[name] = zone
    return replace(table, columns=columns, zones=zones)


@dataclass(frozen=True, eq=False)
class Moments:
    """When each row was.

    Args:
        values: the moments, NaN nowhere.
        orders: those in which the parts of its dates can be read, the likeliest first; none where they are numbers.
        form, look, zone: in which dates are written, as `Clock` has them.
    """

    values: np.ndarray
    orders: tuple[str, ...] = ()
    form: str = ""
    look: str = ""
    zone: str = ""

    @property
    def dated(self) -> bool:
        """Whether they are dates."""
        return bool(self.orders)

    @property
    def order(self) -> str:
        """That in which they are read, where the year does not come first."""
        return next((own for own in self.orders[:1] if own in FIRST), "")


def moments_of(table: Table, name: str | None, order: str = "") -> Moments:
    """When each row was.

    Args:
        order: of the parts of a date in training; empty where it is not settled.
    """
    if name is None:
        return Moments(np.arange(len(table), dtype=np.float64))
    written = table.columns[name]
    cells = days_alone(written) if isinstance(written, Text) else written
    orders = _date_orders(cells, order)
    named_periods = periods_of(cells) if orders in ((), ("ymd",)) else None
    if named_periods is not None:
        return Moments(named_periods[0], ("ymd",), named_periods[1])
    timed = timed_periods(written) if orders == ("ymd",) and isinstance(written, Text) else None
    if timed is not None:
        _check_zones(table, name, written)
        return Moments(timed[0], ("ymd",), look=timed[1])
    values, misfit = raw_values(cells, "date", orders[0]) if orders else read_numbers(cells)
    wrong = misfit | ~np.isfinite(values)
    if wrong.any():
        numbers, misfit = read_numbers(cells)
        odd = misfit | ~np.isfinite(numbers)
        wrong = odd if 0 < odd.sum() < wrong.sum() else wrong  # numbers, but for a few cells
        row = int(np.flatnonzero(wrong)[0])
        got, right = shown(cells, row), np.flatnonzero(~wrong)[:1]
        beside = "".join(f", beside {shown(cells, int(k))} in {table.at(int(k))}" for k in right if got != EMPTY)
        raise DataError(
            f"{name}, the time, must be a date or a number in every row",
            got=f"{got} in {table.at(row)}{beside}",
            do=f"Fill it in, or leave the {table.word} out" if got == EMPTY else _WRITE,
        )
    if cells is written and orders:
        _check_zones(table, name, written)
    look = look_of(written, orders[0]) if orders and isinstance(written, Text) else ""
    return Moments(values, orders, look=look, zone=table.zones.get(name, ""))


def _check_zones(table: Table, name: str, cells: Cells) -> None:
    """Refuse times of which some are in a zone and some in none: how far are they from one another?"""
    if not isinstance(cells, Text):
        return
    _, tails, others = cells.split(DAY)
    if len({zoned(word) for word in (*tails.distinct()[0], *others) if word} - {None}) > 1:
        said = [zoned(cells[row] or "") for row in range(len(cells))]
        rows = sorted((said.index(False), said.index(True)))
        raise DataError(
            f"{name}, the time, must be in a zone in every row or in none",
            got=" and ".join(f"{shown(cells, row)} in {table.at(row)}" for row in rows),
            do="Write the zone in every row, such as 2024-12-31 18:00+01:00, or write all of them in UTC",
        )


def _date_orders(cells: Cells, settled: str) -> tuple[str, ...]:
    """The orders in which a column's dates can be read, the likeliest first; none where it holds numbers."""
    if not isinstance(cells, Text):
        return ("ymd",) if cells.dtype.kind == "M" else ()
    if cells.floats() is not None:
        return ()
    if settled and not raw_values(cells, "date", settled)[1].any():
        return (settled,)
    first = dates_style(cells) or "ymd"
    if first not in FIRST:
        return (first,)
    read = {order: raw_values(cells, "date", order) for order in (first, *FIRST)}
    return tuple(sorted((order for order in read if not read[order][1].any()), key=lambda own: _missing(read[own][0])))


def _missing(moments: np.ndarray) -> int:
    """How many steps are missing, or fall between two, if these are the times of one series."""
    own = np.unique(moments[~np.isnan(moments)])
    places, off = Clock.of([own], True).places(own) if len(own) else (own, own)
    return int(places[-1]) + 1 - len(own) + int(off.sum()) if len(own) else 0
