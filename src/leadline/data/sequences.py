"""Own sequences of different lengths, each with a class or a number, or a class for every step.

import leadline as ll
data = ll.data.sequences([[0.1, 0.7], [0.3, 0.2, 0.9]], ["up", "down"])
data = ll.data.sequences("strokes.csv", "letter", sequence="stroke", order="time")
data = ll.data.sequences("strokes.jsonl", "letter", field="points")

.csv, .parquet   a row for each step; a column says which sequence it is of
.npz             x (N, T[, C]) with `lengths` (N,) where they differ, or all steps behind each other (ΣT[, C]) with
                 `lengths`; y (N,), or of every step as x has them
.jsonl           an object a line, with a list of numbers, or of lists of numbers, and what is asked

Rows are padded to the longest sequence, or cut at `length`: one very long sequence makes all rows as long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as made
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.config import plain
from leadline.data.account import Account, Refusal, counted
from leadline.data.arguments import checked
from leadline.data.cells import Table, cells_of
from leadline.data.columns import named
from leadline.data.data import Data, Split
from leadline.data.features import Feature, feature
from leadline.data.frame import stem
from leadline.data.npz import arrays_of
from leadline.data.outcome import read_outcome, with_figures
from leadline.data.raw import words_of, writes_comma
from leadline.data.sequence_inputs import Sequences, numbers_of, padded, sequence_rows, stretch
from leadline.data.series_rows import moments_of
from leadline.data.splits import split_indices
from leadline.data.table import rows_of
from leadline.data.target import Target
from leadline.data.text_files import find_texts
from leadline.data.text_rows import JSON_LINES, json_objects
from leadline.data.words import natural
from leadline.errors import DataError, ShapeError, UserError
from leadline.settings import given, whole

NOTHING = -1  # asked at a step
LISTED = (".npz", *JSON_LINES)  # files that hold sequences one by one, not a row for each step
MOST_LENGTH = 65536
_MOST_BYTES = 2**33  # of all rows
_SHOWN = 5
_FRACTION = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?|[-+]?\d+e-\d+", re.IGNORECASE)
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


@checked
def sequences(
    path: Any,
    target: Any = None,
    *,
    sequence: str | None = None,
    order: str | None = None,
    field: str | None = None,
    drop: Sequence[str] = (),
    each: bool | None = None,
    kind: str | None = None,
    length: int | None = None,
    val: float = 0.15,
    test: float = 0.2,
    split_seed: int = 0,
) -> Data:
    """The sequences in a file, a table, or a list.

    Args:
        path: a file that ends in .csv, .tsv, .parquet, .npz or .jsonl, a data frame, or a list of sequences, each of
            numbers (t,) or (t, channels).
        target: the column, array or field to predict, or the values themselves, one a sequence, or a list a sequence
            of one for every step.
        sequence: of a table, the column that says which sequence a row is of.
        order: of a table, the column by which the steps of a sequence follow each other; by default as they stand.
        field: of .npz and .jsonl, the array or field that holds the sequences; by default x, steps or values.
        drop: columns of a table to leave out; all others of numbers are channels.
        each: whether every step has a class of its own; by default found out.
        kind: what the target is: real, positive, count, angle, proportion, binary, classes or ordered; by default
            real or classes, as its values suggest.
        length: steps of a row, at least 1, at which longer sequences are cut; by default those of the longest.
        val, test: parts of the sequences, each from 0 and together below 1, drawn at random; classes are spread
            evenly.
        split_seed: of that draw, any whole number.

    >>> rows = [[float(k % 2)] * (2 + k % 3) for k in range(20)]
    >>> sequences(rows, ["odd" if k % 2 else "even" for k in range(20)])
    Data(sequences: train 13, val 3, test 4; x (4, 2); y y: even or odd)
    """
    place = Path(path).expanduser().absolute() if isinstance(path, (str, Path)) else None
    found = _found(path if place is None else place, target, sequence, order, field, drop, each)
    found = found if found.each else _answered(found)
    longest = max(map(len, found.parts))
    T = min(longest, whole("length", length, 1, MOST_LENGTH) if length is not None else MOST_LENGTH)
    _check_room(len(found.parts), T, found.parts[0].shape[1], longest)
    x = padded(found.parts, T)
    if found.each:
        y, what = tags(found, T, kind)
    else:
        outcome = read_outcome(found.target, cells_of(found.asked, found.target), found.comma)
        y, what = outcome.settle(np.arange(len(x)), kind, found.at)
    strata = y if what.discrete else None
    parts = split_indices(len(x), val=val, test=test, seed=split_seed, stratify=strata)
    inputs = Sequences.fit(x[parts[0]], found.channels, sequence, order, found.comma, found.dates)
    if found.each:
        per = float((y[parts[0]] != NOTHING).sum(1).double().mean())
        what = Target("tokens", what.name, what.classes, dim=what.dim, scale=(per,))
    else:
        what = with_figures(what, y[parts[0]])
    numbers = torch.tensor(found.numbers) if found.numbers else torch.arange(len(x))
    train, held, tested = (Split(x[rows], y[rows], rows=numbers[rows]) for rows in parts)
    recipe = None
    if place is not None:
        options = {"target": target, "sequence": sequence, "order": order, "field": field, "drop": drop, "each": each}
        options |= {"kind": kind, "length": length, "val": val, "test": test, "split_seed": split_seed}
        recipe = {"source": "sequences", "options": plain({"path": str(place), **options})}
    name = "sequences" if place is None else stem(place)
    return Data(train, held, tested, what, inputs, name, recipe, _account(found, what, T))


def _found(
    path: Any,
    target: Any,
    sequence: str | None,
    order: str | None,
    field: str | None,
    drop: Sequence[str],
    each: bool | None,
) -> Found:
    """The sequences, however they are held."""
    name = path.name.lower() if isinstance(path, Path) else ""
    in_file = name.endswith(LISTED)
    if isinstance(path, Path) and not path.exists():
        raise DataError("a file of sequences must exist", got=f"no {path}", do="Check the name and the folder")
    if in_file and (target is None or isinstance(target, str)):
        read = _of_npz if name.endswith(".npz") else _of_json
        return _with_names(read(path, field, target), sequence, each)
    if isinstance(path, (list, tuple, np.ndarray, Tensor)) and not (len(path) and isinstance(path[0], Mapping)):
        if target is None or isinstance(target, str):
            raise DataError(
                "target must hold a value for each sequence of a list", got=given("target", target), do="Pass a list"
            )
        return _of_lists(path, target, each, [f"sequence {k}" for k in range(len(path))])
    if sequence is None or not isinstance(target, str):
        raise UserError(
            "a table of sequences needs sequence, the column that tells them apart, and target, the one to predict",
            got=f"{given('sequence', sequence)}, {given('target', target)}",
            do='Write sequences("strokes.csv", "letter", sequence="stroke")',
        )
    return of_table(rows_of(path, "path")[0], target, sequence, order, drop, each)


def steps_of(path: Path, field: str | None = None) -> tuple[str, list[int], list[Any]]:
    """The sequences of a .npz or .jsonl alone, whatever is asked of them: what their numbers count, the number of each,
    and its steps.

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
        x = arrays[named_in(path, arrays, field, _STEPS, "field")]
        parts = cut_at(x, x, arrays.get("lengths"))
        return "sequence", list(range(len(parts))), parts
    lines = list(json_objects(find_texts(path)))
    if not lines:
        raise DataError(f"{path.name} must have lines", got="none", do="Check that it was written")
    (steps,) = _fields(path, lines, [named_in(path, lines[0][1], field, _STEPS, "field")])
    return "line", [number for number, _ in lines], steps


def _with_names(found: Found, sequence: str | None, each: bool | None) -> Found:
    """Refuses what is said of a table."""
    if sequence is not None:
        raise UserError(
            "sequence is of a table with a row for each step",
            got=f"{sequence!r} for {found.source}",
            do="Name what holds the sequences with field=…, and leave sequence out",
        )
    if each is not None and each is not found.each:
        have = "one for every step" if found.each else "one for each sequence"
        raise UserError("each must be as the file has it", got=f"each={each}, and a target {have}", do="Leave it out")
    return found


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
            f"{table.source} must have a column of numbers beside {target}", got="; ".join(left_out) or "none", do="Add"
        )
    values = numbers_of(table, channels)
    words, codes = words_of(table.columns[target])
    dates = moments_of(table, order).order
    parts = list(sequence_rows(table, sequence, order, dates))
    every = [[words[code] for code in codes[rows]] for _, rows in parts]
    if each is None:
        each = any(len({word for word in own if word is not None}) > 1 for own in every)
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
                    do=f"Mend it, or pass each=True for a class at every {part}",
                )
            asked.append(next(iter(known)))
    numbers = [int(table.numbers[rows.min()]) for _, rows in parts]
    stretches = [values[rows] for _, rows in parts]
    notes = [*table.notes, f"{len(table)} rows are {part}s of {counted(len(parts), one)}"]
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


def _of_lists(x: Any, y: Any, each: bool | None, names: Sequence[str]) -> Found:
    """Sequences as they are held, each with a name for messages."""
    if len(x) != len(y):
        raise ShapeError(
            "there must be a target for each sequence",
            got=f"{counted(len(x), 'sequence')} and {counted(len(y), 'target')}",
            do="Pass as many",
        )
    if not len(x):
        raise DataError("there must be sequences to read", got="none", do="Pass at least three")
    first = stretch(x[0], names[0])
    parts = [first, *(stretch(own, name, first.shape[1]) for own, name in zip(x[1:], names[1:], strict=True))]
    asked = [_plain(value) for value in y]
    lists = [isinstance(value, list) for value in asked]
    if any(lists) != all(lists) or (each is not None and each is not lists[0]):
        raise DataError(
            "targets must be one a sequence, or a list a sequence",
            got=f"{counted(sum(lists), 'list')} among {len(lists)}" + (f", each={each}" if each is not None else ""),
            do="Pass all of one kind",
        )
    for name, part, own in zip(names, parts, asked, strict=True):
        if lists[0] and len(own) != len(part):
            raise ShapeError(
                "a sequence must have a target for each of its steps",
                got=f"{counted(len(part), 'step')} and {counted(len(own), 'target')} in {name}",
                do="Pass as many",
            )
    return Found(parts, asked, lists[0])


def _answered(found: Found) -> Found:
    """The sequences whose target is known."""
    gap = read_outcome(found.target, cells_of(found.asked, found.target), found.comma).missing
    kept, lost = np.flatnonzero(~gap).tolist(), np.flatnonzero(gap).tolist()
    if not kept:
        raise DataError(f"{found.target} must have a value for some sequences", got="none", do="Name another target")
    numbers = found.numbers or list(range(len(found.parts)))
    parts, asked = [found.parts[k] for k in kept], [found.asked[k] for k in kept]
    own, unasked = [numbers[k] for k in kept], [numbers[k] for k in lost]
    return replace(found, parts=parts, asked=asked, numbers=own, unasked=unasked) if lost else found


def _plain(value: Any) -> Any:
    """A value of numpy or torch as Python's."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _of_npz(path: Path, field: str | None, target: str | None) -> Found:
    arrays = arrays_of(path)
    x, y = (arrays[named_in(path, arrays, own, usual, role)] for own, usual, role in _named(field, target))
    lengths = arrays.get("lengths")
    parts, asked = cut_at(x, x, lengths), list(y)
    if lengths is not None and len(y) == len(x) and (y.ndim == 2 or len(x) != lengths.size):
        asked = cut_at(y, x, lengths)  # one of every step
    if len(asked) != len(parts):
        return _of_lists(parts, asked, None, [])  # which says so
    return _of_file(path, "sequence", range(len(parts)), parts, asked)


def _of_file(path: Path, word: str, numbers: Sequence[int], x: Sequence[Any], y: Sequence[Any]) -> Found:
    """The sequences of a file that have steps."""
    empty = [isinstance(own, (list, np.ndarray)) and len(own) == 0 for own in x]
    kept = [k for k, none in enumerate(empty) if not none]
    if not kept:
        raise DataError(f"{path.name} must hold sequences with steps", got=f"{len(x)} without", do="Bring others")
    names = [f"{word} {numbers[k]}" for k in kept]
    found = _of_lists([x[k] for k in kept], [y[k] for k in kept], None, names)
    found.source, found.word, found.numbers = path.name, word, [numbers[k] for k in kept]
    found.empty = [number for number, none in zip(numbers, empty) if none]
    return found


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
    if len(x) == lengths.sum() and len(x) != len(lengths):  # all steps behind each other
        return np.split(values, np.cumsum(lengths)[:-1])
    if len(x) != len(lengths) or x.ndim < 2 or lengths.max(initial=0) > x.shape[1]:
        raise ShapeError(
            "lengths must say how many steps each sequence has",
            got=f"{len(lengths)} that sum to {lengths.sum()}, for x of shape {x.shape}",
            do="Pass (N, T, C) with N lengths, or all steps behind each other",
        )
    return [row[:n] for row, n in zip(values, lengths)]


def _of_json(path: Path, field: str | None, target: str | None) -> Found:
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


def _fields(path: Path, lines: list[tuple[int, Mapping[str, Any]]], names: list[str]) -> list[list[Any]]:
    """The values of each field, in all lines."""
    for number, row in lines:
        absent = [name for name in names if name not in row]
        if absent:
            raise DataError(
                f"every line of {path.name} must have {' and '.join(names)}",
                got=f"line {number} without {absent[0]}",
                do="Mend the line",
            )
    return [[row[name] for _, row in lines] for name in names]


def _named(field: str | None, target: str | None) -> tuple[tuple[str | None, tuple[str, ...], str], ...]:
    return (field, _STEPS, "field"), (target, _ASKED, "target")


def named_in(path: Path, have: Mapping[str, Any], own: str | None, usual: Sequence[str], role: str) -> str:
    found = next((name for name in ((own,) if own else usual) if name in have), None)
    if found is None:
        raise DataError(
            f"{path.name} must hold {own or f'{role}, by a name such as {usual[0]} or {usual[1]}'}",
            got=", ".join(map(str, list(have)[:8])) or "nothing",
            do=f"Name it with {role}=…",
        )
    return found


def _check_room(count: int, T: int, channels: int, longest: int) -> None:
    if count * T * (channels + 1) * 4 > _MOST_BYTES:
        raise DataError(
            f"sequences must fit in {_MOST_BYTES >> 30} GiB, all as long as the longest",
            got=f"{count} of up to {longest} steps",
            do=f"Cut them: length={max(1, _MOST_BYTES // (count * (channels + 1) * 4))} or less",
        )


def tags(found: Found, T: int, kind: str | None, step: str = "step", whole: str = "sequence") -> tuple[Tensor, Target]:
    """A class for every step, `NOTHING` where there is none. The last two are what messages call them."""
    if kind not in (None, "classes", "binary"):
        raise UserError(f"a target of every {step} must be of classes", got=f"kind={kind!r}", do="Leave kind out")
    words = [[None if word is None or word != word else _word(word) for word in own] for own in found.asked]
    fraction = next((word for own in words for word in own if word is not None and _is_fraction(word)), None)
    if kind is None and fraction is not None:
        raise DataError(
            f"{found.target} of every {step} must be a class: a number of every {step} is not learned",
            got=f"{fraction}",
            do=f"Ask one number a {whole}, or pass kind='classes' if such numbers are names",
        )
    names = sorted({word for own in words for word in own if word is not None}, key=natural)
    if len(names) < 2 or len(names) > MOST_LENGTH:
        raise DataError(
            f"{found.target} must have at least two classes", got=", ".join(names) or "none", do="Bring other rows"
        )
    code = {name: k for k, name in enumerate(names)}
    y = torch.full((len(words), T), NOTHING)
    for row, own in zip(y, words):
        row[: len(own)] = torch.tensor([NOTHING if word is None else code[word] for word in own[:T]])
    return y, Target("tokens", found.target, tuple(names), dim=len(names))


def _is_fraction(word: str) -> bool:
    return _FRACTION.fullmatch(word.strip()) is not None and float(word) % 1 != 0


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


def _account(found: Found, target: Target, T: int) -> Account:
    lengths = np.array([len(part) for part in found.parts])
    cut = int((lengths > T).sum())
    notes = [*found.notes, f"{lengths.min()} to {lengths.max()} steps, {np.median(lengths):.0f} in the middle"]
    notes += [f"{counted(cut, 'sequence')} cut to {T} steps"] if cut else []
    spare = 1 - np.minimum(lengths, T).sum() / (len(lengths) * T)
    notes += [f"{spare:.0%} of all rows is padding: a length below {T} makes them shorter"] if spare > 0.5 else []
    what = f"{target.name}: {len(target.classes)} classes, one a step" if found.each else f"{target}"
    lines = (f"{what}, the target", *(f"{name}: number" for name in found.channels), *found.left_out)
    why = {"the sequence has no step": found.empty, "the target is missing": found.unasked}
    lost = tuple(Refusal(reason, len(of), tuple(of[:_SHOWN])) for reason, of in why.items() if of)
    read = len(lengths) + len(found.empty) + len(found.unasked)
    return Account(found.source, read, lost, lines, tuple(notes), one="sequence", numbered=f"{found.word}s")
