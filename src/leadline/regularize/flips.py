"""Mirrored pictures.

    x~(u, v) = x(-u, v) with probability p        (1)   left and right change places
    x~(u, v) = x(u, -v) with probability p        (2)   up and down

Points whose names say left or right change names too: the left hand of a mirrored person is the right one. Classes
that a mirror would change (a letter, the hand of a glove) are better left alone. A series is read backwards.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.regularize import geometry
from leadline.regularize.augmentation import Moving
from leadline.regularize.strength import hold


class _Mirror(Moving):
    """Args:
    p: of eq. 1 and 2, 0 <= p <= 1.
    """

    p: float
    _p: Tensor
    site: int
    axis: int  # 0 for columns, 1 for rows

    def __init__(self, p: float = 0.5):
        super().__init__()
        hold(self, "p", p, 0, most=1)

    def ahead(self, batch: Batch, size: tuple[int, int]) -> Tensor:
        [u] = self.drawn(batch, 1, self.site)
        sign, same = torch.where(u < self._p.to(u.dtype), -1.0, 1.0), 0 * u + 1
        across, down = (same, sign) if self.axis else (sign, same)
        return geometry.affine(across, 0 * u, 0 * u, down, 0 * u, 0 * u)

    def moved(self, x: Tensor, ahead: Tensor) -> Tensor:
        return torch.where(ahead[:, self.axis, self.axis].view(-1, 1, 1, 1) < 0, x.flip(3 - self.axis), x)


class Flip(_Mirror):
    """Args:
        p: of eq. 1, 0 <= p <= 1.

    >>> batch = Batch(torch.tensor([[[[1.0, 2.0, 3.0]]]]), torch.zeros(1), keys=torch.tensor([5]))
    >>> Flip(1.0).rows(batch).x.tolist()
    [[[[3.0, 2.0, 1.0]]]]
    """

    name = "flip"
    series = True
    site, axis = 0x1101, 0


class FlipVertical(_Mirror):
    """Args:
        p: of eq. 2, 0 <= p <= 1.

    >>> batch = Batch(torch.tensor([[[[1.0], [2.0]]]]), torch.zeros(1), keys=torch.tensor([5]))
    >>> FlipVertical(1.0).rows(batch).x.flatten().tolist()
    [2.0, 1.0]
    """

    name = "flip_vertical"
    site, axis = 0x1102, 1
