"""First weights, spelt out: fans, the recursion of second moments, and the report through depth, loop by loop.

    q_1     = D_0 σ_0² q_0                                 q_k = E z_k²,   z_k = W_{k-1} h_{k-1}              (1)
    q_{k+1} = D_k σ_k² · (1 + a²)/2 · q_k                  h = z above 0, a z below (a = 0: ReLU)             (2)
    g_k     = D_{k+1} σ_k² · (1 + a²)/2 · g_{k+1}          g_k = E (∂loss/∂z_k)²                              (3)

(1) and (2) need weights of mean 0 and biases of 0; (3) also that slopes are independent of what comes back. They are of
second moments. Of a normal z the variance of max(z, 0) is (1/2 - 1/2π) of that of z, and not a half of it.

    E q_K² / (E q_K)² = Π_k (1 + 5/D_k)                    ReLU, normal weights of σ² = 2/D                   (4)

(4) says how far single draws stray: max(z, 0)² has a second moment of six times its squared mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """Values that an output reads, and outputs that an input reaches, of a weight (out, in, *size).

    >>> fans((100, 40)), fans((16, 3, 5, 5))
    ((40, 100), (75, 400))
    """
    size = math.prod(shape[2:])
    return shape[1] * size, shape[0] * size


def variance(name: str, fan_in: int, fan_out: int, slope: float = 0.0) -> float:
    """σ² of the rules that follow from the fans.

    >>> variance("he", 100, 50), variance("glorot", 100, 50) == 2 / 150
    (0.02, True)
    """
    gain = 2 / (1 + slope * slope)
    return {
        "lecun": 1 / fan_in,
        "glorot": 2 / (fan_in + fan_out),
        "he": gain / fan_in,
        "he_out": gain / fan_out,
        "he_mean": 4 / (fan_in + fan_out),
    }[name]


def forward_moments(
    widths: Sequence[int], variances: Sequence[float], moment: float = 1.0, slope: float = 0.0
) -> list[float]:
    """q_1 … q_K of a network of these widths, input first; `slope` 1 is no activation at all.

    >>> forward_moments((100, 100, 100), (0.02, 0.02))
    [2.0, 2.0]
    """
    found, reads = [], moment
    for width, v in zip(widths, variances):
        q = width * v * reads  # eq. 1
        found.append(q)
        reads = (1 + slope * slope) / 2 * q  # eq. 2
    return found


def backward_moments(
    widths: Sequence[int], variances: Sequence[float], gradient: float = 1.0, slope: float = 0.0
) -> list[float]:
    """g_1 … g_K, given that of the last map.

    >>> backward_moments((40, 100, 50, 10), (1.0, 0.02, 0.2))
    [0.5, 1.0, 1.0]
    """
    found = [gradient]
    for width, v in zip(reversed(widths[2:]), reversed(variances[1:])):
        found.append(width * v * (1 + slope * slope) / 2 * found[-1])  # eq. 3
    return found[::-1]


def relative_spread(widths: Sequence[int]) -> float:
    """Deviation of q after ReLU layers of these widths, over its mean, from draw to draw (4).

    >>> round(relative_spread((100,) * 50), 2)
    3.24
    """
    return math.sqrt(math.prod(1 + 5 / width for width in widths) - 1)


def through(weights: Sequence[Matrix], rows: Matrix) -> tuple[list[float], list[float]]:
    """Second moments of z_k and of ∂loss/∂z_k in a ReLU network without biases; the loss of a row is ½ Σ output².

    >>> through([[[2.0]], [[3.0]]], [[1.0], [-1.0]])
    ([4.0, 18.0], [162.0, 18.0])
    """
    count = len(weights)
    forward, backward = [0.0] * count, [0.0] * count
    for row in rows:
        h, zs = list(row), []
        for weight in weights:
            z = [sum(w * value for w, value in zip(line, h)) for line in weight]
            zs.append(z)
            h = [max(value, 0.0) for value in z]
        delta = zs[-1]  # of ½ Σ output²
        for k in reversed(range(count)):
            forward[k] += sum(value**2 for value in zs[k]) / len(zs[k]) / len(rows)
            backward[k] += sum(value**2 for value in delta) / len(delta) / len(rows)
            if k:
                back = [sum(weights[k][i][j] * delta[i] for i in range(len(delta))) for j in range(len(zs[k - 1]))]
                delta = [value if z > 0 else 0.0 for value, z in zip(back, zs[k - 1])]
    return forward, backward
