"""DropConnect: an affine map of which single weights are silenced, others for each example (Wan et al., 2013).

    y = β + (Ω * M / (1 - p)) x,   M_ij ~ Bernoulli(1 - p)        (1)   while training;   M = 1 - p   otherwise

Dropout silences a unit, all of its weights at once; this silences weights. The mask of an example is a pure function of
(seed, epoch, example, layer). A batch needs B masks of the size of Ω.

Paper      at test time a normal law of the pre-activations there, the mean weight here
Shapes     x (B, dim_input) -> (B, dim_output)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers import noise
from leadline.settings import real


class DropConnect(nn.Module):
    """Args:
        dim_input, dim_output: widths, at least 1.
        p_drop: probability that a weight is silenced, 0 <= p_drop < 1.
        site: tells this layer's noise from that of other layers.

    >>> layer = DropConnect(3, 2).eval()
    >>> x = torch.randn(4, 3)
    >>> torch.allclose(layer(x), layer.map(x))
    True
    """

    draws_noise = True

    def __init__(self, dim_input: int, dim_output: int, p_drop: float = 0.5, site: int = 0):
        super().__init__()
        self.p_drop, self.site = real("p_drop", p_drop, 0, 1, usual=0.5), site
        self.map = nn.Linear(dim_input, dim_output)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p_drop == 0:
            return self.map(x)
        keys, shape = noise.current.keys, tuple(self.map.weight.shape)
        if keys is None:
            mask = F.dropout(torch.ones(len(x), *shape, device=x.device), self.p_drop)
        else:
            mask = noise.kept(keys, shape, self.p_drop, self.site, self.map.weight.dtype)
        masked = self.map.weight * mask  # (B, dim_output, dim_input)
        return (masked @ x[:, :, None]).squeeze(-1) + self.map.bias  # eq. 1


class SpatialDropout(nn.Module):
    """Whole channels are silenced, at every place: neighbours in a series tell of each other (Tompson et al., 2015).

        h~_c = h_c * m_c / (1 - p),   m_c ~ Bernoulli(1 - p)

    Args:
        p_drop: probability that a channel is silenced, 0 <= p_drop < 1.
        site: tells this layer's noise from that of other layers.

    Shapes     (B, C, ...) -> (B, C, ...)

    >>> layer = SpatialDropout(0.5)
    >>> out = layer(torch.ones(8, 4, 5))
    >>> bool((out == out[:, :, :1]).all())
    True
    """

    draws_noise = True

    def __init__(self, p_drop: float = 0.5, site: int = 0):
        super().__init__()
        self.p_drop, self.site = real("p_drop", p_drop, 0, 1, usual=0.5), site

    def forward(self, h: Tensor) -> Tensor:
        if not self.training or self.p_drop == 0:
            return h
        keys, ones = noise.current.keys, [1] * (h.dim() - 2)
        if keys is None:
            return h * F.dropout(torch.ones_like(h[:, :, *[slice(1)] * len(ones)]), self.p_drop)
        mask = noise.kept(keys, (h.shape[1],), self.p_drop, self.site, h.dtype)
        return h * mask.view(*mask.shape, *ones)
