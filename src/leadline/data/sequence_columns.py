"""Tables with a whole sequence in each row: lists in a column of Parquet, of .jsonl or of a data frame, or written
[1.5, 2] in a .csv.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.data.cells import Table, series_of_frame
from leadline.data.table import DELIMITED, parquet_frame, read_rows
from leadline.data.text_files import find_texts
from leadline.data.text_rows import JSON_LINES, json_objects
from leadline.errors import DataError


def rows_with_lists(what: Any) -> tuple[str, list[int], dict[str, list[Any]]]:
    """What the rows of a table are called, their numbers, and its columns, with lists in some of them.

    Args:
        what: a file that ends in .csv, .tsv, .parquet or .jsonl, or a data frame.
    """
    if isinstance(what, Path) and what.name.lower().endswith(JSON_LINES):
        rows = list(json_objects(find_texts(what)))
        names = dict.fromkeys(name for _, row in rows for name in row)
        return "line", [number for number, _ in rows], {name: [row.get(name) for _, row in rows] for name in names}
    if isinstance(what, Path) and what.name.lower().endswith(DELIMITED):
        table = read_rows(what)
        return (
            table.word,
            table.numbers.tolist(),
            {name: [cells[row] for row in range(len(table))] for name, cells in table.columns.items()},
        )
    if isinstance(what, (Table, Mapping, list, tuple)):
        raise DataError(
            "field must name a column of a file or a data frame", got=f"a {type(what).__name__}", do="Pass one of them"
        )
    frame = series_of_frame(parquet_frame(what) if isinstance(what, Path) else what)
    columns = {name: _cells(series) for name, series in frame.items()}
    return "row", list(range(max(map(len, frame.values()), default=0))), columns


def _cells(series: Any) -> list[Any]:
    """Those of a column of a data frame, None where one is missing, however the frame writes that."""
    return [None if lost else cell for cell, lost in zip(series.to_list(), series.is_null().to_list(), strict=True)]


def lists_in(cells: Sequence[Any], name: str, word: str, numbers: Sequence[int], words: bool = False) -> list[Any]:
    """The lists of a column, empty where there is none.

    Args:
        words: lists of words; else of numbers.

    >>> lists_in(["[1, 2.5]", None, [3]], "pen", "row", [0, 1, 2])
    [[1, 2.5], [], [3]]
    """
    found = [read_list(cell, words) for cell in cells]
    for number, cell, own in zip(numbers, cells, found, strict=True):
        if own is None and not _is_missing(cell):
            raise DataError(
                f"{name} must hold a list of {'words' if words else 'numbers'} in every row",
                got=f"{str(cell)[:40]!r} in {word} {number}",
                do='Write them as ["the", "cat"]'
                if words
                else "Write them as [1.5, 2], or name the column that tells sequences apart: sequence='id'",
            )
    return [[] if own is None else own for own in found]


def read_list(cell: Any, words: bool = False) -> list[Any] | None:
    """A list, whatever holds it; None where there is none.

    Args:
        words: of words, which stay as they are; else of numbers, or of lists of them.

    >>> read_list("[1, null]"), read_list("up"), read_list((1, 2)), read_list('["nan", "[1]"]', words=True)
    ([1, None], None, [1, 2], ['nan', '[1]'])
    """
    if hasattr(cell, "tolist") or hasattr(cell, "to_list"):
        cell = cell.tolist() if hasattr(cell, "tolist") else cell.to_list()
    if isinstance(cell, str) and cell.strip().startswith("["):
        try:
            cell = json.loads(cell if words else cell.replace("nan", "NaN"))
        except ValueError:
            return None
    if not isinstance(cell, (list, tuple)):
        return None
    return list(cell) if words else [cell if (inner := read_list(cell)) is None else inner for cell in cell]


def _is_missing(cell: Any) -> bool:
    return cell is None or cell != cell or (isinstance(cell, str) and not cell.strip())
