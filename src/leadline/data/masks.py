"""Masks: a picture whose pixels are classes. Values or colours become codes, the same for all masks.

    grey              the value is the class; 255 beside others is a pixel without a label, unless they are few
    0 and 255         two classes, also where a few pixels have other values: those go to the nearer of the two
    two and between   many values, nearly all near two of them, as .jpg and soft edges leave them: the nearer of the two
    palette           the index is the class, or the colour where an index has several
    colours           each colour is a class

Codes are places in the sorted list of the values that occur. They are never mixed: a mask is brought to size by the
nearest pixel, and what padding adds has no label.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leadline.data.account import counted
from leadline.data.decode import Placement, Unreadable, opened, place
from leadline.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

UNLABELLED = 255
MOST_CLASSES = 255
_VALUES = ("1", "L", "P", "I", "I;16", "I;16B")
_RARE = 0.1  # pixels of other values than 0 and 255, for each of 255, up to which these are two classes
_FEW = 8  # values that may all be classes in a .jpg, or among stray ones
_NEAR, _APART, _MOSTLY = 24, 64, 0.9  # of two values: how near others lie, how far apart they are, how many are near
_INDEX = 1 << 40  # a palette's index and colour, as one number


class Masks:
    """Reads masks one by one, from any thread, and learns their values; `codes` then makes classes of them.

    Args:
        size: rows and columns.
        fit: as of the pictures.
    """

    def __init__(self, size: tuple[int, int], fit: str):
        self.size, self.fit = size, fit
        self.found: dict[int, int] = {}
        self.counts: Counter[int] = Counter()
        self.coloured: bool | None = None
        self.lossy = False
        self._lock = threading.Lock()

    def read(self, path: str | Path, wide: tuple[int, int]) -> np.ndarray:
        """Provisional codes (rows, columns) uint8 of a file's mask, in the order in which values came up.

        Args:
            wide: columns and rows of its picture, which the mask must have.
        """
        with opened(path) as image:
            if image.size != wide:
                raise Unreadable(f"has a mask of {image.width} × {image.height} for {wide[0]} × {wide[1]} pixels")
            coloured, lossy = image.mode not in _VALUES, image.format in ("JPEG", "MPO")
            image.load()
            palette = _palette(image)
            whole = image.convert("RGB") if coloured else image
            if whole.mode == "1":
                whole = whole.convert("L")
            values = np.asarray(place(whole, self.size, self.fit, codes=True))
        if coloured:
            values = (values.astype(np.int32) << (16, 8, 0)).sum(-1, dtype=np.int32)
        inside = _inner(wide, self.size) if self.fit == "pad" else None
        distinct, counts, place_of = _counted(values, inside)
        names = distinct if palette is None else _INDEX + (palette[distinct] << 8) + distinct
        with self._lock:
            if self.coloured is None:
                self.coloured = coloured
            elif self.coloured is not coloured:
                raise Unreadable("has a mask of colours among masks of codes, or the other way round")
            self.lossy |= lossy
            codes = self._provisional(names.tolist(), counts.tolist())
        found = codes[place_of]
        if inside is not None:
            found[~inside] = UNLABELLED
        return found

    def _provisional(self, values: list[int], counts: list[int]) -> np.ndarray:
        for value, count in zip(values, counts, strict=True):
            if value not in self.found:
                if len(self.found) >= MOST_CLASSES + (self.fit != "pad" and not self.coloured):
                    raise _too_many("more")
                self.found[value] = len(self.found)
            self.counts[value] += count
        return np.array([self.found[value] for value in values], dtype=np.uint8)

    def codes(self, names: tuple[str, ...] = ()) -> tuple[np.ndarray, tuple[str, ...], list[str]]:
        """The code of each provisional one (256,), the classes' names, and what a reader should know.

        Args:
            names: of the classes by value, from 0 on; by default the values or colours are names.
        """
        meant, by_colour, notes = self._meant()
        sums: Counter[int] = Counter()
        for value, count in self.counts.items():
            sums[meant[value]] += count
        if not by_colour:
            into, told = _two_levels(sums)
            notes += told
            meant = {value: into.get(mean, mean) for value, mean in meant.items()}
        values = sorted(set(meant.values()))
        if not by_colour and UNLABELLED in values and values != [0, UNLABELLED]:
            if _is_class(sums):
                notes.append("pixels of value 255 are a class: they are many more than others that are not 0")
            else:
                values.remove(UNLABELLED)
                notes.append("pixels of value 255 have no label")
        if len(values) < 2:
            raise DataError(
                "masks must show at least two classes", got=f"{len(values)} value", do="Check that these are the masks"
            )
        if len(values) > MOST_CLASSES or (self.lossy and len(values) > _FEW):
            raise _too_many(f"{len(values)}" + (", of .jpg, which mixes values" if self.lossy else ""))
        table = np.full(256, UNLABELLED, np.uint8)
        for value, code in self.found.items():
            if meant[value] in values:
                table[code] = values.index(meant[value])
        if by_colour:
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

    def _meant(self) -> tuple[dict[int, int], bool, list[str]]:
        """The value or colour of each entry, which of the two it is, and a note where palettes differ."""
        colours = defaultdict(set)
        for value in self.found:
            if value >= _INDEX:
                colours[value & 255].add(value)
        if not any(len(different) > 1 for different in colours.values()):
            return {value: value & 255 if value >= _INDEX else value for value in self.found}, bool(self.coloured), []
        meant = {}
        for value in self.found:
            meant[value] = (value - _INDEX) >> 8 if value >= _INDEX else value * 0x010101
        return meant, True, ["masks have different palettes: the colour is the class, not the index"]


def _palette(image: Image) -> np.ndarray | None:
    """The colour of each index, red first; None for a picture without a palette."""
    if image.mode != "P" or image.palette is None:
        return None
    known = np.array((image.getpalette("RGB") or [])[:768], dtype=np.int64).reshape(-1, 3)
    colours = np.zeros(256, np.int64)
    colours[: len(known)] = (known << (16, 8, 0)).sum(1)
    return colours


def _counted(values: np.ndarray, inside: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values in order, how often each occurs, and of each pixel the place of its value, of padding any."""
    some = values.ravel() if inside is None else values[inside]
    if values.dtype == np.uint8:
        counts = np.bincount(some, minlength=256)
        distinct = np.flatnonzero(counts)
        places = np.zeros(256, np.int64)
        places[distinct] = np.arange(len(distinct))
        return distinct, counts[distinct], places[values]
    distinct, counts = np.unique(some, return_counts=True)
    return distinct.astype(np.int64), counts, np.searchsorted(distinct, values).clip(max=len(distinct) - 1)


def _two_levels(counts: Counter[int]) -> tuple[dict[int, int], list[str]]:
    """Where masks have two classes and pixels between them: the one that each value is nearer to, and a note.

    >>> _two_levels(Counter({0: 900, 128: 1, 255: 99}))[0]
    {0: 0, 128: 255, 255: 255}
    >>> _two_levels(Counter({0: 900, 1: 90, 255: 10}))
    ({}, [])
    """
    low, high = _levels(counts)
    if high < 0:
        return {}, []
    strays = sum(count for value, count in counts.items() if value not in (low, high))
    if not strays:
        return {}, []
    told = (
        f"{counted(strays, 'pixel')} of {counted(len(counts) - 2, 'other value')} in masks of {low} and {high}, "
        "taken for the nearer of the two"
    )
    return {value: high if 2 * value > low + high else low for value in counts}, [told]


def _is_class(counts: Counter[int]) -> bool:
    """Whether 255 is what masks show, and not a pixel without a label."""
    others = sum(count for value, count in counts.items() if value not in (0, UNLABELLED))
    return counts[UNLABELLED] * _RARE > others and counts[0] > 0


def _levels(counts: Counter[int]) -> tuple[int, int]:
    """The two values that masks have, but for strays; -1 where they have others."""
    codes = set(counts) - {0, UNLABELLED}
    if _is_class(counts) and codes != set(range(1, len(codes) + 1)):
        return 0, UNLABELLED
    if len(counts) <= _FEW:
        return -1, -1
    low, high = sorted(value for value, _ in counts.most_common(2))
    near = [value for value in counts if min(abs(value - low), abs(value - high)) <= _NEAR]
    jitter = sum(1 for value in near if 0 < min(abs(value - low), abs(value - high)) <= _NEAR // 4)
    mostly = sum(counts[value] for value in near) >= _MOSTLY * sum(counts.values())
    return (low, high) if mostly and high - low >= _APART and jitter >= _FEW // 2 else (-1, -1)


def _too_many(got: str) -> DataError:
    return DataError(
        f"masks must have at most {MOST_CLASSES} values in all, each a class",
        got=got,
        do="Write masks as .png, not as .jpg, with one value or colour a class",
    )


def _inner(wide: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """Where a padded picture is not padding."""
    at = Placement.of("pad", wide, size)
    left, top = int(at.s), int(at.t)
    inside = np.zeros(size, dtype=bool)
    inside[top : size[0] - top, left : size[1] - left] = True
    return inside
