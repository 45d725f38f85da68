"""Boxes out of YOLO's .txt, one a picture: (code, x, y, width, height), centre and size in parts of the picture."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from leadline.data.account import counted
from leadline.data.annotations import Annotations, Marked, as_rows, four, whole_word
from leadline.data.decode import mapped
from leadline.data.folder import Folder
from leadline.data.layout import split_of
from leadline.data.yaml_names import yaml_names

NAMES = ("classes.txt", "obj.names", "names.txt", "labels.txt", "_darknet.labels")
_MOST_CODES = 10_000


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
            numbers = four(words[1:5])
            code = whole_word(words[0])
            if len(words) != 5 or numbers is None or not words[0].isdecimal() or code >= _MOST_CODES:
                found.lost.add("its line is not a code and four numbers", name)
            elif names and code >= len(names):
                found.lost.add(f"its code is not below {len(names)}, the number of classes", name)
            else:
                x, y, width, height = numbers
                rows.append([code, x - width / 2, y - height / 2, x + width / 2, y + height / 2])
        found.marked[name] = Marked(as_rows(rows), relative=True, split=split_of(name))
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
