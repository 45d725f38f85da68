"""Values on a grid of any number of axes, as nested lists.

    x[i]        series        x[i][j]        picture        x[c][i][j]        picture of several channels

Notation   a place is a tuple of whole numbers, one for each axis
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

Grid = Sequence[Any]
Place = tuple[int, ...]


def shape(x: Any) -> Place:
    """Length of each axis.

    >>> shape([[1, 2, 3], [4, 5, 6]])
    (2, 3)
    """
    return (len(x), *shape(x[0])) if isinstance(x, (list, tuple)) else ()


def at(x: Any, place: Place) -> float:
    """The value there.

    >>> at([[1, 2, 3], [4, 5, 6]], (1, 0))
    4
    """
    for index in place:
        x = x[index]
    return x


def places(sizes: Place) -> Iterator[Place]:
    """Every place of a grid of these sizes, the last axis fastest.

    >>> list(places((2, 2)))
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    return product(*[range(size) for size in sizes])


def grid(sizes: Place, value: Callable[[Place], float]) -> Any:
    """The grid whose value at each place is given by a rule.

    >>> grid((2, 3), lambda place: 10 * place[0] + place[1])
    [[0, 1, 2], [10, 11, 12]]
    """

    def along(place: Place) -> Any:
        if len(place) == len(sizes):
            return value(place)
        return [along((*place, index)) for index in range(sizes[len(place)])]

    return along(())


def put(x: Any, place: Place, value: float) -> None:
    """Write a value into a grid.

    >>> x = [[1, 2], [3, 4]]
    >>> put(x, (1, 0), 9)
    >>> x
    [[1, 2], [9, 4]]
    """
    for index in place[:-1]:
        x = x[index]
    x[place[-1]] = value
