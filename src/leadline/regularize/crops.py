"""Windows of pictures: of the same size and a little off, or smaller and brought to size.

    x~(u, v) = x(u + i, v + j),   i, j of -k, …, k, all alike                                        (1)   crop
    window of area a ~ U(least, 1) and of relative shape r, log r ~ U(log 3/4, log 4/3), any place    (2)   zoom
    sides √(a r), √(a / r), at most 1

(1) is the crop of a picture with a margin of k around it. It blurs nothing. (2) shows things larger than they are, and
parts of them, and is how networks for photographs are trained.

Paper      of (2), torchvision draws up to ten windows and takes the first that fits; here too long a side is cut
"""

from __future__ import annotations

import math

from torch import Tensor

from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.regularize import geometry
from leadline.regularize.augmentation import Moving
from leadline.regularize.strength import hold
from leadline.settings import given

_SITE, _SITE_ZOOM = 0x1104, 0x1105
_LONGEST = math.log(4 / 3)


class Crop(Moving):
    """Args:
        pixels: k of eq. 1, a whole number; of a series, steps.

    >>> import torch
    >>> batch = Batch(torch.ones(1, 1, 4, 4), torch.zeros(1), keys=torch.tensor([0]))
    >>> Crop(1).rows(batch).x[0, 0].tolist()  # its top row came in from outside
    [[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """

    name = "crop"
    series = True
    pixels: float
    _pixels: Tensor

    def __init__(self, pixels: float = 4.0):
        super().__init__()
        hold(self, "pixels", pixels)
        if pixels != int(pixels):
            raise UserError("pixels must be a number that is whole", got=given("pixels", pixels), do="Write crop(4)")

    def ahead(self, batch: Batch, size: tuple[int, int]) -> Tensor:
        u, v = self.drawn(batch, 2, _SITE)
        k = self._pixels.to(u.dtype)
        right, down = (((2 * k + 1) * w).floor() - k for w in (u, v))  # eq. 1
        one = u * 0 + 1
        return geometry.affine(one, 0 * u, 0 * u, one, right, down if size[0] > 1 else 0 * down)

    def moved(self, x: Tensor, ahead: Tensor) -> Tensor:
        return geometry.shifted(x, ahead[:, 0, 2], ahead[:, 1, 2])


class Zoom(Moving):
    """Args:
        least: of eq. 2, above 0 and at most 1: 0.08 is usual for photographs, more for small pictures.

    >>> import torch
    >>> batch = Batch(torch.ones(1, 1, 4, 4), torch.zeros(1), keys=torch.tensor([5]))
    >>> torch.allclose(Zoom(0.3).rows(batch).x, batch.x)  # nothing comes in from outside
    True
    """

    name = "zoom"
    least: float
    _least: Tensor

    def __init__(self, least: float = 0.35):
        super().__init__()
        hold(self, "least", least, 1e-6, most=1)

    def ahead(self, batch: Batch, size: tuple[int, int]) -> Tensor:
        u, v, across, down = self.drawn(batch, 4, _SITE_ZOOM)
        least = self._least.to(u.dtype)
        area, shape = least + (1 - least) * u, ((2 * v - 1) * _LONGEST).exp()
        wide, high = (area * shape).sqrt().clamp(max=1), (area / shape).sqrt().clamp(max=1)  # eq. 2
        right, low = (0.5 - across) * (1 - wide) * size[1] / wide, (0.5 - down) * (1 - high) * size[0] / high
        return geometry.affine(1 / wide, 0 * u, 0 * u, 1 / high, right, low)

    def moved(self, x: Tensor, ahead: Tensor) -> Tensor:
        return geometry.bilinear(x, geometry.inverse(ahead), "border")
