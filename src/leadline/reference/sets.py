"""Functions of sets, one member at a time: the order of the members has no influence, or moves with the outputs.

    invariant    f({x_1 … x_M}) = ρ[Σ_m φ[x_m]]                                  (Zaheer et al., 2017)         (1)
    equivariant  f_m = ρ[x_m, Σ_k φ[x_k]]                                                                      (2)
    Janossy      f = mean over all orders of g[x_π(1) … x_π(M)]                  (Murphy et al., 2019)         (3)

    f(P X) = f(X)   invariant,        f(P X) = P f(X)   equivariant                                            (4)

Paper      lecture notes print the second of (4) as f(X) = P f(P X), which fails already for a shift by one of four.
Shapes     a set is a list of members, each a list of numbers
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

from leadline.reference.networks import Matrix, Vector

Function = Callable[[Vector], list[float]]


def deep_set(x: Matrix, phi: Function, rho: Function, how: str = "sum") -> list[float]:
    """Eq. 1, or with a mean or the largest value in place of the sum.

    >>> deep_set([[1.0], [2.0], [4.0]], lambda v: [v[0], v[0] ** 2], lambda s: [s[0] + s[1]])
    [28.0]
    """
    return rho(gathered(x, phi, how))


def deep_set_each(x: Matrix, phi: Function, rho: Function, how: str = "sum") -> list[list[float]]:
    """Eq. 2; ρ reads a member and, behind it, the sum.

    >>> deep_set_each([[1.0], [2.0]], lambda v: [v[0]], lambda v: [v[1] - v[0]])
    [[2.0], [1.0]]
    """
    total = gathered(x, phi, how)
    return [rho([*member, *total]) for member in x]


def janossy(x: Matrix, g: Callable[[Matrix], list[float]]) -> list[float]:
    """Eq. 3, over all M! orders.

    >>> janossy([[1.0], [3.0]], lambda rows: list(rows[0]))
    [2.0]
    """
    answers = [g(list(order)) for order in permutations(x)]
    return [sum(column) / len(answers) for column in zip(*answers, strict=True)]


def gathered(x: Matrix, phi: Function, how: str = "sum") -> list[float]:
    """Σ_m φ[x_m], its mean, or the largest of each number.

    >>> [gathered([[1.0], [3.0]], list, how) for how in ("sum", "mean", "max")]
    [[4.0], [2.0], [3.0]]
    """
    columns = list(zip(*(phi(member) for member in x), strict=True))
    if how == "max":
        return [max(column) for column in columns]
    return [sum(column) / (len(column) if how == "mean" else 1) for column in columns]
