"""Recurrent layers, one row, one step and one unit at a time.

    z_t = a(V x_t + b + U z_{t-1})                                                          (1)   Elman
    i, f, g, o of W x_t + b + U h_{t-1};  z_t = f * z_{t-1} + i * g;  h_t = o * tanh(z_t)    (2)   LSTM
    r, u of W x_t + b + U h_{t-1} + c;  n = tanh(W_n x_t + b_n + r * (U_n h_{t-1} + c_n))
    h_t = u * h_{t-1} + (1 - u) * n                                                         (3)   GRU
    z_t = s(F x̃) * z_{t-1} + s(G x̃) * tanh(V x̃);  h_t = s(H x̃) * tanh(U z_t)                 (4)   LSTM of five matrices
    u = s(G x̃), r = s(H x̃);  z_t = u * z_{t-1} + (1 - u) * tanh(V [r * z_{t-1}, x_t])         (5)   GRU of three
    u_1 = a(U_1 h_{t-1} + b_1 + V x_t),  u_k = a(U_k u_{k-1} + b_k),  h_t = u_K              (6)   deep transition

Notation   a matrix is a list of rows, blocks of gates one above the other;  x̃ = [h_{t-1}, x_t], state first;  s sigmoid
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from leadline.reference.networks import Matrix, Vector, affine

Steps = list[list[float]]


def sigmoid(z: float) -> float:
    """1 / (1 + e^-z), for any z.

    >>> sigmoid(0.0), sigmoid(-1000.0)
    (0.5, 0.0)
    """
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def elman(V: Matrix, U: Matrix, b: Vector, x: Matrix, z: Vector, a: Callable[[float], float] = math.tanh) -> Steps:
    """Eq. 1: the state at each step.

    Args:
        x: one vector a step.
        z: z_0.

    >>> elman([[1.0]], [[1.0]], [0.0], [[1.0], [2.0], [3.0]], [0.0], a=lambda z: z)
    [[1.0], [3.0], [6.0]]
    """
    steps: Steps = []
    for x_t in x:
        read, kept = affine(b, V, x_t), affine([0.0] * len(U), U, z)
        z = [a(p + q) for p, q in zip(read, kept, strict=True)]
        steps.append(list(z))
    return steps


def lstm(W: Matrix, U: Matrix, b: Vector, x: Matrix, h: Vector, z: Vector) -> tuple[Steps, Steps]:
    """Eq. 2: hidden units and cells at each step.

    >>> hidden, cells = lstm([[0.0]] * 4, [[0.0]] * 4, [9e9, 9e9, 9e9, 9e9], [[0.0], [0.0]], [0.0], [0.0])
    >>> cells
    [[1.0], [2.0]]
    """
    D = len(h)
    hidden, cells = [], []
    for x_t in x:
        sums = [p + q for p, q in zip(affine(b, W, x_t), affine([0.0] * len(U), U, h), strict=True)]
        i, f, g, o = (sums[k * D : (k + 1) * D] for k in range(4))
        z = [sigmoid(f[d]) * z[d] + sigmoid(i[d]) * math.tanh(g[d]) for d in range(D)]
        h = [sigmoid(o[d]) * math.tanh(z[d]) for d in range(D)]
        hidden.append(list(h))
        cells.append(list(z))
    return hidden, cells


def gru(W: Matrix, U: Matrix, b: Vector, c: Vector, x: Matrix, h: Vector) -> Steps:
    """Eq. 3: the state at each step.

    >>> gru([[0.0]] * 3, [[0.0]] * 3, [0.0, 0.0, 9e9], [0.0] * 3, [[0.0], [0.0]], [0.0])
    [[0.5], [0.75]]
    """
    D = len(h)
    steps: Steps = []
    for x_t in x:
        read, kept = affine(b, W, x_t), affine(c, U, h)
        new = []
        for d in range(D):
            r, u = sigmoid(read[d] + kept[d]), sigmoid(read[D + d] + kept[D + d])
            n = math.tanh(read[2 * D + d] + r * kept[2 * D + d])
            new.append(u * h[d] + (1 - u) * n)
        h = new
        steps.append(list(h))
    return steps


def lecture_lstm(
    F: Matrix, G: Matrix, V: Matrix, H: Matrix, U: Matrix, x: Matrix, h: Vector, z: Vector
) -> tuple[Steps, Steps]:
    """Eq. 4: hidden units and cells at each step.

    >>> hidden, cells = lecture_lstm(*[[[0.0, 1.0]]] * 4, [[1.0]], [[9e9], [9e9]], [0.0], [0.0])
    >>> cells
    [[1.0], [2.0]]
    """
    hidden, cells = [], []
    for x_t in x:
        both, nothing = [*h, *x_t], [0.0] * len(h)
        keep, write, new, show = (affine(nothing, matrix, both) for matrix in (F, G, V, H))
        z = [sigmoid(f) * old + sigmoid(g) * math.tanh(v) for f, old, g, v in zip(keep, z, write, new, strict=True)]
        h = [sigmoid(o) * math.tanh(m) for o, m in zip(show, affine(nothing, U, z), strict=True)]
        hidden.append(list(h))
        cells.append(list(z))
    return hidden, cells


def lecture_gru(G: Matrix, H: Matrix, V: Matrix, x: Matrix, z: Vector) -> Steps:
    """Eq. 5: the state at each step.

    >>> lecture_gru([[0.0, 0.0]], [[0.0, 0.0]], [[0.0, 1.0]], [[9e9], [9e9]], [0.0])
    [[0.5], [0.75]]
    """
    steps: Steps = []
    for x_t in x:
        nothing = [0.0] * len(z)
        u = [sigmoid(value) for value in affine(nothing, G, [*z, *x_t])]
        r = [sigmoid(value) for value in affine(nothing, H, [*z, *x_t])]
        n = [math.tanh(value) for value in affine(nothing, V, [*(p * q for p, q in zip(r, z, strict=True)), *x_t])]
        z = [p * old + (1 - p) * new for p, old, new in zip(u, z, n, strict=True)]
        steps.append(list(z))
    return steps


def deep_transition(
    V: Matrix,
    maps: Sequence[tuple[Vector, Matrix]],
    x: Matrix,
    h: Vector,
    a: Callable[[float], float] = math.tanh,
    shortcut: Matrix | None = None,
) -> Steps:
    """Eq. 6: the state at each step; `maps` are the pairs b_k, U_k.

    >>> deep_transition([[1.0]], [([0.0], [[1.0]]), ([5.0], [[2.0]])], [[1.0], [1.0]], [0.0], a=lambda z: z)
    [[7.0], [21.0]]
    """
    steps: Steps = []
    for x_t in x:
        first, *others = maps
        read = affine([0.0] * len(V), V, x_t)
        u = [a(p + q) for p, q in zip(affine(*first, h), read, strict=True)]
        for offsets, slopes in others:
            u = [a(value) for value in affine(offsets, slopes, u)]
        past = [0.0] * len(u) if shortcut is None else affine([0.0] * len(u), shortcut, h)
        h = [p + q for p, q in zip(u, past, strict=True)]
        steps.append(list(h))
    return steps
