"""Highway network: gates decide, unit by unit, what passes a layer unchanged (Srivastava et al., 2015).

    h_0     = β_0 + Ω_0 x                                                                    (1)
    h_k     = T_k * a[β_k + Ω_k h_{k-1}] + C_k * h_{k-1}          k = 1 … K                  (2)
    output  = β_{K+1} + Ω_{K+1} h_K                                                          (3)

    gate    coupled   T_k = σ(Ω_T h_{k-1} + β_T),  C_k = 1 - T_k       separate   C_k has a gate of its own
            none      T_k = C_k = 1: a residual network, the special case without gates

The gates read the data, so each row takes its own way; they start nearly closed, and fifty layers begin as one. Without
gates the first Ω_k and β_k are divided by √K, as in `Residual`.

Notation   Ω_0 -> read;  Ω_k, T_k, C_k -> layers[k-1].map, .transform, .carry_gate;  K -> depth
Paper      its experiments couple the gates, with dense maps of 50 units; carry was chosen there between 1 and 4
Shapes     x (B, dim_input) -> (B, dim_output); further axes of x are flattened
Train it   leadline train mnist1d --model Highway --depth 20
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.highway import HighwayLayer
from leadline.models.sizes import check_sizes
from leadline.settings import real


class Highway(nn.Module, Configured):
    """Args:
        dim_input, dim_output: widths, at least 1.
        width: units of each layer, at least 1.
        depth: highway layers K, at least 1.
        activation: a name in `leadline.layers.activation.ACTIVATIONS` that keeps the number of units.
        gate: "coupled", "separate" or "none", which makes it residual.
        carry: how far below 0 the biases of T start, and above 0 those of a gate C.

    >>> Highway(40, 10, depth=50)(torch.zeros(5, 40)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int = 1,
        width: int = 64,
        depth: int = 10,
        activation: str = "relu",
        gate: str = "coupled",
        carry: float = 2.0,
    ):
        super().__init__()
        check_sizes("Highway", dim_input=dim_input, dim_output=dim_output, width=width, depth=depth)
        self.dim_input, self.dim_output, self.width, self.depth = dim_input, dim_output, width, depth
        self.activation, self.gate, self.carry = activation, gate, real("carry", carry, usual=2.0)
        self.read = nn.Linear(dim_input, width)
        self.layers = nn.ModuleList(HighwayLayer(width, activation, gate, carry) for _ in range(depth))
        self.head = nn.Linear(width, dim_output)
        if gate == "none":
            with torch.no_grad():
                for layer in self.layers:
                    for p in layer.parameters():
                        p.div_(depth**0.5)

    @classmethod
    def tiny(cls) -> Highway:
        return cls(3, 2, width=4, depth=3, activation="tanh", gate="separate")

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.dim_input,)

    def forward(self, x: Tensor) -> Tensor:
        h = self.read(x.flatten(1))  # eq. 1
        for layer in self.layers:
            h = layer(h)  # eq. 2
        return self.head(h)  # eq. 3
