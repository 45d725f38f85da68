"""Wide residual network: fewer blocks, each with many channels (Zagoruyko and Komodakis, 2016).

    h_0     = C x                                       3x3, 16 channels                              (1)
    h_k     = S_k h_{k-1} + f_k(h_{k-1})                f_k = C drop a N C a N,  c = 16 w 2^s         (2)
    output  = β + Ω mean_{y,x} a(N h_K)                                                               (3)

Three stages s = 0, 1, 2 of n blocks each: depth = 6 n + 4. The depths 50 and 101 are the paper's networks for pictures
of 224 x 224: ResNets of bottlenecks whose inner convolutions are w times as wide,

    h_k     = a(S_k h_{k-1} + f_k(h_{k-1}))             f_k = N C a N C a N C,  c = 64 w 2^s          (4)

Notation   w -> widening;  f_k, S_k -> body[s][b].branch, .skip (see leadline.layers.residual_block);  a ReLU,
           N batch normalisation;  Ω, β -> head.weight, head.bias;  C a convolution, c its channels
Paper      dropout is off by default here; the paper has 0.3 on CIFAR-10 without augmentation of its own
Shapes     x (B, channels, Y, X) -> (B, dim_output); any Y, X
Train it   leadline train pictures/ --model WideResNet --depth 16 --widening 4
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.residual_block import bottleneck, draw_kernels, plain, residual_stage
from leadline.models.picture import check_picture
from leadline.models.sizes import check_sizes
from leadline.settings import given, real

_STAGES = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


class WideResNet(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: classes, at least 1.
        depth: layers with weights on the longest way: 10, 16, 22, 28 and so on, or 50 or 101 (4).
        widening: factor w on the channels, at least 1.
        p_drop: probability that a unit between the two convolutions of a block is silenced, 0 <= p_drop < 1.

    >>> import torch
    >>> WideResNet(3, 10, depth=10, widening=1)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(self, channels: int, dim_output: int, depth: int = 16, widening: int = 4, p_drop: float = 0.0):
        super().__init__()
        check_sizes("WideResNet", channels=channels, dim_output=dim_output, depth=depth, widening=widening)
        if depth not in _STAGES and (depth < 10 or depth % 6 != 4):
            near = 6 * max(1, round((depth - 4) / 6)) + 4
            raise UserError(
                "WideResNet: depth must be 6 n + 4, or 50 or 101", got=given("depth", depth), do=f"Nearest: {near}"
            )
        self.channels, self.dim_output, self.depth, self.widening = channels, dim_output, depth, widening
        self.p_drop = real("p_drop", p_drop, 0, 1, usual=0.3)
        self.body = nn.Sequential()
        dim = self._for_large() if depth in _STAGES else self._for_small()
        self.head = nn.Linear(dim, dim_output)
        draw_kernels(self)

    @classmethod
    def tiny(cls) -> WideResNet:
        return cls(1, 2, depth=10, widening=1, p_drop=0.1)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, 32, 32

    def forward(self, x: Tensor) -> Tensor:
        check_picture("WideResNet", x, self.channels)
        h = self.body(self.enter(x))  # eq. 1, 2, 4   (B, D, Y', X')
        h = self.leave(h).mean((2, 3))  # (B, D)
        return self.head(h)  # eq. 3

    def _for_small(self) -> int:
        """Parts of (1) to (3), and the channels of h_K."""
        num, dim = (self.depth - 4) // 6, 16
        self.enter = nn.Sequential(OrderedDict(conv=nn.Conv2d(self.channels, dim, 3, padding=1, bias=False)))
        for s in range(3):
            c = 16 * self.widening * 2**s
            stride, site = 1 if s == 0 else 2, s * num + 1
            self.body.append(residual_stage(num, dim, partial(plain, c), stride, "pre", p_drop=self.p_drop, site=site))
            dim = c
        self.leave = nn.Sequential(OrderedDict(norm=nn.BatchNorm2d(dim), relu=nn.ReLU()))
        return dim

    def _for_large(self) -> int:
        """Parts of (4), and the channels of h_K."""
        conv, dim = nn.Conv2d(self.channels, 64, 7, 2, 3, bias=False), 64
        self.enter = nn.Sequential(
            OrderedDict(conv=conv, norm=nn.BatchNorm2d(dim), relu=nn.ReLU(), pool=nn.MaxPool2d(3, 2, 1))
        )
        site = 1
        for s, num in enumerate(_STAGES[self.depth]):
            c, out = 64 * self.widening * 2**s, 256 * 2**s
            stride, convs = 1 if s == 0 else 2, partial(bottleneck, c, out)
            self.body.append(residual_stage(num, dim, convs, stride, p_drop=self.p_drop, site=site))
            dim, site = out, site + num
        self.leave = nn.Sequential()
        return dim


#: depth and widening of the paper; the last two for pictures of 224 x 224
SIZES: dict[str, tuple[int, int]] = {
    "16-4": (16, 4),
    "16-8": (16, 8),
    "28-10": (28, 10),
    "40-4": (40, 4),
    "50-2": (50, 2),
    "101-2": (101, 2),
}
