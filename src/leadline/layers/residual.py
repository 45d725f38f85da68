"""Layers that hand on what they read: added to what they make of it, or beside it.

    add      y = x + (a[Ω x + β] - a[0])              where the widths agree (He et al., 2016)        (1)
             y = V x + (a[Ω x + β] - a[0])            where they do not                               (2)
    concat   y = [x, a[Ω x + β]]                      the next layer reads both (Huang et al., 2017)  (3)

With Ω = 0 and β = 0 the layer (1) is the identity for every activation, also for those that are not 0 at 0. In a stack
of (3) each layer reads the input and all activations before it.

Notation   Ω, β -> map.weight, map.bias;  V -> project.weight
Paper      He et al. add after two maps with normalisation between them, and have no a[0]: their activation is ReLU
Shapes     x (B, dim_input) -> (B, dim_output)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.layers.activation import activation as make_activation
from leadline.layers.activation import at_zero, lifted, widening


class AddLayer(nn.Module):
    """Args:
        dim_input, num_units: widths, at least 1 each.
        activation: a name in `leadline.layers.activation.ACTIVATIONS`; one that doubles its units (crelu) gives
            dim_output = 2 num_units.

    >>> layer = AddLayer(3, 3, "sigmoid")
    >>> _ = nn.init.zeros_(layer.map.weight), nn.init.zeros_(layer.map.bias)
    >>> layer(torch.tensor([[1.0, -2.0, 5.0]])).tolist()
    [[1.0, -2.0, 5.0]]
    """

    residual_branch = ("map",)  # see leadline.init.branches

    def __init__(self, dim_input: int, num_units: int, activation: str):
        super().__init__()
        self.map = nn.Linear(dim_input, num_units)
        self.activation = make_activation(activation)
        self.lifted = lifted(self.activation)
        self.dim_output = num_units * widening(self.activation)
        same = dim_input == self.dim_output
        self.project = None if same else nn.Linear(dim_input, self.dim_output, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kept = x if self.project is None else self.project(x)
        made = self.activation(self.map(x))
        if self.lifted:
            made = made - at_zero(self.activation)
        return kept + made  # eq. 1, 2


class ConcatLayer(nn.Module):
    """Args:
        dim_input, num_units: widths, at least 1 each; dim_output is dim_input and the activations together.
        activation: a name in `leadline.layers.activation.ACTIVATIONS`.

    >>> ConcatLayer(3, 2, "relu")(torch.ones(4, 3)).shape
    torch.Size([4, 5])
    """

    def __init__(self, dim_input: int, num_units: int, activation: str):
        super().__init__()
        self.map = nn.Linear(dim_input, num_units)
        self.activation = make_activation(activation)
        self.dim_output = dim_input + num_units * widening(self.activation)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.activation(self.map(x))], dim=-1)  # eq. 3
