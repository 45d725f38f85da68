"""Attention of one new word a row on all that its room holds, in one kernel: what a step of decoding asks for.

    keys_at, values_at <- k, v                                                             (1)
    out = Σ_{j <= at} softmax_j(scale q · keys_j) values_j                                 (2)

Every place of a room behind a row's own is empty, so a kernel for whole tiles of queries, told so by a mask, reads what
nobody needs, and one query fills a sixteenth of its tile. Here a program has one head of one row, writes (1), and reads
each key and value up to its place once.

Shapes     q (B, H, 1, K);  k, v (B, G, 1, K);  keys, values (B, G, T, K);  at (B, 1);  out (B, H, 1, K)
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline.layers.kernels import kernels

_KEYS = 64  # keys and values of a turn

#: eq. 2 of one query and head: its own key and value, which are not in the room yet, and KEYS of the room at a turn
ATTENDED = """
import triton
import triton.language as tl


@triton.jit
def attended(q, own_k, own_v, keys, values, place, d, here, K, KEYS: tl.constexpr):
    most = tl.sum(q * own_k.to(tl.float32))
    total = tl.full((), 1.0, tl.float32)
    o = own_v.to(tl.float32)
    for first in range(0, place, KEYS):
        j = first + tl.arange(0, KEYS)
        there = (j < place)[:, None] & here[None, :]
        kk = tl.load(keys + j[:, None] * K + d[None, :], mask=there, other=0.0)
        vv = tl.load(values + j[:, None] * K + d[None, :], mask=there, other=0.0)
        s = tl.where(j < place, tl.sum(kk.to(tl.float32) * q[None, :], 1), float("-inf"))
        larger = tl.maximum(most, tl.max(s))
        less = tl.exp(most - larger)
        p = tl.exp(s - larger)
        total = total * less + tl.sum(p)
        o = o * less + tl.sum(p[:, None] * vv.to(tl.float32), 0)
        most = larger
    return o / total
"""

_KERNEL = f"""{ATTENDED}

@triton.jit
def attend_one(q, k, v, keys, values, at, out, H, G, K, q_row, q_head, k_row, k_head, v_row, v_head, row, group, scale,
               KEYS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    h = pid % H
    b = (pid // H).to(tl.int64)
    g = h // (H // G)
    d = tl.arange(0, BLOCK)
    here = d < K
    place = tl.load(at + b)
    x = tl.load(q + b * q_row + h * q_head + d, mask=here, other=0.0).to(tl.float32) * scale
    own_k = tl.load(k + b * k_row + g * k_head + d, mask=here, other=0.0).to(keys.dtype.element_ty)
    own_v = tl.load(v + b * v_row + g * v_head + d, mask=here, other=0.0).to(values.dtype.element_ty)
    keys += b * row + g.to(tl.int64) * group
    values += b * row + g.to(tl.int64) * group
    if h % (H // G) == 0:
        tl.store(keys + place * K + d, own_k, mask=here)
        tl.store(values + place * K + d, own_v, mask=here)
    o = attended(x, own_k, own_v, keys, values, place, d, here, K, KEYS)
    tl.store(out + pid.to(tl.int64) * K + d, o.to(out.dtype.element_ty), mask=here)
"""


def can_attend_one(q: Tensor, keys: Tensor) -> bool:
    """Whether the kernel serves: one word a row, on a GPU with a compiler, and nothing that asks for a gradient.

    >>> can_attend_one(torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 8, 4))
    False
    """
    return (
        q.is_cuda
        and q.shape[2] == 1
        and q.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and keys.is_contiguous()
        and not torch.is_grad_enabled()
        and find_spec("triton") is not None
    )


@torch.library.custom_op("leadline::attend_one", mutates_args=("keys", "values"))
def attend_one(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, at: Tensor, scale: float) -> Tensor:
    """Eqs. 1 and 2.

    >>> keys, values, k = torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2), torch.ones(1, 1, 1, 2)
    >>> attend_one(k, k, k, keys, values, torch.tensor([[1]]), 0.0).tolist(), keys[0, 0, :, 0].tolist()
    ([[[[0.5, 0.5]]]], [0.0, 1.0, 0.0, 0.0])
    """
    index = at[:, None, :, None].expand_as(k)
    keys.scatter_(2, index, k.to(keys.dtype))
    values.scatter_(2, index, v.to(values.dtype))
    seen = torch.arange(keys.shape[2], device=q.device) <= at[:, None, :, None]
    grouped = keys.shape[1] != q.shape[1]
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen, scale=scale, enable_gqa=grouped)


@attend_one.register_kernel("cuda")
def _(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, at: Tensor, scale: float) -> Tensor:
    (B, H, _, K), G = q.shape, keys.shape[1]
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    strides = (stride for t in (q, k, v, keys) for stride in t.stride()[:2])
    block: Any = max(16, 1 << (K - 1).bit_length())
    kernels(_KERNEL).attend_one[(B * H,)](
        q, k, v, keys, values, at, out, H, G, K, *strides, scale, KEYS=_KEYS, BLOCK=block, num_warps=4
    )
    return out


@attend_one.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, at: Tensor, scale: float) -> Tensor:
    return torch.empty(q.shape, dtype=q.dtype, device=q.device)
