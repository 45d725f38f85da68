"""Densities of real, positive and bounded y, one value at a time, each from its textbook formula.

    loss = -log p(y),   z = (y - μ)/σ                                                             (1)
    laplace        p(y) = e^-|z| / 2σ                                                             (2)
    student t      p(y) = Γ((ν+1)/2) / (Γ(ν/2) √(νπ) σ) · (1 + z²/ν)^-(ν+1)/2                     (3)
    huber          p(y) = e^-ρ(z) / Zσ,   ρ = ½z² to |z| = δ, then δ|z| - ½δ²                     (4)
    robust         p(y) = e^-ρ(z) / Zσ,   ρ = (b/α)((z²/b + 1)^{α/2} - 1),  b = 2 - α             (5)
    log-normal     p(y) = exp(-½ ((log y - log m)/σ)²) / (y σ √2π)                                (6)
    gamma          p(y) = y^{k-1} e^{-y/θ} / (Γ(k) θ^k),   k = 1/σ²,  θ = mσ²                     (7)
    exponential    p(y) = e^{-y/m} / m                                                            (8)
    beta           p(y) = Γ(a+b)/(Γ(a)Γ(b)) y^{a-1} (1-y)^{b-1}                                   (9)
    normal in several dimensions
                   p(y) = exp(-½ (y-μ)ᵀ Σ^-1 (y-μ)) / √((2π)^d |Σ|)                               (10)
    pinball        τ (y - q), or (1 - τ)(q - y) where y < q: a loss and no density                (11)

Z of (4) and (5) is the integral of e^-ρ, summed up here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence


def laplace_loss(mu: float, sigma: float, y: float) -> float:
    """Eq. 2.

    >>> round(laplace_loss(0.0, 1.0, 0.0), 4)
    0.6931
    """
    return abs(y - mu) / sigma + math.log(2 * sigma)


def student_t_loss(mu: float, sigma: float, nu: float, y: float) -> float:
    """Eq. 3.

    >>> round(math.exp(student_t_loss(0.0, 1.0, 1.0, 0.0)), 4)  # π
    3.1416
    """
    z = (y - mu) / sigma
    front = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - math.log(math.sqrt(nu * math.pi) * sigma)
    return -(front - (nu + 1) / 2 * math.log(1 + z * z / nu))


def huber_penalty(z: float, delta: float) -> float:
    """ρ of eq. 4.

    >>> huber_penalty(3.0, 1.0)
    2.5
    """
    return z * z / 2 if abs(z) <= delta else delta * abs(z) - delta * delta / 2


def huber_loss(mu: float, sigma: float, delta: float, y: float) -> float:
    """Eq. 4.

    >>> round(huber_loss(0.0, 1.0, 30.0, 0.0), 4)
    0.9189
    """
    total = integral(
        lambda z: math.exp(-huber_penalty(z, delta)), [-60 / delta - delta, -delta, delta, 60 / delta + delta]
    )
    return huber_penalty((y - mu) / sigma, delta) + math.log(total * sigma)


def robust_penalty(z: float, alpha: float) -> float:
    """ρ of eq. 5, with its limits at α = 0 and α = 2.

    >>> robust_penalty(3.0, 2.0), round(robust_penalty(3.0, 1.0), 4)
    (4.5, 2.1623)
    """
    if alpha == 2:
        return z * z / 2
    if alpha == 0:
        return math.log(z * z / 2 + 1)
    b = 2 - alpha
    return b / alpha * ((z * z / b + 1) ** (alpha / 2) - 1)


def robust_loss(mu: float, sigma: float, alpha: float, y: float) -> float:
    """Eq. 5; tails as heavy as Cauchy's are summed over z = tan t.

    >>> round(robust_loss(0.0, 1.0, 2.0, 0.0), 4)
    0.9189
    """
    quarter = math.pi / 2 - 1e-9
    total = integral(
        lambda t: math.exp(-robust_penalty(math.tan(t), alpha)) / math.cos(t) ** 2, [-quarter, 0.0, quarter]
    )
    return robust_penalty((y - mu) / sigma, alpha) + math.log(total * sigma)


def integral(f: Callable[[float], float], edges: Sequence[float], steps: int = 4000) -> float:
    """∫ f by Simpson's rule between neighbouring edges.

    >>> round(integral(lambda x: x * x, [0.0, 3.0]), 9)
    9.0
    """
    total = 0.0
    for low, high in itertools.pairwise(edges):
        h = (high - low) / steps
        inner = sum((4 if k % 2 else 2) * f(low + k * h) for k in range(1, steps))
        total += h / 3 * (f(low) + inner + f(high))
    return total


def log_normal_loss(m: float, sigma: float, y: float) -> float:
    """Eq. 6.

    >>> round(log_normal_loss(1.0, 1.0, 1.0), 4)
    0.9189
    """
    z = math.log(y / m) / sigma
    return z * z / 2 + math.log(y * sigma * math.sqrt(2 * math.pi))


def gamma_loss(m: float, sigma: float, y: float) -> float:
    """Eq. 7.

    >>> gamma_loss(1.0, 1.0, 1.0)
    1.0
    """
    k = 1 / sigma**2
    theta = m / k
    return -((k - 1) * math.log(y) - y / theta - math.lgamma(k) - k * math.log(theta))


def exponential_loss(m: float, y: float) -> float:
    """Eq. 8.

    >>> exponential_loss(1.0, 2.0)
    2.0
    """
    return y / m + math.log(m)


def beta_loss(a: float, b: float, y: float) -> float:
    """Eq. 9.

    >>> beta_loss(1.0, 1.0, 0.3)
    0.0
    """
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return -(front + (a - 1) * math.log(y) + (b - 1) * math.log(1 - y)) + 0.0


def multivariate_normal_loss(mu: Sequence[float], covariance: Sequence[Sequence[float]], y: Sequence[float]) -> float:
    """Eq. 10, over Σ = L Lᵀ: |Σ| = Π L_ii², and z = L^-1 (y - μ) by solving from the top.

    >>> round(multivariate_normal_loss([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), 4)
    1.8379
    """
    L = cholesky(covariance)
    loss = len(y) / 2 * math.log(2 * math.pi)
    z: list[float] = []
    for i, row in enumerate(L):
        z.append((y[i] - mu[i] - sum(row[j] * z[j] for j in range(i))) / row[i])
        loss += z[i] ** 2 / 2 + math.log(row[i])
    return loss


def cholesky(A: Sequence[Sequence[float]]) -> list[list[float]]:
    """The lower triangular L with L Lᵀ = A.

    >>> cholesky([[4.0, 2.0], [2.0, 5.0]])
    [[2.0, 0.0], [1.0, 2.0]]
    """
    n = len(A)
    L = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = A[i][j] - sum(L[i][k] * L[j][k] for k in range(j))
            L[i][j] = math.sqrt(rest) if i == j else rest / L[j][j]
    return L


def pinball_loss(level: float, q: float, y: float) -> float:
    """Eq. 11.

    >>> pinball_loss(0.9, 0.0, 1.0), round(pinball_loss(0.9, 0.0, -1.0), 4)
    (0.9, 0.1)
    """
    return level * (y - q) if y >= q else (1 - level) * (q - y)


def piecewise_loss(levels: Sequence[float], knots: Sequence[float], unit: float, y: float) -> float:
    """-log p of the distribution that is flat between quantiles and exponential beyond the outermost.

    A tail begins at the density of the piece beside it; where there is one knot only, it is `unit` wide.

    >>> round(math.exp(-piecewise_loss([0.25, 0.75], [0.0, 2.0], 1.0, 1.5)), 4)
    0.25
    """
    pairs = list(zip(levels[:-1], levels[1:], knots[:-1], knots[1:], strict=True))
    heights = [(b - a) / (high - low) for a, b, low, high in pairs]
    if y < knots[0]:
        height = heights[0] if heights else levels[0] / unit
        return -math.log(height) + (knots[0] - y) * height / levels[0]
    if y >= knots[-1]:
        height = heights[-1] if heights else (1 - levels[-1]) / unit
        return -math.log(height) + (y - knots[-1]) * height / (1 - levels[-1])
    for height, (_, _, low, high) in zip(heights, pairs, strict=True):
        if low <= y < high:
            return -math.log(height)
    raise ValueError("knots must increase")
