"""Normalisation, one value at a time, and batch normalisation backwards node by node.

    m, v     = mean and mean square deviation over a set of values                                              (1)
    inside   z' = γ (z - m) / √(v + ε) + δ                                                                      (2)
    outside  z' = γ (z - m) / (√v + ε) + δ                                                                      (3)

The set is what names a normalisation. Of pictures z[b][c][i], b the example, c the channel, i the position:

    batch     all b and i, for each c            layer      all c and i, for each b
    instance  all i, for each b and c            group      all c of a group and all i, for each b              (4)

In each, γ and δ belong to the channel. So a group for each channel is instance, and one group is layer. As a graph, one
unit over a batch:

    f1 = E[z]   f2 = z - f1   f3 = f2²   f4 = E[f3]   f5 = √(f4 + ε)   f6 = 1/f5   f7 = f2 f6   z' = γ f7 + δ   (5)
    ∂z = (γ / f5) (g - E[g] - f7 E[g f7]),   g = ∂loss/∂z'             what (5) backwards amounts to            (6)

(6) holds for every ε in (2), though f7 has variance below 1: ε is in f5 too.

Shapes     a batch of one unit (B,); pictures (B, C, P), positions of any grid in one row
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Vector = Sequence[float]


def moments(values: Vector) -> tuple[float, float]:
    """Eq. 1; the variance is divided by the number of values, not by one less.

    >>> moments([1.0, 5.0])
    (3.0, 4.0)
    """
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / len(values)


def deviation(variance: float, epsilon: float, inside: bool = True) -> float:
    """What is divided by: of eq. 2 or of eq. 3.

    >>> deviation(9.0, 7.0), deviation(9.0, 7.0, inside=False)
    (4.0, 10.0)
    """
    return math.sqrt(variance + epsilon) if inside else math.sqrt(variance) + epsilon


def batch_norm(
    z: Vector, gain: float = 1.0, shift: float = 0.0, epsilon: float = 1e-5, inside: bool = True
) -> list[float]:
    """Eq. 2 or 3 of one unit over a batch.

    >>> batch_norm([1.0, 5.0], gain=3.0, shift=10.0, epsilon=0.0)
    [7.0, 13.0]
    """
    mean, variance = moments(z)
    return [gain * (value - mean) / deviation(variance, epsilon, inside) + shift for value in z]


def picture_norm(
    z: Sequence[Sequence[Vector]],
    kind: str,
    gain: Vector,
    shift: Vector,
    epsilon: float = 1e-5,
    groups: int = 1,
    inside: bool = True,
) -> Any:
    """Eq. 4.

    Args:
        kind: "batch", "layer", "instance" or "group".
        groups: of kind "group", a divisor of the number of channels.

    >>> z = [[[1.0, 5.0], [0.0, 8.0]]]
    >>> picture_norm(z, "instance", [1.0, 1.0], [0.0, 0.0], epsilon=0.0)
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    B, C, P = len(z), len(z[0]), len(z[0][0])
    parts = {"layer": 1, "instance": C, "group": groups, "batch": C}[kind]
    width = C // parts
    out = [[[0.0] * P for _ in range(C)] for _ in range(B)]
    for b in range(B):
        for c in range(C):
            first = c // width * width
            examples = range(B) if kind == "batch" else [b]
            values = [z[e][k][i] for e in examples for k in range(first, first + width) for i in range(P)]
            mean, variance = moments(values)
            for i in range(P):
                out[b][c][i] = gain[c] * (z[b][c][i] - mean) / deviation(variance, epsilon, inside) + shift[c]
    return out


def forward(z: Vector, gain: float, shift: float, epsilon: float = 1e-5) -> dict[str, Any]:
    """The nodes of eq. 5 by name.

    >>> nodes = forward([1.0, 5.0], 3.0, 10.0, epsilon=0.0)
    >>> nodes["f5"], nodes["f7"], nodes["out"]
    (2.0, [-1.0, 1.0], [7.0, 13.0])
    """
    f1 = sum(z) / len(z)
    f2 = [value - f1 for value in z]
    f3 = [value**2 for value in f2]
    f4 = sum(f3) / len(f3)
    f5 = math.sqrt(f4 + epsilon)
    f6 = 1 / f5
    f7 = [value * f6 for value in f2]
    out = [gain * value + shift for value in f7]
    return {"f1": f1, "f2": f2, "f3": f3, "f4": f4, "f5": f5, "f6": f6, "f7": f7, "out": out}


def backward(nodes: dict[str, Any], gain: float, g: Vector) -> dict[str, Any]:
    """∂loss of each node of eq. 5, last node first, and of z, γ and δ; `g` is that of z'.

    >>> nodes = forward([1.0, 5.0], 3.0, 10.0, epsilon=0.0)
    >>> found = backward(nodes, 3.0, [0.5, 2.0])
    >>> found["shift"], found["gain"], found["z"]  # two values always end at -1 and 1, so z does not count
    (2.5, 1.5, [0.0, 0.0])
    """
    f2, f5, f6, f7 = nodes["f2"], nodes["f5"], nodes["f6"], nodes["f7"]
    count = len(g)
    d7 = [gain * value for value in g]
    d6 = sum(d * value for d, value in zip(d7, f2, strict=True))
    d5 = -d6 / f5**2
    d4 = d5 / (2 * f5)
    d3 = [d4 / count] * count
    d2 = [d * f6 + 2 * value * e for d, value, e in zip(d7, f2, d3, strict=True)]  # two ways: to f7 and to f3
    d1 = -sum(d2)
    z = [d + d1 / count for d in d2]  # two ways: to f2 and to f1
    scale = sum(value * f for value, f in zip(g, f7, strict=True))
    return {
        "f7": d7,
        "f6": d6,
        "f5": d5,
        "f4": d4,
        "f3": d3,
        "f2": d2,
        "f1": d1,
        "z": z,
        "gain": scale,
        "shift": sum(g),
    }


def backward_at_once(z: Vector, gain: float, g: Vector, epsilon: float = 1e-5) -> list[float]:
    """Eq. 6.

    >>> backward_at_once([1.0, 5.0], 3.0, [1.0, 1.0])  # what shifts all alike is taken away again
    [0.0, 0.0]
    """
    nodes = forward(z, gain, 0.0, epsilon)
    f5, f7 = nodes["f5"], nodes["f7"]
    mean_g = sum(g) / len(g)
    mean_gf = sum(value * f for value, f in zip(g, f7, strict=True)) / len(g)
    return [gain / f5 * (value - mean_g - f * mean_gf) for value, f in zip(g, f7, strict=True)]
