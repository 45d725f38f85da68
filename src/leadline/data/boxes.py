"""Boxes of pictures, read by format and checked one by one.

    ours    (code, x, y, width, height) of centre and size, in parts of the picture as it is placed              (1)

A box must have its corners in order, an area and a known class. It may stick out of its picture by one pixel or one
part in a hundred, and is clipped then; one that sticks out further is left out and counted, with the picture's name.
"""

from __future__ import annotations

from pathlib import PurePosixPath

import numpy as np

from leadline.data.annotations import Annotations, Marked
from leadline.data.coco import read_coco
from leadline.data.decode import Header, Placement
from leadline.data.folder import Folder, Lost, coco_files, voc_files, yolo_files
from leadline.data.voc import read_voc
from leadline.data.yolo import read_yolo
from leadline.errors import DataError

_THINNEST = 0.01  # of a pixel: less is no area
_LEAST_LEFT = 0.25  # of a box's area that a crop must keep


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
