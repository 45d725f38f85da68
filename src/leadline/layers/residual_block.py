"""Residual blocks of convolutions in both orders, and the stages that networks stack them to (He et al., 2016).

    post   y = a(S x + f(x)),      f = N C a N C            convolution, normalisation, activation        (1)
    pre    y = S x + f(x),         f = C a N C a N          normalisation, activation, convolution        (2)
    plain         f has two 3x3 convolutions of c channels                                                (3)
    bottleneck    C -> c by 1x1, 3x3 among c in G groups, c -> C by 1x1                                   (4)

S is the identity where a block keeps the shape. Elsewhere it is a 1x1 convolution with the stride of f, normalised in
(1), or takes every stride-th place and appends channels of zeros. In (2) such a block is entered through N and a, and
both S and f read what comes out; the other blocks have nothing on the way around f.

Notation   S -> skip,  f -> branch,  N -> norm,  a -> ReLU,  C -> conv;  f is written right to left
Paper      the stride of (4) stands in its 3x3 convolution; He et al. have it in the first 1x1
Shapes     (B, C, Y, X) -> (B, dim_output, Y / stride, X / stride), rounded up
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from leadline.errors import UnknownName
from leadline.layers.dropout import Dropout
from leadline.names import suggest
from leadline.settings import given

ORDERS = ("post", "pre")
SKIPS = ("projection", "zeros", "none")


class Conv(NamedTuple):
    """One convolution of a branch, without bias, padded so that stride 1 keeps the size."""

    dim_output: int
    kernel: int
    stride: int = 1
    groups: int = 1


def plain(width: int, stride: int = 1) -> tuple[Conv, ...]:
    """The convolutions of (3).

    >>> plain(16, 2)[0]
    Conv(dim_output=16, kernel=3, stride=2, groups=1)
    """
    return Conv(width, 3, stride), Conv(width, 3)


def bottleneck(width: int, dim_output: int, stride: int = 1, groups: int = 1) -> tuple[Conv, ...]:
    """The convolutions of (4); `width` is c.

    >>> [conv.kernel for conv in bottleneck(64, 256)]
    [1, 3, 1]
    """
    return Conv(width, 1), Conv(width, 3, stride, groups), Conv(dim_output, 1)


class ResidualBlock(nn.Module):
    """Args:
        branch: f.
        skip: S; None leaves out the way around f, and with it the sum.
        enter: what both S and f read through, where there is something.
        last: what acts on the sum, where there is something.

    >>> import torch
    >>> block = ResidualBlock(nn.Conv2d(3, 3, 1), nn.Identity())
    >>> block(torch.zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    def __init__(
        self,
        branch: nn.Module,
        skip: nn.Module | None = None,
        enter: nn.Module | None = None,
        last: nn.Module | None = None,
    ):
        super().__init__()
        self.enter, self.branch, self.skip, self.last = enter, branch, skip, last
        self.residual_branch = () if skip is None else ("branch",)  # see leadline.init.branches

    def forward(self, x: Tensor) -> Tensor:
        if self.enter is not None:
            x = self.enter(x)
        y = self.branch(x)
        if self.skip is not None:
            y = self.skip(x) + y  # eq. 1, 2
        return y if self.last is None else self.last(y)


class ZeroSkip(nn.Module):
    """S without weights: every stride-th place, and channels of zeros after those that came.

    >>> import torch
    >>> ZeroSkip(2, 3, stride=2)(torch.ones(1, 2, 3, 3))[0, :, 0, 0].tolist()
    [1.0, 1.0, 0.0]
    """

    def __init__(self, dim_input: int, dim_output: int, stride: int):
        super().__init__()
        self.extra, self.stride = dim_output - dim_input, stride

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra))

    def extra_repr(self) -> str:
        return f"extra={self.extra}, stride={self.stride}"


def residual_stage(
    num_blocks: int,
    dim_input: int,
    convs: Callable[[int], Sequence[Conv]],
    stride: int = 1,
    order: str = "post",
    skip: str = "projection",
    p_drop: float = 0.0,
    site: int = 1,
) -> nn.Sequential:
    """Blocks of one width, of which the first has the stride.

    Args:
        convs: from a block's stride to the convolutions of its branch, such as partial(plain, 16).
        order: one of `ORDERS`.
        skip: what S is where the shape changes, one of `SKIPS`; "none" leaves out the skips of every block.
        p_drop: of a dropout before the last convolution of each branch.
        site: number of the first dropout; those of later blocks follow.

    >>> from functools import partial
    >>> stage = residual_stage(2, 8, partial(plain, 16), stride=2)
    >>> [block.skip is None or type(block.skip).__name__ for block in stage]
    ['Sequential', 'Identity']
    """
    for name, value, known in (("order", order, ORDERS), ("skip", skip, SKIPS)):
        if value not in known:
            raise UnknownName(f"{name} must be a known word", got=given(name, value), do=suggest(str(value), known))
    blocks = []
    for k in range(num_blocks):
        layers = convs(stride if k == 0 else 1)
        dim_output = layers[-1].dim_output
        moved = k == 0 and (stride != 1 or dim_input != dim_output)
        entered = moved and order == "pre" and skip != "none"
        drop = Dropout(p_drop, site + k) if p_drop else None
        blocks.append(
            ResidualBlock(
                _branch(dim_input, layers, order, entered, drop),
                _skip(dim_input, dim_output, stride, order, skip) if moved or skip == "none" else nn.Identity(),
                _norm_relu(dim_input) if entered else None,
                nn.ReLU() if order == "post" else None,
            )
        )
        dim_input = dim_output
    return nn.Sequential(*blocks)


def draw_kernels(model: nn.Module) -> None:
    """He's first weights for every convolution, by the values that a place reaches: what the papers begin with.

    >>> layer = nn.Conv2d(64, 64, 3)
    >>> draw_kernels(layer)
    >>> round(layer.weight.std().item() * (64 * 9 / 2) ** 0.5, 1)
    1.0
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _branch(dim_input: int, convs: Sequence[Conv], order: str, entered: bool, drop: Dropout | None) -> nn.Sequential:
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    for k, (dim_output, kernel, stride, groups) in enumerate(convs, 1):
        if order == "pre" and not (k == 1 and entered):
            parts[f"norm{k}"], parts[f"relu{k}"] = nn.BatchNorm2d(dim_input), nn.ReLU()
        if drop is not None and k == len(convs):
            parts["drop"] = drop
        parts[f"conv{k}"] = nn.Conv2d(dim_input, dim_output, kernel, stride, kernel // 2, groups=groups, bias=False)
        if order == "post":
            parts[f"norm{k}"] = nn.BatchNorm2d(dim_output)
            if k < len(convs):
                parts[f"relu{k}"] = nn.ReLU()
        dim_input = dim_output
    return nn.Sequential(parts)


def _skip(dim_input: int, dim_output: int, stride: int, order: str, skip: str) -> nn.Module | None:
    if skip == "none":
        return None
    if skip == "zeros":
        return ZeroSkip(dim_input, dim_output, stride)
    conv = nn.Conv2d(dim_input, dim_output, 1, stride, bias=False)
    norm = [("norm", nn.BatchNorm2d(dim_output))] if order == "post" else []
    return nn.Sequential(OrderedDict([("conv", conv), *norm]))


def _norm_relu(channels: int) -> nn.Sequential:
    return nn.Sequential(OrderedDict(norm=nn.BatchNorm2d(channels), relu=nn.ReLU()))
