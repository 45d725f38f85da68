"""Pictures with what is known of each, out of class folders or out of a table that names files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from leadline.data.cells import Table, Text
from leadline.data.columns import named
from leadline.data.folder import Folder, Lost, class_of, shown
from leadline.data.layout import BESIDE, MASKS, MASKS_OF, SPLITS, split_of
from leadline.data.outcome import read_outcome
from leadline.data.raw import words_of
from leadline.data.table import DELIMITED, read_rows
from leadline.data.target import Target
from leadline.data.words import natural
from leadline.errors import DataError

_LABELS = ("label", "labels", "class", "classes", "category", "target", "y", "species", "breed", "diagnosis")
_SPLIT_COLUMNS = ("split", "set", "subset", "fold", "partition", "usage")


@dataclass(eq=False)
class Labelled:
    """Args:
    files: pictures, relative to the root.
    parts: the split that each is told to be in, "" where it is not told.
    y: of each picture: a code, a number, its mask's file, or its `Marked` boxes.
    target: what y is.
    lost: pictures that were left out, by reason.
    notes: what a reader should know.
    """

    files: list[str]
    parts: list[str]
    y: Any
    target: Target
    lost: Lost = field(default_factory=Lost)
    notes: list[str] = field(default_factory=list)

    def keep(self, rows: Sequence[int]) -> Labelled:
        """Those pictures alone."""
        y = self.y[np.asarray(rows, dtype=np.int64)] if isinstance(self.y, np.ndarray) else [self.y[k] for k in rows]
        files, parts = [self.files[k] for k in rows], [self.parts[k] for k in rows]
        return Labelled(files, parts, y, self.target, self.lost, self.notes)


def of_folders(folder: Folder, sure: bool = False) -> Labelled:
    """The class of a picture is the folder in which it lies.

    Args:
        sure: whatever the folders are called.
    """
    found = class_of(folder)
    names = sorted({name for name, _ in found.values()}, key=natural)
    if not sure and (masks := _called_as_masks(names)):
        raise DataError(
            "a mask must have the name of its picture",
            got=f"folders {shown(names)}, and no file of {masks} that is called as a picture",
            do="Give masks the names of their pictures; or pass task='classes', if the folders are classes",
        )
    if len(names) < 2:
        marks = folder.ending(".json", ".xml", ".txt")
        beside = f"; {shown(marks)} beside it with no boxes that can be read" if marks else ""
        words = "; or, to learn from the texts, pass task='next'" if folder.ending(".txt") else ""
        raise DataError(
            "pictures must show at least two classes, one folder each",
            got=(f"one folder, {shown(names)}" if names else f"{len(folder.pictures)} pictures and no folders")
            + beside,
            do="Put the pictures of each class in a folder, or name a table of labels: labels='labels.csv'" + words,
        )
    code = {name: k for k, name in enumerate(names)}
    files = list(found)
    y = np.array([code[found[file][0]] for file in files], dtype=np.int64)
    parts = [found[file][1] for file in files]
    target = Target("binary" if len(names) == 2 else "classes", "class", classes=tuple(names))
    made = Labelled(files, parts, y, target)
    for name in folder.pictures:
        if name not in found:
            made.lost.add("lies in no class's folder", name)
    unseen = [name for name in names if any(parts) and not any(found[f] == (name, "train") for f in files)]
    if unseen:
        raise DataError(
            "every class must have a folder in train", got=f"none for {shown(unseen)}", do="Move some pictures there"
        )
    if folder.ending(*DELIMITED):
        made.notes.append(f"{shown(folder.ending(*DELIMITED))} is not read: folders name the classes")
    return made


def of_table(folder: Folder, file: Path, target: str | None = None) -> Labelled:
    """What a picture shows is in a table's row that names it."""
    table = read_rows(file)
    column, paths = _file_column(folder, table)
    label = _label_column(table, column, target)
    outcome = read_outcome(label, table.columns[label])
    lost = Lost()
    rows: dict[str, int] = {}
    for row, path in enumerate(paths):
        if path is None:
            lost.add(f"{column} names no picture of the folder", f"{table.at(row)}")
        elif outcome.missing[row] or outcome.misfit[row]:
            lost.add(f"{label} is missing or no number", path)
        elif path in rows:
            lost.add(f"{column} names it twice", path)
        else:
            rows[path] = row
    if not rows:
        raise DataError(
            f"{file.name} must have a label for some picture", got=shown([*lost.names]), do="Check its columns"
        )
    y, settled = outcome.settle(np.array(list(rows.values())), None, table.at)
    notes = [f"what pictures show is column {label} of {file.name}, files are in column {column}"]
    unnamed = len(folder.pictures) - len(rows)
    if unnamed > 0:
        notes.append(f"{unnamed} pictures are in no row of {file.name}, and are not read")
    return Labelled(list(rows), _parts(table, list(rows.values()), list(rows)), y.numpy(), settled, lost, notes)


def _called_as_masks(names: list[str]) -> str:
    """A folder that is called as one of masks, beside one that is called as one of pictures; "" for none."""
    words = {name.lower(): name for name in names}
    if any(word in BESIDE for word in words):
        return next((name for word, name in words.items() if word in MASKS), "")
    near = (word + more for word in words if word in SPLITS for more in MASKS_OF)
    return next((words[word] for word in near if word in words), "")


def _file_column(folder: Folder, table: Table) -> tuple[str, list[str | None]]:
    """The column in which most cells name a picture, and the pictures."""
    best: tuple[int, str, list[str | None]] = (0, "", [])
    for name, cells in table.columns.items():
        words, codes = words_of(cells)
        some = [word for word in words[:200] if word is not None]
        if not some or not any(folder.find(word) for word in some):
            continue
        of_word = [None if word is None else folder.find(word) for word in words]
        found = [of_word[code] for code in codes]
        count = len(set(found) - {None})
        if count > best[0]:
            best = (count, name, found)
    if not best[0]:
        first = folder.pictures[0]
        bare = PurePosixPath(first).name  # which two pictures may share
        raise DataError(
            f"{table.source} must have a column with the pictures' file names",
            got=f"{shown(list(table.columns))}, and none that names one of {shown(list(folder.pictures[:2]))}",
            do=f"Add a column with names such as {bare if folder.find(bare) else first}",
        )
    return best[1], best[2]


def _label_column(table: Table, files: str, target: str | None) -> str:
    if target is not None:
        if target not in table.columns:
            raise DataError(
                f"target must be a column of {table.source}",
                got=target,
                do=named(target, list(table.columns)).rstrip("."),
            )
        return target
    others = [name for name in table.columns if name != files and name.lower() not in _SPLIT_COLUMNS]
    if len(others) == 1:
        return others[0]
    usual = [name for name in others if name.lower() in _LABELS]
    if len(usual) == 1:
        return usual[0]
    raise DataError(
        f"{table.source} must have one column to predict",
        got=f"{len(others)}: {shown(others)}" if others else f"no column but {files}",
        do=f"Name it: target={others[0]!r}" if others else "Add a column of labels",
    )


def _parts(table: Table, rows: list[int], files: list[str]) -> list[str]:
    """Splits that a column or, for want of one, the folders name."""
    for name, cells in table.columns.items():
        if name.lower() in _SPLIT_COLUMNS and isinstance(cells, Text):
            words, codes = words_of(cells)
            splits = [SPLITS.get((word or "").lower(), "") for word in words]
            if "train" in splits:
                return [splits[codes[row]] for row in rows]
    parts = [split_of(file) for file in files]
    return parts if "train" in parts and {"val", "test"} & set(parts) else [""] * len(files)
