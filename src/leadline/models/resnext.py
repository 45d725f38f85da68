"""ResNeXt: residual blocks of many equal branches side by side (Xie et al., 2017).

    f_k(h)  = Σ_{g=1}^{G} V_g a(N C_g a(N U_g h))       U_g, V_g 1x1,  C_g 3x3 among d channels           (1)
    h_k     = a(S_k h_{k-1} + N f_k(h_{k-1}))                                                             (2)
    output  = β + Ω mean_{y,x} h_K                                                                        (3)

The G branches of (1) are one bottleneck whose 3x3 convolution has G groups: the U_g are the rows of one 1x1
convolution, the V_g the columns of another. A stage s has branches of d 2^s channels each.

Notation   G -> num_groups,  d -> dim_group;  S_k -> body[s][b].skip (see leadline.layers.residual_block);  a ReLU,
           N batch normalisation;  Ω, β -> head.weight, head.bias
Shapes     x (B, channels, Y, X) -> (B, dim_output); any Y, X
Train it   leadline train pictures/ --model ResNeXt --depth 29 --num-groups 8 --dim-group 16
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any

from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.residual_block import bottleneck, draw_kernels, residual_stage
from leadline.models.picture import check_picture
from leadline.models.sizes import check_sizes
from leadline.settings import given

_STAGES = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class ResNeXt(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: classes, at least 1.
        depth: layers with weights on the longest way: 11, 20, 29, 38 and so on for small pictures, or 50, 101, 152.
        num_groups: branches G of a block, at least 1.
        dim_group: channels d of a branch in the first stage, at least 1.
        width: channels of the stem; four times as many come out of the first stage; at least 1.

    >>> import torch
    >>> ResNeXt(3, 10, depth=11, num_groups=4, dim_group=2)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        depth: int = 29,
        num_groups: int = 8,
        dim_group: int = 16,
        width: int = 64,
    ):
        super().__init__()
        check_sizes("ResNeXt", channels=channels, dim_output=dim_output, depth=depth)
        check_sizes("ResNeXt", num_groups=num_groups, dim_group=dim_group, width=width)
        if depth not in _STAGES and (depth < 11 or depth % 9 != 2 or depth == 101):
            near = 9 * max(1, round((depth - 2) / 9)) + 2
            raise UserError(
                "ResNeXt: depth must be 9 n + 2, or 50, 101 or 152", got=given("depth", depth), do=f"Nearest: {near}"
            )
        self.channels, self.dim_output, self.depth = channels, dim_output, depth
        self.num_groups, self.dim_group, self.width = num_groups, dim_group, width
        large = depth in _STAGES
        stages = _STAGES[depth] if large else ((depth - 2) // 9,) * 3
        kernel, stride = (7, 2) if large else (3, 1)
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        parts["conv"] = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
        parts["norm"], parts["relu"] = nn.BatchNorm2d(width), nn.ReLU()
        if large:
            parts["pool"] = nn.MaxPool2d(3, 2, 1)
        self.enter = nn.Sequential(parts)
        self.body = nn.Sequential()
        dim = width
        for s, num in enumerate(stages):
            inner, out = num_groups * dim_group * 2**s, 4 * width * 2**s
            convs = partial(bottleneck, inner, out, groups=num_groups)
            self.body.append(residual_stage(num, dim, convs, 1 if s == 0 else 2))
            dim = out
        self.head = nn.Linear(dim, dim_output)
        draw_kernels(self)

    @classmethod
    def tiny(cls) -> ResNeXt:
        return cls(1, 2, depth=11, num_groups=2, dim_group=2, width=4)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, 32, 32

    def forward(self, x: Tensor) -> Tensor:
        check_picture("ResNeXt", x, self.channels)
        h = self.body(self.enter(x))  # eq. 1, 2   (B, D, Y', X')
        return self.head(h.mean((2, 3)))  # eq. 3


#: of the paper, by depth, number of branches and their channels; those of 29 layers for pictures of 32 x 32
SIZES: dict[str, dict[str, Any]] = {
    "50 32x4d": {"depth": 50, "num_groups": 32, "dim_group": 4},
    "101 32x4d": {"depth": 101, "num_groups": 32, "dim_group": 4},
    "101 64x4d": {"depth": 101, "num_groups": 64, "dim_group": 4},
    "29 8x64d": {"depth": 29, "num_groups": 8, "dim_group": 64},
    "29 16x64d": {"depth": 29, "num_groups": 16, "dim_group": 64},
}
