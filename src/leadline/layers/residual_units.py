"""Residual units of convolutions, each map after its normalisation and activation (He et al., 2016b).

    y = S x + f(x)                                                                                    (1)
    plain        f = C3 a N C3 a N                 two 3x3 kernels                                    (2)
    bottleneck   f = C1 a N C3 a N C1 a N          C -> c by 1x1, 3x3 among c, c -> C by 1x1          (3)

S is the identity where the shapes agree, else a 1x1 kernel after a mean over stride x stride places. Nothing stands on
the way of (1) after the sum, so a stack of units is the identity plus what the branches add.

Paper      S keeps one place in stride x stride there; the mean keeps what all of them hold (He et al., 2019)
Notation   S -> skip,  f -> branch,  C3, C1 convolutions,  N -> norm,  a ReLU,  c -> bottleneck
Shapes     (B, channels, Y, X) -> (B, dim_output, Y / stride, X / stride), rounded up
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.layers.feature_norm import feature_norm


class PlainUnit(nn.Module):
    """Args:
        channels, dim_output: of what it reads and gives, at least 1.
        stride: of the first kernel and of the skip's mean, at least 1.
        dilation: places from one tap of both kernels to the next, at least 1.
        norm: a name in `leadline.layers.feature_norm.NORMS`.

    >>> import torch
    >>> PlainUnit(8, 16, stride=2)(torch.zeros(1, 8, 9, 9)).shape
    torch.Size([1, 16, 5, 5])
    """

    residual_branch = ("branch",)  # see leadline.init.branches

    def __init__(self, channels: int, dim_output: int, stride: int = 1, dilation: int = 1, norm: str = "batch"):
        super().__init__()
        same = channels == dim_output and stride == 1
        self.skip = nn.Identity() if same else projection(channels, dim_output, nn.AvgPool2d(stride, ceil_mode=True))
        self.branch = nn.Sequential(
            *before(channels, norm),
            nn.Conv2d(channels, dim_output, 3, stride, dilation, dilation, bias=norm == "none"),
            *before(dim_output, norm),
            nn.Conv2d(dim_output, dim_output, 3, 1, dilation, dilation, bias=norm == "none"),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.skip(x) + self.branch(x)  # eq. 1, 2


class BottleneckUnit(nn.Module):
    """Args:
        channels, dim_output: of what it reads and gives, at least 1.
        bottleneck: channels c of the 3x3 kernel; None is half of dim_output.
        norm: a name in `leadline.layers.feature_norm.NORMS`.

    >>> sum(p.numel() for p in BottleneckUnit(512, 512, 128, norm="none").parameters())
    279296
    """

    residual_branch = ("branch",)

    def __init__(self, channels: int, dim_output: int, bottleneck: int | None = None, norm: str = "batch"):
        super().__init__()
        c = max(1, dim_output // 2) if bottleneck is None else bottleneck
        bias = norm == "none"
        self.skip = nn.Identity() if channels == dim_output else projection(channels, dim_output, nn.Identity())
        self.branch = nn.Sequential(
            *before(channels, norm),
            nn.Conv2d(channels, c, 1, bias=bias),
            *before(c, norm),
            nn.Conv2d(c, c, 3, padding=1, bias=bias),
            *before(c, norm),
            nn.Conv2d(c, dim_output, 1, bias=bias),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.skip(x) + self.branch(x)  # eq. 1, 3


def projection(channels: int, dim_output: int, fewer: nn.Module) -> nn.Sequential:
    """A 1x1 kernel after `fewer`, which leaves fewer places; a stride of the kernel itself would do the same work, but
    its gradient ends some processes (torch 2.13 on a CPU, channels last).

    >>> projection(8, 16, nn.MaxPool2d(1, 2))[1].stride
    (1, 1)
    """
    return nn.Sequential(fewer, nn.Conv2d(channels, dim_output, 1, bias=False))


def before(channels: int, norm: str) -> tuple[nn.Module, nn.Module]:
    """What stands before a map: its normalisation and a ReLU.

    >>> before(8, "none")
    (Identity(), ReLU())
    """
    return feature_norm(norm, channels), nn.ReLU()
