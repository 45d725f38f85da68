"""One more word of many rows: torch's matrix products, with everything between them in one kernel each.

    join      h <- h + branch,   y = N(h)                          (1)
    look      branch = W_o heads(W y + b) + b_o                    (2)   by `attend_one`
    think     branch = W₂ a(W₁ y + b₁) + b₂                        (3)
    score     E N(h), and the largest of each block of words       (4)   `leadline.layers.next_word`

Deleting this file loses speed only: `Cached` then takes the model's own step.

Shapes     h (B, D) float32;  y, branch (B, D)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.attend_one import attend_one
from leadline.layers.attention import SelfAttention, joined
from leadline.layers.cache import Cache
from leadline.layers.gelu_tanh import TanhGELU
from leadline.layers.kernels import kernels
from leadline.layers.next_word import NextWord, Parts, Places, power
from leadline.layers.positions import LearnedPositions
from leadline.layers.unembedding import rounded

_KERNEL = """
import triton
import triton.language as tl


@triton.jit
def join(h, branch, gain, shift, y, D, eps, ADD: tl.constexpr, RMS: tl.constexpr, BLOCK: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BLOCK)
    here = d < D
    x = tl.load(h + b * D + d, mask=here, other=0.0)
    if ADD:
        x += tl.load(branch + b * D + d, mask=here, other=0.0).to(tl.float32)
        tl.store(h + b * D + d, x, mask=here)
    if not RMS:
        x = tl.where(here, x - tl.sum(x) / D, 0.0)
    x = x * tl.rsqrt(tl.sum(x * x) / D + eps) * tl.load(gain + d, mask=here, other=0.0).to(tl.float32)
    if not RMS:
        x += tl.load(shift + d, mask=here, other=0.0).to(tl.float32)
    tl.store(y + b * D + d, x.to(y.dtype.element_ty), mask=here)
"""


def fits(parts: Parts) -> bool:
    """Whether these kernels serve a chain: layers of self-attention and any network, normalised before.

    >>> from leadline.models import GPT
    >>> fits(GPT.tiny().parts()), fits(GPT(9, 8, dim=8, num_heads=2, positions="sinusoidal").parts())
    (True, False)
    """
    norms = [parts.leave, *(part.norm for pair in parts.layers for part in pair)]
    return (
        parts.embed.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and isinstance(parts.place, LearnedPositions | None)
        and all(isinstance(look.branch, SelfAttention) for look, _ in parts.layers)
        and all(part.order == "pre" and part.weight is None for pair in parts.layers for part in pair)
        and all(isinstance(norm, nn.LayerNorm | nn.RMSNorm) for norm in norms)
    )


class ManyRows:
    """Args:
    parts: as they are now.
    cache: whose rooms hold what was read so far.
    places: of the decoder.
    """

    def __init__(self, parts: Parts, cache: Cache, places: Places):
        self.parts, self.cache, self.next = parts, cache, NextWord(parts, places, words=1024)
        self.unembed = rounded(parts.unembed)

    def step(self, choose: bool) -> None:
        """Scores behind the next words, or behind the likeliest ones if it is to choose them."""
        h, branch = self.next.enter(choose), None
        for (look, think), room in zip(self.parts.layers, self.cache.rooms, strict=True):
            attention: Any = look.branch
            y = _join(h, branch, look.norm, self.parts.embed.dtype)  # eq. 1
            q, k, v = attention.queries_keys_values(y[:, None], self.next.places.at)
            scale = attention.dim_head**-0.5 if attention.scale is None else attention.scale
            heads = attend_one(q, k, v, room.keys, room.values, self.next.places.at, scale)
            branch = attention.out(joined(heads)[:, 0])  # eq. 2
            branch = _network(think.branch, _join(h, branch, think.norm, y.dtype))  # eq. 3
        y = _join(h, branch, self.parts.leave, self.parts.embed.dtype)
        self.next.largest(F.linear(y, self.unembed))  # eq. 4


def _network(network: Any, y: Tensor) -> Tensor:
    """Eq. 3; the activation of GPT-2 is part of the product that feeds it."""
    plain = isinstance(getattr(network, "activation", None), TanhGELU) and not network.gated
    if not plain or network.widen.bias is None or not y.is_cuda:
        return network(y)
    return network.narrow(torch._addmm_activation(network.widen.bias, y, network.widen.weight.T, use_gelu=True))


def _join(h: Tensor, branch: Tensor | None, norm: Any, dtype: torch.dtype) -> Tensor:
    """Eq. 1."""
    (B, D), y = h.shape, torch.empty(h.shape, dtype=dtype, device=h.device)
    gain, shift, rms, eps = norm_of(norm)
    kernels(_KERNEL).join[(B,)](
        h, h if branch is None else branch, gain, shift, y, D, eps,
        ADD=branch is not None, RMS=rms, BLOCK=power(D), num_warps=4,
    )  # fmt: skip
    return y


def norm_of(norm: Any) -> tuple[Tensor, Tensor, bool, float]:
    """Gain and shift, whether there is no mean to be taken, and what is added to the variance."""
    if isinstance(norm, nn.RMSNorm):
        eps = norm.eps if norm.eps is not None else float(torch.finfo(norm.weight.dtype).eps)
        return norm.weight, norm.weight, True, eps
    return norm.weight, norm.bias, False, norm.eps
