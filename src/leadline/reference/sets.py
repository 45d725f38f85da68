"""Sets spelled out: what is the same in any order, and what moves with its members.

    pooled(X, how)     Σ_m x_m / n̄,   Σ_m x_m / n,   or max_m x_md of each column                 (1)
    moved(X, Λ, Γ, β)  y_m = Λ x_m + Γ Σ_{m'} x_{m'} + β                                           (2)
    critical(H)        the members at which the largest value of some column lies                 (3)
    power_sums(X, K)   (Σ_m x_m, Σ_m x_m², …, Σ_m x_m^K)                                           (4)

K power sums tell K numbers, up to their order (Newton's identities): a sum over members as wide as the set is large
loses nothing. With fewer they do not: {0, 4, 5} and {1, 2, 6} have the same sum and sum of squares.

Shapes     X a list of members, each a list of numbers
"""

from __future__ import annotations

from collections.abc import Sequence

Member = Sequence[float]


def pooled(members: Sequence[Member], how: str, typical: float = 1.0) -> list[float]:
    """Eq. 1.

    >>> pooled([[1.0, 5.0], [3.0, 4.0]], "max"), pooled([[1.0, 5.0], [3.0, 4.0]], "mean")
    ([3.0, 5.0], [2.0, 4.5])
    """
    columns = [[member[d] for member in members] for d in range(len(members[0]))]
    if how == "max":
        return [max(column) for column in columns]
    return [sum(column) / (typical if how == "sum" else len(members)) for column in columns]


def moved(
    members: Sequence[Member], own: Sequence[Member], others: Sequence[Member], shift: Member
) -> list[list[float]]:
    """Eq. 2; own and others are the rows of Λ and Γ.

    >>> moved([[1.0], [2.0]], [[10.0]], [[1.0]], [0.5])
    [[13.5], [23.5]]
    """
    total = pooled(members, "sum")
    said = []
    for member in members:
        row = []
        for weights, shared, b in zip(own, others, shift):
            alone = sum(w * value for w, value in zip(weights, member))
            row.append(alone + sum(w * value for w, value in zip(shared, total)) + b)
        said.append(row)
    return said


def critical(members: Sequence[Member]) -> set[int]:
    """Eq. 3; of equal values the first counts, and a column in which all are alike has none.

    >>> sorted(critical([[0.0, 9.0], [1.0, 2.0], [0.5, 3.0]]))
    [0, 1]
    """
    found = set()
    for d in range(len(members[0])):
        column = [member[d] for member in members]
        if max(column) > min(column):
            found.add(column.index(max(column)))
    return found


def power_sums(numbers: Sequence[float], count: int) -> list[float]:
    """Eq. 4.

    >>> power_sums([0, 4, 5], 3), power_sums([1, 2, 6], 3)
    ([9, 41, 189], [9, 41, 225])
    """
    return [sum(number**k for number in numbers) for k in range(1, count + 1)]
