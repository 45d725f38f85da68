"""Operations written otherwise, with the same values, where a GPU's compiled kernels are faster so.

    few channels   a convolution with a stride, of pictures of at most four channels: blocks of s × s pixels become
                   s² C channels, and the stride 1                                                             (1)
    max pooling    of 3 × 3 at stride 2: which pixel of a window was largest is kept in a byte, and a pixel's gradient
                   asks the windows that it lies in                                                            (2)

A GPU multiplies in tiles of 16 channels and more, of which three colours fill a fifth: the first convolution of a
ResNet takes a third of its time as (1). (2) is torch's own gradient, in a third of the time of the kernel that the
compiler makes of that.

Inside `Substituted` calls of torch's functions are exchanged, in any model; a trace made there holds the substitutes.
Deleting this file loses speed only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_FEW = 4  # channels up to which (1) pays


class Substituted(TorchFunctionMode):
    """Inside, (1) and (2) stand for calls that they can stand for."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in (F.conv2d, torch.conv2d):
            found = _convolution(*args, **kwargs)
        elif function in (F.max_pool2d, torch.max_pool2d):
            found = _pooling(*args, **kwargs)
        else:
            found = None
        return function(*args, **kwargs) if found is None else found


def substituted(function: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """`function` with (1) and (2) in it, for a tracer to see."""

    def inside(*flat: Tensor) -> tuple[Tensor, ...]:
        with Substituted():
            return function(*flat)

    return inside


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor | None:
    (s, same), p = _pair(stride), padding if isinstance(padding, str) else _pair(padding)
    fits = x.dim() == 4 and x.shape[1] <= _FEW and s == same > 1 and groups == 1 and _pair(dilation) == (1, 1)
    if not fits or isinstance(p, str) or weight.shape[2] != weight.shape[3] or p[0] != p[1]:
        return None
    return in_blocks(x, weight, bias, s, p[0])


def in_blocks(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    """Eq. 1; x is padded to four channels by zeros.

    >>> x, w = torch.randn(2, 3, 20, 23, dtype=torch.float64), torch.randn(5, 3, 7, 7, dtype=torch.float64)
    >>> torch.allclose(in_blocks(x, w, None, 2, 3), F.conv2d(x, w, stride=2, padding=3))
    True
    """
    C, K = weight.shape[1:3]
    before = padding + -padding % stride  # whole blocks before the first pixel
    shifted = K + before - padding
    side = shifted + -shifted % stride  # of the kernel, in whole blocks
    empty = -C % _FEW
    kernel = F.pad(weight, (before - padding, side - shifted) * 2 + (0, empty))
    last = [(size + 2 * padding - K) // stride for size in x.shape[2:]]  # place of each axis, from 0
    after = [stride * place + side - before - size for place, size in zip(last, x.shape[2:], strict=True)]
    padded = F.pad(x, (before, after[1], before, after[0], 0, empty))  # less than nothing crops
    return F.conv2d(_blocks(padded, stride), _blocks(kernel, stride), bias)


def _blocks(x: Tensor, s: int) -> Tensor:
    """(B, C, Y, X) -> (B, s² C, Y / s, X / s)."""
    B, C, Y, X = x.shape
    return x.view(B, C, Y // s, s, X // s, s).permute(0, 3, 5, 1, 2, 4).reshape(B, s * s * C, Y // s, X // s)


def _pooling(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | None:
    sizes = (_pair(kernel_size), _pair(kernel_size if stride is None else stride), _pair(padding), _pair(dilation))
    usual = sizes == ((3, 3), (2, 2), (1, 1), (1, 1)) and not ceil_mode and not return_indices
    even = x.dim() == 4 and x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0
    return MaxPool.pooled(x) if usual and even and x.is_floating_point() else None


class MaxPool(torch.autograd.Function):
    """Eq. 2: 3 × 3, stride 2, padding 1, of pictures with even sides.

    Rows of window i are 2i - 1, 2i and 2i + 1: an even row lies in one window, an odd one in two.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        wide = F.pad(x, (1, 1, 1, 1), value=float("-inf"))
        most, place = wide[:, :, :-2:2, :-2:2], torch.zeros((), dtype=torch.int8, device=x.device)
        for k in range(1, 9):
            row, column = divmod(k, 3)
            other = wide[:, :, row : row + x.shape[2] : 2, column : column + x.shape[3] : 2]
            larger = (other > most) | other.isnan()
            place = torch.where(larger, torch.full((), k, dtype=torch.int8, device=x.device), place)
            most = torch.where(larger, other, most)
        return most, place

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> Tensor:
        (place,) = ctx.saved_tensors
        part = lambda k: torch.where(place == k, g, 0)  # noqa: E731
        up = lambda t: F.pad(t[:, :, 1:], (0, 0, 0, 1))  # noqa: E731 - from the window below
        left = lambda t: F.pad(t[..., 1:], (0, 1))  # noqa: E731 - from the window to the right
        even = torch.stack([part(4), part(5) + left(part(3))], -1)
        odd = torch.stack([part(7) + up(part(1)), part(8) + left(part(6)) + up(part(2)) + up(left(part(0)))], -1)
        return torch.stack([even.flatten(-2), odd.flatten(-2)], 3).flatten(2, 3)

    @classmethod
    def pooled(cls, x: Tensor) -> Tensor:
        return cls.apply(x)[0]


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)
