"""Encoder and decoder for a class at each pixel, which unpools by the encoder's places (Noh et al., 2015).

    h_s, i_s  = pool(convs_s(h_{s-1}))            s = 1 … S,  i_s where each maximum lay              (1)
    middle    = a[Ω' a[Ω'' a[Ω''' h_S]]]          all places read all places; left out where dense=0  (2)
    g_{s-1}   = deconvs_s(unpool(g_s, i_s))       values go back to their places, zeros elsewhere     (3)
    output    = C1 g_0                                                                                (4)

deconvs are transposed convolutions of stride 1: they spread the few values of (3), and the unpooling alone enlarges.
There is no link but the places i_s: what the narrow middle does not hold is lost, but outlines stay sharp.

Notation   convs_s -> encoder[s-1];  deconvs_s -> decoder[s-1];  Ω''', Ω'', Ω' -> middle;  C1 -> head;  a ReLU
Paper      PAPER: VGG's 13 convolutions, 224 x 224 -> 7 x 7, two dense layers of 4096 and one back to 7 x 7 x 512, 21
           classes; the decoder mirrors the encoder. Normalisation before each ReLU, as there
Shapes     x (B, channels, Y, X) -> (B, dim_output, Y, X); any size of at least 2^S, with dense > 0 the one of `size`
Train it   leadline train photos/ --model Segmenter
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import ShapeError
from leadline.layers.feature_norm import feature_norm
from leadline.models.sizes import check_sizes
from leadline.models.stages import check_stages
from leadline.settings import whole


class Segmenter(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: outputs at each pixel, at least 1.
        size: rows and columns of the picture, at least 2^S each; what dense layers read.
        widths: channels of each stage of the encoder, at least 1 each; S is their number.
        convs: convolutions of a stage, at least 1; a list has one number for each stage.
        dense: units of the dense layers in the middle, 0 for none.
        norm: a name in `leadline.layers.feature_norm.NORMS`.

    >>> import torch
    >>> Segmenter(3, 21, (45, 64))(torch.zeros(2, 3, 45, 64)).shape
    torch.Size([2, 21, 45, 64])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        size: Sequence[int] = (64, 64),
        widths: Sequence[int] = (32, 64, 128),
        convs: int | Sequence[int] = 2,
        dense: int = 0,
        norm: str = "batch",
    ):
        super().__init__()
        check_sizes("Segmenter", channels=channels, dim_output=dim_output)
        counts = (convs,) * len(widths) if isinstance(convs, int) else tuple(convs)
        check_stages("Segmenter", widths=widths, size=size, convs=counts)
        self.channels, self.dim_output, self.size, self.widths = channels, dim_output, tuple(size), tuple(widths)
        self.convs, self.dense, self.norm = convs, whole("dense", dense, 0, usual=0), norm
        if len(size) != 2 or min(size) < 2 ** len(widths) or len(counts) != len(widths):
            raise ShapeError(
                "Segmenter: size must hold rows and columns, 2^S at least, and convs a number for each of S stages",
                got=f"size={tuple(size)}, {len(widths)} stages, convs={convs}",
                do="Use fewer stages or larger pictures",
            )
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        before = channels
        for after, count in zip(widths, counts, strict=True):
            self.encoder.append(_stage(nn.Conv2d, [before, *(after,) * count], norm))
            back = before if before != channels else after
            self.decoder.append(_stage(nn.ConvTranspose2d, [*(after,) * count, back], norm))
            before = after
        self.middle = None
        if dense:
            inside = widths[-1] * (size[0] >> len(widths)) * (size[1] >> len(widths))
            maps = [nn.Linear(inside, dense), nn.Linear(dense, dense), nn.Linear(dense, inside)]
            self.middle = nn.Sequential(*(layer for each in maps for layer in (each, nn.ReLU())))
        self.head = nn.Conv2d(widths[0], dim_output, 1)

    @classmethod
    def tiny(cls) -> Segmenter:
        return cls(1, 2, (8, 12), widths=(3, 4), convs=1, dense=5)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.channels, *self.size)

    def forward(self, x: Tensor) -> Tensor:
        if self.middle is not None and tuple(x.shape[2:]) != self.size:
            raise ShapeError(
                "Segmenter: with dense layers a picture must have the size that it was built for",
                got=f"{x.shape[2]} x {x.shape[3]} instead of {self.size[0]} x {self.size[1]}",
                do="Resize the pictures, or use dense=0",
            )
        h, places = x, []
        for convs in self.encoder:
            h = convs(h)
            size = h.shape[2:]
            h, index = F.max_pool2d(h, 2, return_indices=True)  # eq. 1
            places.append((index, size))
        if self.middle is not None:
            h = self.middle(h.flatten(1)).view(h.shape)  # eq. 2
        for deconvs, (index, size) in zip(reversed(self.decoder), reversed(places), strict=True):
            h = deconvs(F.max_unpool2d(h, index, (2, 2), output_size=size))  # eq. 3
        return self.head(h)  # eq. 4


#: the network of the paper
PAPER = {
    "channels": 3,
    "dim_output": 21,
    "size": (224, 224),
    "widths": (64, 128, 256, 512, 512),
    "convs": (2, 2, 3, 3, 3),
    "dense": 4096,
}


def _stage(kernel: type[nn.Conv2d] | type[nn.ConvTranspose2d], widths: Sequence[int], norm: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [kernel(before, after, 3, padding=1, bias=norm == "none"), feature_norm(norm, after), nn.ReLU()]
    return nn.Sequential(*layers)
