"""Boxes out of COCO's .json, YOLO's .txt and Pascal VOC's .xml, checked one by one.

    COCO    (left, top, width, height) in pixels
    YOLO    (x, y, width, height) of centre and size, in parts of the picture
    VOC     (xmin, ymin, xmax, ymax) in pixels that count from 1, both ends within the box: left = xmin - 1
    ours    (code, x, y, width, height) of centre and size, in parts of the picture as it is placed              (1)

Where several COCO files have boxes of one picture, equal ones are taken once; where one of the files is called
instances, it decides.

A box must have its corners in order, an area and a known class. It may stick out of its picture by one pixel or one
part in a hundred, and is clipped then; one that sticks out further is left out and counted, with the picture's name.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

import numpy as np

from leadline.data.account import counted
from leadline.data.decode import Header, Placement, default_workers, mapped
from leadline.data.folder import Folder, Lost, coco_files, shown, voc_files, yolo_files
from leadline.data.layout import SPLITS, split_of
from leadline.data.words import natural
from leadline.data.yaml_names import yaml_names
from leadline.errors import DataError

NAMES = ("classes.txt", "obj.names", "names.txt", "labels.txt", "_darknet.labels")
_LARGEST_XML = 2**24
_MOST_CODES = 10_000
_MOST_DIGITS = 9  # of a whole number that can be meant
_SAME = 0.5  # of a pixel: ends of boxes that differ by less are the same
_ENCODINGS = r"utf-8|ascii|iso8859-\d+|cp125\d|koi8-[ru]|gb.*|big5|shift_jis|euc_.*"
_KEYS = ("image_id", "category_id")
_THINNEST = 0.01  # of a pixel: less is no area
_LEAST_LEFT = 0.25  # of a box's area that a crop must keep


@dataclass(frozen=True, eq=False)
class Marked:
    """The boxes of one picture as they are annotated.

    Args:
        rows: (m, 5) of code, left, top, right, bottom.
        relative: they are parts of the picture, not pixels.
        size: columns and rows that the annotation claims, where it does.
        split: that it names.
    """

    rows: np.ndarray
    relative: bool = False
    size: tuple[int, int] | None = None
    split: str = ""


@dataclass(eq=False)
class Annotations:
    """Args:
    names: of the classes, in the order of their codes.
    marked: boxes of each picture that is annotated.
    lost: boxes that were left out, by reason; their names are the pictures'.
    absent: pictures that are annotated and not there.
    notes: what a reader should know.
    """

    names: tuple[str, ...]
    marked: dict[str, Marked]
    lost: Lost = field(default_factory=Lost)
    absent: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_boxes(folder: Folder, files: str | None = None, classes: tuple[str, ...] = ()) -> Annotations:
    """The boxes that a folder holds.

    Args:
        files: a .json, or a folder of .xml or .txt, relative to the root; None finds them.
        classes: names for codes that have none.
    """
    inside = (lambda name: True) if files is None else (lambda name: name == files or name.startswith(f"{files}/"))
    if jsons := [name for name in coco_files(folder) if inside(name)]:
        return read_coco(folder, jsons)
    if files is not None and files.lower().endswith(".json"):
        return read_coco(folder, [files])
    if xmls := [name for name in voc_files(folder) if inside(name)]:
        return read_voc(folder, xmls)
    texts = yolo_files(folder)
    if files is not None:
        own = {PurePosixPath(name).stem: name for name in folder.ending(".txt") if inside(name)}
        texts = {name: own[stem] for name in folder.pictures if (stem := PurePosixPath(name).stem) in own}
    if texts:
        return read_yolo(folder, texts, classes)
    raise DataError(
        "boxes must be annotated as COCO (.json), YOLO (.txt) or Pascal VOC (.xml)",
        got=f"none of these in {files or folder.root}",
        do="Name the file or folder: boxes='annotations.json'",
    )


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
        elif (box := _four(mark.get("bbox"))) is None:
            found.lost.add("it has no four numbers", name)
        else:
            left, top, width, height = box
            rows[key].append([category[kind], left, top, left + width, top + height])
    return [
        (place, Marked(_rows(rows[key]), size=size[key], split=split or split_of(place))) for key, place in path.items()
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


def _four(box: Any) -> list[float] | None:
    if not isinstance(box, list) or len(box) != 4:
        return None
    try:
        numbers = [float(value) for value in box]
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _rows(rows: list[list[float]]) -> np.ndarray:
    return np.array(rows, dtype=np.float64).reshape(-1, 5)


def read_voc(folder: Folder, files: list[str]) -> Annotations:
    """Boxes of Pascal VOC files, one a picture."""
    found = Annotations((), {})
    read = []
    for name, content in zip(files, mapped(lambda name: _voc(folder.root / name), files, default_workers())):
        if isinstance(content, str):
            found.notes.append(f"{name} is not read: {content}")
            continue
        named = content.findtext("filename") or ""
        place = folder.find(PurePosixPath(name).stem, *_beside(name)) or folder.find(named, *_beside(name))
        if place is None:
            found.absent.append(named or name)
        else:
            read.append((name, place, content))
    kinds = {word.strip() for *_, root in read for word in (o.findtext("name") for o in root.iter("object")) if word}
    names = tuple(sorted(kinds, key=natural))
    code = {name: k for k, name in enumerate(names)}
    for name, place, root in read:
        rows = []
        for thing in root.iter("object"):
            kind, box = (thing.findtext("name") or "").strip(), thing.find("bndbox")
            ends = _four([box.findtext(key) for key in ("xmin", "ymin", "xmax", "ymax")]) if box is not None else None
            if ends is None:
                found.lost.add("it has no four numbers", place)
            elif kind not in code:
                found.lost.add("its class is not named", place)
            else:
                rows.append([code[kind], ends[0] - 1, ends[1] - 1, ends[2], ends[3]])
        width, height = (_whole(root.findtext(f"size/{key}") or "") for key in ("width", "height"))
        size = (width, height) if width and height else None
        found.marked[place] = Marked(_rows(rows), size=size, split=split_of(place) or split_of(name))
    found.names = names
    return found


def _beside(name: str) -> list[str]:
    """Folders in which the picture of an annotation may lie."""
    parts = name.split("/")[:-1]
    if not parts:
        return [""]
    places = ["/".join(parts)]
    for i in range(len(parts)):
        for word in ("images", "JPEGImages", "Images", "imgs"):
            places.append("/".join([*parts[:i], word, *parts[i + 1 :]]))
    return places


def _whole(word: str) -> int:
    """A whole number; 0 where it is none, and one that no picture or class has where it is too long to be meant.

    >>> _whole("12"), _whole("a"), _whole("9" * 5000)
    (12, 0, 1000000000)
    """
    if not word.isdecimal():
        return 0
    return int(word) if len(word) <= _MOST_DIGITS else 10**_MOST_DIGITS


def _voc(path: Path) -> ElementTree.Element | str:
    """The root of a file, or why it is not read. A file that defines entities could grow without end, and is not."""
    try:
        if path.stat().st_size > _LARGEST_XML:
            return "it is larger than 16 MiB"
        text = _text(path.read_bytes())
    except OSError as error:
        return error.strerror or str(error)
    except (LookupError, ValueError) as error:
        return f"it is no XML ({error})"
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        return "it defines entities"
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        return f"it is no XML ({error})" if text.strip() else "it is empty"
    return root if root.tag == "annotation" else f"its root is {root.tag}, not annotation"


def _text(content: bytes) -> str:
    """The characters of an XML file, as its first bytes say; what was looked at is then what is parsed.

    >>> _text("<a/>".encode("utf-16")), _text(b'<?xml version="1.0" encoding="latin-1"?>\\xe9')[-1]
    ('<a/>', 'é')
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16")
    named = re.match(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.-]+)["']""", content)
    name = "utf-8" if named is None else codecs.lookup(named[1].decode("ascii")).name
    if not re.fullmatch(_ENCODINGS, name):
        raise ValueError(f"its encoding is {name}")
    return content.decode("utf-8-sig" if name == "utf-8" else name)


def read_yolo(folder: Folder, texts: dict[str, str], classes: tuple[str, ...] = ()) -> Annotations:
    """Boxes of YOLO files, one a picture; a picture without a file shows none of the classes."""
    found = Annotations((), {})
    names = classes or _yolo_names(folder)
    pictures = list(folder.pictures)
    contents = mapped(lambda name: _lines(folder.root / texts[name]) if name in texts else [], pictures)
    for name, lines in zip(pictures, contents):
        rows = []
        for line in lines:
            words = line.split()
            numbers = _four(words[1:5])
            code = _whole(words[0])
            if len(words) != 5 or numbers is None or not words[0].isdecimal() or code >= _MOST_CODES:
                found.lost.add("its line is not a code and four numbers", name)
            elif names and code >= len(names):
                found.lost.add(f"its code is not below {len(names)}, the number of classes", name)
            else:
                x, y, width, height = numbers
                rows.append([code, x - width / 2, y - height / 2, x + width / 2, y + height / 2])
        found.marked[name] = Marked(_rows(rows), relative=True, split=split_of(name))
    empty = [name for name in pictures if name not in texts]
    if empty:
        found.notes.append(f"{counted(len(empty), 'picture')} without a .txt, taken to show none of the classes")
    most = max((int(m.rows[:, 0].max()) for m in found.marked.values() if len(m.rows)), default=-1)
    found.names = names or tuple(str(k) for k in range(most + 1))
    return found


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()]


def _yolo_names(folder: Folder) -> tuple[str, ...]:
    """Names of classes: of a file with one a line, or the list `names` of a data.yaml."""
    for name in folder.others:
        if PurePosixPath(name).name.lower() in NAMES or name.lower().endswith(".names"):
            return tuple(line.strip() for line in _lines(folder.root / name))
    for name in folder.ending(".yaml", ".yml"):
        if names := yaml_names("\n".join(_lines(folder.root / name))):
            return names
    return ()


def checked(marked: Marked, wide: tuple[int, int], name: str, lost: Lost) -> tuple[np.ndarray, int]:
    """Boxes in pixels that are fit to be learned from, and how many of them were clipped.

    Args:
        wide: columns and rows of the picture.
        name: of the picture.
        lost: takes those that are left out.

    >>> checked(Marked(np.array([[0, -0.5, 0, 10, 10], [0, 5, 5, 5, 9]])), (20, 20), "a.png", Lost())
    (array([[ 0.,  0.,  0., 10., 10.]]), 1)
    """
    rows = marked.rows.copy()
    sides = np.array([*wide, *wide], dtype=np.float64)
    if marked.relative:
        rows[:, 1:] *= sides
    ends = rows[:, 1:]
    ordered = (ends[:, 2:] - ends[:, :2] > _THINNEST).all(1)
    slack = np.maximum(1.0, 0.01 * sides)
    outside = ((ends < -slack) | (ends > sides + slack)).any(1)
    clipped = np.clip(ends, 0, sides)
    empty = (clipped[:, 2:] - clipped[:, :2] <= _THINNEST).any(1)
    for reason, wrong in (
        ("its corners are not in order, or it has no area", ~ordered),
        ("it lies outside its picture", ordered & (outside | empty)),
    ):
        for _ in range(int(wrong.sum())):
            lost.add(reason, name)
    good = ordered & ~outside & ~empty
    moved = good & (np.abs(clipped - ends) > 1e-3).any(1)
    return np.concatenate([rows[:, :1], clipped], 1)[good], int(moved.sum())


def placed(rows: np.ndarray, header: Header, fit: str, size: tuple[int, int]) -> tuple[np.ndarray, int]:
    """Boxes of eq. 1 out of pixels of the file, and how many a crop cut off.

    Args:
        rows: (m, 5) of code, left, top, right, bottom.
        header: of the file.
        fit, size: how the picture is brought to which size.

    >>> placed(np.array([[3, 0, 0, 10, 10.0]]), Header(20, 40, "RGB"), "stretch", (8, 8))[0].tolist()
    [[3.0, 0.25, 0.125, 0.5, 0.25]]
    """
    at = Placement.of(fit, (header.width, header.height), size)
    sides = np.array([size[1], size[0]], dtype=np.float64)
    low, high = at.points(rows[:, 1:3]) / sides, at.points(rows[:, 3:5]) / sides
    kept_low, kept_high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    share = (kept_high - kept_low).prod(1) / (high - low).prod(1)
    kept = share >= _LEAST_LEFT
    centre, width = (kept_low + kept_high) / 2, kept_high - kept_low
    found = np.concatenate([rows[:, :1], centre, width], 1)[kept]
    return found.astype(np.float32), int((~kept).sum())


def stacked(boxes: list[np.ndarray]) -> np.ndarray:
    """Boxes of all pictures in one array (n, most boxes, 5), with code -1 where there is none.

    >>> stacked([np.zeros((0, 5)), np.ones((1, 5))])[:, 0, 0].tolist()
    [-1.0, 1.0]
    """
    most = max(1, *(len(rows) for rows in boxes)) if boxes else 1
    found = np.zeros((len(boxes), most, 5), np.float32)
    found[..., 0] = -1
    for k, rows in enumerate(boxes):
        found[k, : len(rows)] = rows
    return found
