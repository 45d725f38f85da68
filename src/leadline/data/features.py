"""What each column of a table is: a number, a flag, a date, a category, or nothing that a network should read.

every cell a number                       number (1,234 and 12 % and 3,5 and 7 € count, in one way throughout)
yes/no, true/false and the like           flag
every cell a date                         date
other text, up to 1,000 levels            category
text with a value of its own in each row  left out: it names the row and says nothing of the next one
numbers in a row of an id or index        left out, for the same reason
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from leadline.data.account import counted
from leadline.data.cells import Cells, Table, Text
from leadline.data.columns import Column, check_log
from leadline.data.raw import dates_style, raw_values, shown, style_of, words_of
from leadline.data.words import MISSING, MISSING_AMONG_NUMBERS, flag_pair, natural
from leadline.errors import DataError

MOST_LEVELS = 1000
_IDENTIFIER = re.compile(r"(?i:(.*[\s_.-])?(id|uuid|guid|index|idx|key|row|rownames|nr|no)|unnamed: 0|#)|.*[a-z]Id")
#: how a number or a missing one begins
_BEGINS_NUMBER = "|".join([r"[-+.,\d$€£¥ ]|(?i:inf)|$", *(re.escape(word) for word in MISSING_AMONG_NUMBERS if word)])
_PLACE = re.compile(r"column_\d+")  # what a column without a name is called
_FEW = 20  # below so many rows, a value of its own in each says little


@dataclass(frozen=True, eq=False)
class Feature:
    """A column that a network reads, for all rows.

    Args:
        name, kind, style: as in `Column`.
        values: raw values; for a category, codes of `levels`.
        levels: a category's words, in natural order.
        misfit: rows whose cell cannot be read as the others are.
        note: how its cells are written, where that had to be found out.
        log: whether its logarithm is read.
    """

    name: str
    kind: str
    values: np.ndarray
    misfit: np.ndarray
    style: str = ""
    levels: tuple[str, ...] = ()
    note: str = ""
    log: bool = False

    def fit(self, rows: np.ndarray, train: np.ndarray) -> tuple[Column, np.ndarray]:
        """The column with the figures of the `train` rows, and the raw values of `rows`, in its codes."""
        values, seen = self.values[rows], self.values[train]
        if self.kind != "category":
            return Column.fit(self.name, self.kind, seen, style=self.style, log=self.log), values
        known = np.unique(seen[~np.isnan(seen)]).astype(np.int64)
        place = np.full(len(self.levels) + 1, -1.0)
        place[known] = np.arange(len(known))
        gap = np.isnan(values)
        values = np.where(gap, np.nan, place[np.where(gap, -1, values).astype(np.int64)])
        levels = tuple(self.levels[code] for code in known)
        return Column.fit(self.name, self.kind, seen, levels=levels), values


def feature(
    name: str, cells: Cells, table: Table, forced: bool = False, comma: bool = False, log: bool = False
) -> Feature | str:
    """What a column is, or the reason for leaving it out.

    Args:
        forced: take it as a category, however many levels it has.
        comma: the table writes decimals with a comma.
        log: take the logarithm of its numbers.
    """
    found = _found(name, cells, table, forced, comma)
    if not log:
        return found
    if isinstance(found, str) or found.kind != "number":
        raise DataError(
            "log must name columns of numbers",
            got=f"{name}, {found if isinstance(found, str) else f'a {found.kind}'}",
            do="Take it out of log",
        )
    values = np.where(found.misfit, np.nan, found.values)
    check_log(name, values, lambda row: f"{shown(cells, row)} in {table.at(row)}", "; or take the column out of log")
    return replace(found, log=True)


def _found(name: str, cells: Cells, table: Table, forced: bool, comma: bool) -> Feature | str:
    fits = np.zeros(len(cells), dtype=bool)
    if forced:
        return _category(name, cells, table, forced=True)
    if isinstance(cells, Text):
        return _of_text(name, cells, table, comma)
    if cells.dtype.kind == "b":
        return Feature(name, "flag", cells.astype(np.float64), fits)
    values, _ = raw_values(cells, "date" if cells.dtype.kind == "M" else "number")
    _check_any(name, ~np.isnan(values), table)
    if cells.dtype.kind == "M":
        return Feature(name, "date", values, fits)
    return _number(name, values, fits)


def _of_text(name: str, cells: Text, table: Table, comma: bool) -> Feature | str:
    fits = np.zeros(len(cells), dtype=bool)
    plain = cells.floats()
    if plain is not None:
        _check_any(name, ~np.isnan(plain), table)
        return _number(name, plain, fits)
    style = style_of(cells, comma)
    if style is not None:
        values, _ = raw_values(cells, "number", style)
        words = ((cells[row] or "").strip() for row in range(len(cells)))
        odd = (word for word in words if word not in MISSING_AMONG_NUMBERS and not re.fullmatch(r"[+-]?[\d.]+", word))
        example = next(odd, "")
        note = f", written like {example}" if example else ""
        return _number(name, values, fits, style, note)
    first = cells.first(MISSING)
    _check_any(name, np.array([bool(first)]), table)
    if flag_pair([first]) and flag_pair(word for word in words_of(cells)[0] if word is not None):
        return Feature(name, "flag", raw_values(cells, "flag")[0], fits)
    style = dates_style(cells)
    if style is not None:
        orders = {"ymd": "year-month-day", "dmy": "day-month-year", "mdy": "month-day-year"}
        note = f", written {orders[style]}" if style != "ymd" else ""
        return Feature(name, "date", raw_values(cells, "date", style)[0], fits, style, note=note)
    likely = cells.count(_BEGINS_NUMBER)
    if 4 * (len(cells) - likely) <= likely:  # else more than a fifth are surely not, and need not be read
        values, misfit = raw_values(cells, "number", "point")
        if mostly_numbers(values, misfit):
            return _number(name, values, misfit, "point")
    return _category(name, cells, table)


def _number(name: str, values: np.ndarray, misfit: np.ndarray, style: str = "", note: str = "") -> Feature | str:
    steps = np.diff(values) if len(values) >= _FEW else np.zeros(1)
    counts = bool((steps == 1).all()) and values[0] in (0, 1)
    if counts and _PLACE.fullmatch(name):
        return "left out: it numbers the rows"
    if _IDENTIFIER.fullmatch(name) and len(values) >= _FEW:
        whole = bool((values == np.round(values)).all())
        if counts or (whole and len(np.unique(values)) == len(values)):
            return "left out: an identifier, one number a row"
    return Feature(name, "number", values, misfit | np.isinf(values), style.replace("point", ""), note=note)


def _category(name: str, cells: Cells, table: Table, forced: bool = False) -> Feature | str:
    words, _ = words_of(cells)
    levels = tuple({word: None for word in words if word is not None})
    _check_any(name, np.array([bool(levels)]), table)
    own_value = len(levels) == len(cells) >= _FEW
    if own_value and not forced and (_IDENTIFIER.fullmatch(name) or len(cells) <= MOST_LEVELS):
        return "left out: an identifier, one text a row"
    refused = levels_refused(len(levels), len(cells))
    if refused and not forced:
        raise DataError(
            f"text column {name} must have few different texts to be a category",
            got=f"{refused}, such as {shown(cells, 0)}",
            do=f"Leave it out with drop=[{name!r}], or force it with categories=[{name!r}]",
        )
    levels = tuple(sorted(levels, key=natural))
    values, misfit = raw_values(cells, "category", levels=levels)
    return Feature(name, "category", values, misfit, levels=levels)


def levels_refused(levels: int, rows: int) -> str:
    """Why so many levels in so many rows are too many to learn from; empty when they are not."""
    if levels > MOST_LEVELS or (levels > 50 and 2 * levels > rows):
        return f"{levels:,} levels in {rows:,} rows"
    return ""


def mostly_numbers(values: np.ndarray, misfit: np.ndarray) -> bool:
    """Whether a column of text is numbers, at least six different ones, but for at most a fifth of its cells."""
    filled = ~np.isnan(values)
    return bool(4 * misfit.sum() <= filled.sum()) and len(np.unique(values[filled])) > 5


def _check_any(name: str, filled: np.ndarray, table: Table) -> None:
    if not filled.any():
        raise DataError(
            f"column {name} must have a value in some row",
            got=f"none in {counted(len(table), 'row')}",
            do=f"Leave it out with drop=[{name!r}]",
        )
