"""Sine as an activation: a network of it is a sum of waves.

    a[z] = sin z        (1)

Shapes     (...) -> (...)
"""

from __future__ import annotations

from torch import Tensor, nn


class Sine(nn.Module):
    """
    >>> import torch
    >>> Sine()(torch.zeros(1)).tolist()
    [0.0]
    """

    def forward(self, z: Tensor) -> Tensor:
        return z.sin()  # eq. 1
