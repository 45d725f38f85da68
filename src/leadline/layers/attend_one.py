"""Attention of one new word a row on all that its room holds, in one kernel: what a step of decoding asks for.

    keys_at, values_at <- k, v                                                             (1)
    out = Σ_{j <= at} softmax_j(scale q · keys_j) values_j                                 (2)

Every place of a room after a row's own is empty, so a kernel for whole tiles of queries, told so by a mask, reads what
nobody needs, and one query fills a sixteenth of its tile. Here a block has one head of one row, writes (1), and reads
each key and value up to its place once, eight numbers a lane.

Shapes     q (B, H, 1, K);  k, v (B, G, 1, K);  keys, values (B, G, T, K);  at (B, 1);  out (B, H, 1, K)
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline.layers.cuda import Kernel, can_compile

_FEW, _MANY = 4, 16  # warps of a block, where there are many blocks and where there are few


def can_attend_one(q: Tensor, keys: Tensor) -> bool:
    """Whether the kernel serves: one word a row in bfloat16, on a GPU that has such numbers, with a compiler, and no
    gradient is asked for.

    >>> can_attend_one(torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 8, 4))
    False
    """
    return (
        q.is_cuda
        and q.shape[2] == 1
        and q.dtype == keys.dtype == torch.bfloat16
        and q.shape[3] in (8, 16, 32, 64, 128, 256)
        and keys.is_contiguous()
        and not torch.is_grad_enabled()
        and (torch.compiler.is_compiling() or _known(q.device))  # a trace takes the operation, which asks again
    )


def _known(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0) and can_compile(device)


@torch.library.custom_op("leadline::attend_one", mutates_args=("keys", "values"))
def attend_one(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, at: Tensor, scale: float) -> Tensor:
    """Eqs. 1 and 2.

    >>> keys, values, k = torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2), torch.ones(1, 1, 1, 2)
    >>> attend_one(k, k, k, keys, values, torch.tensor([[1]]), 0.0).tolist(), keys[0, 0, :, 0].tolist()
    ([[[[0.5, 0.5]]]], [0.0, 1.0, 0.0, 0.0])
    """
    return _plain(q, k, v, keys, values, at, scale)


@attend_one.register_kernel("cuda")
def _(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, at: Tensor, scale: float) -> Tensor:
    if not can_attend_one(q, keys):
        return _plain(q, k, v, keys, values, at, scale)
    (B, H, _, K), G = q.shape, keys.shape[1]
    q, k, v = (t if _in_eights(t) else t.contiguous() for t in (q, k, v))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    strides = (stride // 8 for t in (q, k, v, keys) for stride in t.stride()[:2])
    places = at.expand(B, 1).contiguous()  # rows that begin with one word may share its place, expanded
    early = torch.cuda.get_device_capability(q.device) >= (9, 0)
    crowded = torch.cuda.get_device_properties(q.device).multi_processor_count < B * H
    warps = _FEW if crowded else _MANY
    kernel = _kernel(K, scale, warps, q.device)
    kernel(B * H, 32 * warps, q, k, v, keys, values, places, out, H, G, *strides, early=early)
    return out


@functools.cache
def _kernel(K: int, scale: float, warps: int, device: torch.device) -> Kernel:
    return Kernel("attend_one.cu", "attend_one", {"K": K, "SCALE": scale, "WARPS": warps}, device)


def _in_eights(t: Tensor) -> bool:
    """Whether rows and heads begin at multiples of 16 bytes."""
    return t.stride(-1) == 1 and t.data_ptr() % 16 == 0 and not any(stride % 8 for stride in t.stride()[:2])


def _plain(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, at: Tensor, scale: float) -> Tensor:
    index = at[:, None, :, None].expand_as(k)
    keys.scatter_(2, index, k.to(keys.dtype))
    values.scatter_(2, index, v.to(values.dtype))
    seen = torch.arange(keys.shape[2], device=q.device) <= at[:, None, :, None]
    grouped = keys.shape[1] != q.shape[1]
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen, scale=scale, enable_gqa=grouped)


@attend_one.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, at: Tensor, scale: float) -> Tensor:
    return torch.empty(q.shape, dtype=q.dtype, device=q.device)
