"""Concatenated ReLU: both halves of every unit (Shang et al., 2016).

    a[z] = [max(z, 0), max(-z, 0)]        (1)

Nothing is lost: z is the difference of the two halves. The layer after it reads twice as many units.

Shapes     (..., D) -> (..., 2 D), first all positive halves, then all negative ones
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ConcatenatedReLU(nn.Module):
    """
    >>> ConcatenatedReLU()(torch.tensor([[2.0, -3.0]])).tolist()
    [[2.0, 0.0, 0.0, 3.0]]
    """

    widens = 2

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([F.relu(z), F.relu(-z)], dim=-1)  # eq. 1
