"""The columns of a table of series: names that must be there, what each is read as, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leadline.data.cells import Table, Text
from leadline.data.columns import Column
from leadline.data.features import Feature, feature
from leadline.data.outcome import read_outcome
from leadline.data.periods import periods_of
from leadline.data.raw import shown, words_of, writes_comma
from leadline.data.series_rows import Roles, Series, check_column
from leadline.data.series_windows import Windows
from leadline.errors import DataError


def check_columns(
    table: Table, roles: Roles, static: Sequence[str], known: Sequence[str], drop: Sequence[str]
) -> list[str]:
    """Refuse names that are not there, or in two roles; a line on each column that is left out as asked."""
    roles.check(table)
    taken = {roles.target: "target", roles.time: "time"}
    for role, names in (("static", static), ("known", known), ("drop", drop)):
        for name in names:
            check_column(table, role, name)
            if name in taken:
                got, do = f"{name!r} as {taken[name]} and {role}", f"Leave it out of {role}, or name another column"
                raise DataError("a column must have one role", got=got, do=do)
            taken[name] = role
    return [f"{name}: left out, as asked" for name in drop]


def past_columns(table: Table, roles: Roles, others: Sequence[str], left_out: list[str]) -> tuple[str, ...]:
    """All other columns of numbers; a line is added on each that is none."""
    found = []
    comma = writes_comma(table.columns.values())
    for name, cells in table.columns.items():
        if name in (roles.target, roles.time, roles.group, *others):
            continue
        item = feature(name, cells, table, comma=comma)
        if isinstance(item, Feature) and item.kind in ("number", "flag") and not item.misfit.any():
            if item.kind == "number":
                found.append(name)
                continue
            item = "a flag"
        if isinstance(item, Feature) and item.kind == "number":
            row = int(np.flatnonzero(item.misfit)[0])
            left_out.append(f"{name}: left out, for {shown(cells, row)} in {table.at(row)} is no number")
            continue
        if roles.time is None and isinstance(item, Feature) and item.kind == "date":
            _check_ascending(table, roles, name, item.values)
            left_out.append(f"{name}: left out; rows are taken as they stand, unless this date is named as their time")
            continue
        if roles.time is None and isinstance(cells, Text) and (named := periods_of(cells)) is not None:
            _check_ascending(table, roles, name, named[0])  # months, quarters or weeks
        why = item if isinstance(item, str) else f"a {item.kind}"
        left_out.append(f"{name}: left out, {why.removeprefix('left out: ')}; known or static columns may be such")
    return tuple(found)


def _check_ascending(table: Table, roles: Roles, name: str, values: np.ndarray) -> None:
    """Refuse rows that are taken as they stand where a date says that they stand in another order."""
    codes = np.zeros(len(table), dtype=np.int64) if roles.group is None else words_of(table.columns[roles.group])[1]
    order = np.argsort(codes, kind="stable")
    back = np.flatnonzero((np.diff(values[order]) < 0) & (np.diff(codes[order]) == 0))
    if len(back):
        row, before = int(order[back[0] + 1]), int(order[back[0]])
        cells = table.columns[name]
        raise DataError(
            "the rows of a series without a time must stand in the order of time",
            got=f"{name} {shown(cells, before)} in {table.at(before)} and {shown(cells, row)} in {table.at(row)}",
            do=f"Pass time={name!r}; or, if that is not when each row was, leave it out: drop={[name]!r}",
        )


def check_values(table: Table, roles: Roles, kind: str) -> None:
    """Refuse a target without a value, a constant one, and numbers that are not of its kind."""
    outcome = read_outcome(roles.target, table.columns[roles.target], writes_comma(table.columns.values()))
    if outcome.missing.all():
        raise DataError(
            f"{roles.target}, the target, must have values",
            got=f"none in {len(table)} {table.word}s of {table.source}",
            do="Name another column as the target, or write its values",
        )
    outcome.settle(np.flatnonzero(~outcome.missing), kind, table.at)


def first_rows(table: Table, kept: Sequence[Series]) -> Table:
    """A row for each series that is kept."""
    mask = np.zeros(len(table), dtype=bool)
    mask[[one.rows[0] for one in kept]] = True
    return table.keep(mask)


def fitted_columns(table: Table, names: Sequence[str], train: np.ndarray, role: str) -> list[Column]:
    """Columns of numbers, flags, categories or dates, with the figures of the training rows."""
    comma, found = writes_comma(table.columns.values()), []
    for name in names:
        item = feature(name, table.columns[name], table, comma=comma)
        if isinstance(item, str) and role == "static":  # a word of its own for each series says which it is
            item = feature(name, table.columns[name], table, forced=True, comma=comma)
        if isinstance(item, str):
            raise DataError(
                f"{role} columns must be numbers, yes or no, dates or words", got=f"{name}, {item}", do="Leave it out"
            )
        found.append(item.fit(np.arange(len(table)), np.unique(train))[0])
    return found


def check_static(table: Table, inputs: Windows, kept: Sequence[Series]) -> None:
    """Refuse a static column that changes within a series."""
    if not inputs.static.width:
        return
    raw = np.nan_to_num(inputs.static.read(table).numpy(), nan=np.inf)
    for one in kept:
        moved = (raw[one.rows] != raw[one.rows[:1]]).nonzero()
        if len(moved[0]):
            name = inputs.static.names[int(moved[1][0])]
            of = f" of {inputs.roles.group} {one.name}" if inputs.several else ""
            raise DataError(
                "a static column must be the same at all steps of a series",
                got=f"{name}, which changes in {table.at(int(one.rows[moved[0][0]]))}{of}",
                do="Name it in known if future values are known, or leave it out of static",
            )
