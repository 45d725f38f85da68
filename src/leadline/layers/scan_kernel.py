"""The kernel of a scan on a GPU: chunks of each row side by side, STEPS steps of BLOCK channels at a time.

    (A, E) of each chunk     ->     states between chunks     ->     every step of each chunk            (1)

A program reads a tile of STEPS by BLOCK, joins its steps by (a, h), (b, k) -> (a b, b h + k), adds what the tile before
left, and goes on. Back in time it reads the same tiles from the last to the first, with the a of the step behind. Where
rows and channels alone keep the device busy there is one chunk, and only the last part of (1) runs.

Shapes     a (B, T, D) of any strides;  b, h, g (B, T, D);  first (B, D);  a last axis of 2 besides for pairs;  C chunks
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.layers.kernels import kernels

_STEPS = 8
#: channels and warps of a program, of reals and of pairs: so that a lane has all steps of its channels to itself
_REAL, _PAIR = (128, 1), (64, 2)
_PROGRAMS, _LEAST = 2048, 64  # what keeps a device busy; steps of a chunk, below which carrying states costs more

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
def scan(
    a, b, begin, out, product, held, first, slope, T, D, L, C, a_row, a_time, a_channel,
    BACK: tl.constexpr, ENDS: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):
    blocks = tl.cdiv(D, BLOCK)
    place = tl.program_id(0)
    d = place % blocks * BLOCK + tl.arange(0, BLOCK)
    c = place // blocks % C
    row = (place // blocks // C).to(tl.int64)
    here = d < D
    own = (row * C + c) * D + d
    h = tl.zeros((BLOCK,), tl.float32)
    p = tl.full((BLOCK,), 1.0, tl.float32)
    if not ENDS:
        h = tl.load(begin + own, mask=here, other=0.0)
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
                tl.store(slope + at, (y * before).to(slope.dtype.element_ty), mask=there)
    if ENDS:
        tl.store(product + own, p, mask=here)
        tl.store(out + own, h, mask=here)


@triton.jit
def scan_pair(
    a, b, begin, out, product, held, first, slope, T, D, L, C, a_row, a_time, a_channel,
    BACK: tl.constexpr, ENDS: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):
    blocks = tl.cdiv(D, BLOCK)
    place = tl.program_id(0)
    d = place % blocks * BLOCK + tl.arange(0, BLOCK)
    c = place // blocks % C
    row = (place // blocks // C).to(tl.int64)
    here = d < D
    own = ((row * C + c) * D + d) * 2
    h = tl.zeros((BLOCK,), tl.float32)
    h_ = tl.zeros((BLOCK,), tl.float32)
    p = tl.full((BLOCK,), 1.0, tl.float32)
    p_ = tl.zeros((BLOCK,), tl.float32)
    if not ENDS:
        h = tl.load(begin + own, mask=here, other=0.0)
        h_ = tl.load(begin + own + 1, mask=here, other=0.0)
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
        at = ((row * T + t) * D + d[None, :]) * 2
        source = a + row * a_row + near.to(tl.int64) * a_time + d[None, :] * a_channel
        x = tl.load(source, mask=known, other=1.0).to(tl.float32)
        x_ = tl.load(source + 1, mask=known, other=0.0).to(tl.float32)
        y = tl.load(b + at, mask=there, other=0.0).to(tl.float32)
        y_ = tl.load(b + at + 1, mask=there, other=0.0).to(tl.float32)
        if BACK:
            x_ = -x_
        x, x_, y, y_ = tl.associative_scan((x, x_, y, y_), 0, after_pair)
        y, y_ = y + x * h[None, :] - x_ * h_[None, :], y_ + x * h_[None, :] + x_ * h[None, :]
        h = last(y, i, STEPS)
        h_ = last(y_, i, STEPS)
        if ENDS:
            q = last(x, i, STEPS)
            q_ = last(x_, i, STEPS)
            p, p_ = p * q - p_ * q_, p * q_ + p_ * q
        else:
            tl.store(out + at, y.to(out.dtype.element_ty), mask=there)
            tl.store(out + at + 1, y_.to(out.dtype.element_ty), mask=there)
            if BACK:
                z = tl.load(held + at - 2 * D, mask=there & (t > 0), other=0.0).to(tl.float32)
                z_ = tl.load(held + at - 2 * D + 1, mask=there & (t > 0), other=0.0).to(tl.float32)
                start = tl.load(first + (row * D + d) * 2, mask=here, other=0.0)
                start_ = tl.load(first + (row * D + d) * 2 + 1, mask=here, other=0.0)
                z = tl.where(t > 0, z, start[None, :])
                z_ = tl.where(t > 0, z_, start_[None, :])
                tl.store(slope + at, (y * z + y_ * z_).to(slope.dtype.element_ty), mask=there)
                tl.store(slope + at + 1, (y_ * z - y * z_).to(slope.dtype.element_ty), mask=there)
    if ENDS:
        tl.store(product + own, p, mask=here)
        tl.store(product + own + 1, p_, mask=here)
        tl.store(out + own, h, mask=here)
        tl.store(out + own + 1, h_, mask=here)
"""


def scanned(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    """h of eq. 1 of `leadline.layers.scan`."""
    b, first = b.contiguous(), first.float().contiguous()
    out = torch.empty_like(b)
    _in_chunks(a, b, first, out)
    return out


def scanned_back(a: Tensor, h: Tensor, first: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """∂a and ∂b of eq. 3 of `leadline.layers.scan`."""
    h, g, first = h.contiguous(), g.contiguous(), first.float().contiguous()
    out, slope = torch.empty_like(g), torch.empty(a.shape, dtype=a.dtype, device=a.device)
    _in_chunks(a, g, torch.zeros_like(first), out, (h, first, slope))
    return slope, out


def chunks(rows: int, T: int) -> tuple[int, int]:
    """C, and the steps L of a chunk, a multiple of STEPS; `rows` are programs that each chunk has.

    >>> chunks(16, 4096), chunks(64, 4096), chunks(2048, 4096), chunks(1, 10)
    ((64, 64), (32, 128), (1, 4096), (1, 16))
    """
    wished = min(_PROGRAMS // rows, T // _LEAST)
    if wished < 3:  # two passes read a and b twice
        return 1, -(-T // _STEPS) * _STEPS
    L = -(-T // (wished * _STEPS)) * _STEPS
    return -(-T // L), L


def _in_chunks(
    a: Tensor, b: Tensor, first: Tensor, out: Tensor, slopes: tuple[Tensor, Tensor, Tensor] | None = None
) -> None:
    B, T, D = b.shape[:3]
    C, L = chunks(B * -(-D // (_REAL if b.dim() == 3 else _PAIR)[0]), T)
    begin = first
    if C > 1:
        product, end = (torch.empty(B, C, *first.shape[1:], device=b.device) for _ in range(2))
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
    kernel, (block, warps) = kernels(_KERNEL).scan, _REAL
    if b.dim() == 4:
        kernel, (block, warps) = kernels(_KERNEL).scan_pair, _PAIR
        a = a if a.stride(-1) == 1 else a.contiguous()
    kernel[(-(-D // block) * C * B,)](
        a, b, begin, out, product, held, first, slope, T, D, L, C, *a.stride()[:3],
        BACK=slopes is not None, ENDS=ends, STEPS=_STEPS, BLOCK=block, num_warps=warps,
    )  # fmt: skip
