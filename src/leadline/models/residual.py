"""Residual network: every layer hands on what it read (He et al., 2016; Huang et al., 2017).

    h_0     = x
    add     h_k = V_k h_{k-1} + (a[β_k + Ω_k h_{k-1}] - a[0])        V_k = 1 where the widths agree        (1)
    concat  h_k = [h_{k-1}, a[β_k + Ω_k h_{k-1}]]                    dense connections                     (2)
    output  = β_{K+1} + Ω_{K+1} h_K                                                                        (3)

With (1) the first Ω_k and β_k are torch's divided by √K: what K layers add then stays in proportion to what they read,
and a stack can be a hundred layers deep; undivided, it grows with every layer. With (2) each layer reads the input and
every activation before it, and so does the output.

Notation   Ω_k, β_k, V_k -> layers[k-1].map.weight, .bias, layers[k-1].project.weight;  K -> len(hidden)
Paper      both papers speak of convolutions, with normalisation before each activation; here are plain maps without.
           MLP(residual=True) is (1) without V, with dropout and normalisation
Shapes     x (B, dim_input) -> (B, dim_output); further axes of x are flattened
Train it   leadline train mnist1d --model Residual --hidden 64 64 64 64 64 64
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.residual import AddLayer, ConcatLayer
from leadline.models.sizes import check_sizes, check_widths
from leadline.names import lookup

SKIPS: dict[str, type[AddLayer] | type[ConcatLayer]] = {"add": AddLayer, "concat": ConcatLayer}


class Residual(nn.Module, Configured):
    """Args:
        dim_input, dim_output: widths, at least 1.
        hidden: units of each hidden layer, at least 1 each.
        activation: a name in `leadline.layers.activation.ACTIVATIONS`.
        skip: "add" (1) or "concat" (2).

    >>> Residual(40, (64,) * 30, 10)(torch.zeros(5, 40)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self,
        dim_input: int,
        hidden: Sequence[int] = (64,) * 8,
        dim_output: int = 1,
        activation: str = "relu",
        skip: str = "add",
    ):
        super().__init__()
        check_sizes("Residual", dim_input=dim_input, dim_output=dim_output)
        check_widths("Residual", hidden)
        make = lookup(skip, SKIPS, "skip")
        self.dim_input, self.hidden, self.dim_output = dim_input, tuple(hidden), dim_output
        self.activation, self.skip = activation, skip
        self.layers = nn.ModuleList()
        width = dim_input
        for units in hidden:
            layer = make(width, units, activation)
            self.layers.append(layer)
            width = layer.dim_output
            if isinstance(layer, AddLayer):
                with torch.no_grad():
                    layer.map.weight.div_(len(hidden) ** 0.5)
                    layer.map.bias.div_(len(hidden) ** 0.5)
        self.head = nn.Linear(width, dim_output)

    @classmethod
    def tiny(cls) -> Residual:
        return cls(3, (5, 5, 4), 2, activation="softplus")

    def forward(self, x: Tensor) -> Tensor:
        h = x.flatten(1)
        for layer in self.layers:
            h = layer(h)  # eq. 1, 2
        return self.head(h)  # eq. 3
