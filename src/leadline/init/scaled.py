"""Weights of mean 0 whose variance follows from the fans, biases of 0.

    z_i = Σ_j W_ij h_j                       E z²  = fan_in · σ² · E h²                                         (1)
    ReLU                                     E h'² = E z² / 2                 z symmetric                       (2)
    leaky ReLU of slope a                    E h'² = E z² (1 + a²) / 2                                          (3)
    backward                                 E δ²  = fan_out · σ² · E δ'² times the factor of (2) or (3)        (4)

    lecun             σ² = 1 / fan_in                             keeps (1) without an activation, or with tanh near 0
    glorot            σ² = 2 / (fan_in + fan_out)                 between (1) and (4) without an activation
    he, he(a)         σ² = 2 / ((1 + a²) fan_in)                  keeps (1) through (2) or (3): the forward pass
    he_out, he_out(a) σ² = 2 / ((1 + a²) fan_out)                 keeps (4): the backward pass
    he_mean           σ² = 4 / (fan_in + fan_out)                 between the two where a layer is not square
    normal(v)         σ² = v                                      whatever the fans; v = 1 if left out
    uniform(v)        σ² = v

The law is normal; `…_uniform` draws from [-√3σ, √3σ], which has the same variance. (1) to (4) are of second moments: a
ReLU leaves half of the second moment but 1/2 - 1/2π = 0.341 of the variance of a normal z. Where fan_in and fan_out
differ no σ² keeps both directions.

Notes   Understanding Deep Learning prints 1 / (fan_in + fan_out) for he_mean; putting the mean width into 2/D gives 4
Papers  LeCun et al. 1998; Glorot and Bengio 2010; He et al. 2015
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import init as torch_init

from leadline.init.maps import need_maps


def lecun(model: nn.Module, generator: torch.Generator | None = None) -> None:
    """
    >>> net = nn.Linear(400, 300)
    >>> lecun(net, torch.Generator().manual_seed(0))
    >>> round(400 * net.weight.var().item(), 2), net.bias.abs().max().item()
    (1.0, 0.0)
    """
    _each(model, generator, torch_init.kaiming_normal_, nonlinearity="linear")


def lecun_uniform(model: nn.Module, generator: torch.Generator | None = None) -> None:
    _each(model, generator, torch_init.kaiming_uniform_, nonlinearity="linear")


def glorot(model: nn.Module, generator: torch.Generator | None = None) -> None:
    _each(model, generator, torch_init.xavier_normal_)


def glorot_uniform(model: nn.Module, generator: torch.Generator | None = None) -> None:
    _each(model, generator, torch_init.xavier_uniform_)


def he(model: nn.Module, generator: torch.Generator | None = None, slope: float = 0.0) -> None:
    _each(model, generator, torch_init.kaiming_normal_, a=slope)


def he_uniform(model: nn.Module, generator: torch.Generator | None = None, slope: float = 0.0) -> None:
    _each(model, generator, torch_init.kaiming_uniform_, a=slope)


def he_out(model: nn.Module, generator: torch.Generator | None = None, slope: float = 0.0) -> None:
    _each(model, generator, torch_init.kaiming_normal_, a=slope, mode="fan_out")


def he_mean(model: nn.Module, generator: torch.Generator | None = None) -> None:
    _each(model, generator, torch_init.xavier_normal_, gain=math.sqrt(2))


def normal(model: nn.Module, generator: torch.Generator | None = None, variance: float = 1.0) -> None:
    _each(model, generator, torch_init.normal_, std=math.sqrt(variance))


def uniform(model: nn.Module, generator: torch.Generator | None = None, variance: float = 1.0) -> None:
    _each(model, generator, torch_init.uniform_, a=-math.sqrt(3 * variance), b=math.sqrt(3 * variance))


def _each(model: nn.Module, generator: torch.Generator | None, law: Callable[..., Tensor], **options: Any) -> None:
    for one in need_maps(model):
        one.draw(lambda block: law(block, generator=generator, **options), generator)
