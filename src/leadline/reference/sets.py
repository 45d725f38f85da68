"""Sets spelled out: what is the same in any order, and what moves with its members.

    pooled(X, how)     Σ_m x_m / n̄,   Σ_m x_m / n,   or max_m x_md of each column                              (1)
    moved(X, Λ, Γ, β)  y_m = Λ x_m + Γ Σ_{m'} x_{m'} + β                                                        (2)
    deep_set           f({x_1 … x_M}) = ρ[Σ_m φ[x_m]]                            (Zaheer et al., 2017)          (3)
    deep_set_each      f_m = ρ[x_m, Σ_k φ[x_k]]                                                                 (4)
    janossy            f = mean over all orders of g[x_π(1) … x_π(M)]            (Murphy et al., 2019)          (5)
    critical(H)        the members at which the largest value of some column lies                              (6)
    power_sums(X, K)   (Σ_m x_m, Σ_m x_m², …, Σ_m x_m^K)                                                        (7)

    f(P X) = f(X)   invariant: 1, 3, 5, 7        f(P X) = P f(X)   equivariant: 2, 4                            (8)

K power sums tell K numbers, up to their order (Newton's identities): a sum over members as wide as the set is large
loses nothing. With fewer they do not: {0, 4, 5} and {1, 2, 6} have the same sum and sum of squares.

Paper      lecture notes print the second of (8) as f(X) = P f(P X), which fails already for a shift by one of four.
Shapes     X a list of members, each a list of numbers
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

from leadline.reference.networks import Matrix, Vector

Function = Callable[[Vector], list[float]]


def pooled(members: Matrix, how: str = "sum", typical: float = 1.0) -> list[float]:
    """Eq. 1.

    >>> pooled([[1.0, 5.0], [3.0, 4.0]], "max"), pooled([[1.0, 5.0], [3.0, 4.0]], "mean")
    ([3.0, 5.0], [2.0, 4.5])
    """
    columns = [[member[d] for member in members] for d in range(len(members[0]))]
    if how == "max":
        return [max(column) for column in columns]
    return [sum(column) / (typical if how == "sum" else len(members)) for column in columns]


def moved(members: Matrix, own: Matrix, others: Matrix, shift: Vector) -> list[list[float]]:
    """Eq. 2; own and others are the rows of Λ and Γ.

    >>> moved([[1.0], [2.0]], [[10.0]], [[1.0]], [0.5])
    [[13.5], [23.5]]
    """
    total = pooled(members)
    said = []
    for member in members:
        row = []
        for weights, shared, b in zip(own, others, shift):
            alone = sum(w * value for w, value in zip(weights, member))
            row.append(alone + sum(w * value for w, value in zip(shared, total)) + b)
        said.append(row)
    return said


def deep_set(x: Matrix, phi: Function, rho: Function, how: str = "sum") -> list[float]:
    """Eq. 3, or with a mean or the largest value in place of the sum.

    >>> deep_set([[1.0], [2.0], [4.0]], lambda v: [v[0], v[0] ** 2], lambda s: [s[0] + s[1]])
    [28.0]
    """
    return rho(pooled([phi(member) for member in x], how))


def deep_set_each(x: Matrix, phi: Function, rho: Function, how: str = "sum") -> list[list[float]]:
    """Eq. 4; ρ reads a member and, after it, the sum.

    >>> deep_set_each([[1.0], [2.0]], lambda v: [v[0]], lambda v: [v[1] - v[0]])
    [[2.0], [1.0]]
    """
    total = pooled([phi(member) for member in x], how)
    return [rho([*member, *total]) for member in x]


def janossy(x: Matrix, g: Callable[[Matrix], list[float]]) -> list[float]:
    """Eq. 5, over all M! orders.

    >>> janossy([[1.0], [3.0]], lambda rows: list(rows[0]))
    [2.0]
    """
    answers = [g(list(order)) for order in permutations(x)]
    return [sum(column) / len(answers) for column in zip(*answers, strict=True)]


def critical(members: Matrix) -> set[int]:
    """Eq. 6; of equal values the first counts, and a column in which all are alike has none.

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
    """Eq. 7.

    >>> power_sums([0, 4, 5], 3), power_sums([1, 2, 6], 3)
    ([9, 41, 189], [9, 41, 225])
    """
    return [sum(number**k for number in numbers) for k in range(1, count + 1)]
