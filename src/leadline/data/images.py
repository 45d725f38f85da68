"""Own data: a folder of pictures becomes `Data` in one call. What is to be learned is found out from the folder.

import leadline as ll
data = ll.data.images("pets")                       # one folder a class
data = ll.data.images("cells")                      # images/ and masks/
data = ll.data.images("street", size=256)           # images and a COCO .json, YOLO .txt or Pascal VOC .xml
data = ll.data.images("faces", labels="faces/age.csv", target="age")
print(data.account)          # what was read, converted, refused and why, file by file
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leadline.config import plain
from leadline.data.account import counted
from leadline.data.arguments import checked
from leadline.data.boxes import read_boxes
from leadline.data.data import Data
from leadline.data.decode import FITS
from leadline.data.folder import Folder, find_task, no_pictures, shown, survey
from leadline.data.found_whole import Unusable
from leadline.data.gathering import Gathering, name_of
from leadline.data.labelled import Labelled, of_folders, of_table
from leadline.data.layout import split_of
from leadline.data.npz import of_npz
from leadline.data.pairs import pairs_of
from leadline.data.picture_cache import key_of, stored
from leadline.data.splits import split_indices
from leadline.data.table import DELIMITED
from leadline.data.target import Target
from leadline.errors import DataError, UserError
from leadline.names import lookup
from leadline.settings import given, whole

TASKS = ("classes", "labels", "pixels", "boxes")
#: options that name a place, and the task that what lies there is for
PLACES = {"labels": "labels", "masks": "pixels", "boxes": "boxes"}
COLOURS = {"grey": 1, "gray": 1, "rgb": 3, "colour": 3, "color": 3}


@checked
def images(
    path: str | Path | None,
    *,
    task: str | None = None,
    labels: str | Path | None = None,
    masks: str | None = None,
    boxes: str | None = None,
    target: str | None = None,
    classes: Sequence[str] = (),
    size: int | Sequence[int] | None = None,
    colour: str | None = None,
    fit: str = "auto",
    val: float = 0.15,
    test: float = 0.15,
    seed: int = 0,
    split: str = "auto",
    workers: int | None = None,
    cache: bool = True,
) -> Data:
    """The pictures of a folder, with what is known of each.

    Args:
        path: a folder, or an .npz with arrays x (or images) and y (or labels). In a folder: one folder a class; or
            images/ beside masks/, or train/ beside train_labels/; or boxes in a COCO .json, YOLO .txt or Pascal VOC
            .xml; or a .csv or .tsv that names files and says what each shows. Folders train, val and test are these
            splits.
        task: "classes" (by folder), "labels" (a table), "pixels" or "boxes", where a folder holds more than one.
        labels: the table that says what each file shows, where it is not in the folder or not the only one.
        masks: the folder of masks, within that of the pictures, where it is not found.
        boxes: the .json, or the folder of .xml or .txt, within that of the pictures, where it is not found.
        target: the column to predict, of that table.
        classes: names for codes, where only codes are known (.npz, YOLO, masks).
        size: rows and columns, or one number for both. By default the size that all pictures have, where it is no
            larger than 512 × 512; else the median, in multiples of 32 up to 224.
        colour: "rgb" or "grey"; by default rgb unless all pictures are grey.
        fit: how pictures of another shape are brought to size: "crop" the middle, "stretch", "pad" with black, or
            "auto": crop for classes and numbers, stretch where places matter.
        val, test: parts of the pictures, from 0 and together below 1, where folders do not name the splits; classes
            are spread evenly, equal pictures stay together.
        seed: of that draw, any whole number.
        split: "auto", or "random" to leave folders called train, val and test out of account.
        workers: threads that decode, at least 1; by default one a core.
        cache: keep decoded pictures on disk where they are many or slow to decode.

    >>> import tempfile
    >>> from leadline.data.scene_files import write_scenes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_scenes(folder, num=12, size=32, formats=("masks",))
    ...     data = images(folder, cache=False)
    >>> data.target.kind, tuple(data.train.x.shape), data.train.y.dtype
    ('pixels', (8, 3, 32, 32), torch.uint8)
    """
    place, named = _place(path), _named(labels=labels, masks=masks, boxes=boxes)
    labels = None if labels is None else _table_path(place, labels)
    masks, boxes = _within(place, masks, "masks"), _within(place, boxes, "boxes")
    options: dict[str, Any] = {"path": str(place), "task": task, "labels": None if labels is None else str(labels)}
    options |= {"masks": masks, "boxes": boxes, "target": target, "classes": plain(tuple(classes))}
    options |= {"size": plain(_size(size)), "colour": colour, "fit": fit, "val": val, "test": test, "seed": seed}
    options |= {"split": split, "workers": workers, "cache": cache}
    lookup(fit, dict.fromkeys((*FITS, "auto")), "fit")
    lookup(split, dict.fromkeys(("auto", "random")), "split")
    split_indices(1, val=val, test=test)  # refuses fractions that do not fit before anything is read
    channels = None if colour is None else lookup(colour, COLOURS, "colour")
    workers = None if workers is None else whole("workers", workers, 1, 256)
    recipe = {"source": "images", "options": options}
    if place.is_file():
        made = of_npz(place, tuple(classes), _size(size), channels, fit, (val, test, seed))
        return replace(made, recipe=recipe)
    folder = survey(place)
    if not folder.pictures:
        raise no_pictures(folder)
    key = key_of(
        folder, {**{k: v for k, v in options.items() if k not in ("path", "workers", "cache")}, **_other(labels)}
    )
    if cache:
        try:
            found = stored(key)
            account = replace(found.account, source=name_of(place))
            return replace(found, name=name_of(place), recipe=recipe, account=account)
        except Unusable:
            pass
    known = _known(folder, named or task, labels, masks, boxes, target, tuple(classes))
    if split == "random":
        known.parts = [""] * len(known.files)
    job = Gathering(folder, known, _size(size), channels, fit, workers, tuple(classes))
    return replace(job.data((val, test, seed), key if cache else None), recipe=recipe)


def _place(path: str | Path | None) -> Path:
    if path is None:
        raise DataError("path must name a folder of pictures", got="path=None", do='Write it in quotes, as "photos"')
    place = Path(path).expanduser().absolute()
    if place.is_file() and place.suffix.lower() != ".npz":
        raise DataError(
            "pictures must lie in a folder, or in an .npz", got=f"the file {place.name}", do=f"Pass {place.parent}"
        )
    if not place.exists():
        raise DataError("pictures must lie in a folder", got=f"no folder {place}", do="Check its name")
    return place


def _size(size: Any) -> tuple[int, int] | None:
    """Rows and columns of a number or a pair."""
    if size is None:
        return None
    pair = tuple(size) if isinstance(size, (list, tuple)) else (size,)
    pair = pair * 2 if len(pair) == 1 else pair
    if len(pair) != 2:
        raise UserError("size must be one number, or rows and columns", got=given("size", size), do="Pass size=64")
    return whole("size", pair[0], 1, 16384, usual=64), whole("size", pair[1], 1, 16384, usual=64)


def _other(labels: Path | None) -> dict[str, Any]:
    """What tells whether a table outside the folder changed."""
    if labels is None or not labels.is_file():
        return {}
    status = labels.stat()
    return {"labels_stamp": (status.st_size, status.st_mtime_ns)}


def _named(**places: Any) -> str | None:
    """The task that one of the options names."""
    named = [word for word, value in places.items() if value is not None]
    if len(named) > 1:
        raise UserError("pictures are learned for one task at a time", got=" and ".join(named), do="Keep one of them")
    return PLACES[named[0]] if named else None


def _known(
    folder: Folder,
    task: str | None,
    labels: Path | None,
    masks: str | None,
    boxes: str | None,
    target: str | None,
    classes: tuple[str, ...],
) -> Labelled:
    """The pictures with what is known of them, found where the options or else the folder say."""
    told = task is not None
    if task is not None:
        task = lookup(task, {word: word for word in TASKS}, "task")
    else:
        task = find_task(folder) if target is None else "labels"
    if task == "boxes":
        taken = pairs_of(folder.pictures).masks
        return _of_boxes(replace(folder, pictures=tuple(p for p in folder.pictures if p not in taken)), boxes, classes)
    if task == "pixels":
        return _of_masks(folder, masks)
    if task == "labels":
        return of_table(folder, labels or _table_file(folder), target)
    return of_folders(folder, told)


def _within(root: Path, name: str | None, what: str) -> str | None:
    """A path as it is relative to the folder of pictures."""
    if name is None:
        return None
    path = Path(name).expanduser()
    place = path if path.is_absolute() else root / path
    place = place if place.exists() else path.absolute()
    if not place.exists():
        raise DataError(f"{what} must be there", got=f"no {name} in {root}", do="Check the name")
    if not place.is_relative_to(root) or place == root:
        raise DataError(
            f"{what} must lie below the folder of pictures",
            got=f"{place}",
            do=f"Pass the folder that holds both instead of {root}",
        )
    return place.relative_to(root).as_posix()


def _table_path(root: Path, labels: str | Path) -> Path:
    """A table that is named by its path, or by its name within the folder of pictures."""
    path = Path(labels).expanduser()
    return path.absolute() if path.exists() or path.is_absolute() else root / path


def _table_file(folder: Folder) -> Path:
    files = folder.ending(*DELIMITED)
    if len(files) != 1:
        raise DataError(
            "one table must say what the pictures show",
            got=f"{len(files)}: {shown(files)}" if files else "none",
            do="Name it: labels='labels.csv'",
        )
    return folder.root / files[0]


def _of_boxes(folder: Folder, files: str | None, classes: tuple[str, ...]) -> Labelled:
    found = read_boxes(folder, files, classes)
    names = [name for name in folder.pictures if name in found.marked]
    known = Labelled(
        names,
        [found.marked[name].split for name in names],
        [found.marked[name] for name in names],
        Target("boxes", "boxes", classes=found.names),
        notes=[*found.notes, *found.lost.notes("box", "boxes")],
    )
    for name in folder.pictures:
        if name not in found.marked:
            known.lost.add("is not annotated", name)
    if found.absent:
        known.notes.append(f"{counted(len(found.absent), 'annotated picture')} not there: {shown(found.absent)}")
    if not any(len(marked.rows) for marked in found.marked.values()):
        raise DataError(
            "some picture must have a box", got=f"none ({'; '.join(known.notes) or 'no annotations'})", do="Annotate it"
        )
    return known


def _of_masks(folder: Folder, masks: str | None) -> Labelled:
    pairs = pairs_of(folder.pictures, masks)
    found = pairs.mask
    if not found:
        raise DataError(
            "a mask must have the name of its picture",
            got=f"no such pair in {folder.root}",
            do="Put pictures in images/ and masks in masks/, with the same names",
        )
    files = list(found)
    known = Labelled(files, [split_of(name) for name in files], list(found.values()), Target("pixels", "mask"))
    for name in folder.pictures:
        if name not in found and name not in pairs.masks:
            known.lost.add("has no mask of its own", name)
    alone = sorted(pairs.masks - set(found.values()))
    if alone:
        known.notes.append(f"{counted(len(alone), 'mask')} of no picture: {shown(alone)}")
    return known
