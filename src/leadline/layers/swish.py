"""Swish: a gate that the unit opens for itself, with a learned sharpness (Ramachandran et al., 2017).

    a[z] = z · sigmoid(β z)        (1)

β = 0 is z/2, β = 1 is SiLU, and β -> ∞ is ReLU.

Notation   β -> beta, one for the layer
Shapes     (...) -> (...)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Swish(nn.Module):
    """Args:
        beta: where β begins.

    >>> Swish(beta=0.0)(torch.tensor([4.0])).tolist()
    [2.0]
    """

    def __init__(self, beta: float = 1.0):
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(float(beta)))

    def forward(self, z: Tensor) -> Tensor:
        return z * torch.sigmoid(self.beta * z)  # eq. 1
