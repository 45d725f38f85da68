"""Input noise: every row is read a little off, and off differently each time.

    x~ = x + σ ε,   ε ~ N(0, I)        (1)   σ in the unit of what the network reads, 1 where inputs are standardized

For small σ and least squares it adds σ² times the squared slope of the output to the loss: the function must be flat
around the rows (Bishop, 1995). For a linear model that is L2 on its weights, without the bias.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.regularize.regularizer import Regularizer
from leadline.regularize.strength import hold

_SITE = 0x1001


class InputNoise(Regularizer):
    """Args:
        deviation: σ of eq. 1, at least 0.

    >>> batch = Batch(torch.zeros(2, 3), torch.zeros(2), keys=torch.tensor([5, 6]))
    >>> InputNoise(0.0).inputs(batch.x, batch).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    name = "input_noise"
    mechanism = "more effective data"
    draws_noise = True
    moves_rows = True
    deviation: float
    _deviation: Tensor

    def __init__(self, deviation: float = 0.1):
        super().__init__()
        hold(self, "deviation", deviation)

    def inputs(self, x: Tensor, batch: Batch) -> Tensor:
        keys, shape = batch.keys, tuple(x.shape[1:])
        drawn = torch.randn_like(x) if keys is None else noise.normal(keys, shape, _SITE, x.dtype)
        return x + self._deviation.to(x.dtype) * drawn  # eq. 1
