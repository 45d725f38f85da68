"""One of several columns of y, by its number or by its name, and the likelihood that is its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from leadline.lens.rows import Rows
from leadline.likelihoods import Joint, Likelihood, PlackettLuce
from leadline.likelihoods.joint import columns
from leadline.names import lookup
from leadline.settings import whole


@dataclass(frozen=True)
class Column:
    """Args:
    place: its number.
    name: of the column.
    classes: names of its classes, or of the items of a ranking.
    discrete: whether it holds class codes.
    """

    place: int
    name: str
    classes: tuple[str, ...]
    discrete: bool


def place_of(output: int | str, names: Sequence[str], count: int) -> int:
    """The number of a column.

    >>> place_of("speed", ("direction", "speed"), 2), place_of(1, (), 2)
    (1, 1)
    """
    if isinstance(output, str):
        return lookup(output, {name: k for k, name in enumerate(names)}, "output")
    return whole("output", output, 0, count - 1, usual=0)


def column_of(output: int | str, rows: Rows, family: Likelihood) -> Column:
    """The column that is asked for."""
    target = rows.target
    if isinstance(family, PlackettLuce):  # its columns are places: the ranking is one answer
        return Column(0, target.name if target else "y", target.classes if target else (), False)
    count = rows.y.shape[1] if rows.y.dim() > 1 else 1
    own: tuple[str, ...] = getattr(family, "names", ())
    names = (
        target.names if target is not None else tuple(name_of(own, k) for k in range(count)) if count > 1 else ("y",)
    )
    place = place_of(output, names, count)
    if target is None:
        head = family.each[place] if isinstance(family, Joint) else family
        return Column(place, names[place], (), not rows.y.is_floating_point() or _codes(head, family))
    column = target.columns[place] if target.columns else target
    return Column(place, names[place], column.classes, column.discrete)


def name_of(names: Sequence[str], place: int) -> str:
    """The name of a column, y_1, y_2 … where it has a number alone."""
    name = names[place] if place < len(names) else ""
    return name if name and name != str(place + 1) else f"y_{place + 1}"


def one_of(family: Likelihood, place: int, y: Tensor, *outputs: Tensor) -> tuple[Any, Tensor, list[Tensor]]:
    """Likelihood, y and outputs of one column, where each has a family of its own; others as they are."""
    if not isinstance(family, Joint):
        return family, y, list(outputs)
    return family.each[place], columns(family.each, y)[place], [family.parts(output)[place] for output in outputs]


def _codes(head: Likelihood, family: Likelihood) -> bool:
    """Whether a head of a joint likelihood has classes: its column is one of numbers, as the others are."""
    return head is not family and head.kinds[0] in ("binary", "classes", "ordered")
