"""Derivatives worked out by hand, for models small enough: of the loss over all rows, in each parameter.

    line       f = φ0 + φ1 x                                   l = Σ (f - y)²                               (1)
    gabor      f = sin u · e^{-u²/8},   u = φ0 + 0.06 φ1 x     f' = (cos u - u/4 · sin u) e^{-u²/8}         (2)
    logistic   f = φ0 + φ1 x                                   l = -Σ y log σ(f) + (1-y) log(1-σ(f))        (3)
               ∂l/∂f = σ(f) - y
    shallow    f = φ0 + Σ_d φ_d a[θ_d0 + θ_d1 x]               d = 1 … 3: 10 parameters                     (4)
    deep       f = φ0 + Σ_d φ_d a[ψ_0d + Σ_e ψ_ed a[θ_0e + θ_1e x]]        d, e = 1, 2: 13 parameters       (5)

a is ReLU, with a'[0] = 0; losses of (2), (4) and (5) are sums of squares. Each is the chain rule written out for that
one model: nothing is reused, which is what backpropagation mends.

Textbook   problem 7.1 counts 15 parameters in (5); there are 3 of φ, 6 of ψ and 4 of θ. Equation 7.23 prints a sum and
           one minus sign too few for one row of (3)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = Sequence[float]


def line(phi: Vector, x: Vector, y: Vector) -> list[float]:
    """Eq. 1: ∂l/∂φ0 and ∂l/∂φ1.

    >>> line([1.0, 2.0], [3.0], [5.0])
    [4.0, 12.0]
    """
    errors = [2 * (phi[0] + phi[1] * u - v) for u, v in zip(x, y, strict=True)]
    return [sum(errors), sum(e * u for e, u in zip(errors, x, strict=True))]


def line_hessian(x: Vector) -> list[list[float]]:
    """The second derivatives of (1): constant, and positive definite as soon as two x differ.

    >>> line_hessian([1.0, 2.0])
    [[4.0, 6.0], [6.0, 10.0]]
    """
    cross = 2 * sum(x)
    return [[2.0 * len(x), cross], [cross, 2 * sum(u * u for u in x)]]


def gabor(phi: Vector, x: Vector, y: Vector) -> list[float]:
    """Eq. 2: ∂l/∂φ0 and ∂l/∂φ1.

    >>> gabor([0.0, 1.0], [0.0], [-0.5])
    [1.0, 0.0]
    """
    total = [0.0, 0.0]
    for value, wanted in zip(x, y, strict=True):
        u = phi[0] + 0.06 * phi[1] * value
        bell = math.exp(-u * u / 8)
        error = 2 * (math.sin(u) * bell - wanted)
        slope = (math.cos(u) - u / 4 * math.sin(u)) * bell
        total[0] += error * slope
        total[1] += error * slope * 0.06 * value
    return total


def logistic(phi: Vector, x: Vector, y: Vector) -> list[float]:
    """Eq. 3: ∂l/∂φ0 and ∂l/∂φ1.

    >>> logistic([0.0, 0.0], [2.0], [1.0])
    [-0.5, -1.0]
    """
    errors = [1 / (1 + math.exp(-(phi[0] + phi[1] * u))) - v for u, v in zip(x, y, strict=True)]
    return [sum(errors), sum(e * u for e, u in zip(errors, x, strict=True))]


def shallow(theta: Sequence[Vector], phi: Vector, x: Vector, y: Vector) -> tuple[list[list[float]], list[float]]:
    """Eq. 4: ∂l/∂θ_d0, ∂l/∂θ_d1 of each unit, and ∂l/∂φ0, ∂l/∂φ1 …

    >>> shallow([[0.0, 1.0]], [0.0, 2.0], [3.0], [5.0])
    ([[4.0, 12.0]], [2.0, 6.0])
    """
    d_theta, d_phi = [[0.0, 0.0] for _ in theta], [0.0] * len(phi)
    for value, wanted in zip(x, y, strict=True):
        z = [offset + slope * value for offset, slope in theta]
        error = 2 * (phi[0] + sum(w * max(u, 0.0) for w, u in zip(phi[1:], z, strict=True)) - wanted)
        d_phi[0] += error
        for d, u in enumerate(z):
            d_phi[d + 1] += error * max(u, 0.0)
            if u > 0:
                d_theta[d][0] += error * phi[d + 1]
                d_theta[d][1] += error * phi[d + 1] * value
    return d_theta, d_phi


def deep(
    theta: Sequence[Vector], psi: Sequence[Vector], phi: Vector, x: Vector, y: Vector
) -> tuple[list[list[float]], list[list[float]], list[float]]:
    """Eq. 5: the derivatives in the shapes of θ, ψ and φ.

    Args:
        theta: [θ_0e, θ_1e] of each unit of the first layer.
        psi: [ψ_0d, ψ_1d, ψ_2d] of each unit of the second.
        phi: [φ0, φ1, φ2].

    >>> deep([[0.0, 1.0]], [[1.0, 2.0]], [0.0, 3.0], [1.0], [8.0])
    ([[12.0, 12.0]], [[6.0, 6.0]], [2.0, 6.0])
    """
    d_theta, d_psi, d_phi = [[0.0, 0.0] for _ in theta], [[0.0] * len(row) for row in psi], [0.0] * len(phi)
    for value, wanted in zip(x, y, strict=True):
        first = [offset + slope * value for offset, slope in theta]
        second = [row[0] + sum(w * max(u, 0.0) for w, u in zip(row[1:], first, strict=True)) for row in psi]
        error = 2 * (phi[0] + sum(w * max(u, 0.0) for w, u in zip(phi[1:], second, strict=True)) - wanted)
        d_phi[0] += error
        for d, u in enumerate(second):
            d_phi[d + 1] += error * max(u, 0.0)
            if u > 0:
                d_psi[d][0] += error * phi[d + 1]
                for e, v in enumerate(first):
                    d_psi[d][e + 1] += error * phi[d + 1] * max(v, 0.0)
                    if v > 0:
                        d_theta[e][0] += error * phi[d + 1] * psi[d][e + 1]
                        d_theta[e][1] += error * phi[d + 1] * psi[d][e + 1] * value
    return d_theta, d_psi, d_phi
