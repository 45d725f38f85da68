"""The kernel of a scan on a GPU, in one pass: a and b leave memory once, h is written once.

    (A, E) of a chunk     ->     h <- A h + E, handed on from chunk to chunk     ->     every step of the chunk   (1)

A program has a chunk of the steps of a few channels of a row. It joins its steps by (a, h), (b, k) -> (a b, b h + k)
and tells the pair that comes of them. Chunks stand in groups: a program asks for the pairs of those before it in its
group, and for the state at the end of the group before; the last of a group tells the state at its end, and only then
do programs make their steps. So a state is handed on once a group, while pairs of all chunks are told at once.
Programs take numbers when they begin, later chunks of all rows after earlier ones, so that those that are waited for
are always at work. What is told has a mark in its own word of 64 bits, by a plain store, and is asked for until it
comes: nothing else has to be in order. Sums have one order, that of the groups, and results are the same each time.

To be told a state takes as long as moving several megabytes: `tiles` makes groups so long that what all chains read
meanwhile is more. A thread has a segment, neighbouring steps of a few channels, which it joins alone: each step is a
tensor (segments, channels) of its own, so that only what comes of a whole segment goes from thread to thread. It then
takes the state before its segment through its steps. It reads them again for that, out of the nearest cache, and holds
no step while it waits. Back in time it is the same from the last step to the first, with the a of the step after. An a
that is the same at all steps is read once, and its gradient added up in registers.

Shapes     a (B, T, D), (1, T, D), (B, 1, D) or (1, 1, D), of any strides;  b, h, g (B, T, D);  first (B, D);  a last
           axis of 2 besides for pairs;  C chunks;  inside of a program (segments, channels), for each step
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.layers.kernels import kernels

_NUMBERS = {2: 64, 4: 32}  # reals of b that a thread has, by bytes of one
_CHANNELS = 4  # reals of a step among them: fewer need more addresses, more are more to scan from thread to thread
_REGISTERS = 128  # of a thread at most, so that a processor has 16 warps
_FEWEST = 16  # steps of a chunk
_TOLD = 6e6  # bytes to move while a state is told, about what a device moves in that time
#: reals of a row that a program reads, its warps, and chunks of a group, from short groups to long ones. Each warp asks
#: for all states of its program by itself, one a lane: were there more than 32, warps would have to meet each time
_TILES = ((32, 4, 4), (32, 4, 16), (32, 8, 16), (32, 16, 16), (16, 16, 16), (8, 16, 16))

# B, T and C are not looked at when a kernel is compiled; that D is round is, for reading neighbours at once. Strides of
# pairs are in pairs, so that the two parts of a number are read at once. `words` counts programs in its first place.
# A state is asked for early, for where there are many rows it is already there. Of the pairs that are asked for each
# thread has its own (ROWS): a warp that has the same as another might see them come later, and leave with nothing.
_KERNEL = """
import triton
import triton.language as tl


@triton.jit
def after(a, h, b, k):
    return a * b, b * h + k


@triton.jit
def with_last(a, h, a_, h_, b, k, b_, k_):  # and, with _, what was there before the last of them
    return a * b, b * h + k, a * b_, b_ * h + k_


@triton.jit
def times(a, a_, h, h_, b, b_):
    return a * h - a_ * h_ + b, a * h_ + a_ * h + b_


@triton.jit
def after_pair(a, a_, h, h_, b, b_, k, k_):
    h, h_ = times(b, b_, h, h_, k, k_)
    return a * b - a_ * b_, a * b_ + a_ * b, h, h_


@triton.jit
def loaded(source, step, begun, left, STEPS: tl.constexpr):  # a step of all segments after the other; 0 where none is
    x = ()
    for k in tl.static_range(STEPS):
        x = x + (tl.load(source + k * step, mask=(k < left) & begun if k == 0 else k < left, other=0.0),)
    return x


@triton.jit
def tell(word, x, mask):
    tl.store(word, (x.to(tl.int32, bitcast=True).to(tl.int64) << 32) | 1, mask=mask)


@triton.jit
def heard(x, word, mask):
    while tl.min((x & 1).to(tl.int32), 0) == 0:
        x = tl.load(word, mask=mask, other=1, volatile=True)
    return (x >> 32).to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def tell_two(word, x, y, mask):  # inverted: no word is 0, but for that of two NaNs that no sum gives
    y = tl.where(y == y, y, float("nan"))
    low = y.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
    tl.store(word, ~((x.to(tl.int32, bitcast=True).to(tl.int64) << 32) | low), mask=mask)


@triton.jit
def asked_for(word, step, left, none: tl.constexpr, EACH: tl.constexpr):  # none and 0 where no chunk is
    x = ()
    for k in tl.static_range(EACH):
        there = k < left
        y = tl.load(word + k * step, mask=there, other=0, volatile=True)
        x = x + (tl.where(there, y, -(0x3F80000000000000 + 1) if none == 1 else -1),)
    return x


@triton.jit
def all_there(x, EACH: tl.constexpr):
    known = x[0] != 0
    for k in tl.static_range(1, EACH):
        known = known & (x[k] != 0)
    return tl.min(tl.min(known.to(tl.int32), 1), 0)


@triton.jit
def heard_two(x, word, step, left, none: tl.constexpr, EACH: tl.constexpr):
    while all_there(x, EACH) == 0:
        x = asked_for(word, step, left, none, EACH)
    return x


@triton.jit
def two_of(x):
    x = ~x
    return (x >> 32).to(tl.int32).to(tl.float32, bitcast=True), x.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def with_last_pair(a, a_, h, h_, c, c_, s, s_, b, b_, k, k_, d, d_, z, z_):
    b, b_, k, k_ = after_pair(a, a_, h, h_, b, b_, k, k_)
    d, d_, z, z_ = after_pair(a, a_, h, h_, d, d_, z, z_)
    return b, b_, k, k_, d, d_, z, z_


@triton.jit
def lowest(x, j):  # of the rows of x
    return tl.sum(tl.where(j == x.shape[0] - 1, x, 0.0), 0)


@triton.jit
def parted(x):  # pairs of the last axis
    rows: tl.constexpr = x.shape[:-1]
    return tl.split(tl.reshape(x.to(tl.float32), rows + [x.shape[-1] // 2, 2]))


@triton.jit
def turning(x, BACK: tl.constexpr):
    x, x_ = parted(x)
    return x, -x_ if BACK else x_


@triton.jit
def joined(x, x_):
    rows: tl.constexpr = x.shape[:-1]
    return tl.reshape(tl.join(x, x_), rows + [2 * x.shape[-1]])


@triton.jit(do_not_specialize=["B", "T", "C"])
def scan(
    a, b, first, out, held, slope, words, B, T, D, C, a_row, a_time, a_channel,
    BACK: tl.constexpr, SAME: tl.constexpr, STEPS: tl.constexpr, SEGMENTS: tl.constexpr, LANES: tl.constexpr,
    GROUP: tl.constexpr, ROWS: tl.constexpr,
):
    place = tl.atomic_add(words, 1, sem="relaxed").to(tl.int32)
    blocks = tl.cdiv(D, LANES)
    row = (place // blocks % B).to(tl.int64)
    c = place // blocks // B
    d = place % blocks * LANES + tl.arange(0, LANES)
    here = d < D
    own = (row * C + c) * D + d
    i = tl.arange(0, SEGMENTS)[:, None]
    n = i * STEPS
    gone = c * (STEPS * SEGMENTS)
    left = tl.where(here[None, :], T - gone - n, 0)
    start = tl.load(first + row * D + d, mask=here, other=0.0)
    group = c // GROUP
    j = tl.arange(0, ROWS)[:, None]
    asked = here & (group > 0)
    state = words + 16 + (row * tl.cdiv(C, GROUP) + group) * D + d
    h = tl.load(state - D, mask=asked, other=1, volatile=True)
    pair = words + 16 + B * tl.cdiv(C, GROUP).to(tl.int64) * D + own
    EACH: tl.constexpr = (GROUP + ROWS - 1) // ROWS
    chunk = group * GROUP + j * EACH - c
    earlier = tl.where(here[None, :], -chunk, 0)
    pairs = pair[None, :] + chunk * D
    told = asked_for(pairs, D, earlier, 1, EACH)
    turn: tl.constexpr = -1 if BACK else 1
    begin = T - 1 - gone if BACK else gone
    at = (row * T + begin) * D + turn * n * D + d[None, :]
    y = loaded(b + at, turn * D, left > 0, left, STEPS)
    near = begin + turn * n + BACK
    if SAME:
        same = tl.load(a + row * a_row + d * a_channel, mask=here, other=0.0).to(tl.float32)[None, :]
        x = (tl.where(n + gone >= BACK, same, 0.0),) + (same,) * STEPS
    else:
        source = a + row * a_row + near.to(tl.int64) * a_time + d[None, :] * a_channel
        x = loaded(source, turn * a_time, n + gone >= BACK, left, STEPS)
    p, q = x[0].to(tl.float32), y[0].to(tl.float32)
    for k in tl.static_range(1, STEPS):
        p, q = after(p, q, x[k].to(tl.float32), y[k].to(tl.float32))
    none = tl.zeros_like(p)
    product, end, p, q = tl.associative_scan((p, q, none + 1.0, none), 0, with_last)
    product, end = lowest(product, i), lowest(end, i)
    tell_two(pair, product, end, here & (c % GROUP + 1 < GROUP) & (c + 1 < C))
    told = heard_two(told, pairs, D, earlier, 1, EACH)
    u, v = two_of(told[0])
    for k in tl.static_range(1, EACH):
        s, w = two_of(told[k])
        u, v = after(u, v, s, w)
    u, v = tl.associative_scan((u, v), 0, after)
    u, v = lowest(u, j), lowest(v, j)
    h = heard(h, state - D, asked)
    if not BACK:
        h = tl.where(group > 0, h, start)
    h = u * h + v
    tell(state, product * h + end, here & (c % GROUP + 1 == GROUP) & (c + 1 < C))
    z = p * h[None, :] + q
    y = loaded(b + at, turn * D, left > 0, left, STEPS)
    if not SAME:
        x = loaded(source, turn * a_time, n + gone >= BACK, left, STEPS)
    if BACK:
        w = loaded(held + at - D, -D, left > 0, left - 1, STEPS)
        total = tl.zeros((SEGMENTS, LANES), tl.float32)
    for k in tl.static_range(STEPS):
        z = x[k].to(tl.float32) * z + y[k].to(tl.float32)
        tl.store(out + at + turn * k * D, z.to(out.dtype.element_ty), mask=k < left)
        if BACK:
            s = z * tl.where(k + 1 < left, w[k].to(tl.float32), start[None, :])
            if SAME:
                total += tl.where(k < left, s, 0.0)
            else:
                tl.store(slope + at - k * D, s.to(slope.dtype.element_ty), mask=k < left)
    if BACK and SAME:
        tl.store(slope + own, tl.sum(total, 0), mask=here)


@triton.jit(do_not_specialize=["B", "T", "C"])
def scan_pair(
    a, b, first, out, held, slope, words, B, T, D, C, a_row, a_time,
    BACK: tl.constexpr, SAME: tl.constexpr, STEPS: tl.constexpr, SEGMENTS: tl.constexpr, LANES: tl.constexpr,
    GROUP: tl.constexpr, ROWS: tl.constexpr,
):
    place = tl.atomic_add(words, 1, sem="relaxed").to(tl.int32)
    blocks = tl.cdiv(D, LANES)
    row = (place // blocks % B).to(tl.int64)
    c = place // blocks // B
    d = place % blocks * (2 * LANES) + tl.arange(0, 2 * LANES)  # real and imaginary part by turns
    here = d < 2 * D
    own = (row * C + c) * (2 * D) + d
    i = tl.arange(0, SEGMENTS)[:, None]
    n = i * STEPS
    gone = c * (STEPS * SEGMENTS)
    left = tl.where(here[None, :], T - gone - n, 0)
    start, start_ = parted(tl.load(first + row * (2 * D) + d, mask=here, other=0.0))
    group = c // GROUP
    j = tl.arange(0, ROWS)[:, None]
    asked = here & (group > 0)
    state = words + 16 + (row * tl.cdiv(C, GROUP) + group) * (2 * D) + d
    known_state = tl.load(state - 2 * D, mask=asked, other=1, volatile=True)
    e = place % blocks * LANES + tl.arange(0, LANES)
    inside = e < D
    pair = words + 16 + B * tl.cdiv(C, GROUP).to(tl.int64) * (2 * D) + ((row * C + c) * D + e) * 2
    EACH: tl.constexpr = (GROUP + ROWS - 1) // ROWS
    chunk = group * GROUP + j * EACH - c
    earlier = tl.where(inside[None, :], -chunk, 0)
    pairs = pair[None, :] + chunk * (2 * D)
    told = asked_for(pairs, 2 * D, earlier, 1, EACH)
    told_ = asked_for(pairs + 1, 2 * D, earlier, 0, EACH)
    turn: tl.constexpr = -1 if BACK else 1
    begin = T - 1 - gone if BACK else gone
    at = (row * T + begin) * (2 * D) + turn * n * (2 * D) + d[None, :]
    y = loaded(b + at, turn * 2 * D, left > 0, left, STEPS)
    near = begin + turn * n + BACK
    if SAME:
        same = tl.load(a + row * a_row * 2 + d, mask=here, other=0.0).to(tl.float32)[None, :]
        x = (tl.where(n + gone >= BACK, same, 0.0),) + (same,) * STEPS
    else:
        source = a + (row * a_row + near.to(tl.int64) * a_time) * 2 + d[None, :]
        x = loaded(source, turn * 2 * a_time, n + gone >= BACK, left, STEPS)
    p, p_ = turning(x[0], BACK)
    q, q_ = parted(y[0])
    for k in tl.static_range(1, STEPS):
        v, v_ = turning(x[k], BACK)
        w, w_ = parted(y[k])
        p, p_, q, q_ = after_pair(p, p_, q, q_, v, v_, w, w_)
    none = tl.zeros_like(p)
    ends = p, p_, q, q_, none + 1.0, none, none, none
    product, product_, end, end_, p, p_, q, q_ = tl.associative_scan(ends, 0, with_last_pair)
    product, product_, end, end_ = lowest(product, i), lowest(product_, i), lowest(end, i), lowest(end_, i)
    more = inside & (c % GROUP + 1 < GROUP) & (c + 1 < C)
    tell_two(pair, product, product_, more)
    tell_two(pair + 1, end, end_, more)
    told = heard_two(told, pairs, 2 * D, earlier, 1, EACH)
    told_ = heard_two(told_, pairs + 1, 2 * D, earlier, 0, EACH)
    u, u_ = two_of(told[0])
    v, v_ = two_of(told_[0])
    for k in tl.static_range(1, EACH):
        s, s_ = two_of(told[k])
        w, w_ = two_of(told_[k])
        u, u_, v, v_ = after_pair(u, u_, v, v_, s, s_, w, w_)
    u, u_, v, v_ = tl.associative_scan((u, u_, v, v_), 0, after_pair)
    u, u_, v, v_ = lowest(u, j), lowest(u_, j), lowest(v, j), lowest(v_, j)
    h, h_ = parted(heard(known_state, state - 2 * D, asked))
    if not BACK:
        h = tl.where(group > 0, h, start)
        h_ = tl.where(group > 0, h_, start_)
    h, h_ = times(u, u_, h, h_, v, v_)
    end, end_ = times(product, product_, h, h_, end, end_)
    tell(state, joined(end, end_), here & (c % GROUP + 1 == GROUP) & (c + 1 < C))
    z, z_ = times(p, p_, h[None, :], h_[None, :], q, q_)
    y = loaded(b + at, turn * 2 * D, left > 0, left, STEPS)
    if not SAME:
        x = loaded(source, turn * 2 * a_time, n + gone >= BACK, left, STEPS)
    if BACK:
        w = loaded(held + at - 2 * D, -2 * D, left > 0, left - 1, STEPS)
        total, total_ = tl.zeros_like(z), tl.zeros_like(z)
    for k in tl.static_range(STEPS):
        u, u_ = turning(x[k], BACK)
        v, v_ = parted(y[k])
        z, z_ = times(u, u_, z, z_, v, v_)
        tl.store(out + at + turn * k * (2 * D), joined(z, z_).to(out.dtype.element_ty), mask=k < left)
        if BACK:
            early = n + k + 1 < T - gone
            u, u_ = parted(w[k])
            u, u_ = tl.where(early, u, start[None, :]), tl.where(early, u_, start_[None, :])
            u, u_ = times(z, z_, u, -u_, 0.0, 0.0)
            if SAME:
                within = n + k < T - gone
                total += tl.where(within, u, 0.0)
                total_ += tl.where(within, u_, 0.0)
            else:
                tl.store(slope + at - k * (2 * D), joined(u, u_).to(slope.dtype.element_ty), mask=k < left)
    if BACK and SAME:
        tl.store(slope + own, joined(tl.sum(total, 0), tl.sum(total_, 0)), mask=here)
"""


def scanned(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    """h of eq. 1 of `leadline.layers.scan`."""
    b, first = b.contiguous(), first.float().contiguous()
    out = torch.empty_like(b)
    _launch(a, b, first, out)
    return out


def scanned_back(a: Tensor, h: Tensor, first: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """∂a and ∂b of eq. 3 of `leadline.layers.scan`."""
    h, g, first = h.contiguous(), g.contiguous(), first.float().contiguous()
    out = torch.empty_like(g)
    if a.shape[1] == 1:  # a part of the sum for each chunk
        slope = torch.empty(len(g), -(-g.shape[1] // _tile(g)[1]), *g.shape[2:], device=g.device)
    else:
        slope = torch.empty(g.shape, dtype=a.dtype if a.shape == g.shape else torch.float32, device=g.device)
    _launch(a, g, first, out, (h, slope))
    return slope.sum_to_size(a.shape).to(a.dtype) if slope.shape != a.shape else slope.to(a.dtype), out


def tiles(rows: int, T: int, reals: int, size: int) -> tuple[int, int, int, int]:
    """Reals of a row and steps that a program has, its warps, and programs of a group.

    Args:
        reals: of one step of a row of b.
        size: bytes of one.

    >>> tiles(16, 4096, 1024, 4), tiles(1, 262_144, 256, 2), tiles(2, 20, 3, 4)
    ((32, 128, 4, 4), (32, 256, 4, 16), (8, 32, 1, 4))
    """
    longest, numbers = max(_FEWEST, 1 << (T - 1).bit_length()), _NUMBERS[size]
    for lanes, warps, group in _TILES:
        lanes = min(lanes, max(8, 1 << (reals - 1).bit_length()))
        steps = warps * 32 * numbers // lanes
        if steps >= longest or 3 * size * rows * reals * steps * group >= _TOLD:
            break
    steps = min(steps, longest)
    return lanes, steps, max(1, lanes * steps // (32 * numbers)), group


def _tile(b: Tensor) -> tuple[int, int, int, int]:
    return tiles(len(b), b.shape[1], b.shape[2:].numel(), b.element_size())


def _launch(a: Tensor, b: Tensor, first: Tensor, out: Tensor, slopes: tuple[Tensor, Tensor] | None = None) -> None:
    B, T, D = b.shape[:3]
    lanes, L, warps, group = _tile(b)
    C, (held, slope) = -(-T // L), (b, out) if slopes is None else slopes
    kernel, same, pair = kernels(_KERNEL).scan, a.shape[1] == 1, b.dim() == 4
    if pair:
        even = a.stride()[2:] == (2, 1) and not any(step % 2 for step in a.stride()[:2])
        kernel, a, lanes = kernels(_KERNEL).scan_pair, a if even else a.contiguous(), lanes // 2
    if a.stride(2) * D >= 2**31:  # places of channels are counted in 32 bits
        a = a.contiguous()
    row, time, channel = a.expand(b.shape).stride()[:3]
    strides = (row // 2, time // 2) if pair else (row, time, channel)
    words = torch.zeros(16 + first.numel() * (C + -(-C // group)), dtype=torch.int64, device=b.device)
    steps = min(L, _NUMBERS[b.element_size()] // _CHANNELS)
    kernel[(-(-D // lanes) * C * B,)](
        a, b, first, out, held, slope, words, B, T, D, C, *strides,
        BACK=slopes is not None, SAME=same, STEPS=steps, SEGMENTS=L // steps, LANES=lanes, GROUP=group,
        ROWS=max(1, 32 * warps // lanes), num_warps=warps, maxnreg=_REGISTERS,
    )  # fmt: skip
