"""Activations that jump: their derivative is 0 wherever there is one, and 0 here at the jumps too.

    heaviside   a[z] = 1 where z >= 0, else 0        (1)
    rect        a[z] = 1 where 0 <= z <= 1, else 0   (2)

No gradient passes: of a network with such a layer, gradient descent trains what comes after the layer alone. They are
for networks whose weights are set by hand, and to see what descent cannot do.
"""

from __future__ import annotations

from torch import Tensor, nn


class Heaviside(nn.Module):
    """
    >>> import torch
    >>> Heaviside()(torch.tensor([-0.1, 0.0, 7.0])).tolist()
    [0.0, 1.0, 1.0]
    """

    def forward(self, z: Tensor) -> Tensor:
        return _step(z)  # eq. 1


class Rect(nn.Module):
    """
    >>> import torch
    >>> Rect()(torch.tensor([-0.1, 0.0, 1.0, 1.1])).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """

    def forward(self, z: Tensor) -> Tensor:
        return _step(z) * _step(1 - z)  # eq. 2


def _step(z: Tensor) -> Tensor:
    # a comparison would cut the graph, and the weights below would have no gradient at all; floor's gradient is 0
    return z.floor().clamp(-1, 0) + 1
