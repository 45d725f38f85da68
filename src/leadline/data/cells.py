"""Named columns of cells, out of whatever holds a table: a data frame, lists, dictionaries, the text of a file.

A column is an array of numbers, truth values or times, or `Text`: the words as they were written. What the words
mean is settled later, once for training and then the same way for every prediction. Whole numbers that float64 cannot
hold, such as long account numbers, are words too: they group rows and come back digit for digit.
"""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from leadline.data.account import Refusal, counted
from leadline.data.words import MISSING_AMONG_NUMBERS, plain_text
from leadline.errors import DataError, ShapeError

_EXACT = 2**53  # whole numbers up to here are floating-point numbers too
_LARGEST = float(np.finfo(np.float32).max)
_REAL = (numbers.Real, decimal.Decimal)
_TRUTH = (bool, np.bool_)


def in_single(values: np.ndarray) -> np.ndarray:
    """Numbers of which those are infinite that are so for a network, which computes in single precision.

    >>> in_single(np.array([1.0, -1e300])).tolist()
    [1.0, -inf]
    """
    far = np.abs(values) > _LARGEST
    return np.where(far, np.copysign(np.inf, values), values) if far.any() else values


class Text:
    """A column of words; None where there is none. Holds a list, or a polars series for speed.

    >>> words, codes = Text(["b", "a", None, "b"]).distinct()
    >>> words, codes.tolist()
    (['b', 'a', None], [0, 1, 2, 0])
    """

    def __init__(self, values: Any):
        self._values = values
        self._floats: dict[bool, np.ndarray | None] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, row: int) -> str | None:
        return self._values[row]

    def take(self, rows: np.ndarray) -> Text:
        """The words of some rows."""
        if isinstance(self._values, list):
            return Text([self._values[row] for row in rows.tolist()])
        return Text(self._values.gather(rows))

    def distinct(self) -> tuple[list[str | None], np.ndarray]:
        """The words that occur, and for each row which of them it holds."""
        if isinstance(self._values, list):
            code = {word: i for i, word in enumerate(dict.fromkeys(self._values))}
            return list(code), np.fromiter(map(code.__getitem__, self._values), np.int64, len(self._values))
        import polars as pl

        words = self._values.unique(maintain_order=True)
        places = pl.Series(range(len(words)), dtype=pl.Int64)
        return words.to_list(), self._values.replace_strict(words, places, return_dtype=pl.Int64).to_numpy()

    def contains(self, sign: str) -> bool:
        """Whether `sign` stands in some word."""
        if isinstance(self._values, list):
            return any(sign in word for word in self._values if word)
        return bool(self._values.str.contains(sign, literal=True).any())

    def first(self, beside: Container[str]) -> str:
        """The first word that is not one of those, without spaces around it; empty where there is none."""
        words = ((self[row] or "").strip() for row in range(len(self)))
        return next((word for word in words if word not in beside), "")

    def count(self, pattern: str) -> int:
        """How many words begin with a pattern, spaces left out."""
        if isinstance(self._values, list):
            return sum(re.match(pattern, (word or "").strip()) is not None for word in self._values)
        return int(self._values.fill_null("").str.strip_chars().str.contains(f"^(?:{pattern})").sum())

    def split(self, pattern: str) -> tuple[Text, Text, list[str]]:
        """What of each word begins with a pattern, what follows, both None where it does not; and the words without.

        >>> heads, tails, others = Text(["12 kg", "3", "none"]).split("[0-9]+")
        >>> heads[0], tails[0], tails[1], heads[2], others
        ('12', ' kg', '', None, ['none'])
        """
        if isinstance(self._values, list):
            words = [(word or "").strip() for word in self._values]
            found = [re.match(pattern, word) for word in words]
            heads = [match and match[0] for match in found]
            tails = [match and word[match.end() :] for word, match in zip(words, found)]
            return Text(heads), Text(tails), list({w: 0 for w, match in zip(words, found) if match is None})
        import polars as pl

        column = self._values.fill_null("").str.strip_chars()
        begin = column.str.extract(f"^({pattern})", 1)
        rest = pl.select(pl.when(begin.is_not_null()).then(column.str.replace(f"^(?:{pattern})", ""))).to_series()
        return Text(begin), Text(rest), column.filter(begin.is_null()).unique().to_list()

    def floats(self, comma: bool = False) -> np.ndarray | None:
        """Numbers, by a fast path for columns of nothing but plain ones; None when it does not apply.

        Args:
            comma: the decimal sign is a comma.
        """
        if comma not in self._floats:
            found = self._read_floats(comma)
            self._floats[comma] = None if found is None else in_single(found)
        return self._floats[comma]

    def _read_floats(self, comma: bool) -> np.ndarray | None:
        if isinstance(self._values, list):
            try:
                values = (_pointed(word) for word in self._values) if comma else self._values
                return np.fromiter(map(_float, values), np.float64, len(self._values))
            except ValueError:
                return None
        import polars as pl

        if not comma:
            values = self._values.cast(pl.Float64, strict=False)
            if values.null_count() == self._values.null_count():  # most columns need no second look
                return values.fill_null(float("nan")).to_numpy()
        words = self._values.str.strip_chars()
        if comma:
            if words.str.contains(".", literal=True).any() or (words == ",").any():  # neither is a number here
                return None
            words = words.str.replace(",", ".", literal=True)
        values = words.cast(pl.Float64, strict=False)
        others = words.filter(values.is_null() & words.is_not_null())
        for some in (others.head(100), others.unique()):  # a column of words shows it in its first cells
            if any(word not in MISSING_AMONG_NUMBERS for word in some.to_list()):
                return None
        return values.fill_null(float("nan")).to_numpy()


Cells = np.ndarray | Text


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    Args:
        columns: name → cells.
        numbers: the number of each row in its source, for messages.
        word: what these numbers count, "line" or "row".
        source: where the rows came from.
        refused: rows that were left out while reading, by reason.
        notes: what a reader should know of how it was read.
        nameless: the source does not name its columns.
        zones: of columns of times that were in one; their cells are in UTC.
    """

    columns: dict[str, Cells]
    numbers: np.ndarray
    word: str = "row"
    source: str = "rows"
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    nameless: bool = False
    zones: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, row: int) -> str:
        """A row by the number under which its reader knows it: "line 17"."""
        return f"{self.word} {self.numbers[row]}"

    def keep(self, mask: np.ndarray) -> Table:
        """The table of the rows where `mask` holds."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask)
        columns = {
            name: cells.take(rows) if isinstance(cells, Text) else cells[rows] for name, cells in self.columns.items()
        }
        return replace(self, columns=columns, numbers=self.numbers[rows])


def table_of(rows: Any, names: Sequence[str] = (), source: str = "rows") -> Table:
    """The table in a data frame, a dictionary of columns, a list of dictionaries, or a list of rows.

    Args:
        rows: the table; a `Table` passes as it is.
        names: names of the columns of a list of rows, which has none of its own.

    >>> table_of([{"make": "Opel", "doors": 5}, {"make": "Fiat", "doors": 3}]).columns["doors"].tolist()
    [5.0, 3.0]
    """
    if isinstance(rows, Table):
        return rows
    zones: dict[str, str] = {}
    if isinstance(rows, Mapping):
        columns = _of_mapping(rows)
    elif isinstance(rows, (list, tuple, np.ndarray, Tensor)):
        columns = _of_rows(rows, names)
    else:
        frame = series_of_frame(rows)
        columns = {name: _of_series(series, name) for name, series in frame.items()}
        zones = {name: zone for name, series in frame.items() if (zone := _zone_of(series))}
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{name} with {count}" for name, count in list(lengths.items())[:5])
        raise ShapeError("columns must be of equal length", got=got, do="Give every column one cell a row")
    count = next(iter(lengths.values()), 0)
    return Table(columns, np.arange(count), source=source, zones=zones)


def _of_mapping(rows: Mapping) -> dict[str, Cells]:
    if rows and all(_is_scalar(value) for value in rows.values()):
        rows = {name: [value] for name, value in rows.items()}  # one row
    return {str(name): cells_of(values, str(name)) for name, values in rows.items()}


def _of_rows(rows: Any, names: Sequence[str]) -> dict[str, Cells]:
    if isinstance(rows, Tensor):
        rows = rows.detach().cpu().numpy()
    if isinstance(rows, (list, tuple)) and rows and all(isinstance(row, Mapping) for row in rows):
        order = dict.fromkeys(name for row in rows for name in row)
        return {str(name): cells_of([row.get(name) for row in rows], str(name)) for name in order}
    try:
        width = 0 if len(rows) == 0 else len(rows[0])
        if any(len(row) != width or isinstance(row, str) for row in rows):
            raise TypeError
    except TypeError:
        raise ShapeError(
            "rows must be a list of dictionaries, or rows of equal length",
            got=f"{type(rows).__name__} of {type(rows[0]).__name__}",
            do='Pass [{"column": value, ...}, ...], or a list of one list a row',
        ) from None
    if names and width != len(names) and len(rows):
        raise ShapeError(
            f"a row must have {counted(len(names), 'value')}",
            got=f"rows of {width}",
            do="Pass the columns that the model was trained on, in their order, or name them in dictionaries",
        )
    names = names or [f"x{i}" for i in range(width)]
    if isinstance(rows, np.ndarray):
        return {name: cells_of(rows[:, i], name) for i, name in enumerate(names)}
    return {name: cells_of([row[i] for row in rows], name) for i, name in enumerate(names)}


def series_of_frame(rows: Any) -> dict[str, Any]:
    """The columns of a data frame of any library, as narwhals has them."""
    try:
        import narwhals as nw
    except ImportError:
        raise DataError(
            "reading a data frame needs the package narwhals",
            got=f"a {type(rows).__name__} and no narwhals",
            do="Run pip install narwhals, or pass a dictionary of lists",
        ) from None
    try:
        frame = nw.from_native(rows, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            frame = frame.collect()
    except nw.exceptions.DuplicateError as error:
        twice = ", ".join(re.findall(r"'(.*?)' \d+ times", str(error))) or "one twice"
        raise DataError("a data frame must name each column once", got=twice, do="Rename or drop one") from None
    except nw.exceptions.NarwhalsError as error:
        reason = " ".join(str(error).split())
        raise DataError("a data frame must be readable", got=f"this answer: {reason}", do="Check the frame") from None
    if not isinstance(frame, nw.DataFrame):
        raise DataError(
            "rows must be a data frame, a list of dictionaries, a dictionary of lists, an array or a tensor",
            got=type(rows).__name__,
            do="Convert them to one of these",
        )
    # by place: a name may be a number, which would pick a row
    return {str(name): series for name, series in zip(frame.columns, frame.iter_columns())}


def _zone_of(series: Any) -> str:
    """The zone of a column of times, empty where it is in none; narwhals misses America/New_York of pandas."""
    own = getattr(getattr(series.to_native(), "dtype", None), "tz", None)
    return getattr(series.dtype, "time_zone", None) or ("" if own is None else str(own))


def _of_series(series: Any, name: str) -> Cells:
    import narwhals as nw

    dtype = series.dtype
    if dtype.is_integer() and len(series) and _is_long(series.min(), series.max()):
        if series.implementation.is_polars():
            return Text(series.cast(nw.String).to_native())
        return cells_of(series.to_list(), name)
    if dtype.is_numeric():
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if dtype == nw.Boolean and not series.is_null().any():
        return np.asarray(series.to_numpy(), dtype=bool)
    if dtype == nw.Datetime and dtype.time_zone:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if dtype == nw.Datetime or (dtype == nw.Date and series.implementation.is_polars()):
        return np.asarray(series.to_numpy()).astype("datetime64[us]")
    if dtype == nw.Duration:
        return np.asarray(series.to_numpy()).astype("timedelta64[us]").astype(np.float64) / 86400e6
    if dtype in (nw.String, nw.Categorical, nw.Enum) and series.implementation.is_polars():
        return Text(series.cast(nw.String).to_native())
    return cells_of(series.to_list(), name)


def cells_of(values: Any, name: str) -> Cells:
    """Cells out of a sequence of Python or numpy values; None and NaN are missing."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if isinstance(values, Text):
        return values
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ShapeError(
                f"column {name} must have one value a row", got=f"shape {values.shape}", do="Pass one column a name"
            )
        if values.dtype.kind in "iu" and len(values) and _is_long(values.min(), values.max()):
            return Text(values.astype(str).tolist())
        if values.dtype.kind in "fiu":
            return values.astype(np.float64)
        if values.dtype.kind == "b":
            return values
        if values.dtype.kind == "M":
            return values.astype("datetime64[us]")
        values = values.tolist()
    elif not isinstance(values, (list, tuple)):
        values = _listed(values, name)
    return _of_list(values, name)


def _listed(values: Any, name: str) -> Any:
    import narwhals as nw

    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        found = _of_series(series, name)
        return [found[row] for row in range(len(found))] if isinstance(found, Text) else found.tolist()
    return list(values)


def _of_list(values: Sequence[Any], name: str) -> Cells:
    gaps = {kind for kind in map(type, values) if kind is type(None) or kind.__name__ in ("NAType", "NaTType")}
    if gaps:
        values = [None if type(value) in gaps else value for value in values]
    kinds = set(map(type, values)) - {type(None)}
    if all(issubclass(kind, _TRUTH) for kind in kinds) and kinds and not gaps:
        return np.array(values, dtype=bool)
    if kinds <= {str}:
        return Text(list(values))
    if all(issubclass(kind, _REAL) and not issubclass(kind, _TRUTH) for kind in kinds):
        if kinds and all(issubclass(kind, numbers.Integral) for kind in kinds):
            known = [value for value in values if value is not None]
            if _is_long(min(known), max(known)):
                return Text([None if value is None else str(value) for value in values])
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if all(issubclass(kind, (datetime.date, np.datetime64)) for kind in kinds):
        return np.array([_moment(value) for value in values], dtype="datetime64[us]")
    if kinds and all(kind.__name__ == "Period" for kind in kinds):  # of pandas; written 2024-01, 2024Q1 or 2024-01-31
        return Text([None if value is None else str(value) for value in values])
    if all(_is_word(kind) for kind in kinds):
        return Text([_word(value) for value in values])
    odd = next(kind for kind in kinds if not _is_word(kind))
    row = next(i for i, value in enumerate(values) if type(value) is odd)
    raise DataError(
        f"cells of column {name} must be numbers, words, dates or truth values",
        got=f"a {odd.__name__} in row {row}",
        do="Leave the column out, or turn each value into columns of its own"
        + (f"; if each is a sequence, pass field={name!r}" if odd is list else ""),
    )


def _is_long(least: Any, most: Any) -> bool:
    """Whether whole numbers reach beyond what float64 tells apart."""
    return any(value is not None and value == value and abs(int(value)) > _EXACT for value in (least, most))


def _float(word: str | None) -> float:
    if word is None or (word := word.strip()) in MISSING_AMONG_NUMBERS:
        return math.nan
    if "_" in word or not word.isascii():
        raise ValueError(word)  # Python would read 1_000
    return float(word)


def _pointed(word: str | None) -> str | None:
    """A number with a decimal comma, with a point instead."""
    if word is not None and ("." in word or word.strip() == ","):
        raise ValueError(word)
    return word and word.replace(",", ".", 1)


def _is_word(kind: type) -> bool:
    return issubclass(kind, (str, *_TRUTH, *_REAL, datetime.date, datetime.time))


def _word(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, _TRUTH):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, _REAL):
        return plain_text(float(value))
    return str(value)


def _moment(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64("NaT") if value is None else value


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, numbers.Number, np.generic, datetime.date))
