"""How surprising tokens are under scores of a whole vocabulary, with the gradient made in the same pass.

    score_n = W h_n + b                                                                            (1)
    loss_n  = log Σ_v e^{score_nv} - score_{n, y_n}                                                (2)
    D_nv    = ∂ loss_n / ∂ score_nv = softmax_v(score_n) - [v = y_n]                               (3)
    ∂h = g ⊙ (D W),    ∂W = Dᵀ (g ⊙ h),    ∂b = Dᵀ g        of g_n, what comes from above          (4)

The scores are the largest tensor of a language model: on a GPU a kernel reads each row of them once from memory, for
(2) and (3), and nothing else reads them again. The rows of (4) are scaled where they are narrow.

Notation   D -> slope;  V' -> V rounded up (`rounded`)
Shapes     h (N, D);  W (V, D);  y (N,);  scores and slope (N, V')
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline.layers.kernels import kernels
from leadline.layers.unembedding import Deferred, rounded
from leadline.likelihoods.likelihood import full

_BLOCK, _WARPS = 8192, 16

_KERNEL = """
import triton
import triton.language as tl


@triton.jit
def surprise(scores, y, loss, slope, count, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    scores += row * width
    slope += row * width
    own = tl.load(y + row)
    most = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for first in range(0, count, BLOCK):
        at = first + tl.arange(0, BLOCK)
        s = tl.load(scores + at, mask=at < count, other=float("-inf")).to(tl.float32)
        larger = tl.maximum(most, tl.max(s))
        total = total * tl.exp(most - larger) + tl.sum(tl.exp(s - larger))
        most = larger
    tl.store(loss + row, tl.log(total) - (tl.load(scores + own).to(tl.float32) - most))
    for first in range(0, width, BLOCK):
        at = first + tl.arange(0, BLOCK)
        s = tl.load(scores + at, mask=at < count, other=float("-inf")).to(tl.float32)
        d = tl.exp(s - most) / total - tl.where(at == own, 1.0, 0.0)
        tl.store(slope + at, d.to(slope.dtype.element_ty), mask=at < width)
"""


def surprise_of(output: Deferred, y: Tensor) -> Tensor:
    """Eq. 2 of every place, y (N,) under the scores of h (N, D).

    >>> float(surprise_of(Deferred(torch.zeros(1, 3), torch.zeros(4, 3), None), torch.tensor([2]))[0])  # log 4
    1.3862943649291992
    """
    kind = output.h.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else output.h.dtype
    return cast(Tensor, _Surprise.apply(*output, y, dtype)[0])


class _Surprise(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(h: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        with torch.autocast(h.device.type, enabled=False):
            padded = None if bias is None else rounded(bias.to(dtype))
            scores = F.linear(h.to(dtype), rounded(weight.to(dtype)), padded)  # eq. 1
            return surprise_and_slope(scores, y, len(weight))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        h, weight, bias, _, ctx.dtype = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.biased = bias is not None
        ctx.save_for_backward(h, weight, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, slope = ctx.saved_tensors
        count, dtype = len(weight), ctx.dtype
        with torch.autocast(h.device.type, enabled=False):
            gh = g[:, None] * (slope @ rounded(weight.to(dtype)))  # eq. 4
            gw = (slope.T @ (g[:, None] * h).to(dtype))[:count]
            gb = (g.to(dtype) @ slope)[:count] if ctx.biased else None
        return gh.to(h.dtype), gw.to(weight.dtype), None if gb is None else gb.to(weight.dtype), None, None


@torch.library.custom_op("leadline::surprise", mutates_args=())
def surprise_and_slope(scores: Tensor, y: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Eqs. 2 and 3 over the first `count` words; what is after them has a slope of 0."""
    return _plain(scores, y, count)


def _plain(scores: Tensor, y: Tensor, count: int) -> tuple[Tensor, Tensor]:
    known = full(scores[:, :count])
    all_ = known.logsumexp(1, keepdim=True)
    own = known.gather(1, y[:, None])
    slope = (known - all_).exp().scatter_add(1, y[:, None], torch.full_like(own, -1))
    return (all_ - own)[:, 0], F.pad(slope, (0, scores.shape[1] - count)).to(scores.dtype)


@surprise_and_slope.register_kernel("cuda")
def _(scores: Tensor, y: Tensor, count: int) -> tuple[Tensor, Tensor]:
    if scores.dtype == torch.float64:
        return _plain(scores, y, count)
    scores, (num, width) = scores.contiguous(), scores.shape
    loss, slope = torch.empty(num, device=scores.device), torch.empty_like(scores)
    kernels(_KERNEL).surprise[(num,)](scores, y, loss, slope, count, width, BLOCK=_BLOCK, num_warps=_WARPS)
    return loss, slope


@surprise_and_slope.register_fake
def _(scores: Tensor, y: Tensor, count: int) -> tuple[Tensor, Tensor]:
    return full(scores.new_empty(len(scores))), torch.empty_like(scores)


@surprise_and_slope.register_vmap
def _(info: Any, dims: Any, scores: Tensor, y: Tensor, count: int) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    first = lambda t, dim: t.expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0)  # noqa: E731
    scores, y = first(scores, dims[0]), first(y, dims[1])
    loss, slope = surprise_and_slope(scores.flatten(0, 1), y.flatten(), count)
    return (loss.unflatten(0, y.shape), slope.unflatten(0, y.shape)), (0, 0)
