"""One more word of many rows: a kernel for each matrix product, and one for what stands between two of them.

    join      h <- h + branch,   y = N(h)                          (1)
    look      branch = W_o heads(W y + b) + b_o                    (2)   by `attend_one`
    think     branch = W₂ a(W₁ y + b₁) + b₂                        (3)
    score     E N(h), and the largest of each block of words       (4)   `leadline.layers.next_word`

Products are those of `few_rows`, or torch's. Each kernel starts while the one before it still runs: what is ready, as
weights and keys of earlier words, it asks for meanwhile.

Deleting this file loses speed only: `Cached` then takes the model's own step.

Shapes     h (B, D) float32;  y, branch (B, D)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers import few_rows
from leadline.layers.attend_one import attend_one
from leadline.layers.attention import SelfAttention, joined
from leadline.layers.cache import Cache
from leadline.layers.feed_forward import FeedForward
from leadline.layers.gelu_tanh import TanhGELU
from leadline.layers.kernels import early, kernels, power
from leadline.layers.next_word import NextWord, Parts, Places
from leadline.layers.positions import LearnedPositions
from leadline.layers.unembedding import rounded

_KERNEL = """
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def join(h, parts, bias, gain, shift, y, B, D, eps, S: tl.constexpr, BIASED: tl.constexpr, RMS: tl.constexpr,
         BLOCK: tl.constexpr, EARLY: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BLOCK)
    here = d < D
    g = tl.load(gain + d, mask=here, other=0.0).to(tl.float32)
    if not RMS:
        offset = tl.load(shift + d, mask=here, other=0.0).to(tl.float32)
    if BIASED:
        more = tl.load(bias + d, mask=here, other=0.0).to(tl.float32)
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()
    x = tl.load(h + b * D + d, mask=here, other=0.0)
    for s in tl.static_range(S):
        x += tl.load(parts + (s * B + b) * D + d, mask=here, other=0.0).to(tl.float32)
    if BIASED:
        x += more
    if S:
        tl.store(h + b * D + d, x, mask=here)
    if not RMS:
        x = tl.where(here, x - tl.sum(x) / D, 0.0)
    x = x * tl.rsqrt(tl.sum(x * x) / D + eps) * g
    if not RMS:
        x += offset
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
        """Scores after the next words, or after the likeliest ones if it is to choose them."""
        h, branch = self.next.enter(choose), None
        for (look, think), room in zip(self.parts.layers, self.cache.rooms, strict=True):
            attention: Any = look.branch
            y = _join(h, branch, look.norm, self.parts.embed.dtype)  # eq. 1
            q, k, v = attention.heads_of(few_rows.linear(y, attention.query_key_value)[:, None], self.next.places.at)
            scale = attention.dim_head**-0.5 if attention.scale is None else attention.scale
            heads = attend_one(q, k, v, room.keys, room.values, self.next.places.at, scale)
            branch = few_rows.linear_in_parts(joined(heads)[:, 0], attention.out)  # eq. 2
            branch = _network(think.branch, _join(h, branch, think.norm, y.dtype))  # eq. 3
        y = _join(h, branch, self.parts.leave, self.parts.embed.dtype)
        self.next.largest(F.linear(y, self.unembed))  # eq. 4


def _network(network: nn.Module, y: Tensor) -> few_rows.Parts:
    """Eq. 3; the activation of GPT-2 is part of the product that feeds it."""
    if not isinstance(network, FeedForward) or network.gated:
        return few_rows.Parts(network(y)[None], None)
    gelu = isinstance(network.activation, TanhGELU)
    y = few_rows.linear(y, network.widen, gelu)
    return few_rows.linear_in_parts(y if gelu else network.activation(y), network.narrow)


def _join(h: Tensor, branch: few_rows.Parts | None, norm: Any, dtype: torch.dtype) -> Tensor:
    """Eq. 1."""
    (B, D), y = h.shape, torch.empty(h.shape, dtype=dtype, device=h.device)
    gain, shift, rms, eps = norm_of(norm)
    parts, bias = branch or (h[:0], None)
    kernels(_KERNEL).join[(B,)](
        h, parts, gain if bias is None else bias, gain, shift, y, B, D, eps, S=len(parts), BIASED=bias is not None,
        RMS=rms, BLOCK=power(D), num_warps=4, **early(h.device),
    )  # fmt: skip
    return y


def norm_of(norm: Any) -> tuple[Tensor, Tensor, bool, float]:
    """Gain and shift, whether there is no mean to be taken, and what is added to the variance."""
    if isinstance(norm, nn.RMSNorm):
        eps = norm.eps if norm.eps is not None else float(torch.finfo(norm.weight.dtype).eps)
        return norm.weight, norm.weight, True, eps
    return norm.weight, norm.bias, False, norm.eps
