"""Linear, ridge, logistic and softmax regression: normal equations and Newton's step, written out.

    line       φ1 = Σ (x - x̄)(y - ȳ) / Σ (x - x̄)²,   φ0 = ȳ - φ1 x̄                              (1)
    squares    (Σ_i w_i a_i a_iᵀ + λ I') φ = Σ_i w_i a_i y_i                                     (2)   a = (x, 1)
    newton     φ - H⁻¹ g                                                                         (3)
               g = Σ_i w_i (p_i - q_i) a_iᵀ + λ I' φ,   H = Σ_i w_i (diag p_i - p_i p_iᵀ) ⊗ a_i a_iᵀ + λ I'

Notation   λ -> ridge;  I' -> ones on the diagonal but for offsets;  p -> probabilities of the classes;  q -> 1 for the
           class that came, else 0. Two classes have one row of φ: the logit of the second over the first
"""

from __future__ import annotations

from collections.abc import Sequence

from leadline.reference.likelihoods import bernoulli_probabilities, categorical_probabilities

Vector = Sequence[float]
Matrix = Sequence[Vector]


def solved(matrix: Matrix, right: Vector) -> list[float]:
    """matrix · a = right, by elimination with the largest pivot first.

    >>> solved([[0.0, 2.0], [1.0, 1.0]], [4.0, 5.0])
    [3.0, 2.0]
    """
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    n = len(rows)
    for k in range(n):
        pivot = max(range(k, n), key=lambda r: abs(rows[r][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for r in range(k + 1, n):
            factor = rows[r][k] / rows[k][k]
            for c in range(k, n + 1):
                rows[r][c] -= factor * rows[k][c]
    a = [0.0] * n
    for k in reversed(range(n)):
        rest = sum(rows[k][c] * a[c] for c in range(k + 1, n))
        a[k] = (rows[k][n] - rest) / rows[k][k]
    return a


def line(x: Vector, y: Vector) -> tuple[float, float]:
    """Eq. 1: offset and slope.

    >>> line([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
    (1.0, 2.0)
    """
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((u - mean_x) * (v - mean_y) for u, v in zip(x, y, strict=True))
    below = sum((u - mean_x) ** 2 for u in x)
    return mean_y - above / below * mean_x, above / below


def least_squares(x: Matrix, y: Vector, weight: Vector | None = None, ridge: float = 0.0) -> list[float]:
    """Eq. 2: the slopes, then the offset.

    >>> [round(v, 9) for v in least_squares([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])]
    [2.0, 1.0]
    """
    width = len(x[0]) + 1
    gram = [[0.0] * width for _ in range(width)]
    right = [0.0] * width
    for i, row in enumerate(x):
        a, w = [*row, 1.0], 1.0 if weight is None else weight[i]
        for j in range(width):
            right[j] += w * a[j] * y[i]
            for k in range(width):
                gram[j][k] += w * a[j] * a[k]
    for j in range(width - 1):
        gram[j][j] += ridge
    return solved(gram, right)


def newton_step(phi: Matrix, x: Matrix, y: Sequence[int], ridge: float = 0.0) -> list[list[float]]:
    """Eq. 3: the weights after one full step; `phi` has one row for two classes, or one for each class.

    With a row for each class H has no inverse, for adding one vector to all rows changes nothing: the first row is
    held where it is, and the others move.

    >>> [[round(v, 6) for v in row] for row in newton_step([[0.0, 0.0]], [[-1.0], [1.0], [1.0]], [0, 1, 0])]
    [[1.0, -1.0]]
    """
    rows, width = len(phi), len(x[0]) + 1
    moving = range(rows) if rows == 1 else range(1, rows)
    places = [(c, j) for c in moving for j in range(width)]
    gradient = dict.fromkeys(places, 0.0)
    hessian = {(here, there): 0.0 for here in places for there in places}
    for row, label in zip(x, y, strict=True):
        a = [*row, 1.0]
        logits = [sum(v * u for v, u in zip(weights, a, strict=True)) for weights in phi]
        p = bernoulli_probabilities(logits[0])[1:] if rows == 1 else categorical_probabilities(logits)
        for c, j in places:
            came = label == (c if rows > 1 else 1)
            gradient[c, j] += (p[c] - came) * a[j]
            for e, k in places:
                hessian[(c, j), (e, k)] += p[c] * ((c == e) - p[e]) * a[j] * a[k]
    for c, j in places:
        if j < width - 1:
            gradient[c, j] += ridge * phi[c][j]
            hessian[(c, j), (c, j)] += ridge
    step = solved([[hessian[here, there] for there in places] for here in places], [gradient[p] for p in places])
    moved = [list(weights) for weights in phi]
    for (c, j), change in zip(places, step, strict=True):
        moved[c][j] -= change
    return moved
