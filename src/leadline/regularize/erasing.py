"""Random erasing: a rectangle of the picture is hidden (Zhong et al., 2020; cutout of DeVries and Taylor, 2017).

    area a ~ U(0.02, most),   shape r, log r ~ U(log 0.3, log 1/0.3),   sides √(a r), √(a / r), any place        (1)

Things must then be known by more than one of their parts. What is hidden is the mean colour, and answers stay: a mask
still says what lies behind.

Paper      random values there, for every pixel
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.regularize.augmentation import Augmentation
from leadline.regularize.strength import hold

_SITE = 0x1109
_LEAST, _LONGEST = 0.02, math.log(1 / 0.3)


class Erase(Augmentation):
    """Args:
        p: how often, 0 <= p <= 1.
        most: of eq. 1, in parts of the picture, 0.02 to 1.

    >>> batch = Batch(torch.ones(1, 1, 8, 8), torch.zeros(1), keys=torch.tensor([5]))
    >>> 0 < float((Erase(1.0).rows(batch).x == 0).float().mean()) < 0.5
    True
    """

    name = "erase"
    p: float
    most: float
    _p: Tensor
    _most: Tensor

    def __init__(self, p: float = 0.5, most: float = 0.33):
        super().__init__()
        hold(self, "p", p, 0, most=1)
        hold(self, "most", most, _LEAST, most=1)

    def rows(self, batch: Batch) -> Batch:
        x = self.pictures(batch.x)
        u, area, shape, across, down = self.drawn(batch, 5, _SITE)
        area = _LEAST + (self._most.to(u.dtype) - _LEAST) * area
        shape = ((2 * shape - 1) * _LONGEST).exp()
        wide, high = (area * shape).sqrt().clamp(max=1), (area / shape).sqrt().clamp(max=1)  # eq. 1
        left, top = across * (1 - wide), down * (1 - high)
        hidden = window(left, top, left + wide, top + high, (x.shape[-2], x.shape[-1]))
        hidden = hidden & (u < self._p.to(u.dtype))[:, None, None]
        return dataclasses.replace(batch, x=x * (1 - hidden[:, None].to(x.dtype)))


def window(left: Tensor, top: Tensor, right: Tensor, bottom: Tensor, size: tuple[int, int]) -> Tensor:
    """Which pixels, (B, Y, X), have their centre in a rectangle given in parts of the picture, (B,) each.

    >>> edge = torch.tensor([0.0, 0.25, 0.5, 1.0])[:, None]
    >>> window(*edge, (2, 4)).long().tolist()
    [[[1, 1, 0, 0], [1, 1, 0, 0]]]
    """
    y, x = ((torch.arange(count, device=left.device) + 0.5) / count for count in size)
    across = (x >= left[:, None]) & (x < right[:, None])
    down = (y >= top[:, None]) & (y < bottom[:, None])
    return down[:, :, None] & across[:, None]
