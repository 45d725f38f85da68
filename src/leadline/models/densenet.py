"""DenseNet: every layer of a stage reads all that came before it there (Huang et al., 2017).

    h_k     = [h_{k-1}, f_k(h_{k-1})]                   g channels are appended                           (1)
    f_k     = C3 a N C1 a N,  C1 to 4 g channels        bottleneck;   f_k = C3 a N   without              (2)
    between two stages   h <- pool(C1 a(N h))           2x2 means; C1 keeps a share θ of the channels     (3)
    output  = β + Ω mean_{y,x} a(N h_K)                                                                   (4)

Notation   g -> growth,  θ -> kept;  f_k -> body[s].layers[k-1];  a ReLU,  N batch normalisation,  C3, C1 convolutions
           of 3x3 and 1x1;  Ω, β -> head.weight, head.bias
Paper      as there: the sizes for 224 x 224 begin with 7x7 and pooling, those for 32 x 32 with 3x3
Shapes     x (B, channels, Y, X) -> (B, dim_output); Y and X at least 32, or 4 with stem="small"
Train it   leadline train pictures/ --model DenseNet --depth 40
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UnknownName, UserError
from leadline.layers.dropout import Dropout
from leadline.layers.residual_block import draw_kernels
from leadline.models.picture import check_picture
from leadline.models.sizes import check_sizes
from leadline.names import suggest
from leadline.settings import given, real

STEMS = ("imagenet", "small")


class DenseNet(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: classes, at least 1.
        depth: a name in `leadline.models.densenet.SIZES`; sets what is not given of those below.
        stages: layers of each stage, at least 1 each.
        growth: channels g that a layer appends, at least 1.
        stem: "imagenet" (7x7 and pooling, a quarter of the size) or "small" (3x3, the full size).
        bottleneck: whether a 1x1 convolution to 4 g channels stands before each 3x3 one (2).
        kept: share θ of the channels that stay between two stages, above 0 and at most 1; one always does.
        p_drop: probability that a unit that a layer appends is silenced, 0 <= p_drop < 1.

    >>> import torch
    >>> DenseNet(3, 10, stages=(2, 2), growth=4)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        depth: int = 40,
        stages: Sequence[int] | None = None,
        growth: int | None = None,
        stem: str | None = None,
        bottleneck: bool = True,
        kept: float = 0.5,
        p_drop: float = 0.0,
    ):
        super().__init__()
        if depth not in SIZES:
            known = ", ".join(map(str, SIZES))
            raise UserError("DenseNet: depth must be one of SIZES", got=given("depth", depth), do=f"Pass {known}")
        own = {"stages": stages, "growth": growth, "stem": stem}
        size: dict[str, Any] = {**SIZES[depth], **{name: value for name, value in own.items() if value is not None}}
        check_sizes("DenseNet", channels=channels, dim_output=dim_output, growth=size["growth"])
        check_sizes("DenseNet", **{f"stages[{s}]": num for s, num in enumerate(size["stages"])})
        if size["stem"] not in STEMS:
            got = given("stem", stem)
            raise UnknownName("DenseNet: stem must be a known word", got=got, do=suggest(size["stem"], STEMS))
        self.channels, self.dim_output, self.depth, self.stages = channels, dim_output, depth, stages
        self.growth, self.stem, self.bottleneck = growth, stem, bottleneck
        self.kept = real("kept", kept, 0, most=1, above=True, usual=0.5)
        self.p_drop = real("p_drop", p_drop, 0, 1, usual=0.2)
        self.least = 2 ** (len(size["stages"]) - 1) * (4 if size["stem"] == "imagenet" else 1)
        g, site = size["growth"], 1
        dim = 2 * g
        self.enter = _stem(channels, dim, size["stem"])
        self.body = nn.Sequential()
        for s, num in enumerate(size["stages"]):
            if s:
                fewer = max(1, int(dim * kept))
                self.body.append(_transition(dim, fewer))
                dim = fewer
            self.body.append(_Stage(num, dim, g, bottleneck, self.p_drop, site))
            dim, site = dim + num * g, site + num
        self.leave = nn.Sequential(OrderedDict(norm=nn.BatchNorm2d(dim), relu=nn.ReLU()))
        self.head = nn.Linear(dim, dim_output)
        draw_kernels(self)

    @classmethod
    def tiny(cls) -> DenseNet:
        return cls(1, 2, stages=(1, 2), growth=2, p_drop=0.1)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, 32, 32

    def forward(self, x: Tensor) -> Tensor:
        check_picture("DenseNet", x, self.channels, self.least)
        h = self.body(self.enter(x))  # eq. 1 - 3   (B, D, Y', X')
        h = self.leave(h).mean((2, 3))  # (B, D)
        return self.head(h)  # eq. 4


class _Stage(nn.Module):
    def __init__(self, num_layers: int, dim_input: int, growth: int, bottleneck: bool, p_drop: float, site: int):
        super().__init__()
        self.layers = nn.ModuleList(
            _layer(dim_input + k * growth, growth, bottleneck, p_drop, site + k) for k in range(num_layers)
        )

    def forward(self, h: Tensor) -> Tensor:
        for layer in self.layers:
            h = torch.cat([h, layer(h)], 1)  # eq. 1
        return h


def _layer(dim_input: int, growth: int, bottleneck: bool, p_drop: float, site: int) -> nn.Sequential:
    parts: OrderedDict[str, nn.Module] = OrderedDict(norm1=nn.BatchNorm2d(dim_input), relu1=nn.ReLU())
    if bottleneck:
        parts["conv1"] = nn.Conv2d(dim_input, 4 * growth, 1, bias=False)
        parts["norm2"], parts["relu2"] = nn.BatchNorm2d(4 * growth), nn.ReLU()
        parts["conv2"] = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
    else:
        parts["conv1"] = nn.Conv2d(dim_input, growth, 3, padding=1, bias=False)
    if p_drop:
        parts["drop"] = Dropout(p_drop, site)
    return nn.Sequential(parts)  # eq. 2


def _transition(dim_input: int, dim_output: int) -> nn.Sequential:
    conv = nn.Conv2d(dim_input, dim_output, 1, bias=False)
    return nn.Sequential(
        OrderedDict(norm=nn.BatchNorm2d(dim_input), relu=nn.ReLU(), conv=conv, pool=nn.AvgPool2d(2))
    )  # eq. 3


def _stem(channels: int, width: int, stem: str) -> nn.Sequential:
    if stem == "small":
        return nn.Sequential(OrderedDict(conv=nn.Conv2d(channels, width, 3, padding=1, bias=False)))
    conv = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
    return nn.Sequential(OrderedDict(conv=conv, norm=nn.BatchNorm2d(width), relu=nn.ReLU(), pool=nn.MaxPool2d(3, 2, 1)))


#: as in the paper: four for pictures of 224 x 224 with 1000 classes; 40, 100, 190 and 250 for those of 32 x 32, with
#: bottlenecks and half of the channels kept. The paper's 40 without either is stages=(12, 12, 12), bottleneck=False,
#: kept=1, which begins with 16 channels there and with 24 here
SIZES: dict[int, dict[str, Any]] = {
    121: {"stages": (6, 12, 24, 16), "growth": 32, "stem": "imagenet"},
    161: {"stages": (6, 12, 36, 24), "growth": 48, "stem": "imagenet"},
    169: {"stages": (6, 12, 32, 32), "growth": 32, "stem": "imagenet"},
    201: {"stages": (6, 12, 48, 32), "growth": 32, "stem": "imagenet"},
    40: {"stages": (6, 6, 6), "growth": 12, "stem": "small"},
    100: {"stages": (16, 16, 16), "growth": 12, "stem": "small"},
    190: {"stages": (31, 31, 31), "growth": 40, "stem": "small"},
    250: {"stages": (41, 41, 41), "growth": 24, "stem": "small"},
}
