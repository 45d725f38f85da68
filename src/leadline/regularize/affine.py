"""Pictures turned, shifted, stretched and slanted a little, all at once.

    A = s R(θ) S(γ),   θ ~ U(-degrees, degrees),  s ~ U(1 - scale, 1 + scale),  γ ~ U(-slant, slant) degrees       (1)
    t = (shift_x X, shift_y Y),   each ~ U(-shift, shift)                                                            (2)

R turns about the centre; S(γ) moves what is above the centre along the rows against what is below.
"""

from __future__ import annotations

import math

from torch import Tensor

from leadline.data.data import Batch
from leadline.regularize import geometry
from leadline.regularize.augmentation import Moving
from leadline.regularize.strength import hold

_SITE = 0x1106
_DEGREE = math.pi / 180


class Affine(Moving):
    """Args:
        degrees: of eq. 1, at least 0.
        shift: of eq. 2, in parts of the picture, at least 0.
        scale: of eq. 1, 0 <= scale < 1.
        slant: of eq. 1 in degrees, 0 <= slant < 90.

    >>> import torch
    >>> batch = Batch(torch.rand(2, 3, 8, 6), torch.zeros(2), keys=torch.tensor([5, 6]))
    >>> torch.allclose(Affine(0, 0, 0).rows(batch).x, batch.x, atol=1e-5)
    True
    """

    name = "affine"
    degrees: float
    shift: float
    scale: float
    slant: float
    _degrees: Tensor
    _shift: Tensor
    _scale: Tensor
    _slant: Tensor

    def __init__(self, degrees: float = 10.0, shift: float = 0.1, scale: float = 0.1, slant: float = 0.0):
        super().__init__()
        for name, value, below in (("degrees", degrees, math.inf), ("shift", shift, math.inf), ("scale", scale, 1)):
            hold(self, name, value, 0, below)
        hold(self, "slant", slant, 0, 90)

    def ahead(self, batch: Batch, size: tuple[int, int]) -> Tensor:
        u = [2 * drawn - 1 for drawn in self.drawn(batch, 5, _SITE)]
        degrees, shift, scale, slant = (
            value.to(u[0].dtype) for value in (self._degrees, self._shift, self._scale, self._slant)
        )
        θ, s, γ = degrees * _DEGREE * u[0], 1 + scale * u[1], (slant * _DEGREE * u[2]).tan()
        cosine, sine = s * θ.cos(), s * θ.sin()
        return geometry.affine(
            *(cosine, γ * cosine - sine, sine, γ * sine + cosine),  # eq. 1
            *(shift * u[3] * size[1], shift * u[4] * size[0]),  # eq. 2
        )
