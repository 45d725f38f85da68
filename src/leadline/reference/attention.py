"""Attention spelled out, one query and one key at a time, and its derivatives by hand.

    value     v_m = β_v + Ω_v x_m,   q_n = β_q + Ω_q x_n,   k_m = β_k + Ω_k x_m                              (1)
    weight    a_nm = exp(z_nm) / Σ_m' exp(z_nm'),   z_nm = q_n · k_m / √K                                     (2)
    output    sa_n = Σ_m a_nm v_m                                                                             (3)
    columns   Sa[X] = V Softmax[Kᵀ Q / √K],   X of tokens as columns, softmax of each column                  (4)
    heads     [Sa_1[X]; …; Sa_H[X]] one above the other, then Ω_c                                             (5)

Backwards from g_n = ∂loss/∂sa_n:

    ∂v_m  = Σ_n a_nm g_n                                                                                      (6)
    ∂a_nm = g_n · v_m
    ∂z_nm = a_nm (∂a_nm - Σ_m' a_nm' ∂a_nm')                     the Jacobian of softmax, eq. 8               (7)
    ∂q_n  = Σ_m ∂z_nm k_m / √K,   ∂k_m = Σ_n ∂z_nm q_n / √K;     then Ω gets ∂ xᵀ, β gets the sum of ∂
    ∂a_i/∂z_j = a_i ([i = j] - a_j)                                                                           (8)

With the weights held fixed, attention is two linear maps, one on each token alone and one across tokens. Of the columns
of X stacked into one vector, and W_mn = a_nm:

    vec Sa = (Wᵀ ⊗ 1_D) (1_N ⊗ Ω_v) vec X + vec(β_v 1ᵀ W)                                                     (9)

Notation   a matrix is a list of rows;  allowed[n][m] is true where query n may look at key m
Shapes     rows X (N, D); columns X (D, N)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leadline.reference.networks import Matrix, Vector, affine


@dataclass(frozen=True)
class Map:
    """β + Ω x."""

    offsets: Vector
    slopes: Matrix


@dataclass(frozen=True)
class Head:
    """The three maps of eq. 1."""

    query: Map
    key: Map
    value: Map


def softmax(z: Vector, allowed: Sequence[bool] | None = None) -> list[float]:
    """Weights of the allowed entries; 0 for the others, and for all where none is allowed.

    >>> softmax([0.0, 0.0]), softmax([0.0, 5.0], [True, False]), softmax([1.0], [False])
    ([0.5, 0.5], [1.0, 0.0], [0.0])
    """
    allowed = [True] * len(z) if allowed is None else allowed
    if not any(allowed):
        return [0.0] * len(z)
    top = max(value for value, may in zip(z, allowed, strict=True) if may)
    powers = [math.exp(value - top) if may else 0.0 for value, may in zip(z, allowed, strict=True)]
    return [power / sum(powers) for power in powers]


def softmax_jacobian(z: Vector) -> list[list[float]]:
    """Eq. 8; row i, column j.

    >>> softmax_jacobian([0.0, 0.0])
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    a = softmax(z)
    return [[a[i] * ((i == j) - a[j]) for j in range(len(a))] for i in range(len(a))]


def attend(
    q: Matrix,
    k: Matrix,
    v: Matrix,
    allowed: Sequence[Sequence[bool]] | None = None,
    bias: Matrix | None = None,
    scale: float | None = None,
) -> list[list[float]]:
    """Eqs. 2 and 3, of one head.

    >>> attend([[0.0], [0.0]], [[1.0], [2.0]], [[4.0], [8.0]])
    [[6.0], [6.0]]
    """
    weights = attention_weights(q, k, allowed, bias, scale)
    out = []
    for row in weights:
        total = [0.0] * len(v[0])
        for weight, value in zip(row, v, strict=True):
            for d in range(len(total)):
                total[d] += weight * value[d]
        out.append(total)
    return out


def attention_weights(
    q: Matrix,
    k: Matrix,
    allowed: Sequence[Sequence[bool]] | None = None,
    bias: Matrix | None = None,
    scale: float | None = None,
) -> list[list[float]]:
    """Eq. 2.

    >>> attention_weights([[0.0]], [[1.0], [2.0]], [[True, False]])
    [[1.0, 0.0]]
    """
    scale = 1 / math.sqrt(len(q[0])) if scale is None else scale
    rows = []
    for n, query in enumerate(q):
        z = [scale * dot(query, key) for key in k]
        if bias is not None:
            z = [value + more for value, more in zip(z, bias[n], strict=True)]
        rows.append(softmax(z, None if allowed is None else allowed[n]))
    return rows


def self_attention(
    X: Matrix, head: Head, allowed: Sequence[Sequence[bool]] | None = None, scaled: bool = True
) -> list[list[float]]:
    """Eqs. 1 to 3, tokens as rows.

    >>> one = Map([0.0], [[1.0]])
    >>> self_attention([[0.0], [0.0]], Head(one, one, Map([2.0], [[1.0]])))
    [[2.0], [2.0]]
    """
    q, k, v = ([affine(part.offsets, part.slopes, x) for x in X] for part in (head.query, head.key, head.value))
    return attend(q, k, v, allowed, scale=None if scaled else 1.0)


def self_attention_in_columns(X: Matrix, head: Head, scaled: bool = True) -> list[list[float]]:
    """Eq. 4: X and the result have tokens as columns, and softmax goes down each column.

    >>> one = Map([0.0], [[1.0]])
    >>> self_attention_in_columns([[0.0, 0.0]], Head(one, one, Map([2.0], [[1.0]])))
    [[2.0, 2.0]]
    """
    N = len(X[0])
    Q, K, V = (plus(product(part.slopes, X), part.offsets) for part in (head.query, head.key, head.value))
    Z = product(transposed(K), Q)  # (N, N), row m, column n
    Z = [[value / math.sqrt(len(Q)) if scaled else value for value in row] for row in Z]
    columns = [softmax([Z[m][n] for m in range(N)]) for n in range(N)]
    return product(V, transposed(columns))


def multi_head(
    X: Matrix, heads: Sequence[Head], mix: Map, allowed: Sequence[Sequence[bool]] | None = None
) -> list[list[float]]:
    """Eq. 5, tokens as rows: the heads of a token side by side, then one map."""
    found = [self_attention(X, head, allowed) for head in heads]
    joined = [[value for head in found for value in head[n]] for n in range(len(X))]
    return [affine(mix.offsets, mix.slopes, row) for row in joined]


def multi_head_in_columns(X: Matrix, heads: Sequence[Head], mix: Matrix) -> list[list[float]]:
    """Eq. 5, tokens as columns: the heads one above the other, then Ω_c."""
    return product(mix, [row for head in heads for row in self_attention_in_columns(X, head)])


def backward(X: Matrix, head: Head, g: Matrix) -> dict[str, list[list[float]]]:
    """Eqs. 6 and 7: ∂loss of the offsets and slopes of each map, by name, and of X; `g` is that of the output.

    >>> one = Map([0.0], [[1.0]])
    >>> backward([[1.0]], Head(one, one, one), [[3.0]])["value.slopes"]
    [[3.0]]
    """
    maps = {"query": head.query, "key": head.key, "value": head.value}
    q, k, v = ([affine(part.offsets, part.slopes, x) for x in X] for part in maps.values())
    a, scale = attention_weights(q, k), 1 / math.sqrt(len(q[0]))
    d_v = product(transposed(a), g)  # eq. 6
    d_z = []
    for n in range(len(X)):
        d_a = [dot(g[n], value) for value in v]
        mean = dot(a[n], d_a)
        d_z.append([a[n][m] * (d_a[m] - mean) * scale for m in range(len(X))])  # eq. 7
    found, back = {}, [[0.0] * len(X[0]) for _ in X]
    for (name, part), d in zip(maps.items(), (product(d_z, k), product(transposed(d_z), q), d_v), strict=True):
        found[f"{name}.offsets"] = [[sum(column)] for column in transposed(d)]
        found[f"{name}.slopes"] = product(transposed(d), X)
        back = [[s + t for s, t in zip(*rows, strict=True)] for rows in zip(back, product(d, part.slopes), strict=True)]
    return {**found, "X": back}


def held_fixed(X: Matrix, weights: Matrix, value: Map) -> list[list[float]]:
    """Eq. 9, X and the result in columns; `weights` are the rows of eq. 2.

    >>> held_fixed([[1.0, 2.0]], [[0.5, 0.5], [0.0, 1.0]], Map([0.0], [[2.0]]))
    [[3.0, 4.0]]
    """
    D, N = len(value.slopes), len(weights)
    alone = kronecker(identity(N), value.slopes)
    across = kronecker(weights, identity(D))  # Wᵀ = the rows of eq. 2
    stacked = [[X[d][n]] for n in range(N) for d in range(len(X))]
    values = [[one[0] + value.offsets[r % D]] for r, one in enumerate(product(alone, stacked))]
    out = product(across, values)
    return [[out[n * D + d][0] for n in range(N)] for d in range(D)]


def dot(a: Vector, b: Vector) -> float:
    """Σ_d a_d b_d."""
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total


def product(A: Matrix, B: Matrix) -> list[list[float]]:
    """A B.

    >>> product([[1.0, 2.0]], [[3.0], [4.0]])
    [[11.0]]
    """
    return [[dot(row, column) for column in transposed(B)] for row in A]


def transposed(A: Matrix) -> list[list[float]]:
    """Rows as columns."""
    return [list(column) for column in zip(*A, strict=True)]


def plus(A: Matrix, offsets: Vector) -> list[list[float]]:
    """A + β 1ᵀ."""
    return [[value + offset for value in row] for row, offset in zip(A, offsets, strict=True)]


def identity(size: int) -> list[list[float]]:
    """1 on the diagonal."""
    return [[float(i == j) for j in range(size)] for i in range(size)]


def kronecker(A: Matrix, B: Matrix) -> list[list[float]]:
    """A ⊗ B: every entry of A times the whole of B.

    >>> kronecker([[1.0, 2.0]], [[3.0], [4.0]])
    [[3.0, 6.0], [4.0, 8.0]]
    """
    return [[a * b for a in row for b in other] for row in A for other in B]
