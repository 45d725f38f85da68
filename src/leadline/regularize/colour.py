"""Other colours: the same things under another light, by one affine map of colours a row.

    v~ = clip(M v + o),   M = c b (s R(θ) + (1 - s) G),   o = (1 - c) b g        (1)

    b    brightness: v times b
    c    contrast: away from the mean grey g of the picture
    s    saturation: away from the grey of each pixel, G v
    θ    hue: R turns colours about the axis of greys
    b, c, s ~ U(1 - size, 1 + size) of sizes of their own,   θ ~ U(-hue, hue) of a full turn

v is on the scale from 0 to 1. Grey is 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601). Pictures of one channel have
neither saturation nor hue.

Notation   M -> matrix (B, C, C),  o -> offset (B, C)
Paper      elsewhere the order is drawn too, values are cut after each, and hue is turned in the space HSV
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.regularize.augmentation import Augmentation
from leadline.regularize.strength import hold

GREY = (0.299, 0.587, 0.114)
_SITE, _SITE_GREY = 0x1107, 0x1108


class Colour(Augmentation):
    """Args:
        brightness, contrast, saturation: sizes of eq. 1, 0 to 1.
        hue: of eq. 1, 0 to 0.5.

    >>> batch = Batch(torch.rand(2, 3, 4, 4), torch.zeros(2), keys=torch.tensor([5, 6]))
    >>> shown = Colour(0.4, 0.4, 0.4).rows(batch).x
    >>> bool((shown >= 0).all() and (shown <= 1).all() and (shown != batch.x).any())
    True
    """

    name = "colour"
    colours = True
    brightness: float
    contrast: float
    saturation: float
    hue: float
    _brightness: Tensor
    _contrast: Tensor
    _saturation: Tensor
    _hue: Tensor
    _greys: Tensor
    _turns: Tensor

    def __init__(self, brightness: float = 0.4, contrast: float = 0.4, saturation: float = 0.4, hue: float = 0.0):
        super().__init__()
        for name, value in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
            hold(self, name, value, 0, most=1)
        hold(self, "hue", hue, 0, most=0.5)
        self.register_buffer("_greys", greys(), persistent=False)
        self.register_buffer("_turns", _turns(), persistent=False)

    def rows(self, batch: Batch) -> Batch:
        x = self.pictures(batch.x)
        draws = [2 * u.to(self._mean.dtype) - 1 for u in self.drawn(batch, 4, _SITE)]
        sizes = (self._brightness, self._contrast, self._saturation)
        b, c, s = ((1 + size * u).view(-1, 1, 1) for size, u in zip(sizes, draws, strict=False))
        matrix, mean = c * b, x.mean((2, 3)).to(b.dtype) * self._std.view(-1) + self._mean.view(-1)  # (B, C)
        if x.shape[1] == 3:
            θ = (2 * math.pi * self._hue * draws[3]).view(-1, 1, 1)
            turn = θ.cos() * self._turns[0] + θ.sin() * self._turns[1] + self._turns[2]
            matrix, mean = matrix * (s * turn + (1 - s) * self._greys), (mean * self._greys[0]).sum(1, keepdim=True)
        x = recoloured(x, *self._encoded(matrix, ((1 - c) * b)[:, :, 0] * mean))  # eq. 1
        least, most = (((edge - self._mean) / self._std).to(x.dtype) for edge in (0, 1))
        return dataclasses.replace(batch, x=x.clamp(least, most))

    def _encoded(self, matrix: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
        """The map for what the network reads, of the map for values: no copy on the scale from 0 to 1 is needed."""
        mean, std = self._mean.view(-1), self._std.view(-1)
        offset = ((matrix * mean).sum(2) + offset - mean) / std
        return matrix * (std / std[:, None]), offset


class Gray(Augmentation):
    """A picture loses its colours with probability p; that of one channel has none to lose.

    Args:
        p: 0 <= p <= 1.

    >>> batch = Batch(torch.rand(1, 3, 4, 4), torch.zeros(1), keys=torch.tensor([5]))
    >>> shown = Gray(1.0).rows(batch).x
    >>> torch.equal(shown[:, 0], shown[:, 2])
    True
    """

    name = "gray"
    colours = True
    p: float
    _p: Tensor

    def __init__(self, p: float = 0.1):
        super().__init__()
        hold(self, "p", p, 0, most=1)

    def rows(self, batch: Batch) -> Batch:
        [u] = self.drawn(batch, 1, _SITE_GREY)
        chosen = (u < self._p.to(u.dtype)).view(-1, 1, 1, 1)
        plain = self.encoded(grey(self.values(batch.x)))
        return dataclasses.replace(batch, x=torch.where(chosen, plain, batch.x))


def grey(v: Tensor) -> Tensor:
    """How bright each pixel looks, (B, C, Y, X) -> (B, 1, Y, X); that of one channel is itself.

    >>> round(grey(torch.tensor([0.0, 1.0, 0.0]).view(1, 3, 1, 1)).item(), 3)
    0.587
    """
    if v.shape[1] != 3:
        return v.mean(1, keepdim=True)
    return GREY[0] * v[:, :1] + GREY[1] * v[:, 1:2] + GREY[2] * v[:, 2:]


def greys() -> Tensor:
    """G of eq. 1, (3, 3): takes a colour to its grey.

    >>> greys()[2].tolist()
    [0.299, 0.587, 0.114]
    """
    return torch.tensor(GREY, dtype=torch.float64).expand(3, 3).clone()


def recoloured(x: Tensor, matrix: Tensor, offset: Tensor) -> Tensor:
    """M x + o for every pixel of (B, C, Y, X).

    >>> x = torch.tensor([1.0, 2.0]).view(1, 2, 1, 1)
    >>> recoloured(x, torch.tensor([[[0.0, 1.0], [1.0, 1.0]]]), torch.tensor([[5.0, 0.0]])).flatten().tolist()
    [7.0, 3.0]
    """
    matrix, offset = matrix.to(x.dtype)[..., None, None], offset.to(x.dtype)[..., None, None]
    shown = torch.addcmul(offset, matrix[:, :, 0], x[:, :1])
    for d in range(1, x.shape[1]):
        shown = torch.addcmul(shown, matrix[:, :, d], x[:, d : d + 1])
    return shown


def _turns() -> Tensor:
    """R(θ) = cos θ T_0 + sin θ T_1 + T_2, as Rodrigues wrote it, for the axis of greys."""
    mean = torch.full((3, 3), 1 / 3, dtype=torch.float64)
    across = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], dtype=torch.float64) / math.sqrt(3)
    return torch.stack([torch.eye(3, dtype=torch.float64) - mean, across, mean])
