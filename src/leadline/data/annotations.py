"""What is annotated of pictures by boxes: what every format is read into, and numbers as people write them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leadline.data.folder import Lost

_MOST_DIGITS = 9  # of a whole number that can be meant


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


def four(box: Any) -> list[float] | None:
    if not isinstance(box, list) or len(box) != 4:
        return None
    try:
        numbers = [float(value) for value in box]
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def as_rows(rows: list[list[float]]) -> np.ndarray:
    return np.array(rows, dtype=np.float64).reshape(-1, 5)


def whole_word(word: str) -> int:
    """A whole number; 0 where it is none, and one that no picture or class has where it is too long to be meant.

    >>> whole_word("12"), whole_word("a"), whole_word("9" * 5000)
    (12, 0, 1000000000)
    """
    if not word.isdecimal():
        return 0
    return int(word) if len(word) <= _MOST_DIGITS else 10**_MOST_DIGITS
