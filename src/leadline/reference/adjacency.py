"""A graph as a matrix: neighbours, walks, degrees, Laplacians and their eigenvectors, one number at a time.

    A_ij   = weight of the edge j → i, 0 where there is none; A = Aᵀ without directions                       (1)
    walks  (A^L)_ij ways to go from j to i in L steps, edges and nodes used again as often as one likes       (2)
    d_i    = Σ_j A_ij                                                                                         (3)
    L      = D - A,   (L x)_i = Σ_j A_ij (x_i - x_j) = d_i (x_i - mean of its neighbours)                     (4)
    L~     = I - D^{-1/2} A D^{-1/2}                                                                          (5)
    Ā      = D'^{-1/2} (A + I) D'^{-1/2},  D' = D + I             loops first (Kipf and Welling, 2017)        (6)
    Ā'     = D^{-1/2} A D^{-1/2} + I                              the identity last, as UDL prints it         (7)
    A'     = P A Pᵀ,   A'_{p(i) p(j)} = A_ij                      the same graph, nodes in another order      (8)
    energy x·L x = ½ Σ_ij A_ij (x_i - x_j)²                       of weights that are the same both ways      (9)

Where a degree is 0, its root is taken to be 0 in (5) to (7): nothing comes to such a node.

Notation   a matrix is a list of rows; row i is what node i receives. UDL writes nodes as columns, and its A is our Aᵀ
Paper      the eigenvalues of (6) lie in (-1, 1]; those of (7) in [0, 2], so that (7) may double a signal and (6) never
           makes one longer
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from leadline.reference.networks import Matrix, Vector


def adjacency(
    num_nodes: int, pairs: Iterable[tuple[int, int]], weights: Vector | None = None, directed: bool = False
) -> list[list[float]]:
    """Eq. 1; parallel edges add up, and a loop counts once.

    >>> adjacency(3, [(0, 1), (1, 2)])
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    >>> adjacency(2, [(0, 1)], directed=True)
    [[0.0, 0.0], [1.0, 0.0]]
    """
    A = [[0.0] * num_nodes for _ in range(num_nodes)]
    for e, (source, target) in enumerate(pairs):
        weight = 1.0 if weights is None else weights[e]
        A[target][source] += weight
        if not directed and source != target:
            A[source][target] += weight
    return A


def product(A: Matrix, B: Matrix) -> list[list[float]]:
    """A B.

    >>> product([[1.0, 2.0]], [[3.0], [4.0]])
    [[11.0]]
    """
    return [[sum(a * B[k][j] for k, a in enumerate(row)) for j in range(len(B[0]))] for row in A]


def identity(num: int) -> list[list[float]]:
    """I.

    >>> identity(2)
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return [[float(i == j) for j in range(num)] for i in range(num)]


def walks(A: Matrix, length: int) -> list[list[float]]:
    """Eq. 2.

    >>> triangle = adjacency(3, [(0, 1), (1, 2), (2, 0)])
    >>> walks(triangle, 2)  # two ways out and back, which is the degree; one way to each other node
    [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]]
    """
    power = identity(len(A))
    for _ in range(length):
        power = product(A, power)
    return power


def degrees(A: Matrix) -> list[float]:
    """Eq. 3.

    >>> degrees(adjacency(3, [(0, 1), (1, 2)]))
    [1.0, 2.0, 1.0]
    """
    return [sum(row) for row in A]


def laplacian(A: Matrix, normalised: bool = False) -> list[list[float]]:
    """Eq. 4, or eq. 5.

    >>> laplacian(adjacency(2, [(0, 1)])), laplacian(adjacency(2, [(0, 1)], [4.0]), normalised=True)
    ([[1.0, -1.0], [-1.0, 1.0]], [[1.0, -1.0], [-1.0, 1.0]])
    """
    N = range(len(A))
    if normalised:
        scaled = _scaled(A)
        return [[float(i == j) - scaled[i][j] for j in N] for i in N]
    d = degrees(A)
    return [[d[i] * (i == j) - A[i][j] for j in N] for i in N]


def kipf(A: Matrix, loops: str = "first") -> list[list[float]]:
    """Eq. 6, or eq. 7 where loops come last.

    >>> kipf(adjacency(2, [(0, 1)])), kipf(adjacency(2, [(0, 1)]), loops="last")
    ([[0.5, 0.5], [0.5, 0.5]], [[1.0, 1.0], [1.0, 1.0]])
    """
    if loops == "first":
        return _scaled(plus(A, 1.0))
    return plus(_scaled(A), 1.0)


def plus(A: Matrix, diagonal: float) -> list[list[float]]:
    """A + c I.

    >>> plus([[0.0, 1.0], [1.0, 0.0]], 2.0)
    [[2.0, 1.0], [1.0, 2.0]]
    """
    return [[a + diagonal * (i == j) for j, a in enumerate(row)] for i, row in enumerate(A)]


def permuted(A: Matrix, order: Sequence[int]) -> list[list[float]]:
    """Eq. 8: node k of the new graph is node order[k] of the old.

    >>> permuted(adjacency(3, [(0, 1)]), [2, 0, 1])
    [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    return [[A[i][j] for j in order] for i in order]


def distances(A: Matrix) -> list[list[float]]:
    """Fewest steps from j to i, in row i; infinite where there is no way.

    >>> distances(adjacency(4, [(0, 1), (1, 2)]))[0]
    [0, 1, 2, inf]
    """
    N = len(A)
    out = [[math.inf] * N for _ in range(N)]
    for i in range(N):
        here, steps = [i], 0
        out[i][i] = 0
        while here:
            steps += 1
            found = [j for k in here for j in range(N) if A[k][j] and out[i][j] == math.inf]
            for j in found:
                out[i][j] = steps
            here = sorted(set(found))
    return out


def energy(A: Matrix, x: Vector) -> float:
    """Eq. 9.

    >>> energy(adjacency(3, [(0, 1), (1, 2)]), [0.0, 1.0, 3.0])
    5.0
    """
    N = range(len(A))
    return sum(A[i][j] * (x[i] - x[j]) ** 2 for i in N for j in N) / 2


def eigen(A: Matrix, sweeps: int = 50) -> tuple[list[float], list[list[float]]]:
    """Eigenvalues of a symmetric matrix, the smallest first, and its eigenvectors as rows, by Jacobi's rotations.

    >>> values, vectors = eigen(laplacian(adjacency(2, [(0, 1)])))
    >>> [round(v, 9) for v in values], [round(abs(u), 6) for u in vectors[0]]
    ([0.0, 2.0], [0.707107, 0.707107])
    """
    N, M, V = range(len(A)), [list(row) for row in A], identity(len(A))
    for _ in range(sweeps):
        if sum(M[i][j] ** 2 for i in N for j in N if i != j) < 1e-28:
            break
        for p in N:
            for q in range(p + 1, len(A)):
                if M[p][q] == 0:
                    continue
                tau = (M[q][q] - M[p][p]) / (2 * M[p][q])
                t = math.copysign(1, tau) / (abs(tau) + math.sqrt(1 + tau * tau))
                c = 1 / math.sqrt(1 + t * t)
                s = t * c
                for k in N:
                    M[k][p], M[k][q] = c * M[k][p] - s * M[k][q], s * M[k][p] + c * M[k][q]
                for k in N:
                    M[p][k], M[q][k] = c * M[p][k] - s * M[q][k], s * M[p][k] + c * M[q][k]
                    V[p][k], V[q][k] = c * V[p][k] - s * V[q][k], s * V[p][k] + c * V[q][k]
    order = sorted(N, key=lambda k: M[k][k])
    return [M[k][k] for k in order], [V[k] for k in order]


def _scaled(A: Matrix) -> list[list[float]]:
    """D^{-1/2} A D^{-1/2}."""
    d = degrees(A)
    return [
        [a / math.sqrt(d[i] * d[j]) if d[i] > 0 and d[j] > 0 else 0.0 for j, a in enumerate(row)]
        for i, row in enumerate(A)
    ]
