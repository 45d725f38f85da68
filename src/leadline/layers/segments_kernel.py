"""Kernels of sums over edges on a GPU: a program reads the edges of one node, a few at a time, and writes once.

    gather_sum      y_i = Σ_e weight_e x_{index(e)}          the rows of x of a few edges at once in registers      (1)
    gather_max      the largest, and the edge that it came by                                                       (2)
    edge_dot        u_e = a_{target(e)} · b_{source(e)}      a program has a few edges                              (3)
    edge_shares     largest score and sum of one pass over the edges of a node, shares in a second                  (4)
    pick            x_{index(e)}, where rows are short       a thread has a number, and not a program a row         (5)

No message is written, and nothing is added by two programs to one place: the order of every sum is that of the edges,
and results are the same each time. A node of many edges would keep one program at work long after all others are done.
Such nodes are left out, read in pieces, and their pieces added by the same kernel.

Sums are in float32, whatever is read and written. A row of 256 numbers of 16 bits is one load of 16 bytes a thread of
one warp. How wide a row is, is known when a kernel is compiled, so that loads are as wide as it allows.

Shapes     x (N_s, D), D = H K;  index (E,);  start (N + 1,);  weight (E, H);  y (N, D);  u, scores, shares (E, H)
           rows (R,), cuts (P, 2), joins (R + 1,) as `leadline.layers.segment_operators.pieces` makes them
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.layers.kernels import kernels

_TILE = 2048  # numbers of x that one warp has at once
_COLUMNS = 512  # of a row, that a program reads; wider rows are several programs
_PICKED = 1024  # numbers that a program picks
LONG = 512  # edges of a node that one program reads; more are read in pieces

_KERNEL = """
import triton
import triton.language as tl


@triton.jit
def gather_sum(
    x, index, bounds, weight, rows, out,
    H: tl.constexpr, K: tl.constexpr, STEP: tl.constexpr, LONG: tl.constexpr,
    INDEXED: tl.constexpr, WEIGHTED: tl.constexpr, NAMED: tl.constexpr, SKIPS: tl.constexpr,
    BE: tl.constexpr, BH: tl.constexpr, BK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    begin = tl.load(bounds + row * STEP)
    end = tl.load(bounds + row * STEP + 1)
    h = tl.arange(0, BH)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    column = h[:, None] * K + k[None, :]
    inside = (h[:, None] < H) & (k[None, :] < K)
    writes = inside
    if SKIPS:
        short = (end - begin) <= LONG
        end = tl.where(short, end, begin)
        writes = inside & short
    acc = tl.zeros((BE, BH, BK), tl.float32)
    for first in range(begin, end, BE):
        e = first + tl.arange(0, BE)
        there = e < end
        if INDEXED:
            s = tl.load(index + e, mask=there, other=0).to(tl.int64)
        else:
            s = e.to(tl.int64)
        at = s[:, None, None] * (H * K) + column[None, :, :]
        v = tl.load(x + at, mask=there[:, None, None] & inside[None, :, :], other=0.0).to(tl.float32)
        if WEIGHTED:
            w = tl.load(weight + e[:, None] * H + h[None, :], mask=there[:, None] & (h[None, :] < H), other=0.0)
            v = v * w.to(tl.float32)[:, :, None]
        acc += v
    y = tl.sum(acc, 0)
    to = row
    if NAMED:
        to = tl.load(rows + row).to(tl.int64)
    tl.store(out + to * (H * K) + column, y.to(out.dtype.element_ty), mask=writes)


@triton.jit
def gather_max(x, index, start, out, which, D: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    begin = tl.load(start + row)
    end = tl.load(start + row + 1)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    inside = k < D
    best = tl.full((BK,), float("-inf"), tl.float32)
    by = tl.full((BK,), -1, tl.int64)
    for e in range(begin, end):
        s = tl.load(index + e).to(tl.int64)
        v = tl.load(x + s * D + k, mask=inside, other=0.0).to(tl.float32)
        better = (v > best) | (by < 0)
        best = tl.where(better, v, best)
        by = tl.where(better, e.to(tl.int64), by)
    best = tl.where(by < 0, 0.0, best)
    tl.store(out + row * D + k, best.to(out.dtype.element_ty), mask=inside)
    tl.store(which + row * D + k, by, mask=inside)


@triton.jit
def gather_max_back(g, which, target, order, start, out, D: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    begin = tl.load(start + row)
    end = tl.load(start + row + 1)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    inside = k < D
    acc = tl.zeros((BK,), tl.float32)
    for q in range(begin, end):
        e = tl.load(order + q).to(tl.int64)
        t = tl.load(target + e).to(tl.int64)
        by = tl.load(which + t * D + k, mask=inside, other=-1)
        v = tl.load(g + t * D + k, mask=inside, other=0.0).to(tl.float32)
        acc += tl.where(by == e, v, 0.0)
    tl.store(out + row * D + k, acc.to(out.dtype.element_ty), mask=inside)


@triton.jit
def edge_dot(
    a, b, target, source, out, E,
    H: tl.constexpr, K: tl.constexpr, BE: tl.constexpr, BH: tl.constexpr, BK: tl.constexpr,
):
    e = tl.program_id(0).to(tl.int64) * BE + tl.arange(0, BE)
    there = e < E
    t = tl.load(target + e, mask=there, other=0).to(tl.int64)
    s = tl.load(source + e, mask=there, other=0).to(tl.int64)
    h = tl.arange(0, BH)
    acc = tl.zeros((BE, BH), tl.float32)
    for begin in range(0, K, BK):
        k = begin + tl.arange(0, BK)
        column = h[:, None] * K + k[None, :]
        inside = there[:, None, None] & ((h[:, None] < H) & (k[None, :] < K))[None, :, :]
        v = tl.load(a + (t[:, None, None] * (H * K) + column[None, :, :]), mask=inside, other=0.0).to(tl.float32)
        u = tl.load(b + (s[:, None, None] * (H * K) + column[None, :, :]), mask=inside, other=0.0).to(tl.float32)
        acc += tl.sum(v * u, 2)
    tl.store(out + e[:, None] * H + h[None, :], acc, mask=there[:, None] & (h[None, :] < H))


@triton.jit
def edge_shares(
    scores, start, rows, out,
    H: tl.constexpr, LONG: tl.constexpr, NAMED: tl.constexpr, BE: tl.constexpr, BH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    if NAMED:
        row = tl.load(rows + row).to(tl.int64)
    begin = tl.load(start + row)
    end = tl.load(start + row + 1)
    if LONG > 0:
        end = tl.where((end - begin) <= LONG, end, begin)
    h = tl.arange(0, BH)
    most = tl.full((BH,), -3.0e38, tl.float32)
    total = tl.zeros((BH,), tl.float32)
    for first in range(begin, end, BE):
        e = first + tl.arange(0, BE)
        inside = (e < end)[:, None] & (h[None, :] < H)
        s = tl.load(scores + e[:, None] * H + h[None, :], mask=inside, other=-3.0e38).to(tl.float32)
        larger = tl.maximum(most, tl.max(s, 0))
        total = total * tl.exp(most - larger) + tl.sum(tl.where(inside, tl.exp(s - larger[None, :]), 0.0), 0)
        most = larger
    for first in range(begin, end, BE):
        e = first + tl.arange(0, BE)
        inside = (e < end)[:, None] & (h[None, :] < H)
        s = tl.load(scores + e[:, None] * H + h[None, :], mask=inside, other=0.0).to(tl.float32)
        p = tl.exp(s - most[None, :]) / total[None, :]
        tl.store(out + e[:, None] * H + h[None, :], p.to(out.dtype.element_ty), mask=inside)


@triton.jit
def pick(x, index, out, count, D: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    row = tl.load(index + at // D, mask=there, other=0).to(tl.int64)
    tl.store(out + at, tl.load(x + row * D + at % D, mask=there, other=0.0), mask=there)
"""


def gather_sum(
    x: Tensor,
    index: Tensor | None,
    start: Tensor,
    weight: Tensor | None,
    rows: Tensor | None,
    cuts: Tensor | None,
    joins: Tensor | None,
) -> Tensor:
    """Eq. 1."""
    x, D = x.contiguous(), x.shape[1]
    index, start = None if index is None else index.contiguous(), start.contiguous()
    out = x.new_empty(len(start) - 1, D)
    heads = 1 if weight is None or weight.dim() == 1 else weight.shape[1]
    weight = None if weight is None else weight.contiguous()
    _sums(x, index, start, weight, None, out, heads, skips=rows is not None)
    if rows is None or cuts is None or joins is None:
        return out
    parts = torch.empty(len(cuts), D, dtype=torch.float32, device=x.device)
    _sums(x, index, cuts, weight, None, parts, heads, step=2)
    _sums(parts, None, joins, None, rows, out, 1)
    return out


def _sums(
    x: Tensor,
    index: Tensor | None,
    bounds: Tensor,
    weight: Tensor | None,
    rows: Tensor | None,
    out: Tensor,
    heads: int,
    step: int = 1,
    skips: bool = False,
) -> None:
    """One program a row of `bounds`: where its edges begin and end, `step` apart."""
    K = x.shape[1] // heads
    BH, BK = _power(heads), min(_power(K), max(16, _COLUMNS // _power(heads)))
    BE = max(1, min(32, _TILE // (BH * BK)))
    count = len(bounds) if step == 2 else len(bounds) - 1
    if not count:
        return
    kernels(_KERNEL).gather_sum[(count, -(-K // BK))](
        x, x if index is None else index, bounds, x if weight is None else weight, x if rows is None else rows, out,
        H=heads, K=K, STEP=step, LONG=LONG, INDEXED=index is not None, WEIGHTED=weight is not None,
        NAMED=rows is not None, SKIPS=skips, BE=BE, BH=BH, BK=BK, num_warps=1 if BH * BK <= 512 else 4,
    )  # fmt: skip


def gather_max(x: Tensor, index: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 2; the second is the number of an edge, -1 of none."""
    x, D, N = x.contiguous(), x.shape[1], len(start) - 1
    out, which = x.new_empty(N, D), torch.empty(N, D, dtype=torch.int64, device=x.device)
    BK = min(_power(D), _COLUMNS)
    if N:
        kernels(_KERNEL).gather_max[(N, -(-D // BK))](x, index, start, out, which, D=D, BK=BK, num_warps=1)
    return out, which


def gather_max_back(g: Tensor, which: Tensor, target: Tensor, order: Tensor, start: Tensor) -> Tensor:
    """The gradient of x of eq. 2: of each row, along the edges that leave it."""
    g, D, N = g.contiguous(), g.shape[1], len(start) - 1
    out = g.new_empty(N, D)
    BK = min(_power(D), _COLUMNS)
    if N:
        grid = (N, -(-D // BK))
        kernels(_KERNEL).gather_max_back[grid](g, which, target, order, start, out, D=D, BK=BK, num_warps=1)
    return out


def edge_dot(a: Tensor, b: Tensor, target: Tensor, source: Tensor, num_heads: int) -> Tensor:
    """Eq. 3, in float32."""
    target, source = target.contiguous(), source.contiguous()
    a, b, E, K = a.contiguous(), b.contiguous(), len(target), a.shape[1] // num_heads
    out = torch.empty(E, num_heads, dtype=torch.float32, device=a.device)
    BH = _power(num_heads)
    BK = min(_power(K), max(16, _TILE // BH))
    BE = max(1, min(64, 2 * _TILE // (BH * BK)))
    kernels(_KERNEL).edge_dot[(-(-E // BE),)](
        a, b, target, source, out, E, H=num_heads, K=K, BE=BE, BH=BH, BK=BK, num_warps=4
    )
    return out


def edge_shares(scores: Tensor, start: Tensor, rows: Tensor | None) -> Tensor:
    """Eq. 4; `rows` are those of many edges."""
    scores, H, N = scores.contiguous(), scores.shape[1], len(start) - 1
    out, BH = torch.empty_like(scores), _power(scores.shape[1])
    few, many = max(1, min(32, 512 // BH)), max(1, 4096 // BH)
    kernel = kernels(_KERNEL).edge_shares
    long = 0 if rows is None else LONG
    kernel[(N,)](scores, start, scores, out, H=H, LONG=long, NAMED=False, BE=few, BH=BH, num_warps=1)
    if rows is not None:
        kernel[(len(rows),)](scores, start, rows, out, H=H, LONG=0, NAMED=True, BE=many, BH=BH, num_warps=8)
    return out


def pick(x: Tensor, index: Tensor) -> Tensor:
    """Eq. 5."""
    x, D = x.contiguous(), x.shape[1]
    out = x.new_empty(len(index), D)
    kernels(_KERNEL).pick[(-(-out.numel() // _PICKED),)](x, index, out, out.numel(), D=D, BLOCK=_PICKED, num_warps=4)
    return out


def _power(count: int) -> int:
    """The power of two from there on.

    >>> [_power(n) for n in (1, 5, 8)]
    [1, 8, 8]
    """
    return 1 << max(0, count - 1).bit_length()
