"""Own sequences of different lengths, each with a class or a number, or a class for every step.

import leadline as ll
data = ll.data.sequences([[0.1, 0.7], [0.3, 0.2, 0.9]], ["up", "down"])
data = ll.data.sequences("strokes.csv", "letter", sequence="stroke", order="time")
data = ll.data.sequences("strokes.jsonl", "letter", field="points")

.csv, .parquet   a row for each step; a column says which sequence it is of. Or a row for each sequence, which is a list
                 in the column `field`; a .csv has it as [1.5, 2]
.npz             x (N, T[, C]) with `lengths` (N,) where they differ, or all steps one after another (ΣT[, C]) with
                 `lengths`; y (N,), or of every step as x has them
.jsonl           an object a line, with a list of numbers, or of lists of numbers, and what is asked

Rows are padded to the longest sequence, or cut at `length`: one very long sequence makes all rows as long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.config import plain
from leadline.data.account import Account, Refusal, counted
from leadline.data.arguments import checked
from leadline.data.cells import cells_of
from leadline.data.data import Data, Split
from leadline.data.frame import stem
from leadline.data.outcome import read_outcome, with_figures
from leadline.data.sequence_inputs import Sequences, padded
from leadline.data.sequence_sources import (
    LISTED,
    Found,
    as_held,
    of_columns,
    of_json,
    of_lists,
    of_npz,
    of_table,
    refuse_of_steps,
)
from leadline.data.splits import split_indices
from leadline.data.table import rows_of
from leadline.data.target import Target
from leadline.data.words import natural, plain_text
from leadline.errors import DataError, UserError
from leadline.settings import given, whole

NOTHING = -1  # asked at a step
MOST_LENGTH = 65536
_MOST_BYTES = 2**33  # of all rows
_SHOWN = 5
_FRACTION = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?|[-+]?\d+e-\d+|[-+]?inf", re.IGNORECASE)


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
        field: of .npz and .jsonl, the array or field that holds the sequences; by default x, steps or values. Of a
            table with a row for each sequence, the column of lists.
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
        if kind == "ordered" and outcome.values is None:
            do = "Write a number for each, such as 1, 2, 3 from low to high"
            raise DataError(f"ordered classes of sequences must be numbers, here {found.target}", got="words", do=do)
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
    of_steps = {"sequence": sequence, "order": order, "drop": drop}
    if in_file and (target is None or isinstance(target, str)):
        refuse_of_steps(of_steps, path.name, field)
        read = of_npz if name.endswith(".npz") else of_json
        return as_held(read(path, field, target), each)
    if isinstance(path, (list, tuple, np.ndarray, Tensor)) and not (len(path) and isinstance(path[0], Mapping)):
        if target is None or isinstance(target, str):
            raise DataError(
                "target must hold a value for each sequence of a list", got=given("target", target), do="Pass a list"
            )
        refuse_of_steps({**of_steps, "field": field}, "a list")
        return of_lists(path, target, each, [f"sequence {k}" for k in range(len(path))])
    if field is not None and isinstance(target, str):
        refuse_of_steps(of_steps, path.name if isinstance(path, Path) else "a data frame", field)
        return as_held(of_columns(path, field, target), each)
    if sequence is None or not isinstance(target, str):
        raise UserError(
            "a table of sequences needs sequence, the column that tells them apart, or field, a column of lists; and "
            "target, the one to predict",
            got=f"{given('sequence', sequence)}, {given('target', target)}",
            do='Write sequences("strokes.csv", "letter", sequence="stroke")',
        )
    return of_table(rows_of(path, "path")[0], target, sequence, order, drop, each)


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


def _check_room(count: int, T: int, channels: int, longest: int) -> None:
    if count * T * (channels + 1) * 4 > _MOST_BYTES:
        raise DataError(
            f"sequences, padded to the longest, must fit in {_MOST_BYTES >> 30} GiB",
            got=f"{count} of up to {longest} steps",
            do=f"Cut them: length={max(1, _MOST_BYTES // (count * (channels + 1) * 4))} or less",
        )


def tags(found: Found, T: int, kind: str | None, step: str = "step", whole: str = "sequence") -> tuple[Tensor, Target]:
    """A class for every step, `NOTHING` where there is none. The last two are what messages call them."""
    if kind not in (None, "classes", "binary"):
        raise UserError(f"a target of every {step} must be of classes", got=f"kind={kind!r}", do="Leave kind out")
    words = [[_word(value, found, row, step) for value in own] for row, own in enumerate(found.asked)]
    fraction = next((word for own in words for word in own if word is not None and _is_fraction(word)), None)
    if kind is None and fraction is not None:
        raise DataError(
            f"{found.target} of every {step} must be a class: numbers at every {step} cannot be learned",
            got=f"{fraction}",
            do=f"Use one number a {whole}, or pass kind='classes' if such numbers are names",
        )
    names = sorted({word for own in words for word in own if word is not None}, key=natural)
    if not 2 <= len(names) <= MOST_LENGTH:
        some = f": {', '.join(names[:_SHOWN])}{', …' if names[_SHOWN:] else ''}" if names else ""
        got, do = f"{len(names)}{some}", "Name another target, or other rows"
        raise DataError(f"{found.target} must have from 2 to {MOST_LENGTH:,} classes", got=got, do=do)
    code = {name: k for k, name in enumerate(names)}
    y = torch.full((len(words), T), NOTHING)
    for row, own in zip(y, words):
        row[: len(own)] = torch.tensor([NOTHING if word is None else code[word] for word in own[:T]])
    return y, Target("tokens", found.target, tuple(names), dim=len(names))


def _is_fraction(word: str) -> bool:
    return _FRACTION.fullmatch(word.strip()) is not None and float(word) % 1 != 0


def _word(value: Any, found: Found, row: int, step: str) -> str | None:
    """What is asked at a step, as the name of a class; None where nothing is."""
    if isinstance(value, (list, tuple, dict)):
        raise DataError(
            f"{found.target} must be one word or number at each {step}",
            got=f"{given('it', value)} in {found.at(row)}",
            do="Keep one of them",
        )
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or value != value:
        return None
    return plain_text(value) if isinstance(value, float) else str(value)


def _account(found: Found, target: Target, T: int) -> Account:
    lengths = np.array([len(part) for part in found.parts])
    cut = int((lengths > T).sum())
    notes = [*found.notes, f"{lengths.min()} to {lengths.max()} steps, {np.median(lengths):.0f} in the middle"]
    notes += [f"{counted(cut, 'sequence')} cut to {T} steps"] if cut else []
    spare = 1 - np.minimum(lengths, T).sum() / (len(lengths) * T)
    notes += [f"{spare:.0%} of all rows is padding: a length below {T} makes them shorter"] if spare > 0.5 else []
    notes += _missing(found.parts)
    what = f"{target.name}: {len(target.classes)} classes, one a step" if found.each else f"{target}"
    lines = (f"{what}, the target", *(f"{name}: number" for name in found.channels), *found.left_out)
    why = {"the sequence has no step": found.empty, "the target is missing": found.unasked}
    lost = tuple(Refusal(reason, len(of), tuple(of[:_SHOWN])) for reason, of in why.items() if of)
    read = len(lengths) + len(found.empty) + len(found.unasked)
    return Account(found.source, read, lost, lines, tuple(notes), one="sequence", numbered=f"{found.word}s")


def _missing(parts: Sequence[np.ndarray]) -> list[str]:
    """What is said of numbers that are missing; steps at an end that hold nothing are padding, as others write it."""
    lost = sum(int(np.isnan(part).sum()) for part in parts)
    if not lost:
        return []
    ends = sum(int(np.logical_and.accumulate(np.isnan(part).all(1)[::-1]).sum()) for part in parts)
    told = f"{counted(lost, 'number')} of {sum(part.size for part in parts)} missing, read as the mean of the channel"
    empty = f"{counted(ends, 'step')} at the ends of sequences without any number: if they are padding, leave them out"
    return [told, f"{empty} (an .npz has `lengths` for that)"] if ends else [told]
