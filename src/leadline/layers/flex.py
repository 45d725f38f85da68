"""Attention under any mask by torch's FlexAttention: blocks of pairs in which nothing is allowed are never computed.

The kernel is compiled for the mask's own rule, `Mask.allows`, so neither the scores nor the mask are ever written out.
Worth its compilation for long rows on a GPU; `attend` decides. Uncompiled, on a CPU, it computes the same the slow way.

Shapes     q (B, H, T, K);  k (B, G, S, K);  v (B, G, S, K');  out (B, H, T, K')
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from leadline.layers.kernels import has_triton
from leadline.layers.masks import Mask

PAIRS = 1024 * 1024  #: queries times keys from which on it is used
KERNELS = 256  #: kernels a process may compile; torch's own limit is 8, after which it writes the scores out


def worth_it(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether `attend` takes it: a GPU with a compiler, long rows, and widths and types that its kernel knows.

    Never in a step that is being traced or recorded, which cannot wait for the blocks to be found, nor where torch.func
    transforms the step, which its compiler does not see through.

    >>> worth_it(*[torch.zeros(1, 1, 4, 16)] * 3)
    False
    """
    return (
        q.is_cuda
        and q.shape[2] * k.shape[2] >= PAIRS
        and min(q.shape[-1], v.shape[-1]) >= 16
        and q.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and has_triton()
        and get_proxy_mode() is None
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch.cuda.is_current_stream_capturing()
    )


def flex_attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float | None = None) -> Tensor:
    """Scaled dot-product attention, as `attend` defines it.

    Args:
        mask: any.
        scale: in place of 1 / √K.
    """
    from torch.nn.attention.flex_attention import flex_attention

    blocks = _blocks_of(mask, len(q), q.shape[2], k.shape[2], q.device)
    kernel: Any = _fused if q.is_cuda and not torch.compiler.is_compiling() else flex_attention
    return kernel(q, k, v, block_mask=blocks, scale=scale, enable_gqa=k.shape[1] != q.shape[1])


def _fused(*args: Any, **options: Any) -> Any:
    """A kernel for each rule, type, width and kind of shape: a process that meets many masks needs more than eight."""
    kernel = _compiled()  # first: it imports what is patched
    with torch._dynamo.config.patch(recompile_limit=KERNELS):
        return kernel(*args, **options)


@cache
def _compiled() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


def _blocks_of(mask: Mask, B: int, T: int, S: int, device: torch.device) -> Any:
    """Which blocks hold something, found once for all layers that are called with one mask."""
    zero = torch.zeros(1, 1, 1, dtype=torch.long, device=device)
    same = mask.allows(zero, zero[0], zero[0, 0]).dim() < 3  # for all rows of the batch
    find = _found if torch.compiler.is_compiling() else _found_once
    return find(mask, None if same else B, T, S, device)


def _found(mask: Mask, B: int | None, T: int, S: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    return create_block_mask(lambda b, h, i, j: mask.allows(b, i, j), B, None, T, S, device=str(device))


_found_once = lru_cache(maxsize=4)(_found)  # a mask is frozen: its tensors too must not be written to
