"""Sequences as they are held: in a list, in a table with a row for each step, in an .npz, or an object a line.

Whatever holds them, they are found as numbers (t, C) each, with what is asked of them. Sets, whose members are held as
steps are, are read by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as made
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from leadline.config import plain
from leadline.data.account import counted
from leadline.data.cells import Table
from leadline.data.columns import named
from leadline.data.features import Feature, feature
from leadline.data.npz import arrays_of
from leadline.data.raw import words_of, writes_comma
from leadline.data.sequence_columns import lists_in, read_list, rows_with_lists
from leadline.data.sequence_inputs import numbers_of, sequence_rows, stretch
from leadline.data.series_moments import moments_of
from leadline.data.text_files import find_texts
from leadline.data.text_rows import JSON_LINES, json_objects
from leadline.errors import DataError, ShapeError, UserError

LISTED = (".npz", *JSON_LINES)  # files that hold sequences one by one, not a row for each step
_STEPS = ("x", "steps", "values", "sequence", "sequences", "data")
_ASKED = ("y", "label", "labels", "target", "targets", "class", "tags")


@dataclass(eq=False)
class Found:
    """Sequences as they were read.

    Args:
        parts: numbers of each, (t, C).
        asked: a value for each sequence, or for each of its steps.
        each: whether there is one for every step.
        target: what is asked, by name.
        source, word: where they came from, and what their numbers count.
        numbers: of each sequence in its source.
        empty, unasked: numbers of those that have no step, or no target, and are left out.
        channels: names, where they have any.
        comma, dates: how a table writes numbers and dates, as `Sequences` has it.
    """

    parts: list[np.ndarray]
    asked: list[Any]
    each: bool
    target: str = "y"
    source: str = "sequences"
    word: str = "sequence"
    numbers: list[int] = made(default_factory=list)
    empty: list[int] = made(default_factory=list)
    unasked: list[int] = made(default_factory=list)
    channels: tuple[str, ...] = ()
    notes: list[str] = made(default_factory=list)
    left_out: list[str] = made(default_factory=list)
    comma: bool = False
    dates: str = ""

    def at(self, row: int) -> str:
        return f"{self.word} {self.numbers[row] if self.numbers else row}"


def of_lists(
    x: Any,
    y: Any,
    each: bool | None,
    names: Sequence[str],
    reads: Callable[..., np.ndarray] = stretch,
    called: tuple[str, str] = ("sequence", "step"),
) -> Found:
    """Sequences as they are held, each with a name for messages.

    Args:
        reads: one of them, its name, and the channels that it must have, as `stretch` does.
        called: what a sequence and a step of it are called.
    """
    one, step = called
    if len(x) != len(y):
        raise ShapeError(
            f"there must be a target for each {one}",
            got=f"{counted(len(x), one)} and {counted(len(y), 'target')}",
            do="Pass as many",
        )
    if not len(x):
        raise DataError(f"there must be {one}s to read", got="none", do="Pass at least three")
    first = reads(x[0], names[0])
    parts = [first, *(reads(own, name, first.shape[1]) for own, name in zip(x[1:], names[1:], strict=True))]
    asked = [_plain(value) for value in y]
    lists = [isinstance(value, list) for value in asked]
    if any(lists) != all(lists) or (each is not None and each is not lists[0]):
        raise DataError(
            f"targets must be one a {one}, or a list a {one}",
            got=f"{counted(sum(lists), 'list')} among {len(lists)}" + (f", each={each}" if each is not None else ""),
            do="Pass all of one kind",
        )
    for name, part, own in zip(names, parts, asked, strict=True):
        if lists[0] and len(own) != len(part):
            raise ShapeError(
                f"a {one} must have a target for each of its {step}s",
                got=f"{counted(len(part), step)} and {counted(len(own), 'target')} in {name}",
                do="Pass as many",
            )
    return Found(parts, asked, lists[0])


def _plain(value: Any) -> Any:
    """A value of numpy or torch as Python's."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def of_table(
    table: Table,
    target: str,
    sequence: str,
    order: str | None,
    drop: Sequence[str],
    each: bool | None,
    called: tuple[str, str] = ("sequence", "step"),
) -> Found:
    """The sequences of a table with a row for each step.

    Args:
        called: what a sequence and a step of it are called; the first is also the argument that names its column.
    """
    one, part = called
    for role, name in (("target", target), (one, sequence), ("order", order), *(("drop", n) for n in drop)):
        if name is not None and name not in table.columns:
            do = named(name, list(table.columns)).rstrip(".")
            raise DataError(f"{role} must name a column of {table.source}", got=f"{role} {name!r}", do=do)
    taken = {target: "target"}
    for role, name in ((one, sequence), ("order", order)):
        if name is not None and taken.setdefault(name, role) != role:
            got = f"{name!r} as {taken[name]} and {role}"
            raise DataError("a column must have one role", got=got, do=f"Name another column as the {role}")
    if not len(table):
        raise DataError(f"{table.source} must have rows", got="none", do="Check that it was written whole")
    channels, left_out = [], [f"{name}: left out, as asked" for name in drop]
    comma = writes_comma(table.columns.values())
    for name, cells in table.columns.items():
        if name in (target, sequence, order, *drop):
            continue
        item = feature(name, cells, table, comma=comma)
        if isinstance(item, Feature) and item.kind == "number":
            channels.append(name)
        else:
            why = item if isinstance(item, str) else f"left out: a {item.kind}"
            left_out.append(f"{name}: {why}")
    if not channels:
        raise DataError(
            f"{table.source} must have a column of numbers beside {target}",
            got="; ".join(left_out) or "none",
            do="Add one, such as what was measured",
        )
    values = numbers_of(table, channels)
    words, codes = words_of(table.columns[target])
    dates = moments_of(table, order).order
    parts = list(sequence_rows(table, sequence, order, dates))
    every = [[words[code] for code in codes[rows]] for _, rows in parts]
    notes = [*table.notes, f"{len(table)} rows are {part}s of {counted(len(parts), one)}"]
    if each is None:
        mixed = [k for k, own in enumerate(every) if len({word for word in own if word is not None}) > 1]
        each = bool(mixed)
        if 0 < 2 * len(mixed) < len(parts):  # a slip in a few rows, perhaps
            name, rows = parts[mixed[0]]
            first = f"{sequence} {name}, from {table.at(int(rows[0]))} on"
            notes.append(
                f"{target} is asked at every {part}, for it changes within {counted(len(mixed), one)}, first in "
                f"{first}; where each {one} has but one, correct it there"
            )
    asked: list[Any] = every
    if not each:
        asked = []
        for (name, rows), own in zip(parts, every):
            known = dict.fromkeys(word for word in own if word is not None)
            if len(known) != 1:
                raise DataError(
                    f"{target} must be the same at all {part}s of a {one}",
                    got=f"{', '.join(map(str, list(known)[:3])) or 'nothing'} for {sequence} {name}, from "
                    f"{table.at(int(rows[0]))} on",
                    do=f"Correct it, or pass each=True for a class at every {part}",
                )
            asked.append(next(iter(known)))
    numbers = [int(table.numbers[rows.min()]) for _, rows in parts]
    stretches = [values[rows] for _, rows in parts]
    return Found(
        stretches,
        asked,
        each,
        target,
        table.source,
        table.word,
        numbers,
        channels=tuple(channels),
        notes=notes,
        left_out=left_out,
        comma=comma,
        dates=dates,
    )


def of_npz(path: Path, field: str | None, target: str | None) -> Found:
    arrays = arrays_of(path)
    x, y = (arrays[named_in(path, arrays, own, usual, role)] for own, usual, role in _named(field, target))
    lengths = arrays.get("lengths")
    parts, asked = cut_at(x, x, lengths), list(y)
    if lengths is not None and len(y) == len(x) and (y.ndim == 2 or len(x) != lengths.size):
        asked = cut_at(y, x, lengths)  # one of every step
    if len(asked) != len(parts):
        return of_lists(parts, asked, None, [])  # which says so
    return _of_file(path, "sequence", range(len(parts)), parts, asked)


def of_json(path: Path, field: str | None, target: str | None) -> Found:
    texts = find_texts(path)
    found = list(json_objects(texts))
    if not found:
        raise DataError(f"{path.name} must have lines", got="none", do="Check that it was written")
    first = found[0][1]
    names = [named_in(path, first, own, usual, role) for own, usual, role in _named(field, target)]
    x, y = _fields(path, found, names)
    read = _of_file(path, "line", [number for number, _ in found], x, y)
    read.target = names[1]
    read.notes.extend(texts.notes)
    return read


def of_columns(what: Any, field: str, target: str) -> Found:
    """The sequences of a table that holds one in each row.

    Args:
        what: a file, or a data frame.
    """
    place = what if isinstance(what, Path) else Path("data frame")
    word, numbers, columns = rows_with_lists(what)
    names = [named_in(place, columns, *own) for own in _named(field, target)]
    x = lists_in(columns[names[0]], names[0], word, numbers)
    asked = [cell if (own := read_list(cell)) is None else own for cell in columns[names[1]]]
    found = _of_file(place, word, numbers, x, asked)
    found.target = names[1]
    return found


def _of_file(path: Path, word: str, numbers: Sequence[int], x: Sequence[Any], y: Sequence[Any]) -> Found:
    """The sequences of a file that have steps."""
    empty = [isinstance(own, (list, np.ndarray)) and len(own) == 0 for own in x]
    kept = [k for k, none in enumerate(empty) if not none]
    if not kept:
        raise DataError(
            f"{path.name} must hold sequences with steps", got=f"{len(x)} without", do="Leave the empty ones out"
        )
    names = [f"{word} {numbers[k]}" for k in kept]
    found = of_lists([x[k] for k in kept], [y[k] for k in kept], None, names)
    found.source, found.word, found.numbers = path.name, word, [numbers[k] for k in kept]
    found.empty = [number for number, none in zip(numbers, empty) if none]
    return found


def _fields(path: Path, lines: list[tuple[int, Mapping[str, Any]]], names: list[str]) -> list[list[Any]]:
    """The values of each field, in all lines."""
    for number, row in lines:
        absent = [name for name in names if name not in row]
        if absent:
            raise DataError(
                f"every line of {path.name} must have {' and '.join(names)}",
                got=f"line {number} without {absent[0]}",
                do="Correct the line",
            )
    return [[row[name] for _, row in lines] for name in names]


def _named(field: str | None, target: str | None) -> tuple[tuple[str | None, tuple[str, ...], str], ...]:
    return (field, _STEPS, "field"), (target, _ASKED, "target")


def named_in(path: Path, have: Mapping[str, Any], own: str | None, usual: Sequence[str], role: str) -> str:
    """What a file calls the field or the target: the name that was told, or one of the usual ones."""
    found = next((name for name in ((own,) if own else usual) if name in have), None)
    if found is None:
        names = list(map(str, have))
        raise DataError(
            f"{path.name} must hold {own or f'{role}, by a name such as {usual[0]} or {usual[1]}'}",
            got=", ".join(names[:8]) or "nothing",
            do=_other_name(role, names, own or usual[0]),
        )
    return found


def _other_name(role: str, names: list[str], wanted: str) -> str:
    """What to do where a file has none of the names; sets, and what is predicted, go by those alone."""
    if not names or role not in ("field", "target"):
        return f"Write it anew, and call it {wanted}"
    return f"Name one of those: {role}={names[0 if role == 'field' else -1]!r}, say"


def cut_at(values: np.ndarray, x: np.ndarray, lengths: np.ndarray | None) -> list[np.ndarray]:
    """What belongs to each sequence, of values that lie as the steps of x do."""
    if lengths is None:
        return list(values)
    lengths = lengths.reshape(-1)
    odd = lengths[~((lengths >= 0) & (lengths % 1 == 0))] if lengths.dtype.kind in "biuf" else lengths
    if len(odd):
        got = f"{odd[0]} among {len(lengths)}"
        raise ShapeError("lengths must be whole numbers from 0 on", got=got, do="Count the steps of each sequence")
    lengths = lengths.astype(np.int64)
    if len(x) == lengths.sum() and len(x) != len(lengths):  # all steps one after another
        return np.split(values, np.cumsum(lengths)[:-1])
    if len(x) != len(lengths) or x.ndim < 2 or lengths.max(initial=0) > x.shape[1]:
        raise ShapeError(
            "lengths must say how many steps each sequence has",
            got=f"{len(lengths)} that sum to {lengths.sum()}, for x of shape {x.shape}",
            do="Pass (N, T, C) with N lengths, or all steps one after another",
        )
    return [row[:n] for row, n in zip(values, lengths)]


def steps_of(path: Path, field: str | None = None) -> tuple[str, list[int], list[Any]]:
    """The sequences of a file that holds each of them whole, whatever is asked of them: what their numbers count, the
    number of each, and its steps.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "new.jsonl")
    ...     _ = file.write_text('{"x": [1, 2]}\\n{"x": [3]}')
    ...     steps_of(file)
    ('line', [1, 2], [[1, 2], [3]])
    """
    if not path.exists():
        raise DataError("a file of sequences must exist", got=f"no {path}", do="Check the name and the folder")
    if path.name.lower().endswith(".npz"):
        arrays = arrays_of(path)
        x = arrays[named_in(path, arrays, field, _STEPS, "steps")]
        parts = cut_at(x, x, arrays.get("lengths"))
        return "sequence", list(range(len(parts))), parts
    if not path.name.lower().endswith(LISTED):
        word, numbers, columns = rows_with_lists(path)
        name = named_in(path, columns, field, _STEPS, "steps")
        return word, numbers, lists_in(columns[name], name, word, numbers)
    lines = list(json_objects(find_texts(path)))
    if not lines:
        raise DataError(f"{path.name} must have lines", got="none", do="Check that it was written")
    (steps,) = _fields(path, lines, [named_in(path, lines[0][1], field, _STEPS, "steps")])
    return "line", [number for number, _ in lines], steps


def refuse_of_steps(options: Mapping[str, Any], held: str, field: str | None = None, part: str = "step") -> None:
    """Refuse what is said of a table with a row for each step, where sequences are held whole.

    Args:
        options: by their names.
        held: where they are held.
        field: what holds them there, where that was told.
        part: what a step is called.
    """
    told = {name: plain(value) for name, value in options.items() if value not in (None, (), [])}
    if not told:
        return
    do = f"Leave {'it' if len(told) == 1 else 'them'} out"
    if field is not None and not held.lower().endswith(LISTED):
        do += f"; or, if each row is a {part}, leave field out"
        do += "" if "sequence" in told else " and name sequence, the column that tells sequences apart"
    elif "sequence" in told:
        do += f"; if that is what holds the sequences, pass field={told['sequence']!r}"
    beside = "" if field is None else f" beside field={field!r}"
    raise UserError(
        f"{' and '.join(told)} {'is' if len(told) == 1 else 'are'} of a table with a row for each {part}",
        got=f"{', '.join(f'{name}={value!r}' for name, value in told.items())}{beside} for {held}",
        do=do,
    )


def as_held(found: Found, each: bool | None) -> Found:
    """Refuses another `each` than a file has."""
    if each is not None and each is not found.each:
        have = "one for every step" if found.each else "one for each sequence"
        raise UserError("each must be as the file has it", got=f"each={each}, and a target {have}", do="Leave it out")
    return found
