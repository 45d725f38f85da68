"""Bayesian linear regression in closed form: which weights, and how surely.

    y = aᵀφ + σ ε,   φ ~ N(0, σ0² I)                                                                        (1)
    Σ⁻¹ = Σ_i a_i a_iᵀ / σ² + I / σ0²,     μ = Σ Σ_i a_i y_i / σ²          φ | y ~ N(μ, Σ)                  (2)
    y* | a* ~ N(a*ᵀμ, a*ᵀΣa* + σ²)                                                                          (3)

Notation   a -> a row of features, 1 among them;  σ -> noise;  σ0 -> prior
"""

from __future__ import annotations

from leadline.reference.regression import Matrix, Vector, solved


def posterior(rows: Matrix, y: Vector, noise: float, prior: float) -> tuple[list[float], list[list[float]]]:
    """Eq. 2: μ and Σ.

    >>> posterior([[1.0], [1.0]], [3.0, 1.0], noise=1.0, prior=1.0)
    ([1.3333333333333333], [[0.3333333333333333]])
    """
    width = len(rows[0])
    precision = [[(j == k) / prior**2 for k in range(width)] for j in range(width)]
    right = [0.0] * width
    for a, value in zip(rows, y, strict=True):
        for j in range(width):
            right[j] += a[j] * value / noise**2
            for k in range(width):
                precision[j][k] += a[j] * a[k] / noise**2
    covariance = [solved(precision, [float(j == k) for j in range(width)]) for k in range(width)]
    return solved(precision, right), covariance


def predictive(a: Vector, mean: Vector, covariance: Matrix, noise: float) -> tuple[float, float]:
    """Eq. 3: mean and deviation of a new y.

    >>> predictive([2.0], [1.0], [[0.75]], noise=1.0)
    (2.0, 2.0)
    """
    middle = sum(u * m for u, m in zip(a, mean, strict=True))
    own = sum(u * sum(c * v for c, v in zip(row, a, strict=True)) for u, row in zip(a, covariance, strict=True))
    return middle, (own + noise**2) ** 0.5
