"""A table to `Data`: settle what each column is, refuse rows with their reasons, split, fit, and keep account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import Account, Refusal, counted
from leadline.data.cells import Table
from leadline.data.columns import TableInputs, named
from leadline.data.data import Data, Split
from leadline.data.features import Feature, feature
from leadline.data.outcome import Outcome, read_outcome, with_figures
from leadline.data.outcomes import kinds_of, known_of, settle, strata
from leadline.data.raw import raw_values, read_numbers, shown, words_of, writes_comma
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import DataError, UserError

_SHOWN = 5


@dataclass(frozen=True)
class Plan:
    """What to make of a table's columns and rows.

    Args:
        target: the column to predict, or several.
        kind: what it is; by default found out from its values. One word, or one for each of several columns.
        drop: columns to leave out.
        categories: columns to take as categories, whatever is written in them.
        missing: "fill" missing values, or "drop" the rows that have one.
        bad_rows: "error", or "refuse" to leave out rows with a cell that cannot be read.
        val, test: fractions of the rows.
        split_seed: decides which rows fall in which split.
        group: a column whose equal values stay in one split.
        time: a column by which the splits follow each other.
        weight: a column that scales each row's loss.
        order: the classes of an ordered target, from low to high.
        log: columns of which the logarithm is read.
    """

    target: str | Sequence[str]
    kind: str | Sequence[str | None] | None = None
    drop: Sequence[str] = ()
    categories: Sequence[str] = ()
    missing: str = "fill"
    bad_rows: str = "error"
    val: float = 0.15
    test: float = 0.2
    split_seed: int = 0
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    order: Sequence[str] = ()
    log: Sequence[str] = ()

    def __post_init__(self):
        for option in ("target", "drop", "categories", "order", "log"):
            value = getattr(self, option)
            object.__setattr__(self, option, (value,) if isinstance(value, str) else tuple(value))
        for option, legal in (("missing", ("fill", "drop")), ("bad_rows", ("error", "refuse"))):
            if getattr(self, option) not in legal:
                raise UserError(
                    f"{option} must be {' or '.join(legal)}",
                    got=f"{option}={getattr(self, option)!r}",
                    do=f"Leave it out for {legal[0]!r}",
                )

    def check(self, table: Table) -> None:
        """Refuse names that the table does not have, and a column in two roles."""
        roles = {"group": self.group, "time": self.time, "weight": self.weight}
        given = [("target", name) for name in self.target]
        given += [(role, name) for role, name in roles.items() if name is not None]
        lists = {"drop": self.drop, "categories": self.categories, "log": self.log}
        given += [(role, name) for role, names in lists.items() for name in names]
        for role, name in given:
            if name not in table.columns:
                raise DataError(
                    f"{role} must name a column of {table.source}",
                    got=f"{role} {name!r}" + (" and a file without a line of names" if table.nameless else ""),
                    do=named(str(name), list(table.columns)).rstrip("."),
                )
        taken: dict[str, str] = {}
        for role, name in given:
            if name in taken:
                raise DataError(
                    "a column must have one role",
                    got=f"{name!r} as {taken[name]} and {role}",
                    do=f"Take it out of {role}" if role in lists else "Name another column",
                )
            taken[name] = role


class _Rows:
    """Which rows of a table are in use, and why the others are not."""

    def __init__(self, table: Table):
        self.table, self.used = table, np.ones(len(table), dtype=bool)
        self.refused = list(table.refused)

    def refuse(self, mask: np.ndarray, reason: str) -> None:
        lost = np.flatnonzero(mask & self.used)
        if len(lost):
            self.used[lost] = False
            shown_rows = tuple(self.table.numbers[lost[:_SHOWN]].tolist())
            self.refused.append(Refusal(reason, len(lost), shown_rows))


def data_of(table: Table, plan: Plan, *, name: str, recipe: dict[str, Any] | None, test: Table | None = None) -> Data:
    """The table, split.

    Args:
        table: all rows.
        plan: what to make of them.
        name, recipe: of the data.
        test: rows of the test split, when they come from elsewhere.
    """
    plan.check(table)
    if len(table) == 0:
        raise DataError(
            f"{table.source} must have rows", got="a header and no row", do="Check that it was written whole"
        )
    rows = _Rows(table)
    comma = writes_comma(cells for name, cells in table.columns.items() if name not in (*plan.drop, *plan.categories))
    kinds = kinds_of(plan.kind, len(plan.target))
    outcomes = [read_outcome(name, table.columns[name], comma) for name in plan.target]
    for outcome in outcomes:
        _misfits(plan, outcome.name, outcome.misfit, rows)
        rows.refuse(outcome.missing, f"{outcome.name}, the target, is missing")
        if not rows.used.any():
            raise DataError(
                f"{outcome.name}, the target, must have a value in some row",
                got=f"none in {counted(len(table), 'row')}",
                do="Name another column as the target",
            )
    features, left_out = _features(table.keep(rows.used), plan, rows, comma)
    weight = _weight(table, plan, rows)
    moment = _time(table, plan, rows)
    used = np.flatnonzero(rows.used)
    if len(used) < 3:
        raise DataError(
            f"{table.source} must have at least 3 rows to train, validate and test on",
            got=f"{len(used)}" + (f" of {len(table)} that can be used" if len(used) < len(table) else ""),
            do="Add more rows",
        )
    y, exact, target = settle(outcomes, used, kinds, table.at, plan.order)
    by = _split_by(strata(y, target), table, used, moment, plan)
    parts = split_indices(len(used), val=plan.val, test=plan.test if test is None else 0.0, seed=plan.split_seed, **by)
    columns, raw = zip(*(item.fit(used, used[parts[0].numpy()]) for item in features))
    inputs = TableInputs(columns)
    target = with_figures(target, exact[parts[0]])
    everything = Split(
        torch.from_numpy(np.column_stack(raw)),
        y,
        None if weight is None else torch.from_numpy(weight[used].astype(np.float32)),
        torch.from_numpy(table.numbers[used]),
        by.get("groups"),
        by.get("time"),
    )
    train, val, held_out = (everything.take(part) for part in parts)
    if test is not None:
        held_out = _other_rows(test, inputs, target, plan)
    gaps = {item.name: int(np.isnan(item.values[used]).sum()) for item in features}
    lines = [column.line(gaps[column.name]) + item.note for column, item in zip(columns, features)]
    account = Account(
        table.source,
        read=len(table) + sum(refusal.count for refusal in table.refused),
        refused=tuple(rows.refused),
        columns=(*_told(target), *lines, *left_out),
        notes=(*table.notes, *_notes(target, outcomes, kinds)),
        numbered="lines" if "path" in (recipe or {}).get("options", {}) else "rows",
    )
    return Data(train, val, held_out, target, inputs, name, recipe, account)


def _features(table: Table, plan: Plan, rows: _Rows, comma: bool) -> tuple[list[Feature], list[str]]:
    """The columns to read, over all rows of the source, and a line on each that is left out."""
    features, left_out = [], []
    roles = {plan.group: "groups the splits", plan.time: "orders the splits", plan.weight: "weighs the rows"}
    used = rows.used.copy()
    for name, cells in table.columns.items():
        if name in plan.target:
            continue
        if name in roles or name in plan.drop:
            left_out.append(f"{name}: {roles[name] + ', not an input' if name in roles else 'left out, as asked'}")
            continue
        found = feature(name, cells, table, name in plan.categories, comma, name in plan.log)
        if isinstance(found, str):
            left_out.append(f"{name}: {found}")
            continue
        found = _over_all(found, used)
        _misfits(plan, name, found.misfit, rows)
        features.append(found)
    if not features:
        raise DataError(
            f"{table.source} must have a column to predict {' and '.join(plan.target)} from",
            got="; ".join(left_out) or f"{' and '.join(plan.target)} alone",
            do="Keep another column, or forecast the target from its own past with horizon=12",
        )
    if plan.missing == "drop":
        for item in features:
            rows.refuse(np.isnan(item.values) & used, f"{item.name} is missing")
        if not rows.used.any():
            raise DataError(
                f"{table.source} must have rows without a missing value",
                got="none",
                do='Fill them instead, with missing="fill"',
            )
    return features, left_out


def _over_all(item: Feature, used: np.ndarray) -> Feature:
    """The feature of the used rows, spread over all rows of the source."""
    if used.all():
        return item
    values, misfit = np.full(len(used), np.nan), np.zeros(len(used), dtype=bool)
    values[used], misfit[used] = item.values, item.misfit
    return replace(item, values=values, misfit=misfit)


def _misfits(plan: Plan, name: str, misfit: np.ndarray, rows: _Rows) -> None:
    """Cells that are not what their column is: an error that names them, or rows refused."""
    misfit = misfit & rows.used
    if not misfit.any():
        return
    cells, first = rows.table.columns[name], int(np.flatnonzero(misfit)[0])
    values, unread = raw_values(cells, "number")
    infinite = bool(np.isinf(values[first]))
    what = "finite numbers" if infinite else "numbers, like most of its cells"
    if plan.bad_rows == "refuse":
        rows.refuse(misfit, f"{name} is not {'finite' if infinite and not unread.any() else 'a number'}")
        return
    more = f" ({int(misfit.sum())} such cells)" if misfit.sum() > 1 else ""
    as_text = "" if name in plan.target or infinite else f", take the column as text with categories=[{name!r}]"
    raise DataError(
        f"column {name} must hold {what}",
        got=f"{shown(cells, first)} in {rows.table.at(first)}{more}",
        do=f'Correct or empty the cell{as_text}, or leave such rows out with bad_rows="refuse"',
    )


def _weight(table: Table, plan: Plan, rows: _Rows) -> np.ndarray | None:
    if plan.weight is None:
        return None
    cells = table.columns[plan.weight]
    values, misfit = read_numbers(cells)
    wrong = rows.used & (misfit | ~np.isfinite(values) | (values < 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{plan.weight}, the weight, must be a number of at least 0 in every row",
            got=f"{shown(cells, row)} in {table.at(row)}",
            do="Correct it, or give the row weight 0",
        )
    if not values[rows.used].sum() > 0:
        raise DataError(
            f"{plan.weight}, the weight, must be above 0 in some row", got="0 in all", do="Correct the column"
        )
    return values


def _time(table: Table, plan: Plan, rows: _Rows) -> np.ndarray | None:
    if plan.time is None:
        return None
    cells = table.columns[plan.time]
    found = feature(plan.time, cells, table)
    values = raw_values(cells, "number")[0] if isinstance(found, str) else found.values
    wrong = rows.used & ~np.isfinite(values)
    if (isinstance(found, Feature) and found.kind not in ("number", "date")) or wrong.any():
        row = int(np.flatnonzero(wrong)[0]) if wrong.any() else 0
        raise DataError(
            f"{plan.time}, by which the rows are split, must be a number or a date in every row",
            got=f"{shown(cells, row)} in {table.at(row)}",
            do="Write dates like 2024-12-31, and fill in missing ones",
        )
    return values


def _split_by(
    classes: Tensor | None, table: Table, used: np.ndarray, moment: np.ndarray | None, plan: Plan
) -> dict[str, Tensor | None]:
    """What the rows are split by: their groups, their times, or else their classes."""
    by: dict[str, Tensor | None] = {"stratify": classes}
    if plan.group is not None:
        by = {"groups": torch.from_numpy(words_of(table.columns[plan.group])[1][used])}
    if moment is not None:
        by = {**(by if plan.group is not None else {}), "time": torch.from_numpy(moment[used])}
    return by


def _other_rows(table: Table, inputs: TableInputs, target: Target, plan: Plan) -> Split:
    """The test split, out of a table of its own: read as the training rows are, none refused."""
    x = inputs.read(table)
    y = known_of(table, target, inputs.writes_comma(table))
    weight = None
    if plan.weight is not None:
        weight = torch.from_numpy(read_numbers(table.columns[plan.weight])[0].astype(np.float32))
    return Split(x, y, weight, torch.from_numpy(table.numbers))


def _told(target: Target) -> list[str]:
    """A line on each column that is predicted."""
    if target.kind == "ranking" or not target.columns:
        return [f"{target}, the target"]
    return [f"{column}, a target" for column in target.columns]


def _notes(target: Target, outcomes: Sequence[Outcome], kinds: Sequence[str | None]) -> list[str]:
    """A word on numbers that were taken as classes without being told."""
    return [
        f"{column.name} holds few whole numbers, taken as classes; "
        'pass kind="real" to predict a number, kind="count" a count'
        for column, outcome, kind in zip(target.columns or (target,), outcomes, kinds, strict=True)
        if kind is None and outcome.values is not None and column.discrete
    ]


def stem(path: PurePath) -> str:
    """A file's name without its endings.

    >>> stem(PurePath("data/cars.csv.gz"))
    'cars'
    """
    return path.name.split(".")[0] or path.name
