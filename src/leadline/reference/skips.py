"""Layers that hand on what they read, one unit at a time.

y_d = Σ_i V_di x_i + (a[β_d + Σ_i Ω_di x_i] - a[0])        V = 1 where the widths agree        (1)   add
y   = [x, a[β + Ω x]]                                                                          (2)   concat
"""

from __future__ import annotations

from collections.abc import Callable

from leadline.reference.networks import Matrix, Vector, affine


def add(
    offsets: Vector, slopes: Matrix, x: Vector, a: Callable[[float], float], V: Matrix | None = None
) -> list[float]:
    """Eq. 1.

    >>> add([0.0], [[2.0]], [3.0], lambda z: 1 + max(z, 0.0))
    [9.0]
    """
    kept = list(x) if V is None else affine([0.0] * len(V), V, x)
    return [k + (a(z) - a(0.0)) for k, z in zip(kept, affine(offsets, slopes, x), strict=True)]


def concat(offsets: Vector, slopes: Matrix, x: Vector, a: Callable[[float], float]) -> list[float]:
    """Eq. 2.

    >>> concat([1.0], [[2.0]], [3.0], lambda z: max(z, 0.0))
    [3.0, 7.0]
    """
    return [*x, *[a(z) for z in affine(offsets, slopes, x)]]
