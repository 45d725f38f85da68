"""The linear layer of many networks at once, with the gradient in the order in which matrix kernels like it.

    z[m] = x[m] W[m]ᵀ + b[m],      ∂W[m] = δ[m]ᵀ x[m],   ∂x[m] = δ[m] W[m],   ∂b[m] = Σ_rows δ[m]        (1)

Left to itself, vmap takes a linear layer apart into a product and a sum, and gets the gradient of the weights
transposed, as (xᵀ δ)ᵀ: slower to compute, and to be copied before it can be used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


class _Stacked(torch.autograd.Function):
    """Eq. 1: (M, B, I), (M, O, I), (M, O) -> (M, B, O)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, delta: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        back = torch.bmm(delta, weight) if ctx.needs_input_grad[0] else None
        return back, torch.bmm(delta.transpose(1, 2), x), delta.sum(1)


class _Linear(torch.autograd.Function):
    """`F.linear` of one network; under vmap eq. 1."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, delta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return delta @ weight, delta.transpose(0, 1) @ x, delta.sum(0)

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Tensor, int]:
        count = info.batch_size
        stacked = (
            value.movedim(dim, 0) if dim is not None else value.expand(count, *value.shape)
            for value, dim in zip(inputs, dims, strict=True)
        )
        return _Stacked.apply(*stacked), 0


class linear_by_members(TorchFunctionMode):  # noqa: N801 - read as a verb: with linear_by_members(): …
    """Inside, linear layers of rows go the way of eq. 1."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        rows = function is F.linear and not kwargs and len(args) == 3 and args[2] is not None and args[0].dim() == 2
        if rows and not torch.is_autocast_enabled(args[0].device.type):  # which casts on its own way
            return _Linear.apply(*args)
        return function(*args, **(kwargs or {}))
