"""The kernel of a scan on a GPU: chunks of each row side by side, a tile of some steps of 32 channels at a time.

    (A, E) of each chunk     ->     states between chunks     ->     every step of each chunk            (1)

A program is one warp, and a lane has one channel: so few channels a program make enough programs that most scans need
one chunk, the last part of (1) alone, which reads a and b once and writes h once. Where rows and channels are too few
to keep the device busy there are chunks, and a and b are read twice: five passes over memory in place of three.

A program reads a tile, joins its steps by (a, h), (b, k) -> (a b, b h + k) without leaving the lane, adds what the tile
before left, and goes on. Back in time it reads the same tiles from the last to the first, with the a of the step
behind. An a that is the same at all steps is read once, and its gradient added up in registers.

Shapes     a (B, T, D), (1, T, D), (B, 1, D) or (1, 1, D), of any strides;  b, h, g (B, T, D);  first (B, D);  a last
           axis of 2 besides for pairs;  C chunks
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.layers.kernels import kernels

_LANES = 32  # channels of a program
_REAL, _PAIR = 32, 16  # steps of a tile, as many as fit into registers
_PROGRAMS, _LEAST = 1024, 64  # what keeps a device busy; steps of a chunk, below which carrying states costs more

# T, D and the strides of a are not looked at when a kernel is compiled: were they known to be round, four channels
# would be read at once, and the steps of a channel would lie in several lanes. Strides of pairs are in pairs, so that
# the two parts of a number are read at once.
_KERNEL = """
import triton
import triton.language as tl


@triton.jit
def after(a, h, b, k):
    return a * b, b * h + k


@triton.jit
def after_pair(a, a_, h, h_, b, b_, k, k_):
    return a * b - a_ * b_, a * b_ + a_ * b, b * h - b_ * h_ + k, b * h_ + b_ * h + k_


@triton.jit
def last(x, i, STEPS: tl.constexpr):
    return tl.sum(tl.where(i == STEPS - 1, x, 0.0), 0)


@triton.jit
def parted(x, STEPS: tl.constexpr, LANES: tl.constexpr):
    return tl.split(tl.reshape(x.to(tl.float32), (STEPS, LANES, 2)))


@triton.jit
def joined(x, x_, STEPS: tl.constexpr, LANES: tl.constexpr):
    return tl.reshape(tl.join(x, x_), (STEPS, 2 * LANES))


@triton.jit(do_not_specialize=["T", "D", "L", "C", "a_row", "a_time"])
def scan(
    a, b, begin, out, product, held, first, slope, T, D, L, C, a_row, a_time, a_channel,
    BACK: tl.constexpr, ENDS: tl.constexpr, SAME: tl.constexpr, STEPS: tl.constexpr, LANES: tl.constexpr,
):
    blocks = tl.cdiv(D, LANES)
    place = tl.program_id(0)
    d = place % blocks * LANES + tl.arange(0, LANES)
    c = place // blocks % C
    row = (place // blocks // C).to(tl.int64)
    here = d < D
    own = (row * C + c) * D + d
    h = tl.zeros((LANES,), tl.float32)
    p = tl.full((LANES,), 1.0, tl.float32)
    total = tl.zeros((LANES,), tl.float32)
    same = tl.full((LANES,), 1.0, tl.float32)
    if not ENDS:
        h = tl.load(begin + own, mask=here, other=0.0)
    if SAME:
        same = tl.load(a + row * a_row + d * a_channel, mask=here, other=1.0).to(tl.float32)
    i = tl.arange(0, STEPS)[:, None]
    count = tl.minimum(L, T - c * L)
    for begun in range(0, count, STEPS):
        n = begun + i
        there = (n < count) & here[None, :]
        t = c * L + n
        if BACK:
            t = T - 1 - t
            near, known = t + 1, there & (t + 1 < T)
        else:
            near, known = t, there
        at = (row * T + t) * D + d[None, :]
        if SAME:
            x = tl.where(known, same[None, :], 1.0)
        else:
            x = tl.load(a + row * a_row + near.to(tl.int64) * a_time + d[None, :] * a_channel, mask=known, other=1.0)
        y = tl.load(b + at, mask=there, other=0.0)
        x, y = tl.associative_scan((x.to(tl.float32), y.to(tl.float32)), 0, after)
        y += x * h[None, :]
        h = last(y, i, STEPS)
        if ENDS:
            p *= last(x, i, STEPS)
        else:
            tl.store(out + at, y.to(out.dtype.element_ty), mask=there)
            if BACK:
                before = tl.load(held + at - D, mask=there & (t > 0), other=0.0).to(tl.float32)
                start = tl.load(first + row * D + d, mask=here, other=0.0)
                before = tl.where(t > 0, before, start[None, :])
                if SAME:
                    total += tl.sum(tl.where(there, y * before, 0.0), 0)
                else:
                    tl.store(slope + at, (y * before).to(slope.dtype.element_ty), mask=there)
    if ENDS:
        tl.store(product + own, p, mask=here)
        tl.store(out + own, h, mask=here)
    elif BACK and SAME:
        tl.store(slope + own, total, mask=here)


@triton.jit(do_not_specialize=["T", "D", "L", "C", "a_row", "a_time"])
def scan_pair(
    a, b, begin, out, product, held, first, slope, T, D, L, C, a_row, a_time,
    BACK: tl.constexpr, ENDS: tl.constexpr, SAME: tl.constexpr, STEPS: tl.constexpr, LANES: tl.constexpr,
):
    blocks = tl.cdiv(D, LANES)
    place = tl.program_id(0)
    k = place % blocks * (2 * LANES) + tl.arange(0, 2 * LANES)[None, :]  # real and imaginary part by turns
    c = place // blocks % C
    row = (place // blocks // C).to(tl.int64)
    here = k < 2 * D
    own = (row * C + c) * (2 * D) + k
    h = tl.zeros((1, LANES), tl.float32)
    h_ = tl.zeros((1, LANES), tl.float32)
    p = tl.full((1, LANES), 1.0, tl.float32)
    p_ = tl.zeros((1, LANES), tl.float32)
    total = tl.zeros((1, LANES), tl.float32)
    total_ = tl.zeros((1, LANES), tl.float32)
    if not ENDS:
        h, h_ = parted(tl.load(begin + own, mask=here, other=0.0), 1, LANES)
    if SAME:
        same, same_ = parted(tl.load(a + row * a_row * 2 + k, mask=here, other=0.0), 1, LANES)
    i = tl.arange(0, STEPS)[:, None]
    count = tl.minimum(L, T - c * L)
    for begun in range(0, count, STEPS):
        n = begun + i
        there = (n < count) & here
        t = c * L + n
        if BACK:
            t = T - 1 - t
            near = t + 1
            known = (n < count) & (t + 1 < T)
        else:
            near = t
            known = n < count
        at = (row * T + t) * (2 * D) + k
        if SAME:
            x = tl.where(known, same, 1.0)
            x_ = tl.where(known, same_, 0.0)
        else:
            source = a + (row * a_row + near.to(tl.int64) * a_time) * 2 + k
            x, x_ = parted(tl.load(source, mask=known & here, other=0.0), STEPS, LANES)
            x = tl.where(known, x, 1.0)
        y, y_ = parted(tl.load(b + at, mask=there, other=0.0), STEPS, LANES)
        if BACK:
            x_ = -x_
        x, x_, y, y_ = tl.associative_scan((x, x_, y, y_), 0, after_pair)
        y, y_ = y + x * h - x_ * h_, y_ + x * h_ + x_ * h
        h = last(y, i, STEPS)[None, :]
        h_ = last(y_, i, STEPS)[None, :]
        if ENDS:
            q = last(x, i, STEPS)[None, :]
            q_ = last(x_, i, STEPS)[None, :]
            p, p_ = p * q - p_ * q_, p * q_ + p_ * q
        else:
            tl.store(out + at, joined(y, y_, STEPS, LANES).to(out.dtype.element_ty), mask=there)
            if BACK:
                z, z_ = parted(tl.load(held + at - 2 * D, mask=there & (t > 0), other=0.0), STEPS, LANES)
                start, start_ = parted(tl.load(first + row * (2 * D) + k, mask=here, other=0.0), 1, LANES)
                z = tl.where(t > 0, z, start)
                z_ = tl.where(t > 0, z_, start_)
                w = y * z + y_ * z_
                w_ = y_ * z - y * z_
                if SAME:
                    total += tl.sum(tl.where(n < count, w, 0.0), 0)[None, :]
                    total_ += tl.sum(tl.where(n < count, w_, 0.0), 0)[None, :]
                else:
                    tl.store(slope + at, joined(w, w_, STEPS, LANES).to(slope.dtype.element_ty), mask=there)
    if ENDS:
        tl.store(product + own, joined(p, p_, 1, LANES), mask=here)
        tl.store(out + own, joined(h, h_, 1, LANES), mask=here)
    elif BACK and SAME:
        tl.store(slope + own, joined(total, total_, 1, LANES), mask=here)
"""


def scanned(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    """h of eq. 1 of `leadline.layers.scan`."""
    b, first = b.contiguous(), first.float().contiguous()
    out = torch.empty_like(b)
    _in_chunks(a, b, first, out, *chunks(_programs(b), b.shape[1], _steps(b)))
    return out


def scanned_back(a: Tensor, h: Tensor, first: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """∂a and ∂b of eq. 3 of `leadline.layers.scan`."""
    h, g, first = h.contiguous(), g.contiguous(), first.float().contiguous()
    out, (C, L) = torch.empty_like(g), chunks(_programs(g), g.shape[1], _steps(g))
    if a.shape[1] == 1:  # a part of the sum for each program
        slope = torch.empty(len(g), C, *g.shape[2:], device=g.device)
    else:
        slope = torch.empty(g.shape, dtype=a.dtype if a.shape == g.shape else torch.float32, device=g.device)
    _in_chunks(a, g, torch.zeros_like(first), out, C, L, (h, first, slope))
    return slope.sum_to_size(a.shape).to(a.dtype) if slope.shape != a.shape else slope.to(a.dtype), out


def chunks(programs: int, T: int, steps: int = _REAL) -> tuple[int, int]:
    """C, and the steps L of a chunk, a multiple of the `steps` of a tile.

    Args:
        programs: that each chunk has.

    >>> chunks(16, 4096), chunks(64, 4096), chunks(512, 4096), chunks(1, 10)
    ((64, 64), (16, 256), (1, 4096), (1, 32))
    """
    wished = min(_PROGRAMS // programs, T // _LEAST)
    if wished < 3:  # two passes read a and b twice
        return 1, -(-T // steps) * steps
    L = -(-T // (wished * steps)) * steps
    return -(-T // L), L


def _steps(b: Tensor) -> int:
    return _REAL if b.dim() == 3 else _PAIR


def _programs(b: Tensor) -> int:
    return b.shape[0] * -(-b.shape[2] // _LANES)


def _in_chunks(
    a: Tensor,
    b: Tensor,
    first: Tensor,
    out: Tensor,
    C: int,
    L: int,
    slopes: tuple[Tensor, Tensor, Tensor] | None = None,
) -> None:
    begin = first
    if C > 1:
        product, end = (torch.empty(len(b), C, *first.shape[1:], device=b.device) for _ in range(2))
        _launch(a, b, first, end, product, slopes, C, L, ends=True)
        after = torch.empty_like(end)
        _launch(product, end, first, after, product, None, 1, C, ends=False)
        begin = torch.cat([first[:, None], after[:, :-1]], 1)
    _launch(a, b, begin, out, out, slopes, C, L, ends=False)


def _launch(
    a: Tensor,
    b: Tensor,
    begin: Tensor,
    out: Tensor,
    product: Tensor,
    slopes: tuple[Tensor, Tensor, Tensor] | None,
    C: int,
    L: int,
    ends: bool,
) -> None:
    B, T, D = b.shape[:3]
    held, first, slope = (b, begin, out) if slopes is None else slopes
    kernel, same, pair = kernels(_KERNEL).scan, a.shape[1] == 1, b.dim() == 4
    if pair:
        even = a.stride()[2:] == (2, 1) and not any(step % 2 for step in a.stride()[:2])
        kernel, a = kernels(_KERNEL).scan_pair, a if even else a.contiguous()
    row, time, channel = a.expand(b.shape).stride()[:3]
    strides = (row // 2, time // 2) if pair else (row, time, channel)
    kernel[(-(-D // _LANES) * C * B,)](
        a, b, begin, out, product, held, first, slope, T, D, L, C, *strides,
        BACK=slopes is not None, ENDS=ends, SAME=same, STEPS=_steps(b), LANES=_LANES, num_warps=1,
    )  # fmt: skip
