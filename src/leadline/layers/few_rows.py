"""Products of a few rows with a large matrix, which take the time of reading the matrix.

    y = a(W x + b)                                          a the identity, or GELU by tanh          (1)
    y_s = W_s x_s,      W x = Σ_s y_s                       each over a part s of the columns        (2)

A library cuts such a product for many rows: too few programs read, and one more kernel adds what they found. Here a
program has 32 rows of the matrix and a part of its columns, so that nearly all multiprocessors read; whoever needs (2)
adds its parts. A program starts while what it multiplies is still computed, and asks for its weights meanwhile.

Deleting this file loses speed only.

Limits     two bytes a number, at most 64 rows, matrices of whole tiles of 32 x 128; elsewhere torch multiplies
Shapes     x (B, C);  weight (N, C);  y (B, N), parts (S, B, N) float32
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.kernels import early, kernels, power

_ROWS, _OF_WEIGHT, _COLUMNS = 64, 32, 128  # of x; of a tile of the matrix
_FEWEST = 384  # columns of a part: with fewer, starting takes longer than reading

_KERNEL = """
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def product(x, weight, bias, y, B, N, C: tl.constexpr, GELU: tl.constexpr, BIASED: tl.constexpr, EARLY: tl.constexpr,
            S: tl.constexpr, ROWS: tl.constexpr, OF_WEIGHT: tl.constexpr, COLUMNS: tl.constexpr):
    s = tl.program_id(1)
    b = tl.arange(0, ROWS)
    n = tl.program_id(0) * OF_WEIGHT + tl.arange(0, OF_WEIGHT)
    x += s * (C // S)
    weight += s * (C // S)
    if EARLY:
        gdc_launch_dependents()
        lines = tl.arange(0, COLUMNS // 64) * 64  # of 128 bytes
        for c in range(0, C // S, COLUMNS):
            tl.inline_asm_elementwise(
                "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [weight + n[:, None] * C + (c + lines)[None, :]],
                dtype=tl.int32, is_pure=False, pack=1,
            )
        gdc_wait()
    c = tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, OF_WEIGHT), dtype=tl.float32)
    for first in tl.range(0, C // S, COLUMNS, num_stages=5):
        left = tl.load(x + b[:, None] * C + (first + c)[None, :], mask=b[:, None] < B, other=0.0)
        right = tl.load(weight + n[None, :] * C + (first + c)[:, None])
        total = tl.dot(left, right, total)
    if BIASED:
        total += tl.load(bias + n)[None, :].to(tl.float32)
    if GELU:
        total = total / (1 + tl.exp(-1.5957691216057308 * (total + 0.044715 * total * total * total)))
    to = y + s.to(tl.int64) * B * N + b[:, None] * N + n[None, :]
    tl.store(to, total.to(y.dtype.element_ty), mask=b[:, None] < B)
"""


class Parts(NamedTuple):
    """Eq. 2, and what is to be added besides."""

    parts: Tensor
    bias: Tensor | None


def linear(x: Tensor, layer: nn.Module, gelu: bool = False) -> Tensor:
    """Eq. 1.

    >>> layer = nn.Linear(3, 2)
    >>> x = torch.ones(4, 3)
    >>> torch.allclose(linear(x, layer, gelu=True), F.gelu(layer(x), approximate="tanh"))
    True
    """
    if isinstance(layer, nn.Linear) and _serves(x, layer):
        y = torch.empty(len(x), len(layer.weight), dtype=x.dtype, device=x.device)
        return _product(x, layer, y[None], gelu)[0]
    if gelu and x.is_cuda and type(layer) is nn.Linear and layer.bias is not None:
        return torch._addmm_activation(layer.bias, x, layer.weight.T, use_gelu=True)
    return F.gelu(layer(x), approximate="tanh") if gelu else layer(x)


def linear_in_parts(x: Tensor, layer: nn.Module) -> Parts:
    """Eq. 2.

    >>> layer = nn.Linear(3, 2)
    >>> parts, bias = linear_in_parts(torch.ones(4, 3), layer)
    >>> parts.shape, bias
    (torch.Size([1, 4, 2]), None)
    """
    if not isinstance(layer, nn.Linear) or not _serves(x, layer):
        return Parts(layer(x)[None], None)
    N, C = layer.weight.shape
    S = splits(N, C, torch.cuda.get_device_properties(x.device).multi_processor_count)
    y = torch.empty(S, len(x), N, device=x.device)
    return Parts(_product(x, layer, y, biased=False), layer.bias)


def splits(rows: int, columns: int, programs: int) -> int:
    """Parts of the columns of a matrix, so that about as many programs read it as run at once.

    >>> splits(2304, 768, 132), splits(768, 768, 132), splits(768, 3072, 132)
    (1, 2, 4)
    """
    can = [s for s in (1, 2, 4, 8) if columns % (s * _COLUMNS) == 0 and columns // s >= _FEWEST]
    return max([s for s in can if rows // _OF_WEIGHT * s <= programs], default=1)


def _serves(x: Tensor, layer: nn.Linear) -> bool:
    N, C = layer.weight.shape
    return (
        type(layer) is nn.Linear
        and x.is_cuda
        and x.dtype == layer.weight.dtype
        and x.dtype in (torch.bfloat16, torch.float16)
        and len(x) <= _ROWS
        and not (N % _OF_WEIGHT or C % _COLUMNS)
        and x.is_contiguous()
        and layer.weight.is_contiguous()
        and torch.cuda.get_device_capability(x.device) >= (8, 0)
    )


def _product(x: Tensor, layer: nn.Linear, y: Tensor, gelu: bool = False, biased: bool = True) -> Tensor:
    (N, C), (S, B, _) = layer.weight.shape, y.shape
    bias = layer.bias if biased else None
    kernels(_KERNEL).product[(N // _OF_WEIGHT, S)](
        x, layer.weight, x if bias is None else bias, y, B, N, C, GELU=gelu, BIASED=bias is not None, S=S,
        ROWS=power(B), OF_WEIGHT=_OF_WEIGHT, COLUMNS=_COLUMNS, num_warps=4, **early(x.device),
    )  # fmt: skip
    return y
