"""Channels that look at channels, each described by the whole picture (Ding et al., 2022).

    score_{cd} = Σ_t q_{tc} k_{td} / √C_g            c, d channels of one group                     (1)
    out_{tc}   = Σ_d softmax_d(score_{cd}) v_{td}                                                   (2)

The matrix of weights has the size of a group, C_g x C_g, whatever the size of the picture: the cost grows with the
number of places, not with its square. Every place has a part in every weight, so that the view is global.

Notation   C_g -> dim / num_groups;  W_q, W_k, W_v -> query_key_value;  W_o -> out
Shapes     (B, …, D) -> (B, …, D), places in any number of axes
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from leadline.layers.attention import shares


class ChannelAttention(nn.Module):
    """Args:
        dim: D.
        num_groups: of channels; each looks at its own only. D must be a multiple of it.

    >>> import torch
    >>> ChannelAttention(8, 2)(torch.zeros(3, 5, 6, 8)).shape
    torch.Size([3, 5, 6, 8])
    """

    def __init__(self, dim: int, num_groups: int):
        super().__init__()
        self.groups, _, self.dim_group = shares(dim, num_groups, None, None)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, h: Tensor) -> Tensor:
        parts = self.query_key_value(h.flatten(1, -2)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.groups, self.dim_group)).permute(0, 2, 3, 1) for part in parts)
        seen = self.weights(q, k) @ v  # eq. 2   (B, G, C_g, T)
        return self.out(seen.permute(0, 3, 1, 2).flatten(2)).view(h.shape)

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        """Softmax of (1), (B, G, C_g, C_g), of queries and keys (B, G, C_g, T)."""
        return (q @ k.transpose(-1, -2) / math.sqrt(self.dim_group)).softmax(-1)


def cost_of_places(places: int, dim: int) -> int:
    """Multiply-adds of one matrix product of attention between places.

    >>> cost_of_places(16 * 16, 512)
    33554432
    """
    return places**2 * dim


def cost_of_channels(places: int, dim: int, num_groups: int = 1) -> int:
    """Multiply-adds of one matrix product of attention between channels.

    >>> cost_of_channels(16 * 16, 512)
    67108864
    """
    return places * dim * (dim // num_groups)
