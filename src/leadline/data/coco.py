"""Boxes out of COCO's .json: (left, top, width, height) in pixels.

Where several files have boxes of one picture, equal ones are taken once; where one of the files is called instances, it
decides.
"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from leadline.data.account import counted
from leadline.data.annotations import Annotations, Marked, as_rows, four
from leadline.data.folder import Folder, shown
from leadline.data.layout import SPLITS, split_of
from leadline.data.words import natural
from leadline.errors import DataError

_SAME = 0.5  # of a pixel: ends of boxes that differ by less are the same
_KEYS = ("image_id", "category_id")


def read_coco(folder: Folder, files: list[str]) -> Annotations:
    """Boxes of COCO files; a file or its folder may name the split of its pictures."""
    contents, empty = _contents(folder, files)
    kinds: dict[str, None] = {}
    for content in contents.values():
        for kind in sorted(_entries(content, "categories"), key=lambda kind: natural(str(kind["id"]))):
            kinds[str(kind.get("name", kind["id"]))] = None
    found = Annotations(tuple(kinds), {}, notes=empty)
    code = {name: k for k, name in enumerate(kinds)}
    instances = [name for name in contents if PurePosixPath(name).name.lower().startswith("instances")]
    for name in instances:
        _merge(found, name, _read_coco_file(folder, name, contents[name], code, found), frozenset())
    decided = frozenset(found.marked)
    for name in contents:
        if name not in instances:
            _merge(found, name, _read_coco_file(folder, name, contents[name], code, found), decided)
    return found


def _merge(found: Annotations, file: str, marks: list[tuple[str, Marked]], decided: frozenset[str]) -> None:
    """Enters boxes of a file beside those of others.

    Args:
        decided: pictures of which all boxes are there already.
    """
    torn = []
    for place, marked in marks:
        first = found.marked.get(place)
        if first is None:
            found.marked[place] = marked
            continue
        new = [row for row in marked.rows if not _among(row, first.rows)]
        for _ in range(len(marked.rows) - len(new)):
            found.lost.add("it is annotated twice, and was taken once", place)
        for _ in new if place in decided else ():
            found.lost.add(f"it is in {PurePosixPath(file).name} and not among the instances", place)
        found.marked[place] = _joined(first, marked, [] if place in decided else new)
        if {first.split, marked.split} > {found.marked[place].split}:
            torn.append(place)
    if torn:
        found.notes.append(f"{counted(len(torn), 'picture')} annotated in two splits, held out: {shown(torn)}")


def _contents(folder: Folder, files: list[str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What is in the files, and a line on each that holds no boxes; an error where none does."""
    contents, empty = {}, {}
    for name in files:
        try:
            contents[name] = _coco(folder.root / name)
        except _NoBoxes as error:
            empty[name] = error
    if not contents:
        raise next(iter(empty.values()))
    return contents, [f"{name} is passed over: {error.got}" for name, error in empty.items()]


class _NoBoxes(DataError):
    """A file that is sound, and holds no boxes."""


def _among(row: np.ndarray, rows: np.ndarray) -> bool:
    """Whether a box of the same class lies in the same place."""
    return bool(((rows[:, 0] == row[0]) & (np.abs(rows[:, 1:] - row[1:]) < _SAME).all(1)).any())


def _joined(first: Marked, other: Marked, more: list[np.ndarray]) -> Marked:
    """The boxes of both; what is held out of training in one of them is held out."""
    split = next((word for word in (first.split, other.split) if word not in ("", "train")), first.split or other.split)
    return Marked(
        np.concatenate([first.rows, *(row[None] for row in more)]), size=first.size or other.size, split=split
    )


def _read_coco_file(
    folder: Folder, file: str, content: dict, code: dict[str, int], found: Annotations
) -> list[tuple[str, Marked]]:
    """Pictures with their boxes; one that is listed twice comes twice."""
    category = {kind["id"]: code[str(kind.get("name", kind["id"]))] for kind in _entries(content, "categories")}
    split = split_of(file) or next(
        (SPLITS[word] for word in re.split(r"[^a-z0-9]+", PurePosixPath(file).stem.lower()) if word in SPLITS), ""
    )
    here = str(PurePosixPath(file).parent)
    near = [here, *(f"{here}/{word}".removeprefix("./") for word in ("images", split) if word), split or "images"]
    near += [f"images/{split}", f"{split}/images", "images"] if split else []
    path: dict[Any, str] = {}
    size: dict[Any, tuple[int, int] | None] = {}
    pictures = _entries(content, "images")
    for image in pictures:
        place = folder.find(str(image.get("file_name")), *near, split=split)
        if place is None:
            found.absent.append(str(image.get("file_name")))
            continue
        path[image["id"]] = place
        wide = (image.get("width"), image.get("height"))
        size[image["id"]] = wide if all(isinstance(side, int) and side > 0 for side in wide) else None  # type: ignore[assignment]
    rows: dict[Any, list[list[float]]] = {key: [] for key in path}
    ids = {image["id"] for image in pictures}
    for mark in content["annotations"]:
        mark = mark if isinstance(mark, dict) else {}
        key, kind = (value if isinstance(value := mark.get(word), (int, str)) else None for word in _KEYS)
        name = path.get(key, str(key))
        if key not in path:
            if key not in ids:
                found.lost.add("its image_id names no picture", PurePosixPath(file).name)
        elif mark.get("iscrowd"):
            found.lost.add("it is a crowd", name)
        elif kind not in category:
            found.lost.add("its category is not known", name)
        elif (box := four(mark.get("bbox"))) is None:
            found.lost.add("it has no four numbers", name)
        else:
            left, top, width, height = box
            rows[key].append([category[kind], left, top, left + width, top + height])
    return [
        (place, Marked(as_rows(rows[key]), size=size[key], split=split or split_of(place)))
        for key, place in path.items()
    ]


def _entries(content: dict, name: str) -> list[dict]:
    """The entries of a list that have an id."""
    return [entry for entry in content[name] if isinstance(entry, dict) and isinstance(entry.get("id"), (int, str))]


def _coco(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes() or b"null")
    except (ValueError, OSError, RecursionError) as error:
        raise DataError(f"{path.name} must be JSON", got=f"text that is not ({error})", do="Export it again") from None
    if content is None:
        raise DataError(f"{path.name} must hold annotations", got="an empty file", do="Export it again")
    for key in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise _NoBoxes(
                f"{path.name} must hold the lists images, annotations and categories",
                got=f"no list {key}",
                do="Export it as COCO",
            )
        if not content[key]:
            raise _NoBoxes(
                f"{path.name} must hold annotations", got=f"an empty list {key}", do="Annotate some pictures"
            )
    return content
