"""Activations, one number at a time.

    relu        z where z >= 0, else 0             softplus    log(1 + e^z)
    leaky_relu  z where z >= 0, else s z           sigmoid     1 / (1 + e^-z)
    elu         z where z >= 0, else s (e^z - 1)   tanh        (e^z - e^-z) / (e^z + e^-z)
    selu        1.0507 · elu with s = 1.6733       gelu        z P(Z <= z),  Z normal
    swish       z / (1 + e^-sz)                    hard_swish  0 below -3, z above 3, z (z + 3) / 6 between
    heaviside   0 where z < 0, else 1              rect        1 on [0, 1], else 0

prelu is leaky_relu, and silu is swish with s = 1; crelu gives relu of z and of -z. The table `ACTIVATIONS` holds all
of those that give one number, each with its usual s.
"""

from __future__ import annotations

import math
from collections.abc import Callable

# the fixed point of mean 0 and variance 1 (Klambauer et al., 2017)
SELU_SCALE, SELU_SLOPE = 1.0507009873554804934, 1.6732632423543772848


def relu(z: float) -> float:
    """
    >>> relu(-2.0), relu(3.0)
    (0.0, 3.0)
    """
    return z if z >= 0 else 0.0


def leaky_relu(z: float, s: float = 0.01) -> float:
    """
    >>> leaky_relu(-2.0, 0.5)
    -1.0
    """
    return z if z >= 0 else s * z


def crelu(z: float) -> list[float]:
    """
    >>> crelu(-2.0)
    [0.0, 2.0]
    """
    return [relu(z), relu(-z)]


def elu(z: float, s: float = 1.0) -> float:
    """
    >>> elu(0.0)
    0.0
    """
    return z if z >= 0 else s * math.expm1(z)


def selu(z: float) -> float:
    """
    >>> round(selu(1.0), 4)
    1.0507
    """
    return SELU_SCALE * elu(z, SELU_SLOPE)


def sigmoid(z: float) -> float:
    """Written so that no exponential overflows.

    >>> sigmoid(0.0), sigmoid(-1000.0)
    (0.5, 0.0)
    """
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def swish(z: float, s: float = 1.0) -> float:
    """
    >>> swish(0.0)
    0.0
    """
    return z * sigmoid(s * z)


def hard_swish(z: float) -> float:
    """
    >>> hard_swish(-4.0), hard_swish(0.0), hard_swish(5.0)
    (0.0, 0.0, 5.0)
    """
    if z < -3:
        return 0.0
    return z if z > 3 else z * (z + 3) / 6


def gelu(z: float) -> float:
    """
    >>> round(gelu(1.0), 4)
    0.8413
    """
    return z * 0.5 * (1 + math.erf(z / math.sqrt(2)))


def gelu_tanh(z: float) -> float:
    """½ z (1 + tanh(√(2/π) (z + 0.044715 z³))), GPT-2's form of gelu.

    >>> round(gelu_tanh(1.0), 4)
    0.8412
    """
    return 0.5 * z * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))


def softplus(z: float) -> float:
    """
    >>> round(softplus(0.0), 4)
    0.6931
    """
    return relu(z) + math.log1p(math.exp(-abs(z)))


def heaviside(z: float) -> float:
    """
    >>> heaviside(0.0)
    1.0
    """
    return 0.0 if z < 0 else 1.0


def rect(z: float) -> float:
    """
    >>> rect(0.5), rect(1.5)
    (1.0, 0.0)
    """
    return 1.0 if 0 <= z <= 1 else 0.0


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "relu": relu,
    "leaky_relu": leaky_relu,
    "prelu": lambda z: leaky_relu(z, 0.25),
    "elu": elu,
    "selu": selu,
    "sigmoid": sigmoid,
    "tanh": math.tanh,
    "silu": swish,
    "swish": swish,
    "hard_swish": hard_swish,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "softplus": softplus,
    "heaviside": heaviside,
    "rect": rect,
    "sin": math.sin,
    "square": lambda z: z * z,
    "identity": lambda z: z,
    "affine": lambda z: z,
}
