"""Residual network without normalisation: five ways to keep what K blocks add in bounds.

    h_0     = C3 x                                                                                     (1)
    none      h_k = S h_{k-1} + f_k(h_{k-1})                variance doubles with every block          (2)
    half      h_k = (S h_{k-1} + f_k(h_{k-1})) / √2         variance stays                             (3)
    stable    h_k = S h_{k-1} + f_k(h_{k-1}) / √K           at most e times as large                   (4)
    skipinit  h_k = S h_{k-1} + α_k f_k(h_{k-1})            α_k learned, 0 at the start                (5)
    fixup     h_k = S h_{k-1} + α_k f_k(h_{k-1}) + d_k      α_k learned, 1; scalar biases around maps  (6)
    output  = β + Ω drop(mean over places of a[h_K])                                                   (7)

    f_k     = C3 a C3 a, He's first weights; by (6) the first kernel times K^(-1/(2m - 2)), m = 2 maps, the last one 0,
              a learned scalar added before each map and before its activation, and Ω = 0 as well

Blocks of (5) and (6) begin as the identity. By (6) a step of gradient descent moves the function by an amount that does
not depend on K; (4) bounds the gradient of the first layer from below by Σ 1/K = 1.

Notation   f_k, S, α_k, d_k -> blocks[k-1].branch, .skip, .scale, .offset;  K -> len(blocks);  a ReLU
Papers     (4) Hayou et al. 2021.  (5) De and Smith 2020, who add dropout before the last map: p_drop.  (6) Zhang et al.
           2019, whose activation stands after the sum; here before each map, for all five
Shapes     x (B, channels, Y, X) -> (B, dim_output), any Y and X
Train it   leadline train photos/ --model NormFree --scaling skipinit
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.dropout import Dropout
from leadline.layers.residual_units import projection
from leadline.models.sizes import check_sizes
from leadline.models.stages import check_stages, planned
from leadline.names import lookup
from leadline.settings import real

SCALINGS = {name: name for name in ("none", "half", "stable", "skipinit", "fixup")}


class NormFree(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: outputs, at least 1.
        stages: residual blocks of each stage, at least 1 each.
        width: channels of the first stage, at least 1; each further stage halves the picture and doubles them.
        scaling: "none" (2), "half" (3), "stable" (4), "skipinit" (5) or "fixup" (6).
        p_drop: probability that a unit before the last map is silenced while training, 0 <= p_drop < 1.

    >>> NormFree(3, 10, scaling="fixup")(torch.randn(2, 3, 32, 32)).abs().max().item()
    0.0
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        stages: Sequence[int] = (3, 3, 3),
        width: int = 16,
        scaling: str = "skipinit",
        p_drop: float = 0.0,
    ):
        super().__init__()
        check_sizes("NormFree", channels=channels, dim_output=dim_output, width=width)
        check_stages("NormFree", stages=stages)
        self.channels, self.dim_output, self.stages, self.width = channels, dim_output, tuple(stages), width
        self.scaling, self.p_drop = lookup(scaling, SCALINGS, "scaling"), real("p_drop", p_drop, 0, 1, usual=0.2)
        self.read = nn.Conv2d(channels, width, 3, padding=1)
        sizes = planned(stages, width)
        self.blocks = nn.ModuleList(_Block(*size, self.scaling, len(sizes)) for size in sizes)
        self.drop = Dropout(self.p_drop, site=1)
        self.head = nn.Linear(sizes[-1][1], dim_output)
        _keep_variance(self.read)
        if self.scaling == "fixup":
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

    @classmethod
    def tiny(cls) -> NormFree:
        return cls(3, 2, stages=(1, 1), width=4, p_drop=0.2)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.channels, 32, 32)

    def forward(self, x: Tensor) -> Tensor:
        h = self.read(x)  # eq. 1
        for block in self.blocks:
            h = block(h)  # eq. 2 - 6
        return self.head(self.drop(h.relu().mean((2, 3))))  # eq. 7


class _Block(nn.Module):
    def __init__(self, channels: int, dim_output: int, stride: int, scaling: str, num_blocks: int):
        super().__init__()
        self.scaling, fixup = scaling, scaling == "fixup"
        self.factor = {"half": 0.5**0.5, "stable": num_blocks**-0.5}.get(scaling, 1.0)
        self.skip: nn.Module = nn.Identity()
        if channels != dim_output:
            self.skip = projection(channels, dim_output, nn.MaxPool2d(1, stride))  # one place in stride x stride
            _keep_variance(self.skip[1])
        first = nn.Conv2d(channels, dim_output, 3, stride, 1, bias=not fixup)
        last = nn.Conv2d(dim_output, dim_output, 3, 1, 1, bias=not fixup)
        for kernel in (first, last):
            nn.init.kaiming_normal_(kernel.weight, nonlinearity="relu")
        shifts = [_Shift() if fixup else nn.Identity() for _ in range(4)]
        self.branch = nn.Sequential(shifts[0], nn.ReLU(), shifts[1], first, shifts[2], nn.ReLU(), shifts[3], last)
        if scaling in ("skipinit", "fixup"):
            self.scale = nn.Parameter(torch.tensor(float(fixup)))
        if fixup:
            self.offset = nn.Parameter(torch.zeros(()))
            m = 2
            with torch.no_grad():
                first.weight.mul_(num_blocks ** (-1 / (2 * m - 2)))
                last.weight.zero_()

    @property
    def residual_branch(self) -> tuple[str, ...]:  # see leadline.init.branches
        if self.scaling in ("skipinit", "fixup"):
            return ("branch", "scale")
        return () if self.scaling == "half" else ("branch",)

    def forward(self, x: Tensor) -> Tensor:
        kept, made = self.skip(x), self.branch(x)
        if self.scaling == "half":
            return (kept + made) * self.factor  # eq. 3
        if self.scaling == "fixup":
            return kept + self.scale * made + self.offset  # eq. 6
        if self.scaling == "skipinit":
            return kept + self.scale * made  # eq. 5
        return kept + self.factor * made  # eq. 2, 4


class _Shift(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, h: Tensor) -> Tensor:
        return h + self.bias


def _keep_variance(kernel: nn.Module) -> None:
    """First weights of a map that no ReLU precedes."""
    nn.init.kaiming_normal_(cast(Tensor, kernel.weight), nonlinearity="linear")
