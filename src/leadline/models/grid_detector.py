"""Detector on a grid: one pass, and every cell says what lies in it (YOLO; Redmon et al., 2016).

    h_0      = C3 x                                                                                  (1)
    h_s      = units_s(h_{s-1})                    half the size, more channels, until a cell is     (2)
                                                   `stride` pixels wide
    g        = context(h)                          units of dilation 1, 2, 4, 1, 2, 4 …              (3)
    output   = C1 a[N g]                           for each cell, the numbers of the likelihood      (4)

What a cell's numbers mean is the business of the likelihood: `Boxes` reads 5 for each of its boxes (place in the cell,
size, confidence) and a score for each class. By (3) a cell sees several cells around it, enough to tell how large a
thing is of which it holds the middle.

Notation   C3 -> read;  units_s -> stages[s-1];  context -> context;  C1, N -> head, end;  a ReLU
Paper      448 x 448 pixels, 7 x 7 cells, 24 convolutions and two dense layers of 4096 and 7·7·(2·5 + 20) there; here no
           dense layer, so that pictures of any size can be read, stretched to whole cells
Shapes     x (B, channels, Y, X) -> (B, dim_output, Y / stride, X / stride)
Train it   leadline train photos/ --model GridDetector
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.residual_units import PlainUnit, before
from leadline.models.sizes import check_sizes
from leadline.settings import whole


class GridDetector(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: numbers for each cell, at least 1; for `Boxes` 5 · num_boxes + the number of classes.
        width: channels of the first kernel, at least 1; they double with each halving, up to eightfold.
        stride: pixels of a cell, a power of 2 of at least 2.
        num_blocks: residual units of each stage, at least 1.
        num_context: dilated units at the end, at least 0.
        norm: a name in `leadline.layers.feature_norm.NORMS`.

    >>> import torch
    >>> GridDetector(3, 20)(torch.zeros(1, 3, 64, 96)).shape
    torch.Size([1, 20, 8, 12])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        width: int = 24,
        stride: int = 8,
        num_blocks: int = 2,
        num_context: int = 3,
        norm: str = "batch",
    ):
        super().__init__()
        check_sizes("GridDetector", channels=channels, dim_output=dim_output, width=width, num_blocks=num_blocks)
        if whole("stride", stride, 2, usual=8) & (stride - 1):
            near = 2 ** (stride.bit_length() - 1)
            raise UserError(
                "GridDetector: stride must be a power of 2", got=f"stride={stride}", do=f"Use {near} or {2 * near}"
            )
        self.channels, self.dim_output, self.width, self.stride = channels, dim_output, width, stride
        self.num_blocks, self.num_context, self.norm = num_blocks, whole("num_context", num_context, 0, usual=3), norm
        self.read = nn.Conv2d(channels, width, 3, padding=1)
        self.stages, C = nn.ModuleList(), width
        for halving in range(1, stride.bit_length()):
            after = width * min(2**halving, 8)
            units = [
                PlainUnit(C, after, 2, norm=norm),
                *(PlainUnit(after, after, norm=norm) for _ in range(num_blocks - 1)),
            ]
            self.stages.append(nn.Sequential(*units))
            C = after
        self.context = nn.Sequential(*(PlainUnit(C, C, dilation=2 ** (k % 3), norm=norm) for k in range(num_context)))
        self.end = nn.Sequential(*before(C, norm))
        self.head = nn.Conv2d(C, dim_output, 1)

    @classmethod
    def tiny(cls) -> GridDetector:
        return cls(1, 7, width=2, stride=4, num_blocks=1, num_context=1)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.channels, 4 * self.stride, 4 * self.stride)

    def forward(self, x: Tensor) -> Tensor:
        near = [max(1, round(size / self.stride)) * self.stride for size in x.shape[2:]]
        if near != list(x.shape[2:]):  # whole cells; what is said of a box is relative to the picture all the same
            x = F.interpolate(x, near, mode="bilinear", align_corners=False)
        h = self.read(x)  # eq. 1
        for units in self.stages:
            h = units(h)  # eq. 2
        return self.head(self.end(self.context(h)))  # eq. 3, 4
