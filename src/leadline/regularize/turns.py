"""Quarter turns: for pictures without an up and down, such as those taken from above or through a microscope.

    x~(u, v) = x(R^k (u, v)),   k of 0, 1, 2, 3, all alike        (1)   R a quarter of a turn

Pictures that are not square have only k = 0 and 2: a batch has one shape.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.regularize import geometry
from leadline.regularize.augmentation import Moving
from leadline.regularize.strength import hold

_SITE = 0x1103


class Turn(Moving):
    """Args:
        p: of drawing k at all, 0 <= p <= 1; otherwise the picture stays.

    >>> batch = Batch(torch.arange(4.0).view(1, 1, 2, 2), torch.zeros(1), keys=torch.tensor([5]))
    >>> any(torch.equal(Turn().rows(batch).x, batch.x.rot90(k, (2, 3))) for k in range(4))
    True
    """

    name = "turn"
    p: float
    _p: Tensor

    def __init__(self, p: float = 1.0):
        super().__init__()
        hold(self, "p", p, 0, most=1)

    def ahead(self, batch: Batch, size: tuple[int, int]) -> Tensor:
        u, v = self.drawn(batch, 2, _SITE)
        quarter = (4 * v).floor() if size[0] == size[1] else 2 * (2 * v).floor()
        quarter = quarter * (u < self._p.to(u.dtype))
        cosine = (quarter == 0).to(u.dtype) - (quarter == 2).to(u.dtype)
        sine = (quarter == 1).to(u.dtype) - (quarter == 3).to(u.dtype)
        return geometry.affine(cosine, -sine, sine, cosine, 0 * u, 0 * u)

    def moved(self, x: Tensor, ahead: Tensor) -> Tensor:
        cosine, sine = (ahead[:, row, 0].view(-1, 1, 1, 1) for row in (0, 1))
        x = torch.where(cosine + sine < 0, x.flip((2, 3)), x)
        return torch.where(sine != 0, x.transpose(2, 3).flip(3), x) if x.shape[2] == x.shape[3] else x
