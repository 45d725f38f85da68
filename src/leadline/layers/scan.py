"""A linear recurrence along time, all steps at once, and its gradient, which is a linear recurrence back in time.

    h_t  = a_t h_{t-1} + b_t,          h_0 = first                                              (1)
    s_t  = g_t + ā_{t+1} s_{t+1},      s_{T+1} = 0,   g_t what comes from above                 (2)
    ∂b_t = s_t,   ∂a_t = s_t h̄_{t-1},   ∂first = ā_1 s_1                                        (3)

Steps 1 … t of any chunk take its first state to A_t h + E_t: A_t = a_t ⋯ a_1, and E_t what (1) makes of a state of 0.

    A_t and E_t, t = 1 … K, of all chunks side by side,    then (1) over chunks,    then A_t h + E_t      (4)

That is 2 K + T/K steps of many numbers in place of T steps of few, on one core. Where rows and channels are many (1) is
taken as it stands, by calls that have many steps each. On a GPU one kernel finds the states between chunks and then all
steps; what it reads twice is near it the second time. Sums are in float32 at least, whatever is read and written.
Where |a_t| <= 1 no product in (4) grows.

An a that is the same for all rows or all steps stays one: its gradient is added up where it arises, never held for all
of them.

Notation   ā the conjugate;  a complex number is a pair of reals in the last axis inside, so that a compiler reads it
Shapes     b, h (B, T, D), or (B, T, D, 2);  a the same, with 1 for B or T where it is shared;  first (B, D), or
           (B, D, 2)
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from leadline.errors import ShapeError
from leadline.layers.kernels import has_triton
from leadline.layers.pages import room
from leadline.layers.scan_kernel import scanned, scanned_back

_SHORT, _FEW = 16, 4  # fewer steps, or fewer chunks, save nothing
#: numbers of a step that take as long as the call for it, on a CPU and elsewhere; steps of them that a cache can hold
_ENOUGH, _ELSEWHERE, _STEPS = 2048, 2**15, 128
#: torch divides what has 32,768 numbers or more among threads. A scan is hundreds of small calls, and threads that meet
#: at the end of each cost far more than they save where another program has one of the cores
_ALONE = 32_767


def scan(a: Tensor, b: Tensor, first: Tensor | None = None) -> Tensor:
    """Eq. 1, real or complex; h has the type of b, or a complex one where a or first is complex.

    Args:
        a: of the shape of b, or one that broadcasts to it.
        first: h_0; 0 by default.

    >>> half, one = torch.full((1, 4, 1), 0.5), torch.ones(1, 4, 1)
    >>> scan(half, one).flatten().tolist()
    [1.0, 1.5, 1.75, 1.875]
    >>> scan(half, one, torch.tensor([[8.0]])).flatten().tolist()
    [5.0, 3.5, 2.75, 2.375]
    """
    a, first = fitted(a, b, first, 3)
    if not (a.is_complex() or b.is_complex() or first.is_complex()):
        return cast(Tensor, _Scan.apply(a, b, first))
    dtype = torch.promote_types(torch.promote_types(a.dtype, b.dtype), first.dtype)
    a, b, first = (torch.view_as_real(t.to(dtype).resolve_conj()) for t in (a, b, first))
    return torch.view_as_complex(cast(Tensor, _Scan.apply(a, b, first)))


def scan_pairs(a: Tensor, b: Tensor, first: Tensor | None = None) -> Tensor:
    """Eq. 1 of complex numbers as pairs, (B, T, D, 2): real and imaginary part.

    >>> turn, start = torch.tensor([0.0, 1.0]), torch.tensor([[[1.0, 0.0]]])  # i, and 1
    >>> scan_pairs(turn, torch.zeros(1, 3, 1, 2), start).flatten(1).tolist()  # i, -1, -i
    [[0.0, 1.0, -1.0, 0.0, 0.0, -1.0]]
    """
    a, first = fitted(a, b, first, 4)
    return cast(Tensor, _Scan.apply(a, b, first))


def scan_by_steps(a: Tensor, b: Tensor, first: Tensor | None = None) -> Tensor:
    """Eq. 1 as it stands, one step after another: the twin of `scan`.

    >>> scan_by_steps(torch.full((1, 4, 1), 0.5), torch.ones(1, 4, 1)).flatten().tolist()
    [1.0, 1.5, 1.75, 1.875]
    """
    a, h = fitted(a, b, first, 3)
    out = []
    for a_t, b_t in zip(a.expand(b.shape).unbind(1), b.unbind(1), strict=True):
        h = a_t * h + b_t
        out.append(h)
    return torch.stack(out, 1) if out else torch.empty_like(b)


def gated_scan(
    gate: Tensor, value: Tensor, state: tuple[Tensor, ...] | None, there: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """z_t = u_t * z_{t-1} + (1 - u_t) * value_t with u = s(gate): every step, 0 where none is; and the last state.

    >>> even, value = torch.zeros(1, 2, 1), torch.tensor([[[4.0], [8.0]]])
    >>> gated_scan(even, value, None, torch.tensor([[True, False]]))[1]
    (tensor([[2.]]),)
    """
    a, b = gate.sigmoid(), (-gate).sigmoid() * value  # 1 - u without the rounding of u
    (first,) = state or (b.new_zeros(b.shape[0], b.shape[2]),)
    if there is not None:
        has = there[..., None]
        a, b = a.masked_fill(~has, 1.0), b.masked_fill(~has, 0.0)
    z = scan(a, b, first)
    last = z[:, -1] if z.shape[1] else first
    return z if there is None else z.masked_fill(~has, 0.0), (last,)


def wide(x: Tensor) -> Tensor:
    """In float32 at least: a gate near 1, and a state that is added to for long, are lost in 16 bits.

    >>> wide(torch.zeros(1, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    return x.float() if x.element_size() < 4 else x


def fitted(a: Tensor, b: Tensor, first: Tensor | None, axes: int) -> tuple[Tensor, Tensor]:
    """a and first in the shapes that b asks for; a keeps an axis of 1 where it is the same for all rows or steps."""
    letters = "(B, T, D, 2)" if axes == 4 else "(B, T, D)"
    if b.dim() != axes or (axes == 4 and b.shape[-1] != 2):
        raise ShapeError(f"b of a scan must be {letters}", got=f"b {tuple(b.shape)}", do="Give it these axes")
    shape = (1,) * (axes - a.dim()) + tuple(a.shape)
    if len(shape) != axes or any(own not in (1, wished) for own, wished in zip(shape, b.shape, strict=True)):
        sizes = f"a {tuple(a.shape)}, b {tuple(b.shape)}"
        raise ShapeError("a of a scan must broadcast to b", got=sizes, do="Give it the shape of b")
    a = a.expand(*shape[:2], *b.shape[2:])
    if first is None:
        return a, b.new_zeros(b.shape[:1] + b.shape[2:])
    if first.shape != b.shape[:1] + b.shape[2:]:
        sizes = f"first {tuple(first.shape)}, b {tuple(b.shape)}"
        raise ShapeError("first of a scan must have the shape of one step of b", got=sizes, do="Leave out T")
    return a, first


class _Scan(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
        return cast(Tensor, torch.ops.leadline.scan(a, b, first))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        a, _, first = inputs
        ctx.save_for_backward(a, output, first)
        ctx.save_for_forward(a, output, first)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, ...]:
        a, h, first = ctx.saved_tensors
        ga, gb = _Back.apply(a, h, first, g)
        return ga, gb, _times(gb[:, :1], _conjugate(a[:, :1])).sum(1).to(first.dtype)

    @staticmethod
    def jvp(ctx: Any, da: Tensor | None, db: Tensor | None, dfirst: Tensor | None) -> Tensor:
        a, h, first = ctx.saved_tensors
        rise = torch.zeros_like(h) if db is None else db
        rise = rise if da is None else rise + _times(da.expand(h.shape), _before(h, first)).to(h.dtype)
        return cast(Tensor, _Scan.apply(a, rise, torch.zeros_like(first) if dfirst is None else dfirst))


class _Back(torch.autograd.Function):
    """∂a and ∂b of eq. 3. Its own derivative is a scan again, forward in time."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, h: Tensor, first: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        return cast(tuple[Tensor, Tensor], torch.ops.leadline.scan_back(a, h, first, g))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        a, h, first, _ = inputs
        ctx.save_for_backward(a, h, first, output[1])
        ctx.save_for_forward(a, h, first, output[1])

    @staticmethod
    def backward(ctx: Any, ua: Tensor, us: Tensor) -> tuple[Tensor, ...]:
        a, h, first, s = ctx.saved_tensors
        ua = ua.expand(h.shape)
        p = cast(Tensor, _Scan.apply(a, us + _times(ua, _before(h, first)).to(us.dtype), torch.zeros_like(first)))
        ga = _times(_conjugate(_before(p, torch.zeros_like(first))), s)
        held = _times(_conjugate(ua), s)
        gh = torch.cat([held[:, 1:], torch.zeros_like(held[:, :1])], 1)
        return ga.sum_to_size(a.shape).to(a.dtype), gh.to(h.dtype), held[:, :1].sum(1).to(first.dtype), p

    @staticmethod
    def jvp(
        ctx: Any, da: Tensor | None, dh: Tensor | None, dfirst: Tensor | None, dg: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        a, h, first, s = ctx.saved_tensors
        rise = torch.zeros_like(s) if dg is None else dg
        if da is not None:
            later = _times(_conjugate(da.expand(s.shape)[:, 1:]), s[:, 1:])
            rise = rise + torch.cat([later, torch.zeros_like(s[:, :1])], 1).to(s.dtype)
        dga, ds = _Back.apply(a, h, first, rise)
        if dh is not None or dfirst is not None:
            dh, dfirst = (torch.zeros_like(t) if d is None else d for d, t in ((dh, h), (dfirst, first)))
            dga = dga + _times(s, _conjugate(_before(dh, dfirst))).sum_to_size(a.shape).to(dga.dtype)
        return dga, ds


def _plain(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    """Eq. 1 of reals, or of pairs where there is a fourth axis."""
    a_, b_, first_ = _wide(a, b, first)
    out = room(b_.shape, b_.dtype, b.device)
    chunked(a_.expand(b_.shape), b_, first_, out)
    return _narrow(out, b)


def _plain_back(a: Tensor, h: Tensor, first: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """∂a and ∂b of eq. 3."""
    a_, h_, first_, g_ = _wide(a, h, first, g)
    s = room(h_.shape, h_.dtype, h.device)
    s[:, -1:] = g_[:, -1:]
    turned = a_.conj() if a.device.type == "cpu" else a_.conj().resolve_conj()
    chunked(turned.expand(h_.shape)[:, 1:], g_[:, :-1], s[:, -1:].sum(1), s[:, :-1], back=True)
    slope = room(a_.shape, a_.dtype, a.device)
    if a_.shape[1] == h_.shape[1] and a_.shape[0] == h_.shape[0]:
        _slope(s, h_, first_, slope)
    else:
        slope.zero_()
        for b in range(len(h_)):  # a row at a time, so that little is held
            own = torch.empty_like(s[b : b + 1])
            _slope(s[b : b + 1], h_[b : b + 1], first_[b : b + 1], own)
            slope[b if len(slope) > 1 else 0] += own[0].sum_to_size(slope.shape[1:])
    return _narrow(slope, a), _narrow(s, h)


def _slope(s: Tensor, h: Tensor, first: Tensor, out: Tensor) -> None:
    """s_t h̄_{t-1} of every step, of eq. 3."""
    torch.mul(s[:, :1], first[:, None].conj_physical(), out=out[:, :1])
    for part, s_, h_ in _pieces(out[:, 1:], s[:, 1:], h[:, :-1]):
        if h.is_complex():
            torch.conj_physical(h_, out=part).mul_(s_)
        else:
            torch.mul(s_, h_, out=part)


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same steps of the same rows of each, so few that one thread has them, and that they stay near it."""
    steps = max(1, _ALONE // max(1, tensors[0].shape[2]))
    rows = max(1, steps // max(1, tensors[0].shape[1]))
    for some in zip(*(t.split(rows) for t in tensors), strict=True):
        yield from zip(*(t.split(steps, 1) for t in some), strict=True)


def _on_cuda(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    return scanned(a, b, first) if _kernels_read(a, b) else _plain(a, b, first)


def _back_on_cuda(a: Tensor, h: Tensor, first: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return scanned_back(a, h, first, g) if _kernels_read(a, h) else _plain_back(a, h, first, g)


def _rows_joined(op: Any, info: Any, dims: Any, *tensors: Tensor) -> tuple[Any, Any]:
    """Under vmap: its axis is joined with that of rows."""
    moved = [
        t.expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0)
        for t, dim in zip(tensors, dims, strict=True)
    ]
    size, shared = (info.batch_size, moved[1].shape[1]), moved[0].shape[1] == 1
    found = op(*(t.expand(*size, *t.shape[2:]).flatten(0, 1) for t in moved))
    if isinstance(found, Tensor):
        return found.unflatten(0, size), 0
    slope, s = (t.unflatten(0, size) for t in found)
    return (slope.sum(1, keepdim=True) if shared else slope, s), (0, 0)


# Operators, so that a trace has one node for a scan. torch.library.custom_op would import a compiler at the first call.
_library = torch.library.Library("leadline", "FRAGMENT")
_library.define("scan(Tensor a, Tensor b, Tensor first) -> Tensor")
_library.define("scan_back(Tensor a, Tensor h, Tensor first, Tensor g) -> (Tensor, Tensor)")
for _name, _anywhere, _cuda, _fake in (
    ("scan", _plain, _on_cuda, lambda a, b, first: b.new_empty(b.shape)),
    ("scan_back", _plain_back, _back_on_cuda, lambda a, h, first, g: (a.new_empty(a.shape), h.new_empty(h.shape))),
):
    _library.impl(_name, _anywhere, "CompositeExplicitAutograd")
    _library.impl(_name, _cuda, "CUDA")
    torch.library.register_fake(f"leadline::{_name}", _fake, lib=_library)
    _op = getattr(torch.ops.leadline, _name)
    torch.library.register_vmap(f"leadline::{_name}", functools.partial(_rows_joined, _op), lib=_library)


def chunked(a: Tensor, b: Tensor, first: Tensor, out: Tensor, back: bool = False) -> None:
    """Eq. 4 into `out`, from the last step to the first where `back`; a few rows at a time.

    Args:
        a: where it is a conjugate that is not written out, it is only copied. Inside of an operator all else may read
            it as what it is the conjugate of.
    """
    B, T, D = b.shape
    if T < _SHORT or not b.numel():
        _loop(a.resolve_conj(), b, first, out, back)
        return
    enough = _ENOUGH if b.device.type == "cpu" else _ELSEWHERE
    rows = -(-B // -(-B * D // (2 * enough)))
    for a_, b_, h, out_ in zip(*(t.split(rows) for t in (a, b, first, out)), strict=True):
        left = T
        while left:
            M, K = shares(len(h), left, D, enough)
            some = left // (M * K) * (M * K)
            part = slice(left - some, left) if back else slice(T - left, T - left + some)
            h = _blocks(a_[:, part], b_[:, part], h, out_[:, part], back, M, K)
            left -= some


def shares(B: int, T: int, D: int, enough: int) -> tuple[int, int]:
    """Chunks M that are read side by side, √T at most so that both loops are short, and one where rows and channels are
    enough; and steps K of each, of which a block has them.

    >>> [shares(*size, enough=2048) for size in ((8, 4096, 256), (1, 4096, 256), (1, 4096, 1), (8, 100, 256))]
    [(1, 128), (8, 128), (64, 64), (1, 100)]
    """
    M = min(math.isqrt(T), enough // (B * D))
    M = M if M >= _FEW else 1
    return M, T // M // -(-(T // M) // max(1, _STEPS * enough // (B * M * D)))


def _blocks(a: Tensor, b: Tensor, first: Tensor, out: Tensor, back: bool, M: int, K: int) -> Tensor:
    """One block of M chunks of K steps after another; the last state.

    A block is copied, step after step, and stays near the processor. In a large tensor the same step of all rows often
    lies at places of which a cache can hold but few at once.
    """
    turn, (B, D) = -1 if back else 1, first.shape
    if b.shape[1] == K and not a.is_conj():
        for out_, b_ in _pieces(out, b):
            out_.copy_(b_)
        h_t = out.unbind(1)[::turn]
        _in_turn(first, a.unbind(1)[::turn], h_t)
        return h_t[-1]
    a_near, h_near = (torch.empty(K, B, M, D, dtype=b.dtype, device=b.device) for _ in range(2))
    a_t, h_t = (t.unbind()[::turn] for t in (a_near, h_near))
    steps = max(1, _ALONE // (B * M * D))
    a_some, h_some = a_near.split(steps), h_near.split(steps)
    blocks = [t.unflatten(1, (-1, M, K)).movedim((1, 3), (0, 1)).unbind()[::turn] for t in (a, b, out)]
    h = first[:, None].clone(memory_format=torch.contiguous_format)
    for at, (a_, b_, out_) in enumerate(zip(*blocks, strict=True)):
        if M > 1 or not at or a.stride(1):  # or it is there from the block before
            torch._foreach_copy_(a_some, a_.split(steps))
        torch._foreach_copy_(h_some, b_.split(steps))
        if M == 1:
            _in_turn(h, a_t, h_t)
            h.copy_(h_t[-1])
            torch._foreach_copy_(out_.split(steps), h_some)
            continue
        _in_turn(h_t[0], a_t[1:], h_t[1:])
        _multiplied(a_t)
        begins = h_t[-1].roll(turn, 1)
        A, E, begin = (t.split(1, 1)[::turn] for t in (a_t[-1], h_t[-1], begins))
        begin[0].copy_(h)
        _in_turn(begin[0], A[:-1], begin[1:])
        h = torch.addcmul(E[-1], A[-1], begin[-1])
        for h_, product, part in zip(h_some, a_some, out_.split(steps), strict=True):
            torch.addcmul(h_, product, begins, out=part)
    return h[:, 0]


def _loop(a: Tensor, b: Tensor, h: Tensor, out: Tensor, back: bool) -> None:
    for a_t, b_t, out_t in zip(*(t.unbind(1)[:: -1 if back else 1] for t in (a, b, out)), strict=True):
        h = torch.addcmul(b_t, a_t, h, out=out_t)


def _in_turn(h: Tensor, a: tuple[Tensor, ...], out: tuple[Tensor, ...]) -> None:
    """Eq. 1 where `out` is b before. On a CPU one call takes what it is given in its order."""
    if h.device.type == "cpu":
        torch._foreach_addcmul_(out, a, (h, *out[:-1]))
        return
    for a_t, out_t in zip(a, out, strict=True):
        h = out_t.addcmul_(a_t, h)


def _multiplied(a: tuple[Tensor, ...]) -> None:
    """a_t ⋯ a_1 in place of each a_t."""
    if a[0].device.type == "cpu":
        torch._foreach_mul_(a[1:], a[:-1])
        return
    for before, a_t in itertools.pairwise(a):
        a_t.mul_(before)


def _kernels_read(a: Tensor, b: Tensor) -> bool:
    return b.numel() > 0 and torch.float64 not in (a.dtype, b.dtype) and has_triton()


def _wide(*tensors: Tensor) -> list[Tensor]:
    """In one type, of 32 bits at least, pairs as complex numbers."""
    dtype = torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32
    if tensors[0].dim() == 3:
        return [t.to(dtype) for t in tensors]
    return [torch.view_as_complex(t.to(dtype) if _adjacent(t) else _laid_out(t.to(dtype))) for t in tensors]


def _adjacent(t: Tensor) -> bool:
    """Whether pairs lie as complex numbers do."""
    return t.numel() > 0 and t.stride(-1) == 1 and not any(step % 2 for step in (*t.stride()[:-1], t.storage_offset()))


def _laid_out(t: Tensor) -> Tensor:
    """One number after the other. `contiguous` leaves a tensor without any as it is, whatever its strides."""
    return t.contiguous() if t.numel() else t.new_empty(t.shape)


def _narrow(t: Tensor, like: Tensor) -> Tensor:
    return (torch.view_as_real(t) if t.is_complex() else t).to(like.dtype)


def _before(h: Tensor, first: Tensor) -> Tensor:
    """h_{t-1} at t."""
    return torch.cat([first[:, None].to(h.dtype), h[:, :-1]], 1)


def _conjugate(x: Tensor) -> Tensor:
    return x if x.dim() == 3 else torch.stack([x[..., 0], -x[..., 1]], -1)


def _times(x: Tensor, y: Tensor) -> Tensor:
    if x.dim() == 3:
        return x * y
    (p, q), (r, s) = x.unbind(-1), y.unbind(-1)
    return torch.stack([p * r - q * s, p * s + q * r], -1)
