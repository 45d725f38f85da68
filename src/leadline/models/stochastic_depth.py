"""Residual network of stochastic depth: each example skips some of the blocks while training (Huang et al., 2016).

    h_0     = C3 x                                                                               (1)
    h_l     = S_l h_{l-1} + b_l f_l(h_{l-1}),   b_l ~ Bernoulli(p_l)        l = 1 … L            (2)
    p_l     = 1 - (l / L) (1 - p_L)                                                              (3)
    output  = β + Ω mean over places of a[N h_L]                                                 (4)

In evaluation b_l is p_l. The stages halve the picture and double the channels. Any residual network becomes one of
stochastic depth by `leadline.layers.stochastic_depth.drop_branches`, which this one calls on its units.

Notation   C3 -> read;  f_l, S_l -> units[l-1].branch, .skip;  p_L -> p_last;  N -> norm;  a ReLU
Paper      units are pre-activated here; b is drawn for each example, not once for a batch, so a skipped branch is still
           computed. The paper's 110 layers are stages=(18, 18, 18), width=16
Shapes     x (B, channels, Y, X) -> (B, dim_output), any Y and X
Train it   leadline train photos/ --model StochasticDepth
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.residual_units import PlainUnit, before
from leadline.layers.stochastic_depth import drop_branches
from leadline.models.sizes import check_sizes
from leadline.models.stages import check_stages, planned


class StochasticDepth(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: outputs, at least 1.
        stages: residual units of each stage, at least 1 each.
        width: channels of the first stage, at least 1; each further stage has twice as many.
        p_last: probability that the last unit is kept, above 0 and at most 1.
        norm: a name in `leadline.layers.feature_norm.NORMS`.

    >>> import torch
    >>> StochasticDepth(3, 10).eval()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        stages: Sequence[int] = (3, 3, 3),
        width: int = 16,
        p_last: float = 0.5,
        norm: str = "batch",
    ):
        super().__init__()
        check_sizes("StochasticDepth", channels=channels, dim_output=dim_output, width=width)
        check_stages("StochasticDepth", stages=stages)
        self.channels, self.dim_output, self.stages, self.width = channels, dim_output, tuple(stages), width
        self.p_last, self.norm = p_last, norm
        self.read = nn.Conv2d(channels, width, 3, padding=1)
        sizes = planned(stages, width)
        self.units, C = nn.ModuleList(PlainUnit(*size, norm=norm) for size in sizes), sizes[-1][1]
        drop_branches(list(self.units), p_last)
        self.end = nn.Sequential(*before(C, norm))
        self.head = nn.Linear(C, dim_output)

    @classmethod
    def tiny(cls) -> StochasticDepth:
        return cls(3, 2, stages=(1, 1), width=4)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.channels, 32, 32)

    def forward(self, x: Tensor) -> Tensor:
        h = self.read(x)  # eq. 1
        for unit in self.units:
            h = unit(h)  # eq. 2
        return self.head(self.end(h).mean((2, 3)))  # eq. 4
