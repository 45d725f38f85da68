"""Dropout whose mask belongs to the example, not to the batch (Srivastava et al., 2014).

    h~ = h * m / (1 - p),   m_j ~ Bernoulli(1 - p)        (1)   while training;   h~ = h   otherwise

The mask of an example is a pure function of (seed, epoch, example, layer): see `leadline.layers.noise`. Thus `k`
micro-batches drop the same units as the whole batch, and a resumed run those of the uninterrupted one. Used outside
of `fit`, without keys, it is `torch.nn.Dropout`.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers import noise
from leadline.settings import real


class Dropout(nn.Module):
    """Args:
        p_drop: probability that a unit is silenced, 0 <= p_drop < 1.
        site: tells this layer's noise from that of other layers; number the layers of a model.

    Shapes     (B, ...) -> (B, ...)

    >>> import torch
    >>> layer = Dropout(0.5, site=1).eval()
    >>> bool((layer(torch.ones(2, 3)) == 1).all())
    True
    """

    draws_noise = True

    def __init__(self, p_drop: float, site: int = 0):
        super().__init__()
        self.p_drop, self.site = real("p_drop", p_drop, 0, 1, usual=0.1), site

    def forward(self, h: Tensor) -> Tensor:
        if not self.training or self.p_drop == 0:
            return h
        keys = noise.current.keys
        if keys is None:
            return F.dropout(h, self.p_drop)
        kept = noise.kept(keys, tuple(h.shape[1:]), self.p_drop, self.site, h.dtype)
        return h * kept  # eq. 1

    def extra_repr(self) -> str:
        return f"p_drop={self.p_drop}"
