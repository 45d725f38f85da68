"""Residual network of shaken branches: other weights forward than backward (Gastaldi, 2017; Yamada et al., 2019).

    h_0     = C3 x                                                                                      (1)
    shake   h_l = S_l h_{l-1} + α f_l(h_{l-1}) + (1 - α) g_l(h_{l-1})          backward β for α         (2)
    drop    h_l = S_l h_{l-1} + (b + α - b α) f_l(h_{l-1}),  b ~ Bernoulli(p_l)    backward β for α     (3)
    output  = β' + Ω' mean over places of a[h_L]                                                        (4)

α and β are drawn for each example and each unit (`leadline.layers.shake`); in evaluation both branches count half, or
the branch p_l = 1 - (l / L) (1 - p_L). The branches are a C3 N a C3 N, ending in a normalisation.

Notation   C3 -> read;  f_l, g_l -> units[l-1].branch.first, .second;  S_l -> units[l-1].skip;  p_L -> p_last
Paper      shake-shake 26 2x32d is width=32, stages=(4, 4, 4); its shortcut between stages averages two shifted copies,
           here it is a 1x1 kernel. ShakeDrop was made for PyramidNet; here the units are those of (2) with one branch
Shapes     x (B, channels, Y, X) -> (B, dim_output), any Y and X
Train it   leadline train photos/ --model ShakeResNet --shake drop
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.feature_norm import feature_norm
from leadline.layers.residual_units import projection
from leadline.layers.shake import ShakeDrop, ShakeShake
from leadline.layers.stochastic_depth import linear_decay
from leadline.models.sizes import check_sizes
from leadline.models.stages import check_stages, planned
from leadline.names import lookup

SHAKES = {"shake": "shake", "drop": "drop"}


class ShakeResNet(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: outputs, at least 1.
        stages: residual units of each stage, at least 1 each.
        width: channels of the first stage, at least 1; each further stage has twice as many.
        shake: "shake", two branches (2), or "drop", one branch (3).
        p_last: probability (3) that the last unit is an ordinary one, above 0 and at most 1.
        norm: a name in `leadline.layers.feature_norm.NORMS`.

    >>> import torch
    >>> ShakeResNet(3, 10, width=8).eval()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        stages: Sequence[int] = (2, 2, 2),
        width: int = 16,
        shake: str = "shake",
        p_last: float = 0.5,
        norm: str = "batch",
    ):
        super().__init__()
        check_sizes("ShakeResNet", channels=channels, dim_output=dim_output, width=width)
        check_stages("ShakeResNet", stages=stages)
        self.channels, self.dim_output, self.stages, self.width = channels, dim_output, tuple(stages), width
        self.shake, self.p_last, self.norm = lookup(shake, SHAKES, "shake"), p_last, norm
        self.read = nn.Conv2d(channels, width, 3, padding=1)
        sizes, p_keep = planned(stages, width), linear_decay(sum(stages), p_last)
        self.units = nn.ModuleList(
            _Unit(*size, self.shake, p, norm, site=k) for k, (size, p) in enumerate(zip(sizes, p_keep, strict=True), 1)
        )
        self.head = nn.Linear(sizes[-1][1], dim_output)

    @classmethod
    def tiny(cls) -> ShakeResNet:
        return cls(3, 2, stages=(1, 1), width=4)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.channels, 32, 32)

    def forward(self, x: Tensor) -> Tensor:
        h = self.read(x)  # eq. 1
        for unit in self.units:
            h = unit(h)  # eq. 2, 3
        return self.head(h.relu().mean((2, 3)))  # eq. 4


class _Unit(nn.Module):
    residual_branch = ("branch",)  # see leadline.init.branches

    def __init__(self, channels: int, dim_output: int, stride: int, shake: str, p_keep: float, norm: str, site: int):
        super().__init__()
        same = channels == dim_output and stride == 1
        self.skip = nn.Identity() if same else projection(channels, dim_output, nn.MaxPool2d(1, stride))
        first = _branch(channels, dim_output, stride, norm)
        self.branch: nn.Module
        if shake == "shake":
            self.branch = ShakeShake(first, _branch(channels, dim_output, stride, norm), site)
        else:
            self.branch = nn.Sequential(first, ShakeDrop(p_keep, site))

    def forward(self, x: Tensor) -> Tensor:
        return self.skip(x) + self.branch(x)


def _branch(channels: int, dim_output: int, stride: int, norm: str) -> nn.Sequential:
    bias = norm == "none"
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(channels, dim_output, 3, stride, 1, bias=bias),
        feature_norm(norm, dim_output),
        nn.ReLU(),
        nn.Conv2d(dim_output, dim_output, 3, 1, 1, bias=bias),
        feature_norm(norm, dim_output),
    )
