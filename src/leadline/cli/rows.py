"""Rows out of a file, for a run that exists: by name where its columns have names, by place where they are numbers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.cells import Cells, Table, Text
from leadline.data.columns import TableInputs
from leadline.data.inputs import Inputs
from leadline.data.outcomes import known_of
from leadline.data.raw import read_numbers, shown, writes_comma
from leadline.data.table import read_rows
from leadline.data.target import Target
from leadline.data.words import plain_text
from leadline.errors import DataError


def read(path: str | Path) -> Table:
    """The rows of a file; none at all is refused."""
    table = read_rows(path)
    if not len(table):
        raise DataError(f"{table.source} must have rows", got="a header and no row", do="Check that it was written")
    return table


def inputs_of(table: Table, inputs: Inputs, width: int, target: Target) -> Tensor:
    """Raw rows of a table as `inputs` takes them.

    Args:
        width: how many numbers a row has, for inputs that are arrays.
        target: its columns are to be predicted, and no inputs.
    """
    if isinstance(inputs, TableInputs):
        return inputs.read(table)
    named = all(name in table.columns for name in inputs.names) and len(inputs.names) == width
    names = list(inputs.names) if named else [name for name in table.columns if name not in target.names]
    if len(names) != width:
        wanted = f", named {', '.join(inputs.names[:8])}{' …' if inputs.names[8:] else ''}" if inputs.names else ""
        raise DataError(
            f"{table.source} must have the {counted(width, 'column')} that the model reads{wanted}",
            got=f"{counted(len(names), 'column')}: {', '.join(names[:8])}{' …' if names[8:] else ''}",
            do="Write one number a column, in the order of training",
        )
    comma = writes_comma(table.columns[name] for name in names)
    return torch.stack([_numbers(table, name, comma) for name in names], 1)


def _numbers(table: Table, name: str, comma: bool) -> Tensor:
    cells = table.columns[name]
    values, misfit = read_numbers(cells, comma=comma)
    wrong = misfit | (values != values) | (abs(values) == float("inf"))
    if wrong.any():
        row = int(wrong.nonzero()[0][0])
        raise DataError(
            f"column {name} must hold finite numbers",
            got=f"{shown(cells, row)} in {table.at(row)}",
            do="Correct the cell",
        )
    return torch.from_numpy(values.astype(np.float32))


def outcome_of(table: Table, target: Target, inputs: Inputs) -> Tensor:
    """What was to be predicted, out of the columns of that name; every row must have it."""
    known = isinstance(inputs, TableInputs) and inputs.writes_comma(table)
    return known_of(table, target, known or writes_comma(table.columns.values()))


def written(cells: Cells) -> list[str]:
    """The cells of a column as they were written; empty where there is none."""
    if isinstance(cells, Text):
        words, codes = cells.distinct()
        return np.array([word or "" for word in words], dtype=object)[codes].tolist()
    if cells.dtype.kind == "f":
        return ["" if math.isnan(value) else plain_text(value) for value in cells.tolist()]
    return ["" if word == "NaT" else word for word in cells.astype(str).tolist()]
