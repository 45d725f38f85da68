"""ResNet: a deep network whose blocks add to what they read (He et al., 2016a, 2016b).

    h_0     = stem(x)                                                                             (1)
    h_k     = a(S_k h_{k-1} + f_k(h_{k-1}))             order="post", the first paper             (2)
    h_k     = S_k h_{k-1} + f_k(h_{k-1})                order="pre", the second: f_k = C a N …    (3)
    h_k     = a(f_k(h_{k-1}))                           skip="none", the plain twin               (4)
    output  = β + Ω mean_{y,x} h_K                      order="pre" has a N before the mean       (5)

A stage is a run of blocks of one size; the first block of each stage after the first halves rows and columns and
doubles the channels. `depth` counts the layers with weights on the longest way and picks all of this from `SIZES`.

Notation   f_k, S_k -> body[s][b].branch, .skip (see leadline.layers.residual_block);  a ReLU,  N batch normalisation;
           Ω, β -> head.weight, head.bias;  C channels, Y X rows and columns
Paper      the stride of a bottleneck stands in its 3x3 convolution, as in torchvision, whose weights fit (see
           leadline.models.named_weights); the papers have it in the first 1x1. order="pre" has nothing between stem
           and blocks, which bring their own N and a
Shapes     x (B, channels, Y, X) -> (B, dim_output); any Y, X
Train it   leadline train pictures/ --model ResNet --depth 20
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UnknownName, UserError
from leadline.layers.residual_block import bottleneck, draw_kernels, plain, residual_stage
from leadline.models.picture import check_picture
from leadline.models.sizes import check_sizes
from leadline.names import suggest
from leadline.settings import given

STEMS = ("imagenet", "small")
BLOCKS = ("plain", "bottleneck")


class ResNet(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: classes, at least 1.
        depth: a name in `leadline.models.resnet.SIZES`; sets what is not given of those below.
        stages: blocks of each stage, at least 1 each.
        block: "plain" (two 3x3 convolutions) or "bottleneck" (1x1, 3x3, 1x1; four times the width comes out).
        width: channels of the first stage, at least 1.
        stem: "imagenet" (7x7 and pooling, a quarter of the size) or "small" (3x3, the full size).
        order: "post" (2) or "pre" (3).
        skip: where the shape changes, "projection" (1x1) or "zeros" (channels of 0 appended); "none" has no skips (4).

    >>> import torch
    >>> ResNet(3, 10, depth=20)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        depth: int = 20,
        stages: Sequence[int] | None = None,
        block: str | None = None,
        width: int | None = None,
        stem: str | None = None,
        order: str = "post",
        skip: str = "projection",
    ):
        super().__init__()
        if depth not in SIZES:
            known = ", ".join(map(str, SIZES))
            raise UserError(
                "ResNet: depth must be one of SIZES", got=given("depth", depth), do=f"Pass {known}, or stages=(2, 2, 2)"
            )
        own = {"stages": stages, "block": block, "width": width, "stem": stem}
        size: dict[str, Any] = {**SIZES[depth], **{name: value for name, value in own.items() if value is not None}}
        check_sizes("ResNet", channels=channels, dim_output=dim_output, width=size["width"])
        check_sizes("ResNet", **{f"stages[{s}]": num for s, num in enumerate(size["stages"])})
        for name, known_words in (("block", BLOCKS), ("stem", STEMS)):
            if size[name] not in known_words:
                got = given(name, size[name])
                raise UnknownName(f"ResNet: {name} must be a known word", got=got, do=suggest(size[name], known_words))
        self.channels, self.dim_output, self.depth, self.stages = channels, dim_output, depth, stages
        self.block, self.width, self.stem, self.order, self.skip = block, width, stem, order, skip
        dim = size["width"]
        self.enter = _stem(channels, dim, size["stem"], order)
        self.body = nn.Sequential()
        for s, num in enumerate(size["stages"]):
            inner = size["width"] * 2**s
            outer = 4 * inner if size["block"] == "bottleneck" else inner
            convs = partial(plain, inner) if outer == inner else partial(bottleneck, inner, outer)
            self.body.append(residual_stage(num, dim, convs, 1 if s == 0 else 2, order=order, skip=skip))
            dim = outer
        self.leave = nn.Sequential(nn.BatchNorm2d(dim), nn.ReLU()) if order == "pre" else nn.Identity()
        self.head = nn.Linear(dim, dim_output)
        draw_kernels(self)

    @classmethod
    def tiny(cls) -> ResNet:
        return cls(1, 2, stages=(1, 1), width=4, order="pre")

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, 32, 32

    def forward(self, x: Tensor) -> Tensor:
        check_picture("ResNet", x, self.channels)
        h = self.enter(x)  # eq. 1
        h = self.body(h)  # eq. 2 - 4   (B, D, Y', X')
        h = self.leave(h).mean((2, 3))  # (B, D)
        return self.head(h)  # eq. 5


def _stem(channels: int, width: int, stem: str, order: str) -> nn.Sequential:
    kernel, stride = (7, 2) if stem == "imagenet" else (3, 1)
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["conv"] = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
    if order == "post":
        parts["norm"], parts["relu"] = nn.BatchNorm2d(width), nn.ReLU()
    if stem == "imagenet":
        parts["pool"] = nn.MaxPool2d(3, 2, 1)
    return nn.Sequential(parts)


#: as in the papers: for pictures of 224 x 224 with 1000 classes, and from 20 to 1202 for those of 32 x 32
SIZES: dict[int, dict[str, Any]] = {
    18: {"stages": (2, 2, 2, 2), "block": "plain", "width": 64, "stem": "imagenet"},
    34: {"stages": (3, 4, 6, 3), "block": "plain", "width": 64, "stem": "imagenet"},
    50: {"stages": (3, 4, 6, 3), "block": "bottleneck", "width": 64, "stem": "imagenet"},
    101: {"stages": (3, 4, 23, 3), "block": "bottleneck", "width": 64, "stem": "imagenet"},
    152: {"stages": (3, 8, 36, 3), "block": "bottleneck", "width": 64, "stem": "imagenet"},
    200: {"stages": (3, 24, 36, 3), "block": "bottleneck", "width": 64, "stem": "imagenet"},
    **{6 * n + 2: {"stages": (n, n, n), "block": "plain", "width": 16, "stem": "small"} for n in (3, 5, 7, 9, 18, 200)},
}
