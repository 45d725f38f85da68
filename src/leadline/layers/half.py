"""Kernels that compute in float16, whose gradients would be too small for it.

    y = f(x),      ∂x = 1/S · f'(S · ∂y),      S = 2^k so that the largest of S |∂y| lies in (1/8, 1/4]            (1)

A mean over the tokens of a batch leaves each with a gradient near 1e-6, and float16 ends at 6e-8. f' is linear, so (1)
changes nothing but the rounding, and S is a power of two, which rounds nothing. It is chosen anew for every batch, on
the device. torch's autocast runs the kernels of recurrent layers on a GPU in float16, whatever it was asked for.

Notation   f' -> the map from the gradients of y to those of x
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

Tensors = tuple[Tensor, ...]


def in_half(f: Callable[..., Tensors], *inputs: Tensor) -> Tensors:
    """f(*inputs), in the type of the first input, with gradients by eq. 1.

    Args:
        f: from tensors to tensors; what it does in float16 is its own matter.

    >>> x = torch.full((2,), 3.0, requires_grad=True)
    >>> (y,) = in_half(lambda x: (x.half() * 2,), x)
    >>> torch.autograd.grad(y, x, torch.full((2,), 2.0**-30))[0].tolist() == [2.0**-29] * 2
    True
    """
    scale = _Scale()
    return cast(Tensors, _Above.apply(scale, inputs[0].dtype, *f(*cast(Tensors, _Below.apply(scale, *inputs)))))


def guarded(f: Callable[..., Tensors], *inputs: Tensor) -> Tensors:
    """f(*inputs), a kernel of a recurrent layer: by `in_half` where autocast takes it to float16, all in the type of
    the first input.
    """
    first, *rest = inputs
    if not (first.is_cuda and torch.is_autocast_enabled("cuda")):
        return f(*inputs)
    return in_half(f, first, *(value.to(first.dtype) for value in rest))


class _Scale:
    """S of one backward pass: it is set above f, and read below."""

    value: Tensor


class _Above(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scale: _Scale, dtype: torch.dtype, *outputs: Tensor) -> Tensors:
        ctx.scale, ctx.dtypes = scale, [output.dtype for output in outputs]
        return tuple(output.to(dtype, copy=True) for output in outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        largest = torch.stack([torch.linalg.vector_norm(g, torch.inf).float() for g in gradients]).amax()
        S = ctx.scale.value = torch.where(largest > 0, torch.exp2(-3 - largest.log2().ceil() + 1), 1.0)
        return None, None, *((g * S).to(dtype) for g, dtype in zip(gradients, ctx.dtypes, strict=True))


class _Below(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scale: _Scale, *inputs: Tensor) -> Tensors:
        ctx.scale = scale
        return tuple(value.view_as(value) for value in inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        return None, *(None if g is None else g / ctx.scale.value for g in gradients)
