"""Stacked hourglass: down and up again, several times over, for a heat map of each point (Newell et al., 2016).

    h           = stem(x)                                                        a quarter of the size            (1)
    glass_K(h)  = r(h) + up(r(glass_{K-1}(r(pool h)))),   glass_0 = r            links are processed, and added   (2)
    u_n         = r(glass(h_n)),   m_n = C1 u_n                                  heat maps of stack n             (3)
    h_{n+1}     = h_n + C1 u_n + C1 m_n                                          the next stack reads both        (4)
    output      = mean of m_1 … m_N,   or m_N                                                                     (5)

r is a bottleneck residual unit. Each glass sees the whole picture; a later one can mend what an earlier one believed.
The mean (5) gives every stack a gradient of its own.

Notation   stem, r, C1 as in the code;  glass -> _Glass;  K -> depth;  N -> num_stacks
Paper      every m_n has a loss of its own there; a model here returns one thing, so their mean is what is scored, and
           "last" leaves the earlier ones to (4). 256 channels, 8 stacks, depth 4 there
Shapes     x (B, channels, Y, X) -> (B, dim_output, Y / stride, X / stride), rounded up
Train it   leadline train poses/ --model Hourglass
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.residual_units import BottleneckUnit, before
from leadline.models.sizes import check_sizes
from leadline.names import lookup

OUTPUTS = {"mean": "mean", "last": "last"}
_STRIDES = (1, 2, 4)


class Hourglass(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: heat maps, one for each point, at least 1.
        width: channels inside, at least 2.
        num_stacks: hourglasses in series, at least 1.
        depth: halvings of each, at least 1.
        stride: pixels of a place of the heat maps, 1, 2 or 4.
        output: "mean" of all stacks, or the "last" one.
        norm: a name in `leadline.layers.feature_norm.NORMS`.

    >>> Hourglass(3, 5)(torch.zeros(2, 3, 64, 64)).shape
    torch.Size([2, 5, 16, 16])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        width: int = 64,
        num_stacks: int = 2,
        depth: int = 3,
        stride: int = 4,
        output: str = "mean",
        norm: str = "batch",
    ):
        super().__init__()
        check_sizes("Hourglass", channels=channels, dim_output=dim_output, num_stacks=num_stacks, depth=depth)
        check_sizes("Hourglass", width=width)
        if stride not in _STRIDES:
            raise UserError("Hourglass: stride must be 1, 2 or 4", got=f"stride={stride!r}", do="A usual value is 4")
        self.channels, self.dim_output, self.width, self.num_stacks = channels, dim_output, width, num_stacks
        self.depth, self.stride, self.output, self.norm = depth, stride, lookup(output, OUTPUTS, "output"), norm
        half = max(1, width // 2)
        self.stem = nn.Sequential(
            nn.Conv2d(channels, half, 7 if stride > 1 else 3, 2 if stride > 1 else 1, 3 if stride > 1 else 1),
            BottleneckUnit(half, width, norm=norm),
            *([nn.MaxPool2d(2, ceil_mode=True)] if stride == 4 else []),
            BottleneckUnit(width, width, norm=norm),
        )
        self.stacks = nn.ModuleList(_Stack(width, dim_output, depth, norm) for _ in range(num_stacks))
        self.links = nn.ModuleList(_Link(width, dim_output) for _ in range(num_stacks - 1))

    @classmethod
    def tiny(cls) -> Hourglass:
        return cls(1, 2, width=4, num_stacks=2, depth=1)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.channels, 32, 32)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)  # eq. 1
        maps = []
        for n, stack in enumerate(self.stacks):
            u, m = stack(h)  # eq. 3
            maps.append(m)
            if n < len(self.links):
                h = h + self.links[n](u, m)  # eq. 4
        return torch.stack(maps).mean(0) if self.output == "mean" else maps[-1]  # eq. 5


class _Stack(nn.Module):
    def __init__(self, width: int, dim_output: int, depth: int, norm: str):
        super().__init__()
        self.glass = _Glass(width, depth, norm)
        self.after = nn.Sequential(BottleneckUnit(width, width, norm=norm), *before(width, norm))
        self.head = nn.Conv2d(width, dim_output, 1)

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        u = self.after(self.glass(h))
        return u, self.head(u)


class _Link(nn.Module):
    def __init__(self, width: int, dim_output: int):
        super().__init__()
        self.features, self.maps = nn.Conv2d(width, width, 1), nn.Conv2d(dim_output, width, 1)

    def forward(self, u: Tensor, m: Tensor) -> Tensor:
        return self.features(u) + self.maps(m)


class _Glass(nn.Module):
    def __init__(self, width: int, depth: int, norm: str):
        super().__init__()
        self.link, self.down, self.back = (BottleneckUnit(width, width, norm=norm) for _ in range(3))
        inner = _Glass(width, depth - 1, norm) if depth > 1 else BottleneckUnit(width, width, norm=norm)
        self.inner: nn.Module = inner

    def forward(self, h: Tensor) -> Tensor:
        low = self.back(self.inner(self.down(F.max_pool2d(h, 2, ceil_mode=True))))
        return self.link(h) + F.interpolate(low, scale_factor=2)[..., : h.shape[2], : h.shape[3]]  # eq. 2
