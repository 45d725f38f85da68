"""Cells to raw values: one float64 a cell, NaN where the value is missing, and a mask of the cells that do not fit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leadline.data.cells import Cells, Text
from leadline.data.words import FLAGS, MISSING, MISSING_AMONG_NUMBERS, days, number, plain_text


def raw_values(cells: Cells, kind: str, style: str = "", levels: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Raw values of cells read as numbers, flags, dates or codes of `levels` (-1 for others), and the misfits.

    >>> values, misfit = raw_values(Text(["1", "NA", "one"]), "number")
    >>> values.tolist(), misfit.tolist()
    ([1.0, nan, nan], [False, False, True])
    """
    fits = np.zeros(len(cells), dtype=bool)
    if kind == "category":
        words, codes = words_of(cells)
        code = {level: float(i) for i, level in enumerate(levels)}
        of_word = [math.nan if word is None else code.get(word, -1.0) for word in words]
        return np.array(of_word)[codes], fits
    if isinstance(cells, Text):
        fast = cells.floats() if kind == "number" and style != "comma" else None
        if fast is not None:
            return fast, fits
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


def words_of(cells: Cells) -> tuple[list[str | None], np.ndarray]:
    """The distinct cells as words, None where the value is missing, and for each row which of them it holds."""
    if isinstance(cells, Text):
        words, codes = cells.distinct()
        return [None if word is None or word.strip() in MISSING else word.strip() for word in words], codes
    values, codes = np.unique(cells, return_inverse=True)
    if values.dtype.kind == "f":
        return [None if math.isnan(value) else plain_text(value) for value in values.tolist()], codes
    if values.dtype.kind == "b":
        return ["true" if value else "false" for value in values.tolist()], codes
    return [None if np.isnat(value) else str(value.astype("datetime64[s]")) for value in values], codes


def shown(cells: Cells, row: int) -> str:
    """A cell as a message quotes it."""
    cell = cells[row]
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
