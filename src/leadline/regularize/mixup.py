"""Mixup: rows are mixed in pairs, and their losses likewise (Zhang et al., 2018).

    x~ = λ x_i + (1 - λ) x_j,   loss = λ loss(f[x~], y_i) + (1 - λ) loss(f[x~], y_j),   λ ~ Beta(a, a)        (1)

Between two rows the network shall answer in between. j is the row before in the batch, whose rows come in a random
order; each row draws a λ of its own. For class labels eq. 1 is the loss of the mixed label, and so for the classes of
pixels. Boxes and points are lists of places, which have no mixture.

Paper      one λ for a whole batch there
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.data.inputs import Inputs
from leadline.data.target import Target
from leadline.errors import UserError
from leadline.layers import noise
from leadline.regularize.mixing import with_mates
from leadline.regularize.regularizer import Regularizer, Score
from leadline.regularize.strength import hold
from leadline.settings import real

_SITE = 0x1005


class Mixup(Regularizer):
    """Args:
        concentration: a of eq. 1, above 0: near 0 mixes hardly, 1 mixes evenly.

    >>> batch = Batch(torch.tensor([[0.0], [1.0]]), torch.zeros(2), keys=torch.tensor([5, 6]))
    >>> mixed = Mixup(0.4).inputs(batch.x, batch)
    >>> bool((mixed >= 0).all() and (mixed <= 1).all() and (mixed != batch.x).any())
    True
    """

    name = "mixup"
    mechanism = "more effective data"
    draws_noise = True
    whole_batch = True
    moves_rows = True
    concentration: float
    _concentration: Tensor

    def __init__(self, concentration: float = 0.2):
        super().__init__()
        real("concentration", concentration, 0, above=True, usual=0.2)
        hold(self, "concentration", concentration)

    def meet(self, inputs: Inputs, target: Target) -> None:
        super().meet(inputs, target)
        if target.kind in ("boxes", "points"):
            raise UserError(
                "mixup must have answers that can be mixed: classes, numbers or classes of pixels",
                got=f"a target of {target.kind}",
                do="Leave mixup out; flip, crop, affine and colour do for places too",
            )

    def _part(self, batch: Batch, dtype: torch.dtype) -> Tensor:
        keys = batch.keys
        if keys is None:
            keys = torch.randint(2**62, (len(batch.y),), device=batch.y.device)
        return noise.symmetric_beta(keys, (), self._concentration.to(dtype), _SITE, dtype)

    def inputs(self, x: Tensor, batch: Batch) -> Tensor:
        self.__dict__["drawn"] = drawn = self._part(batch, x.dtype)
        part = drawn.view(-1, *[1] * (x.dim() - 1))
        return part * x + (1 - part) * x.roll(1, 0)

    def score(self, inner: Score, batch: Batch) -> Score:
        return with_mates(inner, self.__dict__.pop("drawn"))  # eq. 1, of the same batch: its inputs come first
