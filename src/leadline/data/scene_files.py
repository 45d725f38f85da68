"""Scenes as a folder of files, in every format that `images` reads: for trying a reader, and for a first look at one.

folder/images/*.png  masks/*.png  annotations.json (COCO)  labels/*.txt and classes.txt (YOLO)  xml/*.xml (Pascal VOC)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from leadline.data.scenes import class_names, generate
from leadline.names import lookup

FORMATS = ("masks", "coco", "yolo", "voc", "folders")


def write_scenes(folder: str | Path, formats: tuple[str, ...] = ("masks",), **options: Any) -> None:
    """Scenes in files. A format for boxes beside masks is one too many for `images` to choose, unless it is told.

    Args:
        folder: where to; it is made.
        formats: what to write beside the pictures: "masks", "coco", "yolo", "voc"; or "folders" alone, a folder for
            each class of the first shape.
        options: as `generate` of scenes has them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_scenes(folder, ("masks", "coco"), num=2, size=16)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['annotations.json', 'images', 'masks']
    """
    import PIL.Image

    formats = tuple(lookup(word, {known: known for known in FORMATS}, "format") for word in formats)
    made = generate(**options)
    names = class_names(options.get("num_classes", 10))
    folder = Path(folder)
    places = [folder / "images"] * len(made.x)
    if "folders" in formats:
        places = [folder / names[code] for code in made.label]
    for k, (place, x) in enumerate(zip(places, made.x)):
        place.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(x.transpose(1, 2, 0)).save(place / f"{k:05d}.png")
    if "masks" in formats:
        (folder / "masks").mkdir(exist_ok=True)
        for k, mask in enumerate(made.mask):
            PIL.Image.fromarray(mask).save(folder / "masks" / f"{k:05d}.png")
    writers = {"coco": _coco, "yolo": _yolo, "voc": _voc}
    for word in formats:
        if word in writers:
            writers[word](folder, [rows[rows[:, 0] >= 0] for rows in made.boxes], made.x.shape[2], names)


def _pixels(rows: np.ndarray, size: int) -> list[list[float]]:
    """Code, left, top, width and height, in pixels."""
    return [[int(c), (x - w / 2) * size, (y - h / 2) * size, w * size, h * size] for c, x, y, w, h in rows.tolist()]


def _coco(folder: Path, boxes: list[np.ndarray], size: int, names: tuple[str, ...]) -> None:
    pictures = [{"id": k, "file_name": f"{k:05d}.png", "width": size, "height": size} for k in range(len(boxes))]
    marks = [(k, row) for k, rows in enumerate(boxes) for row in _pixels(rows, size)]
    content = {
        "images": pictures,
        "annotations": [
            {"id": i, "image_id": k, "category_id": code + 1, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
            for i, (k, (code, *box)) in enumerate(marks)
        ],
        "categories": [{"id": code + 1, "name": name} for code, name in enumerate(names)],
    }
    (folder / "annotations.json").write_text(json.dumps(content), "utf-8")


def _yolo(folder: Path, boxes: list[np.ndarray], size: int, names: tuple[str, ...]) -> None:
    (folder / "labels").mkdir(exist_ok=True)
    (folder / "classes.txt").write_text("\n".join(names) + "\n", "utf-8")
    for k, rows in enumerate(boxes):
        lines = [f"{int(row[0])} " + " ".join(f"{value:.6f}" for value in row[1:]) for row in rows]
        (folder / "labels" / f"{k:05d}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _voc(folder: Path, boxes: list[np.ndarray], size: int, names: tuple[str, ...]) -> None:
    (folder / "xml").mkdir(exist_ok=True)
    for k, rows in enumerate(boxes):
        things = ""
        for code, left, top, width, height in _pixels(rows, size):
            ends = {"xmin": left + 1, "ymin": top + 1, "xmax": left + width, "ymax": top + height}
            box = "".join(f"<{key}>{value:g}</{key}>" for key, value in ends.items())
            things += f"<object><name>{escape(names[int(code)])}</name><bndbox>{box}</bndbox></object>"
        head = f"<filename>{k:05d}.png</filename><size><width>{size}</width><height>{size}</height></size>"
        (folder / "xml" / f"{k:05d}.xml").write_text(f"<annotation>{head}{things}</annotation>", "utf-8")
