"""The first machines, one unit and one row at a time.

    threshold unit   f = 1 where Σ excitatory - Σ inhibitory >= θ, else 0                     (1)
    perceptron       on y (wᵀx + b) <= 0:   w <- w + y x,   b <- b + y                        (2)
    Hebb             n W_ij = Σ_t ξ_ti ξ_tj  for i ≠ j,   W_ii = 0                            (3)
    energy           E(s) = -½ Σ_ij W_ij s_i s_j + Σ_i b_i s_i                                (4)
    update           s_i <- +1 where Σ_j W_ij s_j - b_i >= 0, else -1                         (5)
    cross-talk       C_ti = (1/n) Σ_{r≠t} ξ_ri Σ_{j≠i} ξ_rj ξ_tj                              (6)
    Cover            C(s, d) = C(s-1, d) + C(s-1, d-1),   C(1, d) = C(s, 1) = 2               (7)
    continuous       s <- Σ_t p_t ξ_t,   p = softmax_t(β ξ_tᵀ s)                              (8)

Notation   y -> -1 or +1;  ξ_t -> patterns[t];  couplings -> n W, whole numbers, so that a tie is a tie
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def threshold_unit(excitatory: Sequence[int], inhibitory: Sequence[int], threshold: float) -> int:
    """Eq. 1, from the values of the inputs.

    >>> threshold_unit([1, 1], [], 2), threshold_unit([1, 1], [1], 2)
    (1, 0)
    """
    total = 0
    for value in excitatory:
        total += value
    for value in inhibitory:
        total -= value
    return 1 if total >= threshold else 0


def perceptron_step(w: Sequence[float], b: float, x: Sequence[float], y: int) -> tuple[list[float], float, bool]:
    """Eq. 2 for one row: new weights, new bias, and whether the row was a mistake. A score of 0 is one.

    >>> perceptron_step([0.0, 0.0], 0.0, [2.0, 1.0], -1)
    ([-2.0, -1.0], -1.0, True)
    """
    score = b
    for w_i, x_i in zip(w, x, strict=True):
        score += w_i * x_i
    if y * score > 0:
        return list(w), b, False
    return [w_i + y * x_i for w_i, x_i in zip(w, x, strict=True)], b + y, True


def hebb_couplings(patterns: Sequence[Sequence[int]]) -> list[list[int]]:
    """n W of eq. 3.

    >>> hebb_couplings([[1, -1], [1, 1]])
    [[0, 0], [0, 0]]
    """
    n = len(patterns[0])
    couplings = [[0] * n for _ in range(n)]
    for pattern in patterns:
        for i in range(n):
            for j in range(n):
                if i != j:
                    couplings[i][j] += pattern[i] * pattern[j]
    return couplings


def hopfield_field(couplings: Sequence[Sequence[float]], bias: Sequence[float], state: Sequence[int], i: int) -> float:
    """Σ_j W_ij s_j - b_i of eq. 5.

    >>> hopfield_field([[0, 2], [2, 0]], [0.5, 0.0], [1, -1], 0)
    -1.5
    """
    total = 0.0
    for j, s_j in enumerate(state):
        total += couplings[i][j] * s_j
    return total / len(state) - bias[i]


def hopfield_energy(couplings: Sequence[Sequence[float]], bias: Sequence[float], state: Sequence[int]) -> float:
    """Eq. 4.

    >>> hopfield_energy([[0, 2], [2, 0]], [0.0, 0.0], [1, 1])
    -1.0
    """
    n, total = len(state), 0.0
    for i in range(n):
        for j in range(n):
            total -= couplings[i][j] * state[i] * state[j] / (2 * n)
        total += bias[i] * state[i]
    return total


def hopfield_sweep(
    couplings: Sequence[Sequence[float]], bias: Sequence[float], state: Sequence[int], order: Sequence[int]
) -> list[int]:
    """Eq. 5, one unit after the other in the given order: each sees what those before it became.

    >>> hopfield_sweep([[0, 2], [2, 0]], [0.0, 0.0], [1, -1], [0, 1])
    [-1, -1]
    """
    s = list(state)
    for i in order:
        s[i] = 1 if hopfield_field(couplings, bias, s, i) >= 0 else -1
    return s


def crosstalk(patterns: Sequence[Sequence[int]], t: int, i: int) -> float:
    """Eq. 6: what the other memories add to the field of unit i in pattern t.

    >>> crosstalk([[1, 1, 1], [1, 1, -1]], 0, 0)
    0.0
    """
    n, total = len(patterns[0]), 0
    for r, other in enumerate(patterns):
        if r == t:
            continue
        for j in range(n):
            if j != i:
                total += other[i] * other[j] * patterns[t][j]
    return total / n


def dense_field(patterns: Sequence[Sequence[int]], state: Sequence[int], i: int, power: int) -> float:
    """(n / 2k) Σ_t [(m_t with s_i = +1)^k - (m_t with s_i = -1)^k] of overlaps m_t = ξ_tᵀs / n, k -> power.

    >>> dense_field([[1, 1, 1]], [1, 1, 1], 0, 2) == hopfield_field([[0, 1, 1]] * 3, [0.0] * 3, [1, 1, 1], 0)
    True
    """
    n, total = len(state), 0.0
    for pattern in patterns:
        overlaps = []
        for value in (1, -1):
            overlap = 0
            for j in range(n):
                overlap += pattern[j] * (value if j == i else state[j])
            overlaps.append(overlap / n)
        total += overlaps[0] ** power - overlaps[1] ** power
    return n / (2 * power) * total


def continuous_update(patterns: Sequence[Sequence[float]], state: Sequence[float], beta: float) -> list[float]:
    """Eq. 8.

    >>> continuous_update([[1.0, 1.0], [-1.0, 1.0]], [0.0, 5.0], 1.0)
    [0.0, 1.0]
    """
    scores = []
    for pattern in patterns:
        score = 0.0
        for p_i, s_i in zip(pattern, state, strict=True):
            score += p_i * s_i
        scores.append(beta * score)
    largest = max(scores)
    weights = [math.exp(score - largest) for score in scores]
    updated = []
    for i in range(len(state)):
        total = 0.0
        for weight, pattern in zip(weights, patterns, strict=True):
            total += weight / sum(weights) * pattern[i]
        updated.append(total)
    return updated


def cover_count(points: int, dims: int) -> int:
    """Eq. 7 as it stands: labellings of so many points in general position that some wᵀx realises.

    >>> cover_count(4, 2), cover_count(5, 3), cover_count(6, 3)
    (8, 22, 32)
    """
    if points == 1 or dims == 1:
        return 2
    return cover_count(points - 1, dims) + cover_count(points - 1, dims - 1)
