"""Recurrent networks that are linear in their state, one step and one unit at a time.

    minimal GRU    u = s(G x_t),   z_t = u z_{t-1} + (1 - u) V x_t                                         (1)
    minimal LSTM   f = s(F x_t),   i = s(G x_t),   z_t = (f z_{t-1} + i V x_t) / (f + i)                    (2)
    LRU            h_t = λ h_{t-1} + γ B x_t,   y_t = Re(C h_t) + D x_t,   λ = exp(-exp(ν) + i φ)           (3)
    dense          z_t = A z_{t-1} + E x_t,     y_t = W z_t          A = P diag(λ) P⁻¹ makes it (3), h = P⁻¹ z  (4)

Notation   a matrix is a list of rows;  s the sigmoid;  x is a list of steps, each a list of numbers
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence

from leadline.reference.networks import Matrix, Vector, affine

Complex = Sequence[complex]


def min_gru(
    x: Matrix, G: Matrix, V: Matrix, first: Vector, g: Vector | None = None, v: Vector | None = None
) -> list[list[float]]:
    """Eq. 1; g and v are the biases of G and V.

    >>> min_gru([[1.0], [1.0]], [[0.0]], [[4.0]], [0.0])
    [[2.0], [3.0]]
    """
    none, z, out = [0.0] * len(first), list(first), []
    for x_t in x:
        gates, values = affine(g or none, G, x_t), affine(v or none, V, x_t)
        z = [sigmoid(q) * old + (1 - sigmoid(q)) * new for q, old, new in zip(gates, z, values, strict=True)]
        out.append(z)
    return out


def min_lstm(
    x: Matrix,
    F: Matrix,
    G: Matrix,
    V: Matrix,
    first: Vector,
    f: Vector | None = None,
    g: Vector | None = None,
    v: Vector | None = None,
) -> list[list[float]]:
    """Eq. 2; f, g and v are the biases.

    >>> min_lstm([[1.0], [1.0]], [[0.0]], [[0.0]], [[4.0]], [0.0])
    [[2.0], [3.0]]
    """
    none, z, out = [0.0] * len(first), list(first), []
    for x_t in x:
        keep, write, values = (affine(c or none, M, x_t) for c, M in ((f, F), (g, G), (v, V)))
        next_ = []
        for p, q, old, new in zip(keep, write, z, values, strict=True):
            f_t, i_t = sigmoid(p), sigmoid(q)
            next_.append((f_t * old + i_t * new) / (f_t + i_t))
        z = next_
        out.append(z)
    return out


def eigenvalue(rate: float, phase: float) -> complex:
    """λ of eq. 3, of ν and φ.

    >>> abs(eigenvalue(0.0, 1.0)) == math.exp(-1)
    True
    """
    return cmath.exp(complex(-math.exp(rate), phase))


def lru(
    x: Matrix, eigenvalues: Complex, scales: Vector, B: Sequence[Complex], C: Sequence[Complex], D: Matrix, d: Vector
) -> list[list[float]]:
    """Eq. 3 from a state of 0; d is added to every y.

    >>> lru([[1.0], [0.0]], [0.5j], [1.0], [[1.0]], [[2.0]], [[3.0]], [0.0])
    [[5.0], [0.0]]
    """
    h, out = [0j] * len(eigenvalues), []
    for x_t in x:
        for n, lam in enumerate(eigenvalues):
            h[n] = lam * h[n] + scales[n] * sum(B[n][i] * value for i, value in enumerate(x_t))
        seen = [sum(c * value for c, value in zip(row, h, strict=True)).real for row in C]
        out.append([s + e for s, e in zip(seen, affine(d, D, x_t), strict=True)])
    return out


def dense(x: Matrix, A: Matrix, E: Matrix, W: Matrix) -> list[list[float]]:
    """Eq. 4 from a state of 0.

    >>> dense([[1.0], [0.0]], [[0.0, -1.0], [1.0, 0.0]], [[1.0], [0.0]], [[0.0, 1.0]])
    [[0.0], [1.0]]
    """
    none, z, out = [0.0] * len(A), [0.0] * len(A), []
    for x_t in x:
        z = [p + q for p, q in zip(affine(none, A, z), affine(none, E, x_t), strict=True)]
        out.append(affine([0.0] * len(W), W, z))
    return out


def sigmoid(q: float) -> float:
    """Without overflow on either side.

    >>> sigmoid(0.0), sigmoid(-1000.0)
    (0.5, 0.0)
    """
    return 1 / (1 + math.exp(-q)) if q >= 0 else math.exp(q) / (1 + math.exp(q))
