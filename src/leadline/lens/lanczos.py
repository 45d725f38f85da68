"""Lanczos' method: what can be known of a large symmetric matrix from its products with vectors.

    H Q_m = Q_m T + β_m q_{m+1} e_mᵀ             T tridiagonal, Qᵀ Q = I; started from q_1                        (1)
    T = S diag(θ) Sᵀ                             θ near H's eigenvalues, the outermost first                      (2)
    |H y_i - θ_i y_i| = |β_m S_{m,i}|            y_i = Q_m S_i: how wrong each may be, known without a product    (3)
    q_1ᵀ g(H) q_1 ≈ Σ_i (S_{1,i})² g(θ_i)        exact for polynomials of degree below 2m (Gauss)                 (4)

Averaged over random q_1, (4) is tr g(H) / P: stochastic Lanczos quadrature. Each new vector is made orthogonal to all
before it, twice: without that, rounding brings found eigenvalues back as ghosts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Ritz:
    """What one start vector has shown.

    Args:
        values: θ, ascending.  weights: (S_{1,i})², which add up to 1.  residuals: eq. 3.
        first: q_1ᵀ H q_1.
        low, top: y of the least θ and of the largest, the outermost first, (ends, P).
    """

    values: Tensor
    weights: Tensor
    residuals: Tensor
    first: float
    low: Tensor
    top: Tensor


def lanczos(product: Product, start: Tensor, steps: int, ends: int = 1) -> Ritz:
    """At most `steps` steps; fewer where the start's own subspace is exhausted, and eq. 4 is then exact.

    Args:
        ends: how many vectors to keep of either end.

    >>> found = lanczos(lambda v: torch.tensor([1.0, 2.0, 5.0]) * v, torch.ones(3), steps=9)
    >>> [round(value, 4) for value in found.values.tolist()]
    [1.0, 2.0, 5.0]
    """
    q = start / start.norm()
    basis, diagonal, beside = [q], list[float](), list[float]()
    rounding, size = torch.finfo(start.dtype).eps, 0.0
    for _ in range(min(steps, len(start))):
        w = product(basis[-1])
        diagonal.append(float(basis[-1] @ w))
        known = torch.stack(basis)
        for _ in range(2):
            w = w - known.T @ (known @ w)
        beta = float(w.norm())
        size = max(size, abs(diagonal[-1]) + beta)
        if beta <= 10 * rounding * len(start) ** 0.5 * size:
            beta = 0.0
        beside.append(beta)
        if beta == 0.0:
            break
        basis.append(w / beta)
    m = len(diagonal)
    off = torch.tensor(beside[: m - 1], dtype=torch.float64)
    matrix = torch.tensor(diagonal, dtype=torch.float64).diag() + off.diag(1) + off.diag(-1)
    values, turned = torch.linalg.eigh(matrix)
    low, top = turned[:, :ends], turned.flip(1)[:, :ends]
    q = torch.stack(basis[:m])
    residuals = beside[-1] * turned[-1].abs()
    return Ritz(values, turned[0].square(), residuals, diagonal[0], low.T.to(q) @ q, top.T.to(q) @ q)
