"""One more word of one row, four kernels a layer: where a GPU waits for launches and weights, not for arithmetic.

    read     q, k, v = W N(h) + b                                                                   (1)
    look     A_h = W_o head_h,                  of each head, over the places up to the word's own   (2)
    think    M_p = W₂ a(W₁ N(h + Σ A) + b₁),    of each program's hidden units                       (3)
    join     h <- h + Σ_h A_h + b_o + Σ_p M_p + b₂                                                   (4)
    score    E N(h), and the largest of each block of words     (`leadline.layers.next_word`)        (5)

    W N(x) + b = (W' x - μ W' 1) / σ + W s + b,        W' = W diag(g),  g and s the norm's own       (6)

A row is too little for a matrix unit: each weight is read once, multiplied and forgotten, and what a step costs is the
time of reading all weights and of handing on from kernel to kernel. A program of (2) has a head and some columns of
W_o, one of (3) some hidden units with their rows of W₁ and W₂, so that neither heads nor hidden units are ever handed
on; by (6) products begin before mean and deviation are known. Sums have one order, and a text comes out the same each
time. The stream h is kept in float32.

Deleting this file loses speed only: `Cached` then takes the way of many rows.

Notation   W -> look.branch.query_key_value;  W_o -> look.branch.out;  W₁, W₂ -> think.branch.widen, narrow;  N norms
Shapes     h (D,) float32;  A (H, D);  M (P, D), of P programs;  keys, values (G, T, K)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from leadline.layers.attend_one import ATTENDED
from leadline.layers.attention import SelfAttention
from leadline.layers.cache import Cache
from leadline.layers.feed_forward import FeedForward
from leadline.layers.gelu_tanh import TanhGELU
from leadline.layers.kernels import kernels
from leadline.layers.many_rows import fits, norm_of
from leadline.layers.next_word import WORDS, NextWord, Parts, Places, power

_CHUNK = 256  # numbers of a row of weights that a warp reads at once
_READ, _UNITS, _COLUMNS, _KEYS, _JOIN = 8, 16, 64, 256, 16  # rows, units, columns, keys, and columns of a program
_MOST_HEADS = 64
_ACTIVATIONS: dict[type[nn.Module], int] = {TanhGELU: 0, nn.GELU: 1, nn.ReLU: 2, nn.SiLU: 3}

_KERNEL = f"""{ATTENDED}

@triton.jit
def spread_of(total, squares, D, eps, RMS: tl.constexpr):
    mean = 0.0
    if not RMS:
        mean = total / D
    return mean, tl.rsqrt(squares / D - mean * mean + eps)


@triton.jit
def read(h, weight, sums, shift, out, D, N, eps,
         RMS: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    y = tl.zeros((ROWS, CHUNK), tl.float32)
    total = tl.zeros((CHUNK,), tl.float32)
    squares = tl.zeros((CHUNK,), tl.float32)
    for i in tl.static_range(CHUNKS):
        d = i * CHUNK + tl.arange(0, CHUNK)
        w = tl.load(weight + r[:, None] * D + d[None, :], mask=(r < N)[:, None] & (d < D)[None, :], other=0.0)
        x = tl.load(h + d, mask=d < D, other=0.0)
        y += w.to(tl.float32) * x[None, :]
        total += x
        squares += x * x
    s = tl.load(sums + r, mask=r < N, other=0.0)
    c = tl.load(shift + r, mask=r < N, other=0.0)
    mean, scale = spread_of(tl.sum(total), tl.sum(squares), D, eps, RMS)
    tl.store(out + r, (tl.sum(y, 1) - mean * s) * scale + c, mask=r < N)


@triton.jit
def look(qkv, keys, values, at, weight, parts, D, H, G, K, group, scale,
         COLUMNS: tl.constexpr, KEYS: tl.constexpr, BLOCK: tl.constexpr):
    slices = tl.cdiv(D, COLUMNS)
    part = tl.program_id(0) % slices
    h = tl.program_id(0) // slices
    g = h // (H // G)
    r = part * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, BLOCK)
    here = k < K
    place = tl.load(at)
    keys += g.to(tl.int64) * group
    values += g.to(tl.int64) * group
    w = tl.load(weight + (h * K + k)[:, None] * D + r[None, :], mask=here[:, None] & (r < D)[None, :], other=0.0)
    q = tl.load(qkv + h * K + k, mask=here, other=0.0) * scale
    own_k = tl.load(qkv + (H + g) * K + k, mask=here, other=0.0).to(keys.dtype.element_ty)
    own_v = tl.load(qkv + (H + G + g) * K + k, mask=here, other=0.0).to(values.dtype.element_ty)
    if (part == 0) & (h % (H // G) == 0):
        tl.store(keys + place * K + k, own_k, mask=here)
        tl.store(values + place * K + k, own_v, mask=here)
    o = attended(q, own_k, own_v, keys, values, place, k, here, K, KEYS)
    tl.store(parts + h * D + r, tl.sum(o[:, None] * w.to(tl.float32), 0), mask=r < D)


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
def think(h, looked, bias, widen, sums, shift, narrow, parts, D, N, eps, H: tl.constexpr,
          ACTIVATION: tl.constexpr, RMS: tl.constexpr, UNITS: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
          CHUNKS: tl.constexpr):
    pid = tl.program_id(0)
    u = pid * UNITS + tl.arange(0, UNITS)
    known = u < N
    every = tl.arange(0, BLOCK)  # whole rows, asked for before anything is waited for: units are then added in a lane
    back = tl.load(narrow + u[:, None] * D + every[None, :], mask=known[:, None] & (every < D)[None, :], other=0.0)
    z = tl.zeros((UNITS, CHUNK), tl.float32)
    total = tl.zeros((CHUNK,), tl.float32)
    squares = tl.zeros((CHUNK,), tl.float32)
    for i in tl.static_range(CHUNKS):
        d = i * CHUNK + tl.arange(0, CHUNK)
        here = d < D
        w = tl.load(widen + u[:, None] * D + d[None, :], mask=known[:, None] & here[None, :], other=0.0)
        x = tl.load(h + d, mask=here, other=0.0) + tl.load(bias + d, mask=here, other=0.0)
        for j in tl.static_range(H):
            x += tl.load(looked + j * D + d, mask=here, other=0.0)
        z += w.to(tl.float32) * x[None, :]
        total += x
        squares += x * x
    s = tl.load(sums + u, mask=known, other=0.0)
    c = tl.load(shift + u, mask=known, other=0.0)
    mean, scale = spread_of(tl.sum(total), tl.sum(squares), D, eps, RMS)
    y = active((tl.sum(z, 1) - mean * s) * scale + c, ACTIVATION)
    tl.store(parts + pid * D + every, tl.sum(y[:, None] * back.to(tl.float32), 0), mask=every < D)


@triton.jit
def join(h, looked, bias, thought, last, D, H, P,
         HEADS: tl.constexpr, PARTS: tl.constexpr, COLUMNS: tl.constexpr):
    d = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    here = d < D
    x = tl.load(h + d, mask=here, other=0.0)
    x += tl.load(bias + d, mask=here, other=0.0) + tl.load(last + d, mask=here, other=0.0)
    j = tl.arange(0, HEADS)
    x += tl.sum(tl.load(looked + j[:, None] * D + d[None, :], mask=(j < H)[:, None] & here[None, :], other=0.0), 0)
    p = tl.arange(0, PARTS)
    x += tl.sum(tl.load(thought + p[:, None] * D + d[None, :], mask=(p < P)[:, None] & here[None, :], other=0.0), 0)
    tl.store(h + d, x, mask=here)


@triton.jit
def score(h, weight, sums, shift, allowed, scores, best, where, mass, at, slot, number, most_at, D, V, eps,
          RMS: tl.constexpr, WORDS: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(slot, tl.load(slot) + 1)
        tl.store(number, tl.load(number) + 1)
        tl.store(at, tl.minimum(tl.load(at) + 1, most_at))
    n = tl.arange(0, WORDS)
    v = pid * WORDS + n
    known = v < V
    weight += pid.to(tl.int64) * WORDS * D
    y = tl.zeros((WORDS, CHUNK), tl.float32)
    total = tl.zeros((CHUNK,), tl.float32)
    squares = tl.zeros((CHUNK,), tl.float32)
    for i in tl.static_range(CHUNKS):
        d = i * CHUNK + tl.arange(0, CHUNK)
        w = tl.load(weight + n[:, None] * D + d[None, :], mask=known[:, None] & (d < D)[None, :], other=0.0)
        x = tl.load(h + d, mask=d < D, other=0.0)
        y += w.to(tl.float32) * x[None, :]
        total += x
        squares += x * x
    s = tl.load(sums + v, mask=known, other=0.0)
    c = tl.load(shift + v, mask=known, other=0.0)
    may = tl.load(allowed + v, mask=known, other=0)
    mean, scale = spread_of(tl.sum(total), tl.sum(squares), D, eps, RMS)
    found = tl.where(known, (tl.sum(y, 1) - mean * s) * scale + c, float("-inf"))
    tl.store(scores + v, found, mask=known)
    top = tl.max(found)
    tl.store(mass + pid, top + tl.log(tl.sum(tl.exp(found - top))))
    found = tl.where(may != 0, found, float("-inf"))
    own = tl.max(found)
    tl.store(best + pid, own)
    tl.store(where + pid, tl.min(tl.where(found == own, v, 2147483647)))
"""


def fits_one(parts: Parts) -> bool:
    """Whether these kernels know all of a chain.

    >>> from leadline.models import GPT
    >>> fits_one(GPT.tiny().parts()), fits_one(GPT(9, 8, dim=8, num_heads=2, positions="rotary").parts())
    (True, False)
    """
    return fits(parts) and all(
        isinstance(look.branch, SelfAttention)
        and look.branch.turn is None
        and look.branch.heads <= _MOST_HEADS
        and isinstance(think.branch, FeedForward)
        and not think.branch.gated
        and type(think.branch.activation) in _ACTIVATIONS
        for look, think in parts.layers
    )


class _Folded(NamedTuple):
    """W', W' 1 and W s + b of eq. 6, whether a norm takes no mean, and what it adds to a variance."""

    weight: Tensor
    sums: Tensor
    shift: Tensor
    rms: bool
    eps: float


class _Weights(NamedTuple):
    """Of one layer, as the kernels read them; W_o and W₂ the other way round."""

    read: _Folded
    out: Tensor
    out_bias: Tensor
    widen: _Folded
    narrow: Tensor
    narrow_bias: Tensor


class OneRow:
    """Args:
    parts: as they are now; their weights are copied.
    cache: whose rooms hold what was read so far.
    places: of the decoder.
    """

    def __init__(self, parts: Parts, cache: Cache, places: Places):
        self.parts, self.cache, self.next = parts, cache, NextWord(parts, places)
        self.weights = [_weights(look, think) for look, think in parts.layers]
        self.score = _folded(parts.unembed, None, parts.leave)
        attention, network = (part.branch for part in parts.layers[0])
        new = lambda *size: torch.zeros(*size, device=places.at.device)  # noqa: E731
        self.qkv, D = new(len(self.weights[0].read.weight)), parts.embed.shape[1]
        self.programs = -(-len(network.widen.weight) // _UNITS)  # type: ignore[union-attr,arg-type]
        self.looked, self.thought = new(attention.heads, D), new(self.programs, D)

    def step(self, choose: bool) -> None:
        """Scores behind the next word, or behind the likeliest one if it is to choose it."""
        all_, after, places = kernels(_KERNEL), self.next, self.next.places
        h, D = after.enter(choose)[0], self.looked.shape[1]
        wide = {"CHUNK": _CHUNK, "CHUNKS": -(-D // _CHUNK)}
        for number in range(len(self.weights)):
            self._layer(number, h, all_, wide)
        weight, sums, shift, rms, eps = self.score
        all_.score[(after.P,)](
            h, weight, sums, shift, after.allowed, after.scores, after.best, after.where, after.mass, places.at,
            places.slot, places.number, places.length - 1, D, len(weight), eps,
            RMS=rms, WORDS=WORDS, num_warps=8, **wide,
        )  # fmt: skip

    def _layer(self, number: int, h: Tensor, all_: Any, wide: Any) -> None:
        """Eqs. 1 to 4."""
        own, room, (H, D) = self.weights[number], self.cache.rooms[number], self.looked.shape
        attention: Any = self.parts.layers[number][0].branch
        network: Any = self.parts.layers[number][1].branch
        weight, sums, shift, rms, eps = own.read
        all_.read[(-(-len(weight) // _READ),)](
            h, weight, sums, shift, self.qkv, D, len(weight), eps, RMS=rms, ROWS=_READ, num_warps=4, **wide
        )
        scale = attention.dim_head**-0.5 if attention.scale is None else attention.scale
        all_.look[(H * -(-D // _COLUMNS),)](
            self.qkv, room.keys, room.values, self.next.places.at, own.out, self.looked, D, H, attention.groups,
            attention.dim_head, room.keys.stride(1), scale,
            COLUMNS=_COLUMNS, KEYS=_KEYS, BLOCK=power(attention.dim_head), num_warps=4,
        )  # fmt: skip
        weight, sums, shift, rms, eps = own.widen
        all_.think[(self.programs,)](
            h, self.looked, own.out_bias, weight, sums, shift, own.narrow, self.thought, D, len(weight), eps, H=H,
            ACTIVATION=_ACTIVATIONS[type(network.activation)], RMS=rms, UNITS=_UNITS, BLOCK=power(D),
            num_warps=4, **wide,
        )  # fmt: skip
        all_.join[(-(-D // _JOIN),)](
            h, self.looked, own.out_bias, self.thought, own.narrow_bias, D, H, self.programs,
            HEADS=power(H), PARTS=power(self.programs), COLUMNS=_JOIN, num_warps=4,
        )  # fmt: skip


def _weights(look: Any, think: Any) -> _Weights:
    attention, network = look.branch, think.branch
    read, out, widen, narrow = attention.query_key_value, attention.out, network.widen, network.narrow
    return _Weights(
        _folded(read.weight, read.bias, look.norm),
        out.weight.detach().T.contiguous(),
        _offset(out.weight, out.bias),
        _folded(widen.weight, widen.bias, think.norm),
        narrow.weight.detach().T.contiguous(),
        _offset(narrow.weight, narrow.bias),
    )


def _folded(weight: Tensor, bias: Tensor | None, norm: nn.Module) -> _Folded:
    """Eq. 6."""
    gain, shift, rms, eps = norm_of(norm)
    whole = weight.detach().float()
    scaled = (whole * gain.detach().float()).to(weight.dtype).contiguous()
    moved = _offset(weight, bias) if rms else _offset(weight, bias) + whole @ shift.detach().float()
    return _Folded(scaled, scaled.float().sum(1), moved, rms, eps)


def _offset(weight: Tensor, bias: Tensor | None) -> Tensor:
    """In float32; zeros where there is none."""
    return torch.zeros(len(weight), device=weight.device) if bias is None else bias.detach().float().contiguous()
