"""Layers on graphs, one node at a time, and the same as products of whole matrices.

    sum        agg_i = Σ_j A_ij h_j                             mean     agg_i = Σ_j A_ij h_j / d_i            (1)
    kipf       agg_i = Σ_j A_ij h_j / √(d_i d_j)                max      agg_i = max of h_j over neighbours    (2)
    mean with self   agg_i = (h_i + Σ_j A_ij h_j) / (1 + d_i)   = (D + I)^{-1} (A + I) H                       (3)

    plain      h_i' = a[β + Ω (h_i + agg_i)]                    H' = a[1 βᵀ + (A + I) H Ωᵀ] where agg is a sum (4)
    diagonal   h_i' = a[β + Ω ((1 + ε) h_i + agg_i)]                                                           (5)
    separate   h_i' = a[β + Ω agg_i + Ψ h_i]                    = a[β + [Ω Ψ] [agg_i; h_i]]                    (6)
    residual   h_i' = a[β + Ω agg_i] + h_i,     or              h_i' = [a[β + Ω agg_i]; h_i]                   (7)
    GIN        h_i' = mlp[(1 + ε) h_i + Σ_j A_ij h_j]                                  (Xu et al., 2019)       (8)
    attention  h_i' = a[Σ_j w_ij h~_j],   h~ = β + Ω h,   s_ij = a_s[φ · [h~_i; h~_j]]                         (9)
               w_ij = exp(s_ij) / Σ_{k: B_ik ≠ 0} exp(s_ik)  where B = A + I is not 0, and 0 elsewhere         (10)
    Chebyshev  Z_0 = H,  Z_1 = M H,  Z_k = 2 M Z_{k-1} - Z_{k-2},   H' = 1 βᵀ + Σ_k Z_k Ω_kᵀ                   (11)
               M = 2 L~ / λ_max - I
    spectral   H' = U g(Λ) Uᵀ H,   of L = U Λ Uᵀ                                                               (12)

Where a node has no neighbours, its aggregate is 0.

Notation   H has a row a node: h_i. A_ij as in `leadline.reference.adjacency`; a an activation, a_s that of scores
Paper      (8) is printed in UDL with h of layer k + 1 on its right side; it is that of layer k.
           Multiplying scores by A + I is no mask, for exp 0 = 1; (10) is.
Shapes     H (N, D) -> (N, D')
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from leadline.reference.adjacency import degrees, kipf, laplacian, plus, product
from leadline.reference.attention import softmax
from leadline.reference.networks import Matrix, Vector, affine

Rows = list[list[float]]
Activation = Callable[[float], float]


def relu(z: float) -> float:
    """max(z, 0).

    >>> relu(-2.0), relu(3.0)
    (0.0, 3.0)
    """
    return max(z, 0.0)


def aggregate(A: Matrix, H: Matrix, how: str = "sum") -> Rows:
    """Eqs. 1 to 3: "sum", "mean", "kipf", "max" or "mean with self", node by node.

    >>> path = [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    >>> H = [[1.0], [2.0], [6.0]]
    >>> [aggregate(path, H, how)[1] for how in ("sum", "mean", "max", "mean with self")]
    [[7.0], [3.5], [6.0], [3.0]]
    """
    d, out = degrees(A), []
    for i, row in enumerate(A):
        near = [j for j, a in enumerate(row) if a != 0]
        if how == "max":
            out.append([max((H[j][k] for j in near), default=0.0) for k in range(len(H[0]))])
            continue
        total = [sum(_share(how, row[j], d[i], d[j]) * H[j][k] for j in near) for k in range(len(H[0]))]
        if how == "mean with self":
            total = [(h + t) / (1 + d[i]) for h, t in zip(H[i], total, strict=True)]
        out.append(total)
    return out


def _share(how: str, weight: float, d_i: float, d_j: float) -> float:
    if how == "mean":
        return weight / d_i
    return weight / math.sqrt(d_i * d_j) if how == "kipf" else weight


def plain(
    A: Matrix, H: Matrix, beta: Vector, omega: Matrix, how: str = "sum", a: Activation = relu, epsilon: float = 0.0
) -> Rows:
    """Eq. 4, and eq. 5 where ε is not 0.

    >>> plain([[0.0, 1.0], [1.0, 0.0]], [[1.0], [2.0]], [1.0], [[10.0]])
    [[31.0], [31.0]]
    >>> plain([[0.0, 1.0], [1.0, 0.0]], [[1.0], [2.0]], [0.0], [[1.0]], epsilon=1.0)
    [[4.0], [5.0]]
    """
    agg = aggregate(A, H, how)
    both = [[(1 + epsilon) * h + m for h, m in zip(H[i], agg[i], strict=True)] for i in range(len(H))]
    return [[a(z) for z in affine(beta, omega, row)] for row in both]


def plain_matrix(A: Matrix, H: Matrix, beta: Vector, omega: Matrix, a: Activation = relu, epsilon: float = 0.0) -> Rows:
    """Eqs. 4 and 5 of a sum, as a product of matrices.

    >>> plain_matrix([[0.0, 1.0], [1.0, 0.0]], [[1.0], [2.0]], [1.0], [[10.0]])
    [[31.0], [31.0]]
    """
    mixed = product(plus(A, 1 + epsilon), H)
    return [[a(z) for z in affine(beta, omega, row)] for row in mixed]


def gcn(A: Matrix, H: Matrix, beta: Vector, omega: Matrix, loops: str = "first", a: Activation = relu) -> Rows:
    """a[1 βᵀ + Ā H Ωᵀ], with Ā of `leadline.reference.adjacency.kipf` in either form.

    >>> gcn([[0.0, 1.0], [1.0, 0.0]], [[1.0], [3.0]], [0.0], [[1.0]])
    [[2.0], [2.0]]
    """
    return [[a(z) for z in affine(beta, omega, row)] for row in product(kipf(A, loops), H)]


def separate(
    A: Matrix, H: Matrix, beta: Vector, omega: Matrix, psi: Matrix, how: str = "sum", a: Activation = relu
) -> Rows:
    """Eq. 6.

    >>> separate([[0.0, 1.0], [1.0, 0.0]], [[1.0], [2.0]], [0.0], [[10.0]], [[1.0]])
    [[21.0], [12.0]]
    """
    joined = [[*row, *own] for row, own in zip(omega, psi, strict=True)]
    agg = aggregate(A, H, how)
    return [[a(z) for z in affine(beta, joined, [*agg[i], *H[i]])] for i in range(len(H))]


def residual(
    A: Matrix, H: Matrix, beta: Vector, omega: Matrix, how: str = "sum", a: Activation = relu, joined: bool = False
) -> Rows:
    """Eq. 7: added, or joined, which is as much wider.

    >>> A, H = [[0.0, 1.0], [1.0, 0.0]], [[1.0], [2.0]]
    >>> residual(A, H, [0.0], [[10.0]]), residual(A, H, [0.0], [[10.0]], joined=True)
    ([[21.0], [12.0]], [[20.0, 1.0], [10.0, 2.0]])
    """
    new = [[a(z) for z in affine(beta, omega, row)] for row in aggregate(A, H, how)]
    if joined:
        return [[*n, *h] for n, h in zip(new, H, strict=True)]
    return [[x + y for x, y in zip(n, h, strict=True)] for n, h in zip(new, H, strict=True)]


def gin(A: Matrix, H: Matrix, mlp: Callable[[Vector], list[float]], epsilon: float = 0.0) -> Rows:
    """Eq. 8.

    >>> gin([[0.0, 1.0], [1.0, 0.0]], [[1.0], [2.0]], lambda z: [relu(z[0])], epsilon=1.0)
    [[4.0], [5.0]]
    """
    agg = aggregate(A, H)
    return [
        mlp([(1 + epsilon) * h + m for h, m in zip(own, far, strict=True)]) for own, far in zip(H, agg, strict=True)
    ]


def softmask(S: Matrix, B: Matrix) -> Rows:
    """Eq. 10: shares of each row where B is not 0; 0 elsewhere, and for all where a row of B is 0.

    >>> softmask([[0.0, 0.0, 9.0]], [[1.0, 1.0, 0.0]])
    [[0.5, 0.5, 0.0]]
    """
    return [softmax(s, [b != 0 for b in may]) for s, may in zip(S, B, strict=True)]


def attention(
    A: Matrix,
    H: Matrix,
    beta: Vector,
    omega: Matrix,
    phi: Vector,
    a: Activation = relu,
    score: Activation = lambda z: z if z > 0 else 0.2 * z,
) -> Rows:
    """Eq. 9, of one head.

    Args:
        phi: of the node that looks first, then of the one that is looked at.

    >>> attention([[0.0, 1.0], [1.0, 0.0]], [[1.0], [3.0]], [0.0], [[1.0]], [0.0, 0.0])
    [[2.0], [2.0]]
    """
    return [
        [a(z) for z in row] for row in product(attention_weights(A, H, beta, omega, phi, score), _maps(H, beta, omega))
    ]


def attention_weights(
    A: Matrix,
    H: Matrix,
    beta: Vector,
    omega: Matrix,
    phi: Vector,
    score: Activation = lambda z: z if z > 0 else 0.2 * z,
) -> Rows:
    """w of eqs. 9 and 10, (N, N).

    >>> attention_weights([[0.0, 0.0], [1.0, 0.0]], [[1.0], [3.0]], [0.0], [[1.0]], [0.0, 0.0])
    [[1.0, 0.0], [0.5, 0.5]]
    """
    x = _maps(H, beta, omega)
    S = [[score(sum(p * v for p, v in zip(phi, [*i, *j], strict=True))) for j in x] for i in x]
    return softmask(S, plus(A, 1.0))


def dot_attention(A: Matrix, Q: Matrix, K: Matrix, V: Matrix) -> Rows:
    """Attention of a transformer with A + I as its mask: Softmask[Q Kᵀ / √D, A + I] V.

    >>> dot_attention([[0.0, 0.0], [1.0, 0.0]], [[0.0], [0.0]], [[1.0], [1.0]], [[2.0], [4.0]])
    [[2.0], [3.0]]
    """
    S = [[sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q)) for k in K] for q in Q]
    return product(softmask(S, plus(A, 1.0)), V)


def chebyshev(A: Matrix, H: Matrix, beta: Vector, omegas: Sequence[Matrix], largest: float = 2.0) -> Rows:
    """Eq. 11, of len(omegas) terms.

    Args:
        largest: λ_max, the largest eigenvalue of L~; 2 is a bound.

    >>> chebyshev([[0.0, 1.0], [1.0, 0.0]], [[1.0], [3.0]], [0.0], [[[1.0]], [[1.0]]])  # M = -A here
    [[-2.0], [2.0]]
    """
    lap = laplacian(A, normalised=True)
    M = plus([[2 * v / largest for v in row] for row in lap], -1.0)
    terms = [[list(row) for row in H], product(M, H)]
    while len(terms) < len(omegas):
        twice = product(M, terms[-1])
        terms.append(
            [[2 * x - y for x, y in zip(t, old, strict=True)] for t, old in zip(twice, terms[-2], strict=True)]
        )
    out = [list(beta) for _ in H]
    for Z, omega in zip(terms, omegas, strict=False):
        for i, row in enumerate(Z):
            out[i] = [x + y for x, y in zip(out[i], affine([0.0] * len(omega), omega, row), strict=True)]
    return out


def polynomial(L: Matrix, H: Matrix, alphas: Vector) -> Rows:
    """Σ_k α_k L^k H.

    >>> polynomial([[1.0, -1.0], [-1.0, 1.0]], [[1.0], [3.0]], [1.0, 0.5])
    [[0.0], [4.0]]
    """
    power, out = [list(row) for row in H], [[0.0] * len(H[0]) for _ in H]
    for alpha in alphas:
        out = [[o + alpha * p for o, p in zip(a, b, strict=True)] for a, b in zip(out, power, strict=True)]
        power = product(L, power)
    return out


def spectral(values: Vector, vectors: Matrix, H: Matrix, g: Callable[[float], float]) -> Rows:
    """Eq. 12: to the waves of the graph, each times its own factor, and back.

    Args:
        values, vectors: of `leadline.reference.adjacency.eigen`, vectors as rows.

    >>> half = 0.5**0.5
    >>> out = spectral([0.0, 2.0], [[half, half], [half, -half]], [[1.0], [3.0]], lambda v: 1.0 if v == 0 else 0.0)
    >>> [[round(v, 9) for v in row] for row in out]  # the mean alone is left
    [[2.0], [2.0]]
    """
    waves = [[g(value) * z for z in row] for value, row in zip(values, product(vectors, H), strict=True)]
    return product([list(column) for column in zip(*vectors, strict=True)], waves)


def read_out(H: Matrix, first: Sequence[int], how: str = "mean") -> Rows:
    """One row a graph of a union: "mean", "sum" or "max" over its nodes first[g] … first[g + 1] - 1.

    >>> read_out([[1.0], [3.0], [10.0]], [0, 2, 3])
    [[2.0], [10.0]]
    """
    out = []
    for start, end in pairwise(first):
        columns = list(zip(*H[start:end], strict=True))
        if how == "max":
            out.append([max(c) for c in columns])
        else:
            out.append([sum(c) / (len(c) if how == "mean" else 1) for c in columns])
    return out


def _maps(H: Matrix, beta: Vector, omega: Matrix) -> Rows:
    return [affine(beta, omega, row) for row in H]
