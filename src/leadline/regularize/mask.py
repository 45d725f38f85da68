"""Masked inputs: some values of every row are hidden, others each time.

    x~_j = 0 with probability p, else x_j        (1)   0 is the mean, where inputs are standardized

With the row itself as the target (`leadline.data.reconstruction`) it is mask-and-predict: a network that fills gaps
has learned how columns hang together, and what it learned can be handed on (`leadline.models.transfer`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.regularize.regularizer import Regularizer
from leadline.regularize.strength import hold

_SITE = 0x1002


class Mask(Regularizer):
    """Args:
        p_hide: p of eq. 1, 0 <= p_hide < 1.

    >>> batch = Batch(torch.ones(1, 8), torch.zeros(1), keys=torch.tensor([5]))
    >>> sorted(set(Mask(0.5).inputs(batch.x, batch).flatten().tolist()))
    [0.0, 1.0]
    """

    name = "mask"
    mechanism = "more effective data"
    draws_noise = True
    moves_rows = True
    p_hide: float
    _p_hide: Tensor

    def __init__(self, p_hide: float = 0.15):
        super().__init__()
        hold(self, "p_hide", p_hide, 0, 1)

    def inputs(self, x: Tensor, batch: Batch) -> Tensor:
        keys, shape = batch.keys, tuple(x.shape[1:])
        drawn = torch.rand_like(x) if keys is None else noise.uniform(keys, shape, _SITE)
        return torch.where(drawn < self._p_hide.to(drawn.dtype), torch.zeros_like(x), x)  # eq. 1
