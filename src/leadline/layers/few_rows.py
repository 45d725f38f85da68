"""One more word of a few rows, three kernels a layer: where a GPU waits for launches and weights, not for arithmetic.

    read     q, k, v = W N(h) + b,            h = h + A + M of the layer before                     (1)
    look     A = W_o head,                    head_h over the places up to the word's own           (2)
    think    M = W₂ a(W₁ N(h + A) + b₁) + b₂                                                        (3)
    score    E N(h);  of each program's words the largest that is allowed, and log Σ e^score        (4)
    enter    h = e_x + π_at,  x the word with the largest score of all programs, or one that is given (5)

A row is too little for a matrix unit: each weight is read once, multiplied and forgotten, and what a step costs is the
time of reading all weights and of handing on from kernel to kernel. A program of (2) has a head and some columns of
W_o, one of (3) some hidden units with their rows of W₁ and W₂, so that neither heads nor hidden units are ever handed
on. What programs add to A and M is added in whole numbers, of 2⁻³² each: sums then do not depend on their order, and a
text comes out the same each time. A kernel begins while the one before it ends, and has its weights before it needs
anything of it. The stream h is kept in float32.

Deleting this file loses speed only: `Cached` then takes the model's own step.

Notation   W -> look.branch.query_key_value;  W_o -> look.branch.out;  W₁, W₂ -> think.branch.widen, narrow;  N norms
Shapes     stream (L, B, D) float32;  A, M (L, B, D) int64;  keys, values (B, G, T, K);  scores (B, V) float32
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leadline.layers.attention import SelfAttention
from leadline.layers.cache import Cache
from leadline.layers.feed_forward import FeedForward
from leadline.layers.gelu_tanh import TanhGELU
from leadline.layers.kernels import kernels
from leadline.layers.positions import LearnedPositions
from leadline.layers.sublayer import Sublayer

MOST_ROWS = 4  #: beyond them a matrix unit is faster
_MOST_DIM = 2048  # a row of weights is held by one program
_READ, _COLUMNS, _UNITS, _SCORE, _KEYS = 16, 128, 16, 16, 64  # rows and columns of weights, and keys, of a program
_SCORERS = 528  # programs that share the vocabulary
_ACTIVATIONS: dict[type[nn.Module], int] = {TanhGELU: 0, nn.GELU: 1, nn.ReLU: 2, nn.SiLU: 3}

_KERNEL = """
import triton
import triton.language as tl
from triton.language.extra import cuda


@triton.jit
def begun(EARLY: tl.constexpr):
    if EARLY:
        cuda.gdc_launch_dependents()


@triton.jit
def ready(EARLY: tl.constexpr):
    if EARLY:
        cuda.gdc_wait()


@triton.jit
def fixed(x):
    return (x * 4294967296.0).to(tl.int64)


@triton.jit
def added(p, mask):
    return (tl.load(p, mask=mask, other=0).to(tl.float64) * 2.3283064365386963e-10).to(tl.float32)


@triton.jit
def normed(x, gain, shift, here, D, eps, RMS: tl.constexpr):
    if RMS:
        return x * tl.rsqrt(tl.sum(x * x) / D + eps) * gain
    x = tl.where(here, x - tl.sum(x) / D, 0.0)
    return x * tl.rsqrt(tl.sum(x * x) / D + eps) * gain + shift


@triton.jit
def weight_of(p, here):
    return tl.load(p, mask=here, other=0.0)


@triton.jit
def enter(best, where, mass, tokens, embed, place, at, stream, words, log_p, slot, num_words, D,
          CHOOSE: tl.constexpr, PLACED: tl.constexpr, P: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
          EARLY: tl.constexpr):
    b = tl.program_id(0)
    begun(EARLY)
    ready(EARLY)
    if CHOOSE:
        p = tl.arange(0, BLOCKS)
        here = p < P
        largest = tl.load(best + b * P + p, mask=here, other=float("-inf"))
        most = tl.max(largest)
        stands = tl.load(where + b * P + p, mask=here, other=2147483647)
        token = tl.min(tl.where(largest == most, stands, 2147483647))
        logs = tl.load(mass + b * P + p, mask=here, other=float("-inf"))
        top = tl.max(logs)
        all_ = top + tl.log(tl.sum(tl.exp(logs - top)))
        column = tl.load(slot)
        tl.store(words + b * num_words + column, token.to(tl.int64))
        tl.store(log_p + b * num_words + column, most - all_)
        tl.store(tokens + b, token.to(tl.int64))
    else:
        token = tl.load(tokens + b).to(tl.int32)
    d = tl.arange(0, BLOCK)
    here = d < D
    x = tl.load(embed + token.to(tl.int64) * D + d, mask=here, other=0.0).to(tl.float32)
    if PLACED:
        x += tl.load(place + tl.load(at + b) * D + d, mask=here, other=0.0).to(tl.float32)
    tl.store(stream + b * D + d, x, mask=here)


@triton.jit
def read(stream, a, m, after, a_next, m_next, gain, shift, weight, bias, out, D, N, eps,
         B: tl.constexpr, FIRST: tl.constexpr, RMS: tl.constexpr, BIAS: tl.constexpr, ROWS: tl.constexpr,
         BLOCK: tl.constexpr, EARLY: tl.constexpr):
    pid = tl.program_id(0)
    r = pid * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, BLOCK)
    here = d < D
    w = weight_of(weight + r[:, None] * D + d[None, :], (r < N)[:, None] & here[None, :])
    g = weight_of(gain + d, here).to(tl.float32)
    s = tl.zeros((BLOCK,), tl.float32)
    if not RMS:
        s = weight_of(shift + d, here).to(tl.float32)
    c = tl.zeros((ROWS,), tl.float32)
    if BIAS:
        c = weight_of(bias + r, r < N).to(tl.float32)
    begun(EARLY)
    ready(EARLY)
    for b in tl.static_range(B):
        x = tl.load(stream + b * D + d, mask=here, other=0.0)
        if not FIRST:
            x += added(a + b * D + d, here) + added(m + b * D + d, here)
        if pid == 0:
            tl.store(after + b * D + d, x, mask=here)
        if pid == 1:
            tl.store(a_next + b * D + d, tl.zeros((BLOCK,), tl.int64), mask=here)
        if pid == 2:
            tl.store(m_next + b * D + d, tl.zeros((BLOCK,), tl.int64), mask=here)
        x = normed(x, g, s, here, D, eps, RMS)
        tl.store(out + b * N + r, tl.sum(w.to(tl.float32) * x[None, :], 1) + c, mask=r < N)


@triton.jit
def look(qkv, keys, values, at, weight, bias, a, D, H, G, K, N, row, group, scale,
         BIAS: tl.constexpr, COLUMNS: tl.constexpr, KEYS: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    pid = tl.program_id(0)
    slices = tl.cdiv(D, COLUMNS)
    part = pid % slices
    h = pid // slices % H
    b = pid // slices // H
    g = h // (H // G)
    r = part * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, BLOCK)
    here = k < K
    w = weight_of(weight + (h * K + k)[:, None] * D + r[None, :], here[:, None] & (r < D)[None, :])
    c = tl.zeros((COLUMNS,), tl.float32)
    if BIAS:
        c = weight_of(bias + r, (r < D) & (h == 0)).to(tl.float32)
    begun(EARLY)
    place = tl.load(at + b)
    keys += b.to(tl.int64) * row + g.to(tl.int64) * group
    values += b.to(tl.int64) * row + g.to(tl.int64) * group
    ready(EARLY)
    q = tl.load(qkv + b * N + h * K + k, mask=here, other=0.0) * scale
    own_k = tl.load(qkv + b * N + (H + g) * K + k, mask=here, other=0.0).to(keys.dtype.element_ty)
    own_v = tl.load(qkv + b * N + (H + G + g) * K + k, mask=here, other=0.0).to(values.dtype.element_ty)
    if (part == 0) & (h % (H // G) == 0):
        tl.store(keys + place * K + k, own_k, mask=here)
        tl.store(values + place * K + k, own_v, mask=here)
    most = tl.sum(q * own_k.to(tl.float32))
    total = tl.full((), 1.0, tl.float32)
    o = own_v.to(tl.float32)
    for first in range(0, place, KEYS):
        j = first + tl.arange(0, KEYS)
        there = (j < place)[:, None] & here[None, :]
        kk = tl.load(keys + j[:, None] * K + k[None, :], mask=there, other=0.0)
        vv = tl.load(values + j[:, None] * K + k[None, :], mask=there, other=0.0)
        s = tl.where(j < place, tl.sum(kk.to(tl.float32) * q[None, :], 1), float("-inf"))
        larger = tl.maximum(most, tl.max(s))
        less = tl.exp(most - larger)
        p = tl.exp(s - larger)
        total = total * less + tl.sum(p)
        o = o * less + tl.sum(p[:, None] * vv.to(tl.float32), 0)
        most = larger
    y = tl.sum((o / total)[:, None] * w.to(tl.float32), 0) + c
    tl.atomic_add(a + b * D + r, fixed(y), mask=r < D, sem="relaxed")


@triton.jit
def active(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == 0:
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    if ACTIVATION == 1:
        return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    if ACTIVATION == 2:
        return tl.maximum(x, 0.0)
    return x * tl.sigmoid(x)


@triton.jit
def think(stream, a, m, gain, shift, widen, bias, narrow, last, D, N, eps,
          B: tl.constexpr, ACTIVATION: tl.constexpr, RMS: tl.constexpr, BIAS: tl.constexpr, UNITS: tl.constexpr,
          BLOCK: tl.constexpr, EARLY: tl.constexpr):
    pid = tl.program_id(0)
    u = pid * UNITS + tl.arange(0, UNITS)
    d = tl.arange(0, BLOCK)
    here = d < D
    both = (u < N)[:, None] & here[None, :]
    w1 = weight_of(widen + u[:, None] * D + d[None, :], both)
    w2 = weight_of(narrow + u[:, None] * D + d[None, :], both)
    g = weight_of(gain + d, here).to(tl.float32)
    s = tl.zeros((BLOCK,), tl.float32)
    if not RMS:
        s = weight_of(shift + d, here).to(tl.float32)
    c1 = tl.zeros((UNITS,), tl.float32)
    c2 = tl.zeros((BLOCK,), tl.float32)
    if BIAS:
        c1 = weight_of(bias + u, u < N).to(tl.float32)
        c2 = weight_of(last + d, here & (pid == 0)).to(tl.float32)
    begun(EARLY)
    ready(EARLY)
    for b in tl.static_range(B):
        x = tl.load(stream + b * D + d, mask=here, other=0.0) + added(a + b * D + d, here)
        x = normed(x, g, s, here, D, eps, RMS)
        z = active(tl.sum(w1.to(tl.float32) * x[None, :], 1) + c1, ACTIVATION)
        y = tl.sum(z[:, None] * w2.to(tl.float32), 0) + c2
        tl.atomic_add(m + b * D + d, fixed(y), mask=here, sem="relaxed")


@triton.jit
def score(stream, a, m, gain, shift, weight, allowed, scores, best, where, mass, at, slot, number, most_at, D, V, eps,
          B: tl.constexpr, RMS: tl.constexpr, P: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
          EARLY: tl.constexpr):
    pid = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    here = d < D
    g = weight_of(gain + d, here).to(tl.float32)
    s = tl.zeros((BLOCK,), tl.float32)
    if not RMS:
        s = weight_of(shift + d, here).to(tl.float32)
    begun(EARLY)
    ready(EARLY)
    if pid == 0:
        tl.store(slot, tl.load(slot) + 1)
        tl.store(number, tl.load(number) + 1)
    for b in tl.static_range(B):
        if pid == 0:
            tl.store(at + b, tl.minimum(tl.load(at + b) + 1, most_at))
        x = tl.load(stream + b * D + d, mask=here, other=0.0)
        x += added(a + b * D + d, here) + added(m + b * D + d, here)
        x = normed(x, g, s, here, D, eps, RMS)
        most = tl.full((ROWS,), float("-inf"), tl.float32)
        sums = tl.zeros((ROWS,), tl.float32)
        largest = tl.full((ROWS,), float("-inf"), tl.float32)
        stands = tl.full((ROWS,), 2147483647, tl.int32)
        for first in range(pid * ROWS, V, P * ROWS):
            r = first + tl.arange(0, ROWS)
            known = r < V
            w = tl.load(weight + r[:, None].to(tl.int64) * D + d[None, :], mask=known[:, None] & here[None, :],
                        other=0.0)
            may = tl.load(allowed + r, mask=known, other=0)
            y = tl.sum(w.to(tl.float32) * x[None, :], 1)
            tl.store(scores + b * V + r, y, mask=known)
            larger = tl.where(known, tl.maximum(most, y), most)
            sums = tl.where(known, sums * tl.exp(most - larger) + tl.exp(y - larger), sums)
            most = larger
            better = (may != 0) & (y > largest)
            stands = tl.where(better, r, stands)
            largest = tl.where(better, y, largest)
        top = tl.max(most)
        tl.store(mass + b * P + pid, top + tl.log(tl.sum(tl.where(sums > 0, sums * tl.exp(most - top), 0.0))))
        own = tl.max(largest)
        tl.store(best + b * P + pid, own)
        tl.store(where + b * P + pid, tl.min(tl.where(largest == own, stands, 2147483647)))
"""


@dataclass(frozen=True, eq=False)
class Parts:
    """A decoder as a chain of pre-norm layers: what `FewRows` is made of.

    Args:
        embed: (V, D).
        place: what is added for a place, if anything.
        layers: attention and feed-forward network of each.
        leave: the norm behind them.
        unembed: (V, D).
    """

    embed: Tensor
    place: nn.Module | None
    layers: list[tuple[Sublayer, Sublayer]]
    leave: nn.Module
    unembed: Tensor

    def fits(self) -> bool:
        """Whether the kernels know all of it."""
        look, think = self.layers[0]
        attention, network = look.branch, think.branch
        return (
            isinstance(attention, SelfAttention)
            and isinstance(network, FeedForward)
            and self.embed.shape[1] <= _MOST_DIM
            and self.embed.dtype in (torch.float32, torch.bfloat16, torch.float16)
            and isinstance(self.place, LearnedPositions | None)
            and attention.turn is None
            and not network.gated
            and type(network.activation) in _ACTIVATIONS
            and all(part.order == "pre" and part.weight is None for pair in self.layers for part in pair)
            and all(isinstance(part.norm, nn.LayerNorm | nn.RMSNorm) for pair in self.layers for part in pair)
        )


class FewRows:
    """Args:
    parts: as they are now; W_o and W₂ are copied the other way round.
    cache: whose rooms hold what was read so far.
    tokens, at: (B, 1), the words that come next, and where; `at` moves on with each step, up to `length` - 1.
    scores: (B, V), float32.
    words, log_p, slot, number: where words that are chosen are written, (B, W), in which column, and how many
        there were.
    early: begin a kernel while the one before it ends.
    """

    def __init__(
        self,
        parts: Parts,
        cache: Cache,
        length: int,
        tokens: Tensor,
        at: Tensor,
        words: Tensor,
        log_p: Tensor,
        slot: Tensor,
        number: Tensor,
        early: bool = True,
    ):
        self.parts, self.cache, self.length, self.early = parts, cache, length, early
        self.tokens, self.at, self.words, self.log_p = tokens, at, words, log_p
        self.slot, self.number = slot, number
        B, (V, D), L = len(at), parts.embed.shape, len(parts.layers)
        new = lambda *size, dtype=torch.float32: torch.zeros(*size, dtype=dtype, device=at.device)  # noqa: E731
        self.stream, self.looked, self.thought = new(L, B, D), *(new(L, B, D, dtype=torch.long) for _ in range(2))
        self.first, self.best, self.mass = new(B, D), new(B, _SCORERS), new(B, _SCORERS)
        self.allowed = new(V, dtype=torch.uint8) + 1
        self.where = new(B, _SCORERS, dtype=torch.int32)
        self.qkv = new(B, parts.layers[0][0].branch.query_key_value.weight.shape[0])  # type: ignore[union-attr]
        self.scores = new(B, V)
        self.out = [look.branch.out.weight.T.contiguous() for look, _ in parts.layers]  # type: ignore[union-attr]
        self.narrow = [think.branch.narrow.weight.T.contiguous() for _, think in parts.layers]  # type: ignore[union-attr]

    @property
    def largest(self) -> list[Tensor]:
        """What (4) leaves for (5)."""
        return [self.best, self.where, self.mass]

    def given(self, scores: Tensor, allowed: Tensor | None = None) -> None:
        """Scores that came from elsewhere, as those behind prompts, and the words (V,) that may be chosen hence."""
        self.allowed.fill_(1) if allowed is None else self.allowed.copy_(allowed)
        self.scores.copy_(scores)
        self.best.fill_(-torch.inf)
        self.mass.fill_(-torch.inf)
        self.best[:, 0], at = self.scores.masked_fill(self.allowed == 0, -torch.inf).max(-1)
        self.where[:, 0], self.mass[:, 0] = at.int(), self.scores.logsumexp(-1)

    def step(self, choose: bool) -> None:
        """Eqs. 1 to 5: scores behind `tokens`, or behind the likeliest words if it is to choose them."""
        parts, all_ = self.parts, kernels(_KERNEL)
        B, D, early = len(self.at), self.first.shape[1], {"EARLY": self.early, "launch_pdl": self.early}
        wide = {"BLOCK": _power(D), **early}
        place: Any = None if parts.place is None else parts.place.weight
        all_.enter[(B,)](
            self.best, self.where, self.mass, self.tokens, parts.embed, parts.embed if place is None else place,
            self.at, self.first, self.words, self.log_p, self.slot, self.words.shape[1], D,
            CHOOSE=choose, PLACED=place is not None, P=_SCORERS, BLOCKS=_power(_SCORERS), num_warps=4, **wide,
        )  # fmt: skip
        for number, pair in enumerate(parts.layers):
            self._layer(number, *pair, all_, wide, early)
        (gain, shift), rms, eps = _norm(parts.leave)
        all_.score[(_SCORERS,)](
            self.stream[-1], self.looked[-1], self.thought[-1], gain, shift, parts.unembed, self.allowed,
            self.scores, self.best, self.where, self.mass, self.at, self.slot, self.number,
            self.length - 1, D, self.scores.shape[1], eps, B=B, RMS=rms, P=_SCORERS, ROWS=_SCORE, num_warps=4, **wide,
        )  # fmt: skip

    def _layer(self, number: int, look: Sublayer, think: Sublayer, all_: Any, wide: Any, early: Any) -> None:
        """Eqs. 1 to 3."""
        attention: Any = look.branch
        network: Any = think.branch
        room, before = self.cache.rooms[number], max(number - 1, 0)
        stream, looked, thought = self.stream[number], self.looked[number], self.thought[number]
        B, N = self.qkv.shape
        D, H, G, K = self.first.shape[1], attention.heads, attention.groups, attention.dim_head
        (gain, shift), rms, eps = _norm(look.norm)
        weight, bias = attention.query_key_value.weight, attention.query_key_value.bias
        all_.read[(max(3, -(-N // _READ)),)](
            self.stream[before] if number else self.first, self.looked[before], self.thought[before], stream, looked,
            thought, gain, shift, weight, weight if bias is None else bias, self.qkv, D, N, eps,
            B=B, FIRST=number == 0, RMS=rms, BIAS=bias is not None, ROWS=_READ, num_warps=4, **wide,
        )  # fmt: skip
        bias, scale = attention.out.bias, K**-0.5 if attention.scale is None else attention.scale
        all_.look[(B * H * -(-D // _COLUMNS),)](
            self.qkv, room.keys, room.values, self.at, self.out[number], weight if bias is None else bias, looked,
            D, H, G, K, N, *room.keys.stride()[:2], scale,
            BIAS=bias is not None, COLUMNS=_COLUMNS, KEYS=_KEYS, BLOCK=_power(K), num_warps=4, **early,
        )  # fmt: skip
        (gain, shift), rms, eps = _norm(think.norm)
        weight, bias, last = network.widen.weight, network.widen.bias, network.narrow.bias
        all_.think[(-(-len(weight) // _UNITS),)](
            stream, looked, thought, gain, shift, weight, weight if bias is None else bias, self.narrow[number],
            weight if bias is None else last, D, len(weight), eps, B=B,
            ACTIVATION=_ACTIVATIONS[type(network.activation)], RMS=rms, BIAS=bias is not None, UNITS=_UNITS,
            num_warps=4, **wide,
        )  # fmt: skip


def _norm(norm: Any) -> tuple[tuple[Tensor, Tensor], bool, float]:
    """Gain and shift, whether there is no mean to be taken, and what is added to the variance."""
    if isinstance(norm, nn.RMSNorm):
        eps = norm.eps if norm.eps is not None else float(torch.finfo(norm.weight.dtype).eps)
        return (norm.weight, norm.weight), True, eps
    return (norm.weight, norm.bias), False, norm.eps


def _power(size: int) -> int:
    """The least power of 2 that holds it, at least 16."""
    return max(16, 1 << (size - 1).bit_length())
