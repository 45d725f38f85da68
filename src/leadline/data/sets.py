"""Own sets of different sizes, clouds of points among them, each with a class or a number, or a class for every member.

import leadline as ll
data = ll.data.sets([[0.1, 0.7], [0.3, 0.2, 0.9]], ["two", "three"])
data = ll.data.sets("baskets.csv", "customer", set="basket")
data = ll.data.sets("scans.npz", coordinates=3)
data = ll.data.sets("scans/", coordinates=3)

.csv, .parquet   a row for each member; a column says which set it is of
.npz             x (N, M[, C]) with `lengths` (N,) where they differ, or all members one after another (ΣM[, C]) with
                 `lengths`; y (N,), or of every member as x has them
a folder         a folder for each class, with clouds of points in .off, .ply, .xyz, .pts or .txt

Rows are padded to the largest set. The order of the members means nothing, and networks of sets do not see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from leadline.data.npz import arrays_of
from leadline.data.outcome import read_outcome, with_figures
from leadline.data.point_files import clouds_in
from leadline.data.sequence_inputs import padded
from leadline.data.sequence_sources import Found, cut_at, named_in, of_lists, of_table, refuse_of_steps
from leadline.data.sequences import MOST_LENGTH, NOTHING, tags
from leadline.data.set_inputs import Sets, complete, gathered
from leadline.data.splits import split_indices
from leadline.data.table import rows_of
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.settings import given, whole

_MOST_BYTES = 2**33  # of all rows
_MEMBERS = ("x", "points", "members", "sets", "data")
_ASKED = ("y", "label", "labels", "target", "targets", "class", "parts")
_SHOWN = 5


@checked
def sets(
    path: Any,
    target: Any = None,
    *,
    set: str | None = None,
    coordinates: int = 0,
    drop: Sequence[str] = (),
    each: bool | None = None,
    kind: str | None = None,
    val: float = 0.15,
    test: float = 0.2,
    split_seed: int = 0,
) -> Data:
    """The sets in a file, a folder, a table, or a list.

    Args:
        path: a file that ends in .csv, .tsv, .parquet or .npz, a folder of clouds of points with a folder for each
            class, a data frame, or a list of sets, each of numbers (m,) or (m, columns).
        target: the column or array to predict, or the values themselves, one a set, or a list a set of one for every
            member; of a folder its classes, and nothing is named.
        set: of a table, the column that says which set a row is of.
        coordinates: how many of the first columns of numbers are coordinates, at least 0: each set is then moved to
            its middle and scaled to reach 1.
        drop: columns of a table to leave out; all others of numbers are read.
        each: whether every member has a class of its own; by default found out.
        kind: what the target is: real, positive, count, angle, proportion, binary, classes or ordered; by default
            real or classes, as its values suggest.
        val, test: parts of the sets, each from 0 and together below 1, drawn at random; classes are spread evenly.
        split_seed: of that draw, any whole number.

    >>> rows = [[float(k % 2)] * (2 + k % 3) for k in range(20)]
    >>> sets(rows, ["odd" if k % 2 else "even" for k in range(20)])
    Data(sets: train 13, val 3, test 4; x (4, 2); y y: even or odd)
    """
    place = Path(path).expanduser().absolute() if isinstance(path, (str, Path)) else None
    found = _found(path if place is None else place, target, set, drop, each)
    C, M = found.parts[0].shape[1], max(map(len, found.parts))
    _check(found, whole("coordinates", coordinates, 0), C, M)
    x = padded(found.parts, M)
    if found.each:
        y, what = tags(found, M, kind, "member", "set")
    else:
        outcome = read_outcome(found.target, cells_of(found.asked, found.target), found.comma)
        y, what = outcome.settle(np.arange(len(x)), kind, found.at)
    parts = split_indices(len(x), val=val, test=test, seed=split_seed, stratify=y if what.discrete else None)
    inputs = Sets.fit(x[parts[0]], found.channels, coordinates, set, found.comma)
    if found.each:
        per = float((y[parts[0]] != NOTHING).sum(1).double().mean())
        what = Target("tokens", what.name, what.classes, dim=what.dim, scale=(per,), overlap=True)
    else:
        what = with_figures(what, y[parts[0]])
    numbers = torch.tensor(found.numbers) if found.numbers else torch.arange(len(x))
    train, held, tested = (Split(x[rows], y[rows], rows=numbers[rows]) for rows in parts)
    recipe = None
    if place is not None:
        options = {"target": target, "set": set, "coordinates": coordinates, "drop": drop, "each": each}
        options |= {"kind": kind, "val": val, "test": test, "split_seed": split_seed}
        recipe = {"source": "sets", "options": plain({"path": str(place), **options})}
    return Data(
        train, held, tested, what, inputs, "sets" if place is None else stem(place), recipe, _account(found, what)
    )


def _found(path: Any, target: Any, set: str | None, drop: Sequence[str], each: bool | None) -> Found:
    """The sets, however they are held."""
    of_members = {"set": set, "drop": drop}
    if isinstance(path, Path):
        if not path.exists():
            raise DataError("a file or folder of sets must exist", got=f"no {path}", do="Check the name and the folder")
        if path.is_dir():
            refuse_of_steps(of_members, path.name, part="member")
            return _of_folder(path)
        if path.name.lower().endswith(".npz") and not isinstance(target, (list, tuple, np.ndarray, Tensor)):
            refuse_of_steps(of_members, path.name, part="member")
            return _of_npz(path, target, each)
    if isinstance(path, (list, tuple, np.ndarray, Tensor)) and not (len(path) and isinstance(path[0], Mapping)):
        if target is None or isinstance(target, str):
            raise DataError(
                "target must hold a value for each set of a list", got=given("target", target), do="Pass a list"
            )
        refuse_of_steps(of_members, "a list", part="member")
        return _of_lists(path, target, each)
    if set is None or not isinstance(target, str):
        raise UserError(
            "a table of sets needs set, the column that tells them apart, and target, the one to predict",
            got=f"{given('set', set)}, {given('target', target)}",
            do='Name both, such as set="basket", target="customer"',
        )
    table = rows_of(path, "path")[0]
    found = of_table(table, target, set, None, drop, each, ("set", "member"))
    complete(table, found.channels)
    return found


def _of_lists(x: Any, y: Any, each: bool | None, word: str = "set") -> Found:
    """Sets as they are held."""
    found = of_lists(x, y, each, [f"{word} {k}" for k in range(len(x))], gathered, ("set", "member"))
    found.source, found.word = "sets", word
    return found


def _of_npz(path: Path, target: str | None, each: bool | None) -> Found:
    arrays = arrays_of(path)
    x, lengths = members_in(path, arrays)
    y = arrays[named_in(path, arrays, target, _ASKED, "target")]
    parts, asked = cut_at(x, x, lengths), list(y)
    if lengths is not None and len(y) == len(x) and (y.ndim == 2 or len(x) != lengths.size):
        asked = cut_at(y, x, lengths)  # one of every member
    found = _of_lists(parts, asked, each)
    found.source = path.name
    return found


def members_in(path: Path, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray | None]:
    """The members of all sets of a .npz, and how many each set has where they differ."""
    return arrays[named_in(path, arrays, None, _MEMBERS, "x")], arrays.get("lengths")


def _of_folder(path: Path) -> Found:
    names, clouds, classes = clouds_in(path)
    found = _of_lists(clouds, classes, False, "cloud")
    found.source, found.target = path.name, "class"
    found.notes.append(f"clouds in {counted(len({*classes}), 'folder')}, the first {names[0]}")
    return found


def _check(found: Found, coordinates: int, C: int, M: int) -> None:
    if coordinates > C:
        raise ShapeError(
            f"members must have {counted(coordinates, 'coordinate')}",
            got=f"{counted(C, 'column')} of numbers" + (f": {', '.join(found.channels)}" if found.channels else ""),
            do=f"Pass coordinates={C} or fewer, or add the columns that are missing",
        )
    if len(found.parts) < 3:
        raise DataError(
            "there must be at least three sets, to train, validate and test on",
            got=f"{counted(len(found.parts), 'set')} in {found.source}",
            do="Add more sets; if there are more, check the column that tells them apart",
        )
    if M > MOST_LENGTH or len(found.parts) * M * (C + 1) * 4 > _MOST_BYTES:
        raise DataError(
            f"sets must have at most {MOST_LENGTH} members and, padded to the largest, fit in {_MOST_BYTES >> 30} GiB",
            got=f"{len(found.parts)} of up to {M} members",
            do="Draw some of the members of each set",
        )


def _account(found: Found, target: Target) -> Account:
    sizes = np.array([len(part) for part in found.parts])
    notes = [*found.notes, f"{sizes.min()} to {sizes.max()} members, {np.median(sizes):.0f} in the middle"]
    spare = 1 - sizes.sum() / (len(sizes) * sizes.max())
    notes += [f"{spare:.0%} of all rows is padding"] if spare > 0.5 else []
    lines = (f"{target}, the target", *(f"{name}: number" for name in found.channels), *found.left_out)
    lost = (Refusal("the set has no member", len(found.empty), tuple(found.empty[:_SHOWN])),) if found.empty else ()
    return Account(found.source, len(sizes), lost, lines, tuple(notes), one="set", numbered=f"{found.word}s")
