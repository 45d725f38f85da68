"""Clouds of points in text files, as scanners and modelling programs write them.

.off             OFF, counts of corners, faces and edges, then a corner a line; faces are left aside
.ply             a header that names the columns of a vertex, then a vertex a line; text alone, not binary
.xyz .pts .txt   a point a line: x y z, and features after them; a line that begins with # is left aside
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from leadline.data.account import counted
from leadline.data.words import natural
from leadline.errors import DataError

ENDINGS = (".off", ".ply", ".xyz", ".pts", ".txt")
_MOST_POINTS = 2**16


def points_of(path: Path) -> np.ndarray:
    """The points of one file, (m, columns).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "two.off")
    ...     _ = file.write_text("OFF\\n2 0 0\\n0 0 0\\n1 2 3\\n")
    ...     points_of(file).tolist()
    [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]
    """
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            "a cloud of points must be a file of text", got=f"{path.name} ({error})", do="Write it as text"
        ) from None
    words = [(number, line.replace(",", " ").split()) for number, line in enumerate(lines, 1)]
    words = [(number, line) for number, line in words if line and not line[0].startswith("#")]
    ending = path.suffix.lower()
    rows = _off(path, words) if ending == ".off" else _ply(path, words) if ending == ".ply" else words
    return _numbers(path, rows)


def clouds_in(folder: Path) -> tuple[list[str], list[np.ndarray], list[str]]:
    """Of every cloud below a folder its name, its points and the folder that it lies in, which is its class."""
    files = sorted(
        (file for file in folder.rglob("*") if file.suffix.lower() in ENDINGS), key=lambda file: natural(str(file))
    )
    classes = [file.parent.name for file in files]
    if not files or len({*classes}) < 2:
        raise DataError(
            "a folder of clouds must hold a folder for each of at least two classes, with files that end in "
            f"{', '.join(ENDINGS)}",
            got=f"{counted(len(files), 'file')} in {counted(len({*classes}), 'folder')} below {folder}",
            do="Put the clouds of each class into a folder of its name",
        )
    return [str(file.relative_to(folder)) for file in files], [points_of(file) for file in files], classes


def _off(path: Path, words: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    if not words or not words[0][1][0].upper().startswith("OFF"):
        raise DataError(f"{path.name} must begin with OFF", got="another first line", do="Check that it is an OFF file")
    head = words[0][1][0][3:]  # some write the counts right after the word
    counts = ([head, *words[0][1][1:]] if head else words[0][1][1:]) or words[1][1]
    first = 2 if not (head or words[0][1][1:]) else 1
    return _first(path, words[first:], counts[0])


def _ply(path: Path, words: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    head = [line for _, line in words]
    ends = next((k for k, line in enumerate(head) if line[0] == "end_header"), None)
    if not head or head[0][0] != "ply" or ends is None or ["format", "ascii"] not in [line[:2] for line in head[:ends]]:
        raise DataError(
            f"{path.name} must be a PLY file of text, with a header", got="another", do="Write it as format ascii 1.0"
        )
    elements = [line for line in head[:ends] if line[0] == "element"]
    if not elements or elements[0][1] != "vertex":
        raise DataError(f"{path.name} must have its vertices first", got="other elements", do="Write vertices first")
    return _first(path, words[ends + 1 :], elements[0][2])


def _first(path: Path, rows: list[tuple[int, list[str]]], count: str) -> list[tuple[int, list[str]]]:
    if not count.isdigit() or int(count) > len(rows):
        raise DataError(
            f"{path.name} must hold as many points as it says",
            got=f"{count} said and {counted(len(rows), 'line')}",
            do="Check that it was written whole",
        )
    return rows[: int(count)]


def _numbers(path: Path, rows: list[tuple[int, list[str]]]) -> np.ndarray:
    if not rows:
        do = "Check that it was written, or take it out"
        raise DataError(f"{path.parent.name}/{path.name} must hold points", got="none", do=do)
    if len(rows) > _MOST_POINTS:
        got, do = str(len(rows)), "Draw some of them"
        raise DataError(f"{path.parent.name}/{path.name} must hold at most {_MOST_POINTS} points", got=got, do=do)
    width = len(rows[0][1])
    for number, row in rows:
        try:
            [float(word) for word in row]
        except ValueError as error:
            raise DataError(
                f"{path.parent.name}/{path.name} must hold numbers",
                got=f"line {number} ({error})",
                do="Correct the line",
            ) from None
        if len(row) != width or width < 2:
            raise DataError(
                f"every point of {path.parent.name}/{path.name} must have the same coordinates, at least 2",
                got=f"{len(row)} in line {number}, {width} in line {rows[0][0]}",
                do="Correct the line",
            )
    return np.array([row for _, row in rows], dtype=np.float32)
