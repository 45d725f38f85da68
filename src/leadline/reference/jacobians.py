"""What a gradient costs: the derivatives of all layers of a chain, three ways, with their multiplications counted.

    ∂l/∂h_k = J_kᵀ J_{k+1}ᵀ … J_{L-1}ᵀ g        k = 0 … L - 1        J_k = ∂h_{k+1}/∂h_k,  g = ∂l/∂h_L

    naive      each product anew, matrix by matrix from the left      Σ_k (L - k - 1) D³ + L D²  =  O(L² D³)    (1)
    matrices   products of matrices, those of the layer above reused  (L - 1) D³ + L D²          =  O(L D³)     (2)
    vectors    from the right, so that all are vectors: backprop      L D²                                      (3)

Textbook   the slides count (1) and (2); backpropagation as it is run everywhere is (3)
"""

from __future__ import annotations

from leadline.reference.networks import Matrix, Vector


class Counter:
    """Multiplies matrices, and counts the multiplications of numbers.

    >>> counter = Counter()
    >>> counter.product([[1.0, 2.0]], [[3.0], [4.0]]), counter.count
    ([[11.0]], 2)
    """

    def __init__(self) -> None:
        self.count = 0

    def product(self, a: Matrix, b: Matrix) -> list[list[float]]:
        self.count += len(a) * len(b) * len(b[0])
        return [[sum(row[k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))] for row in a]


def chain(jacobians: list[Matrix], g: Vector, way: str = "vectors") -> tuple[list[list[float]], int]:
    """∂l/∂h_k of every layer, first layer first, and the number of multiplications.

    Args:
        jacobians: J_0 … J_{L-1}, a list of rows each.
        g: ∂l/∂h_L.
        way: "naive" (1), "matrices" (2) or "vectors" (3).

    >>> J = [[1.0, 2.0], [0.0, 1.0]]
    >>> chain([J, J], [1.0, 1.0], "naive"), chain([J, J], [1.0, 1.0], "vectors")
    (([[1.0, 5.0], [1.0, 3.0]], 16), ([[1.0, 5.0], [1.0, 3.0]], 8))
    """
    counter = Counter()
    turned = [[list(column) for column in zip(*jacobian)] for jacobian in jacobians]
    column = [[value] for value in g]
    found: list[list[float]] = []
    product: list[list[float]] | None = None
    for k in reversed(range(len(turned))):
        if way == "naive":
            product = turned[k]
            for above in turned[k + 1 :]:
                product = counter.product(product, above)
            slope = counter.product(product, column)
        elif way == "matrices":
            product = turned[k] if product is None else counter.product(turned[k], product)
            slope = counter.product(product, column)
        else:
            slope = column = counter.product(turned[k], column)
        found.append([row[0] for row in slope])
    return found[::-1], counter.count
