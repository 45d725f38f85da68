"""Activation normalisation: a scale and an offset for each unit, set by the first batch (Kingma and Dhariwal, 2018).

    y_j = s_j x_j + o_j                                            learned like any weight            (1)
    s_j = 1 / (d_j + ε),   o_j = -m_j / (d_j + ε)                  once, from the first batch         (2)

m_j and d_j are mean and deviation of unit j over that batch, so the first outputs have mean 0 and deviation 1; after
that the batch plays no part, and one row at a time can be trained on. It is a layer and a first weight in one. The
first batch that is seen in training is kept; until then the layer normalises by whatever batch it sees.

Notation   s, o -> scale, offset;  ε = 1e-6
Shapes     x (B, num_units, …) -> the same; units on axis 1, as in batch normalisation
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_EPSILON = 1e-6


class ActNorm(nn.Module):
    """Args:
        num_units: units or channels, at least 1.

    >>> layer, x = ActNorm(2), torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    >>> layer(x).round(decimals=3).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    >>> layer(x[:1] + 1).round(decimals=3).tolist()[0][0]  # the first batch has set it
    0.0
    """

    started: Tensor

    def __init__(self, num_units: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(num_units))
        self.offset = nn.Parameter(torch.zeros(num_units))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        scale, offset = (self.scale, self.offset) if self.started else self._first(x)
        shape = (1, -1, *[1] * (x.dim() - 2))
        return scale.view(shape) * x + offset.view(shape)  # eq. 1

    def _first(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            rows = x.detach().transpose(0, 1).flatten(1)
            scale = 1 / (rows.std(1, correction=0) + _EPSILON)  # eq. 2
            offset = -rows.mean(1) * scale
            if not self.training:
                return scale, offset
            self.scale.copy_(scale)
            self.offset.copy_(offset)
            self.started.fill_(True)
        return self.scale, self.offset
