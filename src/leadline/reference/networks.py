"""Feed-forward networks, one unit at a time.

    h_d = a[θ_d0 + Σ_i θ_di x_i],   y_j = φ_j0 + Σ_d φ_jd h_d                  (1)   shallow
    h_{k+1} = a[β_k + Ω_k h_k],  h_0 = x,   y = β_K + Ω_K h_K                  (2)   deep
    ψ_d0 = θ'_d0 + θ'_d1 φ_0,   ψ_de = θ'_d1 φ_e                               (3)   a composition as one deep network

Notation   a matrix is a list of rows;  θ[d-1] -> [θ_d0, θ_d1, …] and φ[j-1] -> [φ_j0, φ_j1, …], offset first
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Vector = Sequence[float]
Matrix = Sequence[Vector]


def affine(offsets: Vector, slopes: Matrix, x: Vector) -> list[float]:
    """β + Ω x.

    >>> affine([1.0], [[2.0, 3.0]], [10.0, 100.0])
    [321.0]
    """
    out = []
    for offset, row in zip(offsets, slopes, strict=True):
        total = offset
        for slope, value in zip(row, x, strict=True):
            total += slope * value
        out.append(total)
    return out


def shallow(theta: Matrix, phi: Matrix, x: Vector, a: Callable[[float], float]) -> list[float]:
    """Eq. 1.

    >>> shallow([[0.0, 1.0], [0.0, -1.0]], [[0.5, 1.0, 1.0]], [-3.0], lambda z: max(z, 0.0))  # 1/2 + |x|
    [3.5]
    """
    h = [a(z) for z in affine([row[0] for row in theta], [row[1:] for row in theta], x)]
    return affine([row[0] for row in phi], [row[1:] for row in phi], h)


def deep(maps: Sequence[tuple[Vector, Matrix]], x: Vector, a: Callable[[float], float]) -> list[float]:
    """Eq. 2; `maps` are the pairs β_k, Ω_k.

    >>> deep([([0.0], [[1.0]]), ([0.0], [[2.0]]), ([1.0], [[1.0]])], [3.0], lambda z: max(z, 0.0))
    [7.0]
    """
    h = list(x)
    for offsets, slopes in maps[:-1]:
        h = [a(z) for z in affine(offsets, slopes, h)]
    return affine(*maps[-1], h)


def merged(phi: Vector, theta: Matrix) -> tuple[list[float], list[list[float]]]:
    """Eq. 3: offsets and slopes from the hidden units of a first network with one output to those of a second.

    Args:
        phi: φ_0, φ_1 … of the first network.
        theta: θ'_d0, θ'_d1 of each hidden unit of the second.

    >>> merged([1.0, 2.0], [[0.5, 10.0]])
    ([10.5], [[20.0]])
    """
    offsets = [row[0] + row[1] * phi[0] for row in theta]
    return offsets, [[row[1] * weight for weight in phi[1:]] for row in theta]
