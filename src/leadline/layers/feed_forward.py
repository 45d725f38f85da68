"""The network that every token passes alone: one hidden layer, plain or gated (Vaswani 2017; Shazeer 2020).

    plain    W₂ a(W₁ x + b₁) + b₂                                  (1)
    gated    W₂ (a(W_g x + b_g) * (W₁ x + b₁)) + b₂                (2)

Notation   W₁ (and W_g above it) -> widen;  W₂ -> narrow;  a -> activation
Shapes     (…, D) -> (…, D)
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.layers.activation import activation as activation_by_name
from leadline.settings import truth, whole


class FeedForward(nn.Module):
    """Args:
        dim: D.
        dim_hidden: width of the hidden layer.
        activation: its name.
        gated: eq. 2.
        bias: of both maps.

    >>> import torch
    >>> FeedForward(4, 16)(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, dim: int, dim_hidden: int, activation: str = "gelu", gated: bool = False, bias: bool = True):
        super().__init__()
        self.gated = truth("gated", gated)
        whole("dim", dim), whole("dim_hidden", dim_hidden)
        self.widen = nn.Linear(dim, dim_hidden * (1 + gated), bias)
        self.activation = activation_by_name(activation)
        self.narrow = nn.Linear(dim_hidden, dim, bias)

    def forward(self, x: Tensor) -> Tensor:
        h = self.widen(x)
        if not self.gated:
            return self.narrow(self.activation(h))  # eq. 1
        gate, h = h.chunk(2, -1)
        return self.narrow(self.activation(gate) * h)  # eq. 2
