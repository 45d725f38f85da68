"""CutMix: a piece of one picture is pasted into another, and their losses are mixed by area (Yun et al., 2019).

    x~ = x_j inside a rectangle of sides √(1 - λ), x_i outside,   λ ~ Beta(a, a)             (1)   centred anywhere
    loss = m loss(f[x~], y_i) + (1 - m) loss(f[x~], y_j),   m: what is left of x_i           (2)   counted in pixels

Where y is a mask, the piece of y_j is pasted too and (2) is not needed. j is the row before in the batch, whose rows
come in a random order.

Paper      one λ and one rectangle for a whole batch there
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.regularize.augmentation import Augmentation
from leadline.regularize.erasing import window
from leadline.regularize.mixing import with_mates
from leadline.regularize.regularizer import Score
from leadline.regularize.strength import hold
from leadline.settings import real

_SITE, _SITE_PLACE = 0x110A, 0x110B


class CutMix(Augmentation):
    """Args:
        concentration: a of eq. 1, above 0: 1 draws all sizes alike.

    >>> batch = Batch(torch.arange(2.0).view(2, 1, 1, 1).expand(2, 1, 8, 8), torch.zeros(2), keys=torch.tensor([5, 6]))
    >>> CutMix(1.0).rows(batch).x.unique().tolist()
    [0.0, 1.0]
    """

    name = "cutmix"
    whole_batch = True
    refused = ("boxes", "points")
    concentration: float
    _concentration: Tensor

    def __init__(self, concentration: float = 1.0):
        super().__init__()
        real("concentration", concentration, 0, above=True, usual=1.0)
        hold(self, "concentration", concentration)

    def rows(self, batch: Batch) -> Batch:
        x = self.pictures(batch.x)
        keys = batch.keys
        if keys is None:
            keys = torch.randint(2**62, (len(batch),), device=x.device)
        part = noise.symmetric_beta(keys, (), self._concentration.to(torch.float32), _SITE)
        u, v = noise.uniform(keys, (2,), _SITE_PLACE).unbind(1)
        half = (1 - part).sqrt() / 2
        pasted = window(u - half, v - half, u + half, v + half, (x.shape[-2], x.shape[-1]))  # eq. 1
        x = torch.where(pasted[:, None], x.roll(1, 0), x)
        if self.kind == "pixels":
            return dataclasses.replace(batch, x=x, y=torch.where(pasted, batch.y.roll(1, 0), batch.y))
        self.__dict__["left"] = 1 - pasted.to(torch.promote_types(x.dtype, torch.float32)).mean((1, 2))
        return dataclasses.replace(batch, x=x)

    def score(self, inner: Score, batch: Batch) -> Score:
        if self.kind == "pixels":
            return inner
        return with_mates(inner, self.__dict__.pop("left"))  # eq. 2, of the same batch: its rows come first
