"""A table as series: one for each value of a group, in the order of time, a value at every step.

unsorted rows      are sorted by their time
a time twice       is refused: which of the two holds?
a step missing     is refused, filled with the value before it, or left out ("error", "fill", "join")
rows at the end    without a target tell what is known of the future
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from leadline.data.account import counted
from leadline.data.cells import Cells, Table, Text
from leadline.data.clock import Clock, open_weekdays
from leadline.data.columns import named
from leadline.data.outcome import read_outcome
from leadline.data.periods import short_dates
from leadline.data.raw import read_numbers, shown, words_of, writes_comma
from leadline.data.series_moments import FIRST, Moments, moments_of
from leadline.data.words import natural, zoned
from leadline.errors import DataError

GAPS = ("error", "fill", "join")
_FINER = ("half", "quarter", "qtr", "month", "week", "day", "hour", "minute")  # what stands in a column of its own
_SUNDAY = 3  # of days since the start of 1970, by sevens
_REMEDY = (
    'train with gaps="fill" to carry the value before it on, or gaps="join" to take the rows around it as neighbours'
)


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are.

    Args:
        target: what is forecast.
        time: when each row was; None takes rows in their order.
        group: which series each row is of; None is one series.
        past: columns of numbers that are read up to the moment of a forecast.
        gaps: what becomes of missing steps, one of `GAPS`.
    """

    target: str
    time: str | None = None
    group: str | None = None
    past: tuple[str, ...] = ()
    gaps: str = "error"

    def check(self, table: Table) -> None:
        """Refuse names that the table does not have, and a column in two roles."""
        taken: dict[str, str] = {}
        given = [("target", self.target), ("time", self.time), ("group", self.group)]
        for role, name in [*given, *(("past", name) for name in self.past)]:
            if name is None:
                continue
            check_column(table, role, name)
            if name in taken:
                raise DataError(
                    "a column must have one role", got=f"{name!r} as {taken[name]} and {role}", do="Name another column"
                )
            taken[name] = role


def check_column(table: Table, role: str, name: str) -> None:
    """Refuse a name that the table does not have."""
    if name not in table.columns:
        raise DataError(
            f"{role} must name a column of {table.source}",
            got=f"{role} {name!r}" + (" and a file without a line of names" if table.nameless else ""),
            do=named(str(name), list(table.columns)).rstrip("."),
        )


@dataclass(frozen=True, eq=False)
class Series:
    """One series, n steps of which the target is known, and further ones of which it is not.

    Args:
        name: of its group; empty where there is but one series.
        rows: the row of the table that each step was read from, (n + further,).
        moments: when each step is, (n + further,).
        values: the target, (n,).
        past: the other variables, (n, P), NaN before their first value.
        made: steps whose value was missing and is carried on, (n,).
        begin: the place of its first step among those of all series.
    """

    name: str
    rows: np.ndarray
    moments: np.ndarray
    values: np.ndarray
    past: np.ndarray
    made: np.ndarray
    begin: int = 0

    def __len__(self) -> int:
        return len(self.values)


def series_of(
    table: Table, roles: Roles, clock: Clock | None = None, comma: bool = False
) -> tuple[list[Series], Clock, list[str]]:
    """The series of a table, by the natural order of their names; their clock; and what a reader should know.

    Args:
        clock: what the steps must be, where that is settled already.
        comma: decimals are written with a comma where the table leaves it open.

    >>> from leadline.data.cells import table_of
    >>> table = table_of({"year": [2003, 2001, 2002], "sales": [3.0, 1.0, 2.0]})
    >>> found, clock, notes = series_of(table, Roles("sales", "year"))
    >>> found[0].values.tolist(), clock.step(), notes
    ([1.0, 2.0, 3.0], '1', ['the rows are sorted by year'])
    """
    roles.check(table)
    if not len(table):
        raise DataError(f"{table.source} must have rows", got="none", do="Check that it was written whole")
    comma = comma or writes_comma(table.columns.values())
    values, past = target_of(table, roles.target, comma, clock is not None), _past(table, roles.past, comma)
    times = moments_of(table, roles.time, "" if clock is None else clock.order)
    moments, dated = times.values, times.dated
    parts = [(name, rows[np.argsort(moments[rows], kind="stable")]) for name, rows in _groups(table, roles.group)]
    notes = [f"the rows are sorted by {roles.time}"] if any((np.diff(rows) < 0).any() for _, rows in parts) else []
    notes += _without_value(roles, [values[rows] for _, rows in parts])
    learned = clock is not None
    for _, rows in parts:
        _check_twice(table, roles, rows, moments[rows], learned)
    if roles.time is None:
        found = clock or Clock("row")
    else:
        if clock is None and len(times.orders) > 1:
            notes.append(f"{roles.time} is read with the {FIRST[times.order]} first")
        found = clock or _clock_of({name: moments[rows] for name, rows in parts}, times, roles.gaps)
        if found.dated != dated:
            raise DataError(
                f"{roles.time}, the time, must be written as it was in training",
                got="dates" if dated else "numbers",
                do="Write dates if it was trained on dates, and numbers if it was trained on numbers",
            )
    every = [_on_steps(table, roles, found, name, rows, moments, values, past, learned) for name, rows in parts]
    made = sum(int(one.made.sum()) for one in every)
    notes += [f"{counted(made, 'missing step')} filled with the value before, and never a target"] if made else []
    if roles.time is None:  # they end together
        every = [replace(one, begin=-len(one)) for one in every]
    return every, found, notes


def _without_value(roles: Roles, every: list[np.ndarray]) -> list[str]:
    """What becomes of rows without a target, those aside that are filled or refused."""
    known = [(own, np.flatnonzero(~np.isnan(own))) for own in every]
    held = [(own, rows) for own, rows in known if len(rows)]
    before = sum(int(rows[0]) for _, rows in held)
    between = sum(int(rows[-1] - rows[0]) + 1 - len(rows) for _, rows in held) if roles.gaps == "join" else 0
    ahead = sum(len(own) - 1 - int(rows[-1]) for own, rows in held)
    told = [(before, "before the first value: left out"), (between, "between values: left out")]
    told.append((ahead, "after the last value: steps to come"))
    return [f"{counted(count, 'row')} without {roles.target} {what}" for count, what in told if count]


def _clock_of(parts: dict[str, np.ndarray], times: Moments, gaps: str) -> Clock:
    found = Clock.of([*parts.values()], times.dated, [*parts])
    every = np.concatenate([*parts.values()])
    joined_days = gaps == "join" and found.unit == "day" and found.size == 1
    weekdays = open_weekdays(every) if joined_days else ()
    found = replace(found, weekdays=weekdays or found.weekdays)
    return replace(found, form=times.form, order=times.order, look=times.look, zone=times.zone)


def target_of(table: Table, name: str, comma: bool, learned: bool) -> np.ndarray:
    """The numbers of a target, NaN where there is none.

    Args:
        learned: a run was trained on it, so that no other can be named.
    """
    cells = table.columns[name]
    outcome = read_outcome(name, cells, comma)
    if outcome.values is None or outcome.misfit.any() or np.isinf(outcome.values).any():
        wrong = np.zeros(0) if outcome.values is None else outcome.misfit | np.isinf(outcome.values)
        row = int(np.flatnonzero(wrong)[0]) if len(wrong) else int(np.argmax(~outcome.missing))
        raise DataError(
            f"{name}, the target of a series, must hold finite numbers",
            got=f"{shown(cells, row)} in {table.at(row)}",
            do="Correct the cell" if learned else "Correct the cell, or name another column as the target",
        )
    return outcome.values.astype(np.float64)


def _past(table: Table, names: tuple[str, ...], comma: bool) -> np.ndarray:
    found = np.empty((len(table), len(names)))
    for k, name in enumerate(names):
        cells = table.columns[name]
        found[:, k], misfit = read_numbers(cells, comma=comma)
        if misfit.any() or np.isinf(found[:, k]).any():
            row = int(np.flatnonzero(misfit | np.isinf(found[:, k]))[0])
            raise DataError(
                f"column {name} must hold finite numbers",
                got=f"{shown(cells, row)} in {table.at(row)}",
                do="Correct it",
            )
    return found


def _groups(table: Table, group: str | None) -> Iterator[tuple[str, np.ndarray]]:
    """The name and the rows of each series."""
    if group is None:
        yield "", np.arange(len(table))
        return
    words, codes = words_of(table.columns[group])
    lost = np.flatnonzero(np.isin(codes, [k for k, word in enumerate(words) if word is None]))
    if len(lost):
        raise DataError(
            f"{group}, the group, must have a value in every row",
            got=f"none in {table.at(int(lost[0]))}",
            do="Correct it",
        )
    code = {word: k for k, word in enumerate(words) if word is not None}
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(words) + 1))
    for word in sorted(code, key=natural):
        yield word, order[ends[code[word]] : ends[code[word] + 1]]


def _check_twice(table: Table, roles: Roles, rows: np.ndarray, moments: np.ndarray, learned: bool) -> None:
    twice = np.flatnonzero(np.diff(moments) == 0)
    if len(twice):
        one, other = (int(row) for row in rows[twice[0] : twice[0] + 2])
        more = f" ({len(twice)} such times)" if len(twice) > 1 else ""
        cells = table.columns[roles.time or ""]
        finer = next((name for name in table.columns if name.lower() in _FINER and name != roles.time), None)
        do = f"Join such rows of a {roles.group} into one"
        if roles.group is None:
            do = 'Pass group="name" of the column that tells the series apart, or join such rows into one'
            do = "Pass the rows of one series, or join such rows into one" if learned else do
        if finer is not None:
            do += f"; if {finer} says when in the {roles.time}, write both in one column, such as 2024-01 or 2024Q1"
        said = [shown(cells, one), shown(cells, other)]
        both = f"{said[0]} in {table.at(one)} and in {table.at(other)}"
        if said[0] != said[1]:
            both = f"{said[0]} in {table.at(one)} and {said[1]} in {table.at(other)}, the same moment"
        elif isinstance(cells, Text) and _goes_back(float(moments[twice[0]])) and not zoned(cells[one] or ""):
            do += "; if the clocks went back there, write times in UTC or with their zone"
        raise DataError(f"a series must have one row for each {roles.time}", got=f"{both}{more}", do=do)


def _goes_back(moment: float) -> bool:
    """Whether a moment is in the first hours of a Sunday, as where clocks are turned back.

    >>> _goes_back(20023 + 2 / 24), _goes_back(20023.0), _goes_back(20024 + 2 / 24)  # the 27th of October in 2024
    (True, False, False)
    """
    return int(moment) % 7 == _SUNDAY and 0 < moment % 1 < 4 / 24


def _on_steps(
    table: Table,
    roles: Roles,
    clock: Clock,
    name: str,
    rows: np.ndarray,
    moments: np.ndarray,
    values: np.ndarray,
    past: np.ndarray,
    learned: bool,
) -> Series:
    """One series with a value at every step.

    Args:
        learned: the clock is that of training, whose ways cannot be changed any more.
    """
    rows = _trimmed(rows, values[rows], roles.gaps)
    if not len(rows):
        return Series(name, rows, moments[:0], values[:0], past[:0], np.zeros(0, dtype=bool))
    places = np.arange(len(rows))
    if roles.time is not None and roles.gaps != "join":
        places, off = clock.places(moments[rows])
        off[1:] |= np.diff(places) == 0
        if off.any():
            _refuse_step(table, roles, clock, name, rows, int(np.flatnonzero(off)[0]), learned)
        missing = np.flatnonzero(np.diff(places) > 1)
        if len(missing) and roles.gaps == "error":
            _refuse_gap(table, roles, clock, name, rows, int(missing[0]), np.diff(places) - 1, learned)
    steps = np.arange(places[-1] + 1)
    source = np.searchsorted(places, steps, side="right") - 1  # the row of a step, or the last one before it
    own, made = values[rows][source], places[source] != steps
    known = np.flatnonzero(~np.isnan(own) & ~made)[-1] + 1
    own, lost = own[:known], np.isnan(own[:known])
    if lost.any() and roles.gaps == "error":
        row = int(rows[source[np.flatnonzero(lost)[0]]])
        raise DataError(
            f"{roles.target}, the target, must have a value at every step{_of(roles, name)}",
            got=f"none in {table.at(row)}" + (f" ({int(lost.sum())} such rows)" if lost.sum() > 1 else ""),
            do="Fill it in, or pass only the rows after the last such row" if learned else f"Fill it in; {_REMEDY}",
        )
    at = moments[rows][source]
    if made.any():
        at = np.append(at[0], clock.later(at[0], len(steps) - 1, clock.day_of(name, moments[rows])))
    filled = _carried(np.column_stack([own, past[rows][source[:known]]]))
    begin = clock.begin(float(moments[rows[0]])) if roles.time is not None else 0
    return Series(name, rows[source], at, filled[:, 0], filled[:, 1:], lost | made[:known], begin)


def _trimmed(rows: np.ndarray, values: np.ndarray, gaps: str) -> np.ndarray:
    """The rows from the first known value on; where rows are joined, without those that have none before the last."""
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return rows[:0]
    keep = np.arange(len(rows)) >= known[0]
    if gaps == "join":
        keep &= ~np.isnan(values) | (np.arange(len(rows)) > known[-1])
    return rows[keep]


def _carried(values: np.ndarray) -> np.ndarray:
    """Each column with the last known value in place of a missing one: nothing of the future is used."""
    place = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    return np.take_along_axis(values, np.maximum.accumulate(place, 0), 0)


def _refuse_step(
    table: Table, roles: Roles, clock: Clock, name: str, rows: np.ndarray, place: int, learned: bool
) -> None:
    cells = table.columns[roles.time or ""]
    joined = 'train with gaps="join" to take rows as neighbours'
    raise DataError(
        f"the times of a series must be whole steps apart{_of(roles, name)}",
        got=f"{shown(cells, int(rows[place]))} in {table.at(int(rows[place]))}, where a step is {clock.step()}",
        do=f"Space the rows {'as in training' if learned else 'evenly'}, such as by daily means, "
        f"or {'leave out those between two steps' if learned else joined}",
    )


def _refuse_gap(
    table: Table,
    roles: Roles,
    clock: Clock,
    name: str,
    rows: np.ndarray,
    place: int,
    lost: np.ndarray,
    learned: bool,
) -> None:
    cells = table.columns[roles.time or ""]
    before, after = int(rows[place]), int(rows[place + 1])
    more = f"; {int(lost.sum())} in all" if (lost > 0).sum() > 1 else ""
    raise DataError(
        f"a series must have a row for every step{_of(roles, name)}",
        got=f"{counted(int(lost[place]), 'missing step')} of {clock.step()} between {shown(cells, before)} in "
        f"{table.at(before)} and {shown(cells, after)} in {table.at(after)}{more}",
        do="Add the rows, or pass only those after the last gap"
        if learned
        else f"{_as_dates(cells)}Add the rows; {_REMEDY}",
    )


def _as_dates(cells: Cells) -> str:
    """Advice where the times of a table are numbers of six digits that are all dates."""
    words = [word or "" for word in words_of(cells)[0]]
    day = short_dates(words)
    return "" if day is None else f"The times look like dates; if so, write {words[-1]} as {day}. Else: "


def _of(roles: Roles, name: str) -> str:
    return "" if roles.group is None else f", that of {roles.group} {name} too"
