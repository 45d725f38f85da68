"""Label noise: in every step some labels are switched, others each time (DisturbLabel, Xie et al., 2016).

    y~ = y with probability 1 - ρ, else one of the other C - 1 classes, all alike        (1)

On average the loss is that of label smoothing with mass ρ on the other classes; see `LabelSmoothing`.

Paper      there the class is drawn from all C, the true one too: ρ here is theirs times (C - 1) / C
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.regularize.classes import num_classes
from leadline.regularize.regularizer import Regularizer, Score
from leadline.regularize.strength import hold

_SITE = 0x1004


class LabelNoise(Regularizer):
    """Args:
        rate: ρ of eq. 1, 0 <= rate < 1.

    >>> from leadline.likelihoods import Categorical
    >>> batch = Batch(torch.zeros(1, 1), torch.tensor([2]), keys=torch.tensor([5]))
    >>> score = LabelNoise(0.1).score(Categorical(4).loss, batch)
    >>> round(float(score(torch.zeros(1, 4), batch.y)), 4)  # log 4, whatever the label
    1.3863
    """

    name = "label_noise"
    mechanism = "more effective data"
    draws_noise = True
    rate: float
    _rate: Tensor

    def __init__(self, rate: float = 0.1):
        super().__init__()
        hold(self, "rate", rate, 0, 1)

    def score(self, inner: Score, batch: Batch) -> Score:
        def switched(output: Tensor, y: Tensor) -> Tensor:
            count = num_classes(output, y, "label_noise")
            drawn = (
                torch.rand(len(y), 2, device=y.device) if batch.keys is None else noise.uniform(batch.keys, (2,), _SITE)
            )
            further = 1 + (drawn[:, 1] * (count - 1)).long().clamp(max=count - 2)
            return inner(output, torch.where(drawn[:, 0] < self._rate.to(drawn.dtype), (y + further) % count, y))

        return switched
