"""Sequences of different lengths as a network reads them: padded to one length, with a channel that says what is there.

    x_t = ((v_t - shift) / scale, 1)      at a step that is there: mean and deviation of each channel in training    (1)
    x_t = (0, 0)                          after the last                                                            (2)

A missing value is read as the channel's mean. What is longer than the rows loses its end.

Notation   v -> raw values
Shapes     raw rows and x (N, T, C + 1)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.cells import Table, table_of
from leadline.data.inputs import Inputs
from leadline.data.raw import read_numbers, shown, words_of, writes_comma
from leadline.data.series_moments import moments_of
from leadline.errors import DataError, ShapeError
from leadline.settings import given


class Sequences(Inputs):
    """Args:
        shift, scale: mean and deviation of each channel over the training steps.
        length: T, at least 1.
        channels: names of the C channels, where they have any.
        sequence, order: columns of a table that say which sequence a step is of, and when it comes; None where they
            are in order.
        comma: the table of training writes decimals with a comma.
        dates: the order of the parts of a date in its column `order`, such as "dmy".

    >>> inputs = Sequences((1.0,), (2.0,), length=3)
    >>> inputs.encode(inputs.read([[3.0], [1.0, 5.0]])).tolist()
    [[[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [2.0, 1.0], [0.0, 0.0]]]
    """

    aside = ("comma", "dates")

    def __init__(
        self,
        shift: Sequence[float],
        scale: Sequence[float],
        length: int,
        channels: Sequence[str] = (),
        sequence: str | None = None,
        order: str | None = None,
        comma: bool = False,
        dates: str = "",
    ):
        self.shift, self.scale, self.length = tuple(shift), tuple(scale), length
        self.channels, self.sequence, self.order = tuple(channels), sequence, order
        self.comma, self.dates = comma, dates

    @classmethod
    def fit(
        cls,
        x: Tensor,
        channels: Sequence[str] = (),
        sequence: str | None = None,
        order: str | None = None,
        comma: bool = False,
        dates: str = "",
    ) -> Sequences:
        """Figures of raw rows, the training split's; a constant channel keeps its scale."""
        values = x[x[..., -1] > 0][:, :-1].double()
        mean = values.nanmean(0).nan_to_num(0.0)
        deviation = (values - mean).square().nanmean(0).sqrt().nan_to_num(0.0)
        deviation = torch.where(deviation > 1e-12 * mean.abs(), deviation, 1.0)
        return cls(mean.tolist(), deviation.tolist(), x.shape[1], channels, sequence, order, comma, dates)

    def encode(self, x: Tensor) -> Tensor:
        if x.dim() != 3 or x.shape[2] != len(self.shift) + 1:
            raise ShapeError(
                f"sequences must have shape (N, T, {len(self.shift) + 1}): {counted(len(self.shift), 'channel')}, and "
                "one that is 1 where there is a step",
                got=f"shape {tuple(x.shape)}",
                do="Pass a list of sequences, and read(…) of these inputs pads them",
            )
        shift, scale = (x.new_tensor(figure) for figure in (self.shift, self.scale))
        there = x[..., -1:]
        z = ((x[..., :-1] - shift) / scale).nan_to_num(0.0)
        return torch.cat([torch.where(there > 0, z, 0.0), there], 2)  # eqs. 1, 2

    def sizes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        return {"channels": len(self.shift)}

    def read(self, rows: Any) -> Tensor:
        """Raw rows out of a list of sequences, each of numbers (t,) or (t, C); of a table with a row for each step; or
        as they are.
        """
        C = len(self.shift)
        if isinstance(rows, (Tensor, np.ndarray)) and rows.ndim == 3 and rows.shape[2] == C + 1:
            return torch.as_tensor(rows, dtype=torch.float32)
        if isinstance(rows, (list, tuple, Tensor, np.ndarray)) and not _is_dictionaries(rows):
            return self.of_lists(rows, [f"sequence {k}" for k in range(len(rows))])
        return self.of_table(table_of(rows))[0]

    def of_lists(self, rows: Any, names: Sequence[str]) -> Tensor:
        """Raw rows of sequences, each with a name for messages."""
        return padded([stretch(row, name, len(self.shift)) for row, name in zip(rows, names, strict=True)], self.length)

    def of_table(self, table: Table) -> tuple[Tensor, list[str]]:
        """Raw rows of a table with a row for each step, and the name of each sequence."""
        absent = [name for name in (self.sequence, self.order, *self.channels) if name and name not in table.columns]
        if self.sequence is None or absent:
            raise DataError(
                f"{table.source} must have the columns that the model was trained on",
                got=f"no {', '.join(absent)}" if absent else "a table, where it was trained on lists",
                do="Add what is missing" if absent else "Pass a list of sequences, or name a .jsonl or an .npz of them",
            )
        values = numbers_of(table, self.channels, self.comma)
        parts = list(sequence_rows(table, self.sequence, self.order, self.dates))
        return padded([values[rows] for _, rows in parts], self.length), [name for name, _ in parts]


def _is_dictionaries(rows: Any) -> bool:
    return isinstance(rows, (list, tuple)) and len(rows) > 0 and isinstance(rows[0], dict)


def stretch(values: Any, name: str, channels: int | None = None) -> np.ndarray:
    """One sequence as numbers (t, C); one axis is one channel.

    Args:
        name: of it, for messages, such as "line 7".
        channels: C, where it is known.
    """
    found = in_columns(values, name, "sequence", "channel", "step")
    if found.ndim != 2 or not len(found) or found.shape[1] == 0 or np.isinf(found).any():
        what = "one with an infinite value" if found.size and np.isinf(found).any() else f"shape {found.shape}"
        raise ShapeError(
            "a sequence must have shape (t,) or (t, channels), at least one step, and finite numbers",
            got=f"{what} as {name}",
            do="Correct it or leave it out",
        )
    if channels is not None and found.shape[1] != channels:
        raise ShapeError(
            f"every step must have {counted(channels, 'value')}",
            got=f"{found.shape[1]} in {name}",
            do="Give all sequences the same channels",
        )
    return found


def in_columns(values: Any, name: str, one: str, column: str, part: str) -> np.ndarray:
    """A list of numbers, or of lists of them, as an array; one axis is one column. The last three are what messages
    call it.

    >>> in_columns([1, 2], "line 1", "sequence", "channel", "step").tolist()
    [[1.0], [2.0]]
    """
    try:
        own = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
        if np.iscomplexobj(own):
            raise TypeError(f"complex numbers have two parts; make two {column}s of them")
        found = np.array(own, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"a {one} must be a list of numbers, or of lists of equally many",
            got=f"{given('it', values).removeprefix('it=')} as {name}"
            + (f" with {odd}" if (odd := _odd(values, column, part)) else f" ({error})"),
            do=f"Pass one number, or one number a {column}, for each {part}",
        ) from None
    return found[:, None] if found.ndim == 1 else found


def _odd(values: Any, column: str, part: str) -> str:
    """What of a list is no number, or another count of them than the first; empty where that is not found out.

    >>> _odd([[1, 2], [3]], "channel", "step"), _odd([1, "x"], "channel", "step")
    ('1 channel in step 1, where step 0 has 2', "'x' in step 1")
    """
    first = None
    for place, own in enumerate(values if isinstance(values, (list, tuple)) else []):
        row = own if isinstance(own, (list, tuple)) else [own]
        for value in row:
            try:
                np.float32(value)
            except (TypeError, ValueError):
                return f"{value!r:.40} in {part} {place}"
        first = len(row) if first is None else first
        if len(row) != first:
            return f"{counted(len(row), column)} in {part} {place}, where {part} 0 has {first}"
    return ""


def padded(parts: Sequence[np.ndarray], length: int) -> Tensor:
    """Raw rows of sequences (t, C), cut at `length` and padded to it, (N, length, C + 1).

    >>> padded([np.array([[5.0], [6.0]])], 3).tolist()
    [[[5.0, 1.0], [6.0, 1.0], [0.0, 0.0]]]
    """
    if not parts:
        raise DataError("there must be sequences to read", got="none", do="Pass at least one")
    x = np.zeros((len(parts), length, parts[0].shape[1] + 1), dtype=np.float32)
    for row, part in zip(x, parts):
        row[: len(part), :-1] = part[:length]
        row[: len(part), -1] = 1.0
    return torch.from_numpy(x)


def numbers_of(table: Table, names: Iterable[str], comma: bool = False) -> np.ndarray:
    """Columns of finite numbers side by side, NaN where one is missing.

    Args:
        comma: decimals are written with a comma where the table leaves it open.
    """
    columns, comma = [], comma or writes_comma(table.columns.values())
    for name in names:
        cells = table.columns[name]
        values, misfit = read_numbers(cells, comma=comma)
        wrong = np.flatnonzero(misfit | np.isinf(values))
        if len(wrong):
            got = f"{shown(cells, int(wrong[0]))} in {table.at(int(wrong[0]))}"
            raise DataError(f"column {name} must hold finite numbers", got=got, do="Correct the cell or leave it empty")
        columns.append(values)
    return np.column_stack(columns).astype(np.float32)


def sequence_rows(table: Table, sequence: str, order: str | None, dates: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The name of each sequence, in the order in which they begin, and the rows of its steps.

    Args:
        dates: the order of the parts of a date, where it is settled.
    """
    words, codes = words_of(table.columns[sequence])
    lost = [k for k, word in enumerate(words) if word is None]
    if lost and np.isin(codes, lost).any():
        row = int(np.flatnonzero(np.isin(codes, lost))[0])
        raise DataError(f"{sequence} must be filled in every row", got=f"nothing in {table.at(row)}", do="Correct it")
    moments = moments_of(table, order, dates).values
    by = np.lexsort((moments, codes))
    ends = np.searchsorted(codes[by], np.arange(len(words) + 1))
    parts = [(word, by[ends[k] : ends[k + 1]]) for k, word in enumerate(words) if ends[k] < ends[k + 1]]
    for word, rows in sorted(parts, key=lambda part: int(part[1].min())):
        twice = np.flatnonzero(np.diff(moments[rows]) == 0)
        if len(twice):
            one, other = (table.at(int(row)) for row in rows[twice[0] : twice[0] + 2])
            raise DataError(
                f"a sequence must have one row for each {order}",
                got=f"the same in {one} and {other}, of {sequence} {word}",
                do="Leave one out, or leave order out if the rows are in order",
            )
        yield str(word), rows
