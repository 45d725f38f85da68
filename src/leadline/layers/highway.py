"""Highway layer: a gate decides how much of what was read goes on as it is (Srivastava et al., 2015).

    y = T(x) * a[Ω x + β] + C(x) * x                                                        (1)
    coupled    T = σ(Ω_T x + β_T),   C = 1 - T                                              (2)
    separate   T = σ(Ω_T x + β_T),   C = σ(Ω_C x + β_C)                                     (3)
    none       T = C = 1: a residual layer                                                  (4)

β_T starts below 0 and β_C above, both `carry` away from it, so that a deep stack first hands on what it reads.

Notation   Ω, β -> map;  Ω_T, β_T -> transform;  Ω_C, β_C -> carry_gate
Shapes     (B, width) -> (B, width)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.activation import activation as make_activation
from leadline.layers.activation import widening
from leadline.names import lookup

GATES = {"coupled": "coupled", "separate": "separate", "none": "none"}


class HighwayLayer(nn.Module):
    """Args:
        width: of what it reads and gives, at least 1.
        activation: a name in `leadline.layers.activation.ACTIVATIONS` that keeps the number of units.
        gate: "coupled" (2), "separate" (3) or "none" (4).
        carry: -β_T and β_C at the start; 2 lets 12 % of the new through.

    >>> layer = HighwayLayer(3, carry=50.0)
    >>> x = torch.randn(2, 3)
    >>> torch.allclose(layer(x), x)
    True
    """

    def __init__(self, width: int, activation: str = "relu", gate: str = "coupled", carry: float = 2.0):
        super().__init__()
        self.gate = lookup(gate, GATES, "gate")
        self.map, self.activation = nn.Linear(width, width), make_activation(activation)
        if widening(self.activation) != 1:
            raise UserError(
                "HighwayLayer: activation must keep the number of units",
                got=f"activation={activation!r}, which doubles it",
                do="Use relu or tanh",
            )
        self.transform = None if self.gate == "none" else nn.Linear(width, width)
        self.carry_gate = nn.Linear(width, width) if self.gate == "separate" else None
        with torch.no_grad():
            if self.transform is not None:
                self.transform.bias.fill_(-carry)
            if self.carry_gate is not None:
                self.carry_gate.bias.fill_(carry)

    @property
    def residual_branch(self) -> tuple[str, ...]:
        return ("map",) if self.gate == "none" else ()  # see leadline.init.branches

    def forward(self, x: Tensor) -> Tensor:
        made = self.activation(self.map(x))
        if self.transform is None:
            return x + made  # eq. 4
        t = self.transform(x).sigmoid()
        c = 1 - t if self.carry_gate is None else self.carry_gate(x).sigmoid()
        return t * made + c * x  # eq. 1
