"""Activations that make no universal network: controls for those that do.

    affine   a[z] = ψ0 + ψ1 z        (1)   the whole network is one affine map
    square   a[z] = z²               (2)   K layers of it are a polynomial of degree 2^K at most, whatever their width

Notation   ψ0, ψ1 -> psi0, psi1, learned, one of each for the layer
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Affine(nn.Module):
    """
    >>> Affine()(torch.tensor([3.0])).tolist()
    [3.0]
    """

    def __init__(self) -> None:
        super().__init__()
        self.psi0, self.psi1 = nn.Parameter(torch.zeros(())), nn.Parameter(torch.ones(()))

    def forward(self, z: Tensor) -> Tensor:
        return self.psi0 + self.psi1 * z  # eq. 1


class Square(nn.Module):
    """
    >>> Square()(torch.tensor([-3.0])).tolist()
    [9.0]
    """

    def forward(self, z: Tensor) -> Tensor:
        return z.square()  # eq. 2
