"""Cells to raw values: one float64 a cell, NaN where the value is missing, and a mask of the cells that do not fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from leadline.data.cells import Cells, Text, in_single
from leadline.data.words import (
    DAY,
    FLAGS,
    MISSING,
    MISSING_AMONG_NUMBERS,
    clock,
    date_style,
    day_of,
    days,
    midnight,
    number,
    number_style,
    plain_text,
)

EMPTY = "an empty cell"  # as a message names it


def raw_values(cells: Cells, kind: str, style: str = "", levels: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Raw values of cells read as numbers, flags, dates or codes of `levels` (-1 for others), and the misfits. A number
    that is infinite for a network, which computes in single precision, is so here.

    >>> values, misfit = raw_values(Text(["1", "NA", "one", "-1e300"]), "number")
    >>> values.tolist(), misfit.tolist()
    ([1.0, nan, nan, -inf], [False, False, True, False])
    """
    values, misfit = _raw_values(cells, kind, style, levels)
    return in_single(values) if kind == "number" else values, misfit


def _raw_values(cells: Cells, kind: str, style: str, levels: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    fits = np.zeros(len(cells), dtype=bool)
    if kind == "category":
        words, codes = words_of(cells)
        code = {level: float(i) for i, level in enumerate(levels)}
        of_word = [math.nan if word is None else code.get(word, -1.0) for word in words]
        return np.array(of_word)[codes], fits
    if isinstance(cells, Text):
        fast = cells.floats(comma=style == "comma") if kind == "number" else None
        if fast is not None:
            return fast, fits
        if kind == "date":
            dates = _dates(cells, style or "ymd")
            if dates is not None:
                return dates, fits
        words, codes = cells.distinct()
        read = [_value(word, kind, style) for word in words]
        misfit = np.array([value is None for value in read], dtype=bool)
        return np.array([math.nan if value is None else value for value in read])[codes], misfit[codes]
    if cells.dtype.kind == "M":
        values = np.where(np.isnat(cells), math.nan, cells.astype("datetime64[us]").astype(np.int64) / 86400e6)
        return values, fits if kind == "date" else ~np.isnan(values)
    values = cells.astype(np.float64)
    if kind == "date":
        return values, ~np.isnan(values)
    return values, ~np.isin(values, (0.0, 1.0)) & ~np.isnan(values) if kind == "flag" else fits


def style_of(cells: Text, comma: bool = False) -> str | None:
    """The style in which a column's words are numbers, "point" or "comma"; None when they are not.

    Args:
        comma: the table writes decimals with a comma, so that 1,234 is a little more than one.

    >>> words = Text(["1,234", "5,678"])
    >>> style_of(words), style_of(words, comma=True), style_of(Text(["1,5", "NA"]))
    ('point', 'comma', 'comma')
    """
    if cells.contains(",") and cells.floats(comma=True) is not None:
        pointless = (word for row in range(len(cells)) if "," in (word := (cells[row] or "").strip()))
        if comma or any(number(word) is None for word in pointless):
            return "comma"
    first = cells.first(MISSING_AMONG_NUMBERS)
    if number_style([first]) is None:  # one that is not a number is enough, and most columns of text show it at once
        return None
    found = [word for word in words_of(cells)[0] if word is not None and word not in MISSING_AMONG_NUMBERS]
    return number_style(found) if found else None


def dates_style(cells: Text) -> str | None:
    """As `date_style`, over the words of a column. Days and times of day are read apart: they repeat, moments do not.

    >>> dates_style(Text(["31.12.2024 10:00", "", "1.1.2025"])), dates_style(Text(["2024-01-01 noon"]))
    ('dmy', None)
    """
    first = cells.first(MISSING)
    if date_style([first]) is None:
        return None
    if ":" not in first:
        return date_style(word for word in words_of(cells)[0] if word is not None)
    heads, tails, others = cells.split(DAY)
    if any(word not in MISSING for word in others):
        return None
    if any(clock(tail) is None for tail in tails.distinct()[0] if tail is not None):
        return None
    return date_style(head for head in heads.distinct()[0] if head is not None)


def _dates(cells: Text, style: str) -> np.ndarray | None:
    """Days of a column of nothing but dates with times; None where some word is not one, or the first has no time."""
    if ":" not in cells.first(MISSING):
        return None
    heads, tails, others = cells.split(DAY)
    words, codes = heads.distinct()
    ends, places = tails.distinct()
    day = [math.nan if head is None else day_of(head, style) for head in words]
    time = [(0, 0, 0.0) if tail is None else clock(tail) for tail in ends]
    if None in day or None in time or any(word not in MISSING for word in others):
        return None
    hours, minutes, seconds = np.array(time, dtype=np.float64).reshape(-1, 3)[places].T
    return np.array(day, dtype=np.float64)[codes] + hours / 24 + minutes / 1440 + seconds / 86400


def days_alone(cells: Text) -> Text:
    """Dates without their times where all of these begin the day: then a day is meant, whatever hour it is elsewhere.

    >>> days_alone(Text(["2024-01-01 00:00+01:00", "2024-07-01 00:00+02:00"])).distinct()[0]
    ['2024-01-01', '2024-07-01']
    """
    if ":" not in cells.first(MISSING):
        return cells
    heads, tails, others = cells.split(DAY)
    whole = all(midnight(tail) for tail in tails.distinct()[0] if tail is not None)
    return heads if whole and not any(word not in MISSING for word in others) else cells


def writes_comma(columns: Iterable[Cells]) -> bool:
    """Whether a table writes decimals with a comma: some column can be read so only, and none with a point only.

    >>> writes_comma([Text(["1,5"]), Text(["1,234"])]), writes_comma([Text(["1,5"]), Text(["1,234.5"])])
    (True, False)
    """
    written = [cells for cells in columns if isinstance(cells, Text)]
    odd = [cells for cells in written if cells.floats() is None]  # the others hold no comma
    if not any(cells.contains(",") and style_of(cells) == "comma" for cells in odd):
        return False
    return not any(cells.contains(".") and style_of(cells) == "point" for cells in written)


def read_numbers(cells: Cells, style: str = "", comma: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and misfits of cells that are to be read as those of training were, and else as they are written.

    Args:
        style: the training column's.
        comma: the rows, or those of training, write decimals with a comma.

    >>> read_numbers(Text(["4,5", "6"]))[0].tolist(), read_numbers(Text(["4.5"]), "comma")[0].tolist()
    ([4.5, 6.0], [4.5])
    """
    if not isinstance(cells, Text):
        return raw_values(cells, "number")
    own = style or ("comma" if comma and cells.contains(",") else "point")
    values, misfit = raw_values(cells, "number", own)
    if misfit.any():
        others, wrong = raw_values(cells, "number", "point" if own == "comma" else "comma")
        if not wrong.any():
            return others, wrong
    return values, misfit


def words_of(cells: Cells) -> tuple[list[str | None], np.ndarray]:
    """The distinct cells as words, None where the value is missing, and for each row which of them it holds.

    >>> words, codes = words_of(Text(["A", "B", "A ", "NA", ""]))
    >>> words, codes.tolist()
    (['A', 'B', None], [0, 1, 0, 2, 2])
    """
    if isinstance(cells, Text):
        written, codes = cells.distinct()
        words = [None if word is None or word.strip() in MISSING else word.strip() for word in written]
        code = {word: k for k, word in enumerate(dict.fromkeys(words))}
        if len(code) < len(words):  # some differ by spaces alone, or lack a value in two ways
            codes = np.array([code[word] for word in words])[codes]
        return list(code), codes
    values, codes = np.unique(cells, return_inverse=True)
    if values.dtype.kind == "f":
        return [None if math.isnan(value) else plain_text(value) for value in values.tolist()], codes
    if values.dtype.kind == "b":
        return ["true" if value else "false" for value in values.tolist()], codes
    return [None if np.isnat(value) else str(value.astype("datetime64[s]")) for value in values], codes


def shown(cells: Cells, row: int) -> str:
    """A cell as a message quotes it."""
    cell = cells[row]
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return EMPTY
    if isinstance(cell, str):
        return repr(cell if len(cell) <= 40 else cell[:39] + "…")
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def _value(word: str | None, kind: str, style: str) -> float | None:
    """A word read as `kind`: NaN when it is missing, None when it cannot be."""
    word = "" if word is None else word.strip()
    if word in (MISSING_AMONG_NUMBERS if kind == "number" else MISSING):
        return math.nan
    if kind == "number":
        return number(word, style or "point")
    if kind == "flag":
        return FLAGS.get(word.lower(), {"0": 0.0, "1": 1.0}.get(word))
    return days(word, style or "ymd")
