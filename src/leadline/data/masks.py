"""Masks: a picture whose pixels are classes. Values or colours become codes, the same for all masks.

    grey or palette   the value is the class; 255 beside others is a pixel without a label
    0 and 255 alone   two classes
    colours           each colour is a class

Codes are places in the sorted list of the values that occur. They are never mixed: a mask is brought to size by the
nearest pixel, and what padding adds has no label.
"""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from leadline.data.decode import Placement, Unreadable, opened, place
from leadline.errors import DataError

UNLABELLED = 255
MOST_CLASSES = 255
_VALUES = ("1", "L", "P", "I", "I;16", "I;16B")


class Masks:
    """Reads masks one by one, from any thread, and learns their values; `codes` then makes classes of them.

    Args:
        size: rows and columns.
        fit: as of the pictures.
    """

    def __init__(self, size: tuple[int, int], fit: str):
        self.size, self.fit = size, fit
        self.found: dict[int, int] = {}
        self.coloured: bool | None = None
        self._lock = threading.Lock()

    def read(self, path: str | Path, wide: tuple[int, int]) -> np.ndarray:
        """Provisional codes (rows, columns) uint8 of a file's mask, in the order in which values came up.

        Args:
            wide: columns and rows of its picture, which the mask must have.
        """
        with opened(path) as image:
            if image.size != wide:
                raise Unreadable(f"has a mask of {image.width} × {image.height} for {wide[0]} × {wide[1]} pixels")
            coloured = image.mode not in _VALUES
            image.load()
            whole = image.convert("RGB") if coloured else image
            if whole.mode == "1":
                whole = whole.convert("L")
            values = np.asarray(place(whole, self.size, self.fit, codes=True)).astype(np.int64)
        if coloured:
            values = (values << (16, 8, 0)).sum(-1)
        if self.fit == "pad":
            values[~_inner(wide, self.size)] = -1
        with self._lock:
            if self.coloured is None:
                self.coloured = coloured
            elif self.coloured is not coloured:
                raise Unreadable("has a mask of colours among masks of codes, or the other way round")
            return self._provisional(values)

    def _provisional(self, values: np.ndarray) -> np.ndarray:
        distinct, place_of = np.unique(values, return_inverse=True)
        for value in distinct.tolist():
            if value >= 0 and value not in self.found:
                if len(self.found) >= MOST_CLASSES:
                    raise DataError(
                        f"masks must have at most {MOST_CLASSES} values in all",
                        got="more",
                        do="Write masks as .png, not as .jpg, with one value or colour a class",
                    )
                self.found[value] = len(self.found)
        codes = np.array([self.found.get(value, UNLABELLED) for value in distinct.tolist()])
        return codes[place_of.reshape(values.shape)].astype(np.uint8)

    def codes(self, names: tuple[str, ...] = ()) -> tuple[np.ndarray, tuple[str, ...], list[str]]:
        """The code of each provisional one (256,), the classes' names, and what a reader should know.

        Args:
            names: of the classes by value, from 0 on; by default the values or colours are names.
        """
        values = sorted(self.found)
        notes = []
        if not self.coloured and UNLABELLED in values and values != [0, UNLABELLED]:
            values.remove(UNLABELLED)
            notes.append("pixels of value 255 have no label")
        if len(values) < 2:
            raise DataError(
                "masks must show at least two classes", got=f"{len(values)} value", do="Check that these are the masks"
            )
        table = np.full(256, UNLABELLED, np.uint8)
        for code, value in enumerate(values):
            table[self.found[value]] = code
        if self.coloured:
            words = tuple(f"#{value:06x}" for value in values)
        elif names and values[-1] < len(names):
            words = tuple(names[value] for value in values)
        else:
            words = tuple(map(str, values))
        if names and len(names) == len(values):
            words = names
        if values != list(range(len(values))):
            notes.append(f"values of the masks are classes in their order: {', '.join(words[:8])}")
        return table, words, notes


def _inner(wide: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """Where a padded picture is not padding."""
    at = Placement.of("pad", wide, size)
    left, top = int(at.s), int(at.t)
    inside = np.zeros(size, dtype=bool)
    inside[top : size[0] - top, left : size[1] - left] = True
    return inside
