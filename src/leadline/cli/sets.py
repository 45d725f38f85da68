"""What the shell says of a run on sets: a row for each set, or for each member where every member is asked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import numpy as np
from torch import Tensor

from leadline.cli.rows import read
from leadline.data.account import counted
from leadline.data.cells import Table, Text
from leadline.data.npz import arrays_of
from leadline.data.point_files import ENDINGS, points_of
from leadline.data.sequence_sources import cut_at
from leadline.data.set_inputs import Sets
from leadline.data.sets import members_in
from leadline.errors import DataError
from leadline.run import Run


def set_columns(trained: Run, path: Path, level: float | None) -> tuple[Table, dict[str, list[str]]]:
    """The names of the sets in a file, of each member's where every member is asked, and what is said of them."""
    from leadline.cli.predict import class_columns, number_columns

    inputs = cast(Sets, trained.inputs)
    word, names, x, order = _sets(inputs, path)
    larger = int((x[..., -1].sum(1) > inputs.size).sum())
    if larger:
        told = (
            f"{counted(larger, 'set')} with more than the {counted(inputs.size, 'member')} of the largest in training"
        )
        print(f"note: {told}", file=sys.stderr)
    prediction, target = trained.predict(x), trained.target
    if target.kind == "tokens":
        there = x[..., -1] > 0
        codes, chances = prediction.mode[there], prediction.probabilities[there]  # type: ignore[attr-defined]
        back = np.argsort(order)  # as the rows of the file stand
        said = {"predicted": [target.classes[int(codes[k])] for k in back]}
        said |= {f"p({name})": [f"{chances[k, c]:.6g}" for k in back] for c, name in enumerate(target.classes)}
        every = [name for name, count in zip(names, there.sum(1).tolist()) for _ in range(count)]
        return Table({word: Text([every[k] for k in back])}, np.arange(len(every))), said
    columns = class_columns(prediction, target, level) if target.discrete else number_columns(prediction, level)
    return Table({word: Text(list(names))}, np.arange(len(names))), columns


def measured_on_a_split(path: str) -> DataError:
    return DataError("a run on sets is evaluated on its own splits", got=f"--data {path}", do="Leave --data out")


def _sets(inputs: Sets, path: Path) -> tuple[str, list[str], Tensor, np.ndarray]:
    """What sets are told apart by, the name of each, their raw rows, and the row of the file of each member in turn."""
    if not path.exists():
        raise DataError("a file of sets must exist", got=f"no {path}", do="Check the name and the folder")
    if path.is_dir() or path.suffix.lower() in ENDINGS:
        files = sorted(file for file in (path.rglob("*") if path.is_dir() else [path]))
        files = [file for file in files if file.suffix.lower() in ENDINGS]
        clouds = [points_of(file) for file in files]
        names = [str(file.relative_to(path)) if path.is_dir() else file.name for file in files]
        return "cloud", names, inputs.of_lists(clouds, names), np.arange(sum(map(len, clouds)))
    if path.suffix.lower() == ".npz":
        x, lengths = members_in(path, arrays_of(path))
        parts = cut_at(x, x, lengths)
        numbers = [str(k) for k in range(len(parts))]
        return "set", numbers, inputs.of_lists(parts, [f"set {k}" for k in numbers]), np.arange(sum(map(len, parts)))
    rows, parts_of = inputs.of_table(read(path))
    return inputs.set or "set", [n for n, _ in parts_of], rows, np.concatenate([own for _, own in parts_of])
