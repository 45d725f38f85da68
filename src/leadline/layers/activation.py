"""Activations by name, so that a config can hold them."""

from __future__ import annotations

from torch import nn

from leadline.names import lookup

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "leaky_relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "identity": nn.Identity,
}


def activation(name: str) -> nn.Module:
    """A new activation module.

    >>> activation("ReLU")
    ReLU()
    """
    return lookup(name, ACTIVATIONS, "activation")()
