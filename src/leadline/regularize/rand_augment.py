"""RandAugment: a few changes of one strength, drawn anew for each picture (Cubuk et al., 2020).

    t = t_N ∘ … ∘ t_1,   each t_n one of `CHANGES`, all alike, of strength m = magnitude / 10        (1)

    identity
    rotate, shear_x, shear_y, translate_x, translate_y        by ± m times 30 degrees, 0.3, 0.3, 0.3 and 0.3 of a side
    brightness, contrast, colour, sharpness                   by 1 ± 0.9 m
    posterize                                                 to 8 - 4 m bits
    solarize                                                  values above 1 - m are inverted
    autocontrast                                              each channel spread over 0..1

Two numbers stand for a search over policies. Maps of a row are multiplied into one, so that a picture is sampled once;
its colours change before it is moved.

Paper      equalize is left out, which needs a histogram of each picture; here brightness and the like go both ways
"""

from __future__ import annotations

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.regularize import geometry
from leadline.regularize.augmentation import Augmentation
from leadline.regularize.colour import greys, recoloured
from leadline.regularize.strength import hold
from leadline.settings import given, real

#: what eq. 1 draws from
CHANGES = (
    *("identity", "rotate", "shear_x", "shear_y", "translate_x", "translate_y"),
    *("brightness", "contrast", "colour", "sharpness", "posterize", "solarize", "autocontrast"),
)
_SITE = 0x110C
_TURN, _SHEAR, _SHIFT, _BLEND, _BITS = math.pi / 6, 0.3, 0.3, 0.9, 4


class RandAugment(Augmentation):
    """Args:
        num: N of eq. 1, a whole number.
        magnitude: of eq. 1, 0 to 10.

    >>> batch = Batch(torch.rand(2, 3, 8, 8), torch.zeros(2), keys=torch.tensor([5, 6]))
    >>> RandAugment(2, 9).rows(batch).x.shape
    torch.Size([2, 3, 8, 8])
    """

    name = "rand_augment"
    colours = True
    num: float
    magnitude: float
    _magnitude: Tensor
    _greys: Tensor

    def __init__(self, num: float = 2.0, magnitude: float = 9.0):
        super().__init__()
        self.num = float(real("num", num, 1))
        hold(self, "magnitude", magnitude, 0, most=10)
        self.register_buffer("_greys", greys(), persistent=False)
        if num != int(num):
            raise UserError("num must be a number that is whole", got=given("num", num), do="Write rand_augment(2, 9)")

    def rows(self, batch: Batch) -> Batch:
        v = self.values(batch.x)
        size = v.shape[-2], v.shape[-1]
        drawn = self.drawn(batch, 2 * int(self.num), _SITE)
        m = self._magnitude.to(drawn[0].dtype) / 10
        ahead = geometry.unmoved(len(v), m)
        for which, side in zip(drawn[::2], drawn[1::2], strict=True):
            change = (which * len(CHANGES)).long()
            signed = m * torch.where(side < 0.5, -1.0, 1.0)
            ahead = geometry.then(ahead, _map(change, signed, size))
            v = _recoloured(v, change, signed, m, self._greys)
        x = geometry.bilinear(self.encoded(v), geometry.inverse(ahead))
        return dataclasses.replace(batch, x=x, y=self.followed(batch.y, ahead, size))


def _map(change: Tensor, signed: Tensor, size: tuple[int, int]) -> Tensor:
    """The map of each row: the identity, but for those whose change moves the picture."""
    turn, shear_x, shear_y, right, down = (
        signed * most * (change == CHANGES.index(name))
        for name, most in (
            *(("rotate", _TURN), ("shear_x", _SHEAR), ("shear_y", _SHEAR)),
            *(("translate_x", _SHIFT * size[1]), ("translate_y", _SHIFT * size[0])),
        )
    )
    return geometry.affine(turn.cos(), shear_x - turn.sin(), shear_y + turn.sin(), turn.cos(), right, down)


def _recoloured(v: Tensor, change: Tensor, signed: Tensor, m: Tensor, greys: Tensor) -> Tensor:
    """Values with the colours of each row's change: v, but for those whose change is one of colours."""
    chosen = lambda name: (change == CHANGES.index(name)).view(-1, 1, 1, 1)  # noqa: E731
    v = _mapped(v, change, signed, greys).clamp(0, 1)
    away = (_BLEND * signed).to(v.dtype).view(-1, 1, 1, 1) * chosen("sharpness")  # of the factor from 1
    v = torch.addcmul((1 + 9 / 13 * away) * v, _around(v), -away / 13).clamp(0, 1)
    m = m.to(v.dtype)
    step = 2 ** (_BITS * m).round()  # of 255
    v = torch.where(chosen("posterize"), torch.addcmul(0.5 / step, v, 255 / step).floor() * (step / 255), v)
    edge = torch.where(chosen("solarize"), 1 - m, 2.0)
    return torch.where(v > edge, 1 - v, v)


def _mapped(v: Tensor, change: Tensor, signed: Tensor, greys: Tensor) -> Tensor:
    """Brightness, contrast, colour and autocontrast: affine maps of colours, as in `leadline.regularize.colour`."""
    chosen = lambda name: (change == CHANGES.index(name)).to(v.dtype)[:, None]  # noqa: E731
    away = _BLEND * signed.to(v.dtype)[:, None]  # of the factor from 1
    greys = greys.to(v.dtype) if v.shape[1] == 3 else torch.ones_like(greys[:1, :1], dtype=v.dtype)
    low, high = v.amin((2, 3)), v.amax((2, 3))  # (B, C)
    flat = high <= low
    over, low = (1 / (high - low).clamp(min=1e-6)).masked_fill(flat, 1), low.masked_fill(flat, 0)
    blends = chosen("brightness") + chosen("contrast") + chosen("colour")
    scale = 1 + away * blends + chosen("autocontrast") * (over - 1)
    matrix = torch.diag_embed(scale) - (away * chosen("colour"))[:, :, None] * greys
    grey = (v.mean((2, 3)) * greys[0]).sum(1, keepdim=True)
    return recoloured(v, matrix, -away * chosen("contrast") * grey - chosen("autocontrast") * low * over)


def _around(v: Tensor) -> Tensor:
    """Sum of a pixel and its eight neighbours; edges repeat. With four more of the pixel, a thirteenth is smooth."""
    v = F.pad(v, (1, 1, 1, 1), "replicate")
    v = v[:, :, :-2] + v[:, :, 1:-1] + v[:, :, 2:]
    return v[..., :-2] + v[..., 1:-1] + v[..., 2:]
