"""The kernel of a scan on a GPU, in one pass: a and b are read once, h is written once.

    (A, E) of a chunk     ->     h <- A h + E, handed on from chunk to chunk     ->     every step of the chunk   (1)

A program has a chunk of the steps of a few channels of a row, all of it in registers. It joins its steps by
(a, h), (b, k) -> (a b, b h + k) and tells the pair that comes of them. Chunks stand in groups: a program asks for the
pairs of those before it in its group, and for the state at the end of the group before; the last of a group tells the
state at its end, and only then do programs make their steps. So a state is handed on once a group, while pairs of all
chunks are told at once. Programs take numbers when they begin, later chunks of all rows after earlier ones, so that
those that are waited for are always at work. What is told has a mark in its own word of 64 bits, by a plain store, and
is asked for until it comes: nothing else has to be in order. Sums have one order, that of the groups, and results are
the same each time.

To be told a state takes as long as moving several megabytes: `tiles` makes groups so long that what all chains read
meanwhile is more. A thread has neighbouring steps of 16 bytes of channels, which it joins alone; then threads join
theirs. Back in time it is the same from the last step to the first, with the a of the step after. An a that is the same
at all steps is read once, and its gradient added up in registers.

Shapes     a (B, T, D), (1, T, D), (B, 1, D) or (1, 1, D), of any strides;  b, h, g (B, T, D);  first (B, D);  a last
           axis of 2 besides for pairs;  C chunks;  inside of a program (segments, steps, channels)
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.layers.kernels import kernels

_NUMBERS = 32  # reals of b that a thread has: as many of a besides fit into registers
_REGISTERS = 128  # of a thread at most, so that a processor has 16 warps
_FEWEST = 16  # steps of a chunk
_TOLD = 12e6  # bytes to move while a state is told, about twice what a device moves in that time
#: reals of a row that a program reads, its warps, and chunks of a group, from short groups to long ones. Each warp asks
#: for all states of its program by itself, one a lane: were there more than 32, warps would have to meet each time
_TILES = ((32, 4, 8), (32, 4, 32), (32, 8, 32), (32, 16, 32), (16, 16, 32), (8, 16, 32))

# B, T and C are not looked at when a kernel is compiled; that D is round is, for reading 16 bytes at once. Strides of
# pairs are in pairs, so that the two parts of a number are read at once. `words` counts programs in its first place.
# A state is asked for early, for where there are many rows it is already there.
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
def last(x, STEPS: tl.constexpr):
    return tl.sum(tl.where(tl.arange(0, STEPS)[None, :, None] == STEPS - 1, x, 0.0), 1)


@triton.jit
def turned(x, i):  # the last segment comes first, each other one after
    return tl.gather(x, tl.where(i > 0, i - 1, x.shape[0] - 1), 0)


@triton.jit
def foremost(x, i):
    return tl.sum(tl.where(i == 0, x, 0.0), 0)


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
def heard_two(x, word, mask):
    while tl.min(tl.min((x != 0).to(tl.int32), 1), 0) == 0:
        x = tl.load(word, mask=mask, other=1, volatile=True)
    x = ~x
    return (x >> 32).to(tl.int32).to(tl.float32, bitcast=True), x.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def lowest(x, j):  # of the rows of x
    return tl.sum(tl.where(j == x.shape[0] - 1, x, 0.0), 0)


@triton.jit
def parted(x, LANES: tl.constexpr):
    if len(x.shape) == 3:
        return tl.split(tl.reshape(x.to(tl.float32), (x.shape[0], x.shape[1], LANES, 2)))
    else:
        return tl.split(tl.reshape(x.to(tl.float32), (LANES, 2)))


@triton.jit
def joined(x, x_, LANES: tl.constexpr):
    if len(x.shape) == 3:
        return tl.reshape(tl.join(x, x_), (x.shape[0], x.shape[1], 2 * LANES))
    else:
        return tl.reshape(tl.join(x, x_), (2 * LANES,))


@triton.jit(do_not_specialize=["B", "T", "C"])
def scan(
    a, b, first, out, held, slope, words, B, T, D, C, a_row, a_time, a_channel,
    BACK: tl.constexpr, SAME: tl.constexpr, STEPS: tl.constexpr, SEGMENTS: tl.constexpr, LANES: tl.constexpr,
    GROUP: tl.constexpr,
):
    place = tl.atomic_add(words, 1, sem="relaxed").to(tl.int32)
    blocks = tl.cdiv(D, LANES)
    row = (place // blocks % B).to(tl.int64)
    c = place // blocks // B
    d = place % blocks * LANES + tl.arange(0, LANES)
    here = d < D
    own = (row * C + c) * D + d
    i = tl.arange(0, SEGMENTS)[:, None] + tl.zeros((SEGMENTS, LANES), tl.int32)
    n = tl.arange(0, SEGMENTS)[:, None, None] * STEPS + tl.arange(0, STEPS)[None, :, None]
    gone = c * (STEPS * SEGMENTS)
    known = n < T - gone
    there = known & here[None, None, :]
    begin = gone
    near = gone
    if BACK:
        begin = T - 1 - gone
        near = T - gone
        known = known & (n + gone > 0)
        n = -n
    at = (row * T + begin) * D
    by = n * D + d[None, None, :]
    y = tl.load(b + at + by, mask=there, other=0.0).to(tl.float32)
    if SAME:
        same = tl.load(a + row * a_row + d * a_channel, mask=here, other=1.0).to(tl.float32)
        x = tl.where(known, same[None, None, :], 1.0)
    else:
        source = a + row * a_row + (near + n.to(tl.int64)) * a_time + d[None, None, :] * a_channel
        x = tl.load(source, mask=known & here[None, None, :], other=1.0).to(tl.float32)
    start = tl.load(first + row * D + d, mask=here, other=0.0)
    group = c // GROUP
    j = tl.arange(0, GROUP)[:, None]
    asked = here & (group > 0)
    state = words + 16 + (row * tl.cdiv(C, GROUP) + group) * D + d
    h = tl.load(state - D, mask=asked, other=1, volatile=True)
    pair = words + 16 + B * tl.cdiv(C, GROUP).to(tl.int64) * D + own
    earlier = (group * GROUP + j < c) & here[None, :]
    pairs = pair[None, :] + (group * GROUP + j - c) * D
    told = tl.load(pairs, mask=earlier, other=1, volatile=True)
    x, y = tl.associative_scan((x, y), 1, after)
    p, q = tl.associative_scan((last(x, STEPS), last(y, STEPS)), 0, after)
    p, q = turned(p, i), turned(q, i)
    product, end = foremost(p, i), foremost(q, i)
    tell_two(pair, product, end, here & (c % GROUP + 1 < GROUP) & (c + 1 < C))
    u, v = heard_two(told, pairs, earlier)
    u, v = tl.associative_scan((tl.where(earlier, u, 1.0), tl.where(earlier, v, 0.0)), 0, after)
    u, v = lowest(u, j), lowest(v, j)
    h = heard(h, state - D, asked)
    if not BACK:
        h = tl.where(group > 0, h, start)
    h = u * h + v
    tell(state, product * h + end, here & (c % GROUP + 1 == GROUP) & (c + 1 < C))
    z = tl.where(i > 0, p * h[None, :] + q, h[None, :])[:, None, :]
    y += x * z
    tl.store(out + at + by, y.to(out.dtype.element_ty), mask=there)
    if BACK:
        early = begin + n > 0
        z = tl.load(held + at - D + by, mask=there & early, other=0.0).to(tl.float32)
        w = y * tl.where(early, z, start[None, None, :])
        if SAME:
            tl.store(slope + own, tl.sum(tl.sum(tl.where(there, w, 0.0), 0), 0), mask=here)
        else:
            tl.store(slope + at + by, w.to(slope.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=["B", "T", "C"])
def scan_pair(
    a, b, first, out, held, slope, words, B, T, D, C, a_row, a_time,
    BACK: tl.constexpr, SAME: tl.constexpr, STEPS: tl.constexpr, SEGMENTS: tl.constexpr, LANES: tl.constexpr,
    GROUP: tl.constexpr,
):
    place = tl.atomic_add(words, 1, sem="relaxed").to(tl.int32)
    blocks = tl.cdiv(D, LANES)
    row = (place // blocks % B).to(tl.int64)
    c = place // blocks // B
    d = place % blocks * (2 * LANES) + tl.arange(0, 2 * LANES)  # real and imaginary part by turns
    here = d < 2 * D
    own = (row * C + c) * (2 * D) + d
    i = tl.arange(0, SEGMENTS)[:, None] + tl.zeros((SEGMENTS, LANES), tl.int32)
    n = tl.arange(0, SEGMENTS)[:, None, None] * STEPS + tl.arange(0, STEPS)[None, :, None]
    gone = c * (STEPS * SEGMENTS)
    within = n < T - gone
    there = within & here[None, None, :]
    known = within
    begin = gone
    near = gone
    if BACK:
        begin = T - 1 - gone
        near = T - gone
        known = within & (n + gone > 0)
        n = -n
    at = (row * T + begin) * (2 * D)
    by = n * (2 * D) + d[None, None, :]
    y, y_ = parted(tl.load(b + at + by, mask=there, other=0.0), LANES)
    if SAME:
        same, same_ = parted(tl.load(a + row * a_row * 2 + d, mask=here, other=0.0), LANES)
        x = tl.where(known, same[None, None, :], 1.0)
        x_ = tl.where(known, same_[None, None, :], 0.0)
    else:
        source = a + (row * a_row + (near + n.to(tl.int64)) * a_time) * 2 + d[None, None, :]
        x, x_ = parted(tl.load(source, mask=known & here[None, None, :], other=0.0), LANES)
        x = tl.where(known, x, 1.0)
    if BACK:
        x_ = -x_
    start, start_ = parted(tl.load(first + row * (2 * D) + d, mask=here, other=0.0), LANES)
    group = c // GROUP
    j = tl.arange(0, GROUP)[:, None]
    asked = here & (group > 0)
    state = words + 16 + (row * tl.cdiv(C, GROUP) + group) * (2 * D) + d
    known_state = tl.load(state - 2 * D, mask=asked, other=1, volatile=True)
    e = place % blocks * LANES + tl.arange(0, LANES)
    inside = e < D
    pair = words + 16 + B * tl.cdiv(C, GROUP).to(tl.int64) * (2 * D) + ((row * C + c) * D + e) * 2
    earlier = (group * GROUP + j < c) & inside[None, :]
    pairs = pair[None, :] + (group * GROUP + j - c) * (2 * D)
    told = tl.load(pairs, mask=earlier, other=1, volatile=True)
    told_ = tl.load(pairs + 1, mask=earlier, other=1, volatile=True)
    x, x_, y, y_ = tl.associative_scan((x, x_, y, y_), 1, after_pair)
    ends = (last(x, STEPS), last(x_, STEPS), last(y, STEPS), last(y_, STEPS))
    p, p_, q, q_ = tl.associative_scan(ends, 0, after_pair)
    p, p_, q, q_ = turned(p, i), turned(p_, i), turned(q, i), turned(q_, i)
    product, product_, end, end_ = foremost(p, i), foremost(p_, i), foremost(q, i), foremost(q_, i)
    more = inside & (c % GROUP + 1 < GROUP) & (c + 1 < C)
    tell_two(pair, product, product_, more)
    tell_two(pair + 1, end, end_, more)
    u, u_ = heard_two(told, pairs, earlier)
    v, v_ = heard_two(told_, pairs + 1, earlier)
    u, u_ = tl.where(earlier, u, 1.0), tl.where(earlier, u_, 0.0)
    v, v_ = tl.where(earlier, v, 0.0), tl.where(earlier, v_, 0.0)
    u, u_, v, v_ = tl.associative_scan((u, u_, v, v_), 0, after_pair)
    u, u_, v, v_ = lowest(u, j), lowest(u_, j), lowest(v, j), lowest(v_, j)
    before, before_ = parted(heard(known_state, state - 2 * D, asked), LANES)
    if not BACK:
        before = tl.where(group > 0, before, start)
        before_ = tl.where(group > 0, before_, start_)
    h = u * before - u_ * before_ + v
    h_ = u * before_ + u_ * before + v_
    end += product * h - product_ * h_
    end_ += product * h_ + product_ * h
    tell(state, joined(end, end_, LANES), here & (c % GROUP + 1 == GROUP) & (c + 1 < C))
    z = tl.where(i > 0, p * h[None, :] - p_ * h_[None, :] + q, h[None, :])[:, None, :]
    z_ = tl.where(i > 0, p * h_[None, :] + p_ * h[None, :] + q_, h_[None, :])[:, None, :]
    y, y_ = y + x * z - x_ * z_, y_ + x * z_ + x_ * z
    tl.store(out + at + by, joined(y, y_, LANES).to(out.dtype.element_ty), mask=there)
    if BACK:
        early = begin + n > 0
        z, z_ = parted(tl.load(held + at - 2 * D + by, mask=there & early, other=0.0), LANES)
        z = tl.where(early, z, start[None, None, :])
        z_ = tl.where(early, z_, start_[None, None, :])
        w = y * z + y_ * z_
        w_ = y_ * z - y * z_
        if SAME:
            w = tl.sum(tl.sum(tl.where(within, w, 0.0), 0), 0)
            w_ = tl.sum(tl.sum(tl.where(within, w_, 0.0), 0), 0)
            tl.store(slope + own, joined(w, w_, LANES), mask=here)
        else:
            tl.store(slope + at + by, joined(w, w_, LANES).to(slope.dtype.element_ty), mask=there)
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

    >>> tiles(16, 4096, 1024, 4), tiles(1, 262_144, 256, 4), tiles(2, 20, 3, 4)
    ((32, 128, 4, 8), (32, 128, 4, 32), (8, 32, 1, 8))
    """
    longest = max(_FEWEST, 1 << (T - 1).bit_length())
    for lanes, warps, group in _TILES:
        lanes = min(lanes, max(8, 1 << (reals - 1).bit_length()))
        steps = warps * 32 * _NUMBERS // lanes
        if steps >= longest or 3 * size * rows * reals * steps * group >= _TOLD:
            break
    steps = min(steps, longest)
    return lanes, steps, max(1, lanes * steps // (32 * _NUMBERS)), group


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
    row, time, channel = a.expand(b.shape).stride()[:3]
    strides = (row // 2, time // 2) if pair else (row, time, channel)
    words = torch.zeros(16 + first.numel() * (C + -(-C // group)), dtype=torch.int64, device=b.device)
    steps = min(L, _NUMBERS * b.element_size() // 16)  # of a thread, for 16 bytes of channels
    kernel[(-(-D // lanes) * C * B,)](
        a, b, first, out, held, slope, words, B, T, D, C, *strides,
        BACK=slopes is not None, SAME=same, STEPS=steps, SEGMENTS=L // steps, LANES=lanes, GROUP=group,
        num_warps=warps, maxnreg=_REGISTERS,
    )  # fmt: skip
