"""Edit distance, the whole table written out (Levenshtein, 1966).

    D_{i,0} = i,   D_{0,j} = j
    D_{i,j} = min(D_{i-1,j} + 1, D_{i,j-1} + 1, D_{i-1,j-1} + [a_i ≠ b_j])        (1)

Notation   D_{i,j} -> changes that take the first i of a to the first j of b
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def edit_distance(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Eq. 1 at the end of both.

    >>> edit_distance("kitten", "sitting")
    3
    """
    above = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        row = [i]
        for j, right in enumerate(b, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (left != right)))
        above = row
    return above[-1]


def nearest(query: Sequence[Any], others: Sequence[Sequence[Any]]) -> tuple[int, int]:
    """Place and distance of the first among those that are nearest.

    >>> nearest("cat", ["dog", "cut", "rat"])
    (1, 1)
    """
    distances = [edit_distance(query, other) for other in others]
    return distances.index(min(distances)), min(distances)
