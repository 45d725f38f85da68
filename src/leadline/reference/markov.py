"""Markov models of sequences: counts are the likeliest probabilities, and where a chain settles.

    P(x_1 … x_T) = Π_t P(x_t | x_1 … x_{t-1})                        any sequence                              (1)
                 ≈ Π_t P(x_t | x_{t-k} … x_{t-1})                    a chain of order k                        (2)
    P(b | a)     = n(a, b) / Σ_c n(a, c)                             of largest likelihood                     (3)
    π_b          = Σ_a π_a P(b | a)                                  the share of time that it is in b         (4)

In (2) the first k values of a sequence are given and not scored. (4) has one solution where every state leads to every
other; from there on, only the mean over time need settle, for a chain may go round.

Notation   a the k values before, as a tuple;  n(a, b) how often b follows them
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

Context = tuple[Hashable, ...]
Chain = dict[Context, dict[Hashable, float]]


def counts(rows: Sequence[Sequence[Hashable]], order: int = 1) -> dict[Context, dict[Hashable, int]]:
    """n(a, b) of all rows.

    >>> counts(["aab"])
    {('a',): {'a': 1, 'b': 1}}
    """
    found: dict[Context, dict[Hashable, int]] = {}
    for row in rows:
        for t in range(order, len(row)):
            behind = found.setdefault(tuple(row[t - order : t]), {})
            behind[row[t]] = behind.get(row[t], 0) + 1
    return found


def likeliest(rows: Sequence[Sequence[Hashable]], order: int = 1) -> Chain:
    """Eq. 3.

    >>> likeliest(["aaab"])
    {('a',): {'a': 0.6666666666666666, 'b': 0.3333333333333333}}
    """
    return {a: {b: n / sum(own.values()) for b, n in own.items()} for a, own in counts(rows, order).items()}


def log_likelihood(rows: Sequence[Sequence[Hashable]], chain: Mapping[Context, Mapping[Hashable, float]]) -> float:
    """The logarithm of eq. 2, of all rows; the order is that of the chain. -inf where a step cannot be.

    >>> round(log_likelihood(["aaab"], likeliest(["aaab"])), 6)
    -1.909543
    >>> log_likelihood(["ba"], likeliest(["ab"]))
    -inf
    """
    order = len(next(iter(chain)))
    total = 0.0
    for row in rows:
        for t in range(order, len(row)):
            p = chain.get(tuple(row[t - order : t]), {}).get(row[t], 0.0)
            total += math.log(p) if p > 0 else -math.inf
    return total


def stationary(P: Sequence[Sequence[float]]) -> list[float]:
    """Eq. 4, of a matrix whose row a holds P(· | a), every state of which leads to every other.

    The equations for all states but one, and that shares add up to 1, solved by elimination.

    >>> [round(share, 12) for share in stationary([[0.5, 0.5], [0.25, 0.75]])]
    [0.333333333333, 0.666666666667]
    """
    size = len(P)
    system = [[P[a][b] - (a == b) for a in range(size)] + [0.0] for b in range(size - 1)]
    system.append([1.0] * (size + 1))
    for k in range(size):
        largest = max(range(k, size), key=lambda row: abs(system[row][k]))
        system[k], system[largest] = system[largest], system[k]
        for row in range(size):
            if row != k:
                factor = system[row][k] / system[k][k]
                system[row] = [p - factor * q for p, q in zip(system[row], system[k], strict=True)]
    return [system[k][size] / system[k][k] for k in range(size)]
