"""Weight noise: every step is computed with weights that are a little off (An, 1996).

    φ~ = φ + σ ε,   ε ~ N(0, I)        (1)   the same for all rows of a step; the step moves φ

What is left is a place where such errors matter little: a wide minimum. All parameters are disturbed, biases too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.regularize.regularizer import Regularizer
from leadline.regularize.strength import hold

_SITE = 0x1003


class WeightNoise(Regularizer):
    """Args:
        deviation: σ of eq. 1, at least 0.

    >>> batch = Batch(torch.zeros(1, 1), torch.zeros(1), keys=torch.tensor([5]))
    >>> moved = WeightNoise(0.1).weights({"weight": torch.zeros(2, 2)}, batch)["weight"]
    >>> bool((moved != 0).all())
    True
    """

    name = "weight_noise"
    mechanism = "wider minima"
    draws_noise = True
    whole_batch = True
    moves_weights = True
    deviation: float
    _deviation: Tensor

    def __init__(self, deviation: float = 0.01):
        super().__init__()
        hold(self, "deviation", deviation)

    def weights(self, parameters: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        return {
            name: p + self._deviation.to(p.dtype) * self._draw(p, batch.keys, k)  # eq. 1
            for k, (name, p) in enumerate(parameters.items())
        }

    def _draw(self, p: Tensor, keys: Tensor | None, k: int) -> Tensor:
        if keys is None:
            return torch.randn_like(p)
        return noise.normal(noise.of_batch(keys), tuple(p.shape), _SITE + 256 * k, p.dtype)[0]
