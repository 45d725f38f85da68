"""What a column to be predicted is: numbers or classes.

    text, yes/no, true/false                                   classes (two of them: binary)
    whole numbers, one or two of them                          classes
    whole numbers 0, 1, … or 1, 2, … up to 20 of them          classes, when there are two rows for each
    other whole numbers, up to 20, each in 20 rows on average  classes
    all other numbers                                          real

Naming a kind overrides the rule: counts and angles are taken for such only when they are named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from leadline.data.cells import Cells, in_single
from leadline.data.features import levels_refused, mostly_numbers
from leadline.data.raw import raw_values, shown, style_of, words_of
from leadline.data.target import DISCRETE, KINDS, Target
from leadline.data.words import natural
from leadline.errors import DataError
from leadline.names import suggest

_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
MOST_CLASSES = 20  # as which numbers are taken without being told

#: what the numbers of a kind must be
_RANGES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "positive": ("more than 0", lambda y: y > 0),
    "count": ("whole and at least 0", lambda y: (y >= 0) & (y == np.round(y))),
    "proportion": ("between 0 and 1", lambda y: (y >= 0) & (y <= 1)),
    "angle": ("in radians, from -2π to 2π,", lambda y: np.abs(y) <= 2 * np.pi + 1e-4),
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """A column to be predicted, read but not yet settled as numbers or classes.

    Args:
        name: the column's.
        cells: as they came.
        values: its numbers, NaN where missing; None for words.
        misfit: rows that hold neither a number nor nothing in a column of numbers.
    """

    name: str
    cells: Cells
    values: np.ndarray | None
    misfit: np.ndarray

    @cached_property
    def _words_and_codes(self) -> tuple[list[str | None], np.ndarray]:
        return words_of(self.cells if self.values is None else self.values)

    @property
    def words(self) -> list[str | None]:
        """The distinct values as words; None for a missing one."""
        return self._words_and_codes[0]

    @property
    def codes(self) -> np.ndarray:
        """Which of the words each row holds."""
        return self._words_and_codes[1]

    @property
    def missing(self) -> np.ndarray:
        """Rows without a value."""
        if self.values is not None:
            return np.isnan(self.values) & ~self.misfit
        return np.array([word is None for word in self.words], dtype=bool)[self.codes]

    def settle(
        self, rows: np.ndarray, kind: str | None, at: Callable[[int], str], order: Sequence[str] = ()
    ) -> tuple[Tensor, Target]:
        """y of `rows`, and what it is (without the figures of a training split); `order`: of ordered classes."""
        if kind is not None and kind not in KINDS:
            raise DataError("kind must be a kind of target", got=f"kind={kind!r}", do=suggest(str(kind), KINDS))
        if self.values is not None:
            values = self.values[rows]
            infinite = np.flatnonzero(np.isinf(values))
            if len(infinite):
                raise DataError(
                    f"{self.name}, the target, must be finite",
                    got=f"{shown(self.cells, int(rows[infinite[0]]))} in {at(int(rows[infinite[0]]))}",
                    do="Correct the cell or leave the row out",
                )
            _check_spread(self.name, values)
            if kind not in DISCRETE and (kind is not None or not looks_like_classes(values)):
                _check_range(self.name, kind or "real", values, rows, at)
                return torch.from_numpy(values.astype(np.float32)), Target(kind or "real", self.name)
        elif kind not in (None, *DISCRETE):
            raise DataError(
                f"{self.name} must hold numbers to be {_named(kind)} target",
                got=f"words such as {next(word for word in self.words if word is not None)!r}",
                do='Pass kind="classes", or leave kind out',
            )
        return self._classes(rows, kind, order if kind == "ordered" else ())

    def exactly(self, rows: np.ndarray, y: Tensor) -> Tensor:
        """`y` as `settle` gave it, its numbers as exact as they were read."""
        return torch.from_numpy(self.values[rows]) if self.values is not None and y.is_floating_point() else y

    def _classes(self, rows: np.ndarray, kind: str | None, order: Sequence[str]) -> tuple[Tensor, Target]:
        codes = self.codes[rows]
        names = sorted({word for code in np.unique(codes) if (word := self.words[code]) is not None}, key=natural)
        refused = levels_refused(len(names), len(rows))
        if refused:
            raise DataError(
                f"{self.name}, the target, must be numbers or a few classes",
                got=refused,
                do="Name another column as the target",
            )
        if order:
            names = _in_order(self.name, names, order)
        elif kind == "ordered" and all(_numbers_of(names)):
            names = [name for _, name in sorted(zip(_numbers_of(names), names, strict=True))]
        elif kind == "ordered":
            raise DataError(
                f"{self.name} needs its order, from low to high",
                got=f"the words {', '.join(names[:6])}{', …' if names[6:] else ''}",
                do=f"Pass order={names[:20]!r}, in the right order",
            )
        if len(names) < 2:
            raise _one_value(self.name, repr(names[0]), len(rows))
        if kind == "binary" and len(names) > 2:
            raise DataError(
                f"{self.name} must have two values to be binary",
                got=f"{len(names)}: {', '.join(names[:5])}" + (", …" if names[5:] else ""),
                do='Pass kind="classes"',
            )
        code = {name: i for i, name in enumerate(names)}
        of_word = np.array([-1 if word is None else code.get(word, -1) for word in self.words], dtype=np.int64)
        kind = kind or ("binary" if len(names) == 2 else "classes")
        return torch.from_numpy(of_word[codes]), Target(kind, self.name, classes=tuple(names))


def read_outcome(name: str, cells: Cells, comma: bool = False) -> Outcome:
    """The column to be predicted, out of its cells; `comma`: the table writes decimals with one."""
    fits = np.zeros(len(cells), dtype=bool)
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        raise DataError(
            f"{name}, the target, must hold numbers or classes",
            got="dates",
            do="Name another column, or turn the dates into numbers, such as days from the first",
        )
    if isinstance(cells, np.ndarray):
        return Outcome(name, cells, None if cells.dtype.kind == "b" else in_single(cells), fits)
    plain = cells.floats()
    if plain is not None:
        return Outcome(name, cells, plain, fits)
    style = style_of(cells, comma)
    values, misfit = raw_values(cells, "number", style or "point")
    if style is None and not mostly_numbers(values, misfit):
        return Outcome(name, cells, None, fits)
    return Outcome(name, cells, values, misfit)


def read_known(cells: Cells, target: Target, at: Callable[[int], str], comma: bool = False) -> Tensor:
    """y out of cells, for a target that is settled already; NaN or -1 where there is no value."""
    outcome = read_outcome(target.name, cells, comma)
    if target.discrete:
        gap = outcome.missing
        labels = [outcome.words[code] for code in np.unique(outcome.codes[~gap])]
        _check_classes(outcome, target, at)
        code = dict(zip(labels, target.encode(labels).tolist(), strict=True))
        return torch.from_numpy(np.array([code.get(word, -1) for word in outcome.words])[outcome.codes])
    wrong = np.zeros(1) if outcome.values is None else outcome.misfit | np.isinf(outcome.values)
    if outcome.values is None or wrong.any():
        row = int(np.argmax(wrong))
        must = f"{target.name} must hold finite numbers"
        raise DataError(must, got=f"{shown(cells, row)} in {at(row)}", do="Correct it")
    known = np.flatnonzero(~np.isnan(outcome.values))
    _check_range(target.name, target.kind, outcome.values[known], known, at)
    return torch.from_numpy(outcome.values.astype(np.float32))


def with_figures(target: Target, y: Tensor | np.ndarray) -> Target:
    """The target measured in the mean and deviation of `y`, the training rows'; classes stay as they are."""
    if target.discrete or target.kind in ("ranking", "signs"):
        return target
    if target.columns:
        return Target.of(*(with_figures(column, y[:, k]) for k, column in enumerate(target.columns)))
    real = Target.real(torch.as_tensor(y), target.name)
    return replace(real, kind=target.kind)


def looks_like_classes(values: np.ndarray) -> bool:
    """Whether numbers are few and whole enough to be classes, by the rule above.

    >>> looks_like_classes(np.array([0, 1, 2, 0, 1, 2.0])), looks_like_classes(np.array([25, 346, 120.0]))
    (True, False)
    """
    distinct = np.unique(values)
    count = len(distinct)
    if count > MOST_CLASSES or not (distinct == np.round(distinct)).all():
        return False
    counted = distinct[0] in (0, 1) and distinct[-1] - distinct[0] == count - 1
    return count <= 2 or (counted and len(values) >= 2 * count) or len(values) >= 20 * count


def _numbers_of(names: list[str]) -> list[tuple[float, ...]]:
    """The number that each class is or begins with, which gives it an order; empty where there is none.

    >>> _numbers_of(["10 much", "-2.5", "poor"])
    [(10.0,), (-2.5,), ()]
    """
    return [(float(found[0]),) if (found := _NUMBER.match(name)) else () for name in names]


def _in_order(column: str, names: list[str], order: Sequence[str]) -> list[str]:
    """The classes from low to high, as the caller orders them."""
    order = [str(name) for name in order]
    if sorted(order) != sorted(names):
        missing = [name for name in names if name not in order]
        strange = [name for name in order if name not in names]
        twice = [name for name in dict.fromkeys(order) if order.count(name) > 1]
        words = [("without", missing), ("with the unknown", strange), ("twice", twice)]
        raise DataError(
            f"order must name every class of {column} once, from low to high",
            got=f"{', '.join(order)}: " + "; ".join(f"{how} {', '.join(which)}" for how, which in words if which),
            do=f"The classes are {', '.join(names)}",
        )
    return order


def _check_spread(name: str, values: np.ndarray) -> None:
    if len(values) > 1 and (values == values[0]).all():
        raise _one_value(name, f"{values[0]:g}", len(values))


def _one_value(name: str, value: str, count: int) -> DataError:
    return DataError(
        f"{name}, the target, must have at least two values",
        got=f"{value} in all {count} rows",
        do="Name another column as the target, or add rows with other values",
    )


def _check_range(name: str, kind: str, values: np.ndarray, rows: np.ndarray, at: Callable[[int], str]) -> None:
    if kind not in _RANGES:
        return
    legal, test = _RANGES[kind]
    wrong = np.flatnonzero(~test(values))
    if len(wrong):
        degrees = kind == "angle" and np.abs(values).max() <= 720
        raise DataError(
            f"{name} must be {legal} to be {_named(kind)} target",
            got=f"{values[wrong[0]]:g} in {at(int(rows[wrong[0]]))}"
            + (f" ({len(wrong)} such rows)" if len(wrong) > 1 else ""),
            do=f"If these are degrees, turn them into radians: {name} * π / 180"
            if degrees
            else 'Pass kind="real", or correct the values',
        )


def _check_classes(outcome: Outcome, target: Target, at: Callable[[int], str]) -> None:
    """Every class must be one that the model was trained on; the first row of another is named."""
    known = set(target.classes)
    strange = np.array([word is not None and word not in known for word in outcome.words], dtype=bool)[outcome.codes]
    wrong = np.flatnonzero(strange)
    if len(wrong):
        names = sorted({str(outcome.words[code]) for code in np.unique(outcome.codes[wrong])}, key=natural)
        raise DataError(
            f"{target.name} must hold classes that the model was trained on",
            got=f"{', '.join(map(repr, names[:5]))}{', …' if names[5:] else ''}, first in {at(int(wrong[0]))}",
            do=f"Use {', '.join(target.classes[:10])}{', …' if target.classes[10:] else ''}, or take these rows out",
        )


def _named(kind: str | None) -> str:
    return f"{'an' if str(kind)[0] in 'aeiou' else 'a'} {kind}"
