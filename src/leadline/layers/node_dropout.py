"""Dropout of the numbers of nodes: the mask of a node follows from its own key.

    h~_i = h_i * m_i / (1 - p),   m_ij ~ Bernoulli(1 - p)        (1)   while training;   h~ = h   otherwise

Rows of a batch are questions about a graph, and all of its nodes may be read for one. A node's key is a mix of its
number and the keys of the batch (`leadline.layers.held_graph`), so that the mask is a function of (seed, epoch, step),
whichever nodes are read besides.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers import noise
from leadline.settings import real


class NodeDropout(nn.Module):
    """Args:
        p_drop: probability that a number is silenced, 0 <= p_drop < 1.
        site: tells this layer's noise from that of other layers.

    Shapes     h (N, D), keys (N_s,) with N <= N_s -> (N, D)

    >>> import torch
    >>> layer, keys = NodeDropout(0.5, site=1), torch.arange(4)
    >>> bool((layer(torch.ones(3, 2), keys) == layer(torch.ones(4, 2), keys)[:3]).all())
    True
    """

    def __init__(self, p_drop: float, site: int = 0):
        super().__init__()
        self.p_drop, self.site = real("p_drop", p_drop, 0, 1, usual=0.1), site
        self.draws_noise = self.p_drop > 0

    def forward(self, h: Tensor, keys: Tensor | None) -> Tensor:
        if not self.training or self.p_drop == 0:
            return h
        if keys is None:
            return F.dropout(h, self.p_drop)
        return h * noise.kept(keys[: len(h)], tuple(h.shape[1:]), self.p_drop, self.site, h.dtype)  # eq. 1

    def extra_repr(self) -> str:
        return f"p_drop={self.p_drop}"
