"""Backpropagation through time, by hand: the gradient of a loss at every step of Elman's network.

    z_t   = a(s_t),   s_t = U z_{t-1} + V x_t,   z_0 = 0,   L = Σ_t l_t(z_t)                                 (1)
    ∂L/∂z_t = Σ_{i>=t} ∂l_i/∂z_i · Π_{j=t+1}^{i} diag(a'(s_j)) U                                             (2)
            = ∂l_t/∂z_t + Uᵀ (a'(s_{t+1}) * ∂L/∂z_{t+1})                      the same, from the end on      (3)
    δ_t   = a'(s_t) * ∂L/∂z_t;   ∂L/∂U = Σ_t δ_t z_{t-1}ᵀ,   ∂L/∂V = Σ_t δ_t x_tᵀ                             (4)

(2) has T (T + 1) / 2 terms, (3) T: the second is what every library does.

Notation   a matrix is a list of rows;  g_t = ∂l_t/∂z_t
"""

from __future__ import annotations

from collections.abc import Callable

from leadline.reference.networks import Matrix, Vector

Rows = list[list[float]]
Slope = Callable[[float], float]


def sums(U: Matrix, V: Matrix, x: Matrix, a: Slope) -> tuple[Rows, Rows]:
    """s_t and z_t of eq. 1, for every step.

    >>> sums([[1.0]], [[2.0]], [[1.0], [1.0]], lambda s: s)
    ([[2.0], [4.0]], [[2.0], [4.0]])
    """
    before, passed, states = [0.0] * len(U), [], []
    for x_t in x:
        s = [_dot(u, before) + _dot(v, x_t) for u, v in zip(U, V, strict=True)]
        before = [a(one) for one in s]
        passed.append(s)
        states.append(before)
    return passed, states


def by_products(U: Matrix, s: Matrix, g: Matrix, slope: Slope) -> Rows:
    """∂L/∂z_t of every step by eq. 2: each loss on its own, its product of matrices written out.

    >>> by_products([[0.5]], [[0.0], [0.0]], [[1.0], [1.0]], lambda s: 1.0)
    [[1.5], [1.0]]
    """
    found = []
    for t in range(len(s)):
        total = [0.0] * len(U)
        for i in range(t, len(s)):
            row = list(g[i])  # ∂l_i/∂z_i, multiplied from the right by one factor after the other
            for j in range(i, t, -1):
                row = [sum(row[m] * slope(s[j][m]) * U[m][n] for m in range(len(U))) for n in range(len(U))]
            total = [p + q for p, q in zip(total, row, strict=True)]
        found.append(total)
    return found


def from_the_end(U: Matrix, s: Matrix, g: Matrix, slope: Slope) -> Rows:
    """∂L/∂z_t of every step by eq. 3.

    >>> from_the_end([[0.5]], [[0.0], [0.0]], [[1.0], [1.0]], lambda s: 1.0)
    [[1.5], [1.0]]
    """
    later = [0.0] * len(U)
    found: Rows = []
    for t in range(len(s) - 1, -1, -1):
        later = [p + q for p, q in zip(g[t], later, strict=True)]
        found.insert(0, later)
        delta = [slope(one) * q for one, q in zip(s[t], later, strict=True)]
        later = [sum(U[m][n] * delta[m] for m in range(len(U))) for n in range(len(U))]
    return found


def of_weights(s: Matrix, z: Matrix, x: Matrix, by_state: Matrix, slope: Slope) -> tuple[Rows, Rows]:
    """∂L/∂U and ∂L/∂V by eq. 4, from ∂L/∂z of every step.

    >>> of_weights([[2.0], [4.0]], [[2.0], [4.0]], [[1.0], [1.0]], [[1.5], [1.0]], lambda s: 1.0)
    ([[2.0]], [[2.5]])
    """
    size, width = len(s[0]), len(x[0])
    U, V = ([[0.0] * columns for _ in range(size)] for columns in (size, width))
    for t in range(len(s)):
        before = z[t - 1] if t else [0.0] * size
        for m in range(size):
            delta = slope(s[t][m]) * by_state[t][m]
            U[m] = [p + delta * q for p, q in zip(U[m], before, strict=True)]
            V[m] = [p + delta * q for p, q in zip(V[m], x[t], strict=True)]
    return U, V


def _dot(a: Vector, b: Vector) -> float:
    return sum(p * q for p, q in zip(a, b, strict=True))
