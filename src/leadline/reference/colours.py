"""Colours of Weisfeiler and Lehman (1968): what message passing can tell apart, at most.

    c_i^0     = colour of what node i has
    c_i^{t+1} = new name of (c_i^t, {{ c_j^t : j a neighbour of i }})        a multiset: how often counts         (1)

Rounds end where the number of colours no longer grows. Two graphs whose colours are not the same, as often each, are
not isomorphic; where they are, nothing is said: two triangles have the colours of a hexagon.

No layer that adds up, averages or compares what comes from neighbours can give two nodes of one colour different
numbers (Morris et al., 2019; Xu et al., 2019).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from leadline.reference.networks import Matrix


def colours(A: Matrix, first: Sequence[int] | None = None, rounds: int | None = None) -> list[int]:
    """Eq. 1, colours named in the order in which nodes have them.

    Args:
        first: colours of what nodes have; None is one for all.
        rounds: None is until they no longer change.

    >>> path = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    >>> colours(path)
    [0, 1, 1, 0]
    """
    now = _named(list(first) if first is not None else [0] * len(A))
    for _ in range(len(A) if rounds is None else rounds):
        new = _named([(now[i], tuple(sorted(now[j] for j, a in enumerate(A[i]) if a))) for i in range(len(A))])
        if rounds is None and len(set(new)) == len(set(now)):
            break
        now = new
    return now


def told_apart(A: Matrix, B: Matrix, first: Sequence[int] | None = None, second: Sequence[int] | None = None) -> bool:
    """Whether colours show that two graphs are not the same.

    >>> ring = lambda n, shift=0: [[float((i - j) % n in (1, n - 1)) for j in range(n)] for i in range(n)]
    >>> two = [[*row, 0, 0, 0] for row in ring(3)] + [[0, 0, 0, *row] for row in ring(3)]
    >>> told_apart(two, ring(6)), told_apart(ring(5), ring(6))
    (False, True)
    """
    if len(A) != len(B):
        return True
    N = len(A)
    both = [[*row, *[0.0] * N] for row in A] + [[*[0.0] * N, *row] for row in B]
    begin = None if first is None or second is None else [*first, *second]
    found = colours(both, begin)
    return Counter(found[:N]) != Counter(found[N:])


def _named(keys: list) -> list[int]:
    names: dict = {}
    return [names.setdefault(key, len(names)) for key in keys]
