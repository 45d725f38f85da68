"""Operators of sums over rows that lie together: on a CPU torch's bag of embeddings, on a GPU kernels.

    gather_sum    y_i = Σ_{e = start[i]}^{start[i+1]-1} weight_e x_{index(e)}                                    (1)
    gather_max    the largest in place of the sum, number by number, and where it was                            (2)
    edge_dot      u_e = a_{target(e)} · b_{source(e)}, of each head                                              (3)
    edge_shares   a softmax over start[i] … start[i+1] - 1 of each i                                             (4)
    pick          x_{index(e)}                                                                                   (5)

A trace has one node for each.

Shapes     x (N_s, D);  index (E,);  start (N + 1,);  weight (E,) or (E, H);  y (N, D);  scores, shares, u (E, H)
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, cast

import torch
from torch import Tensor

from leadline.layers import segments_kernel
from leadline.layers.kernels import has_triton
from leadline.layers.segments_kernel import LONG

_SHORT = 128  # bytes of a row up to which torch, which has a block of threads for each, takes far longer

Plan = tuple[Tensor | None, Tensor | None, Tensor | None]


def gather_sum(
    x: Tensor,
    index: Tensor | None,
    start: Tensor,
    weight: Tensor | None = None,
    rows: Tensor | None = None,
    cuts: Tensor | None = None,
    joins: Tensor | None = None,
) -> Tensor:
    """Eq. 1.

    Args:
        index: None reads x in its order.
        rows, cuts, joins: what `pieces` says of `start`, on a GPU.

    >>> x, start = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0, 2, 2, 3])
    >>> gather_sum(x, torch.tensor([2, 2, 0]), start).flatten().tolist()
    [8.0, 0.0, 1.0]
    """
    return cast(Tensor, torch.ops.leadline.gather_sum(x, index, start, weight, rows, cuts, joins))


def gather_max(x: Tensor, index: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 2; what the second is, is between this and `gather_max_back`.

    >>> x, start = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0, 2, 2])
    >>> gather_max(x, torch.tensor([1, 0]), start)[0].flatten().tolist()
    [2.0, 0.0]
    """
    return cast(tuple[Tensor, Tensor], torch.ops.leadline.gather_max(x, index, start))


def gather_max_back(g: Tensor, which: Tensor, target: Tensor, order: Tensor, start: Tensor) -> Tensor:
    """The gradient of x.

    Args:
        order, start: of the edges that leave each row of x.
    """
    return cast(Tensor, torch.ops.leadline.gather_max_back(g, which, target, order, start))


def edge_dot(a: Tensor, b: Tensor, start: Tensor, target: Tensor, source: Tensor, num_heads: int = 1) -> Tensor:
    """Eq. 3, in float32 at least.

    >>> start, target, source = torch.tensor([0, 1, 1]), torch.tensor([0]), torch.tensor([1])
    >>> edge_dot(torch.eye(2), torch.ones(2, 2), start, target, source).tolist()
    [[1.0]]
    """
    return cast(Tensor, torch.ops.leadline.edge_dot(a, b, start, target, source, num_heads))


def edge_shares(scores: Tensor, start: Tensor, target: Tensor, rows: Tensor | None = None) -> Tensor:
    """Eq. 4.

    Args:
        rows: those of many edges, as `pieces` says, on a GPU.

    >>> edge_shares(torch.zeros(4, 1), torch.tensor([0, 4]), torch.zeros(4, dtype=torch.int64)).flatten().tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return cast(Tensor, torch.ops.leadline.edge_shares(scores, start, target, rows))


def pick(x: Tensor, index: Tensor) -> Tensor:
    """Eq. 5.

    >>> pick(torch.tensor([[1.0], [2.0]]), torch.tensor([1, 1, 0])).flatten().tolist()
    [2.0, 2.0, 1.0]
    """
    return cast(Tensor, torch.ops.leadline.pick(x, index))


def pieces(start: Tensor, most: int = LONG) -> Plan:
    """Of the rows that have more than `most`: which they are, where each of their pieces begins and ends, (P, 2), and
    where the pieces of each begin, (R + 1,). None of all where there is no such row.

    >>> [t.tolist() for t in pieces(torch.tensor([0, 1, 6, 9]), most=2)]
    [[1, 2], [[1, 3], [3, 5], [5, 6], [6, 8], [8, 9]], [0, 3, 5]]
    """
    counts = start.diff()
    rows = (counts > most).nonzero().flatten()
    if not len(rows):
        return None, None, None
    many = (counts[rows] + most - 1) // most
    joins = torch.cat([many.new_zeros(1), many.cumsum(0)])
    of = torch.repeat_interleave(many)
    begin = start[rows][of] + (torch.arange(len(of), device=of.device) - joins[of]) * most
    return rows, torch.stack([begin, (begin + most).minimum(start[rows + 1][of])], 1), joins


# ── anywhere, and on a GPU of float64 ──


def _sum(
    x: Tensor, index: Tensor | None, start: Tensor, weight: Tensor | None, rows: Any, cuts: Any, joins: Any
) -> Tensor:
    if index is None:
        index = torch.arange(len(x), device=x.device)
    heads = weight.shape[1] if weight is not None and weight.dim() == 2 else 1
    if heads == 1 or weight is None:
        return _bag(x, index, start, None if weight is None else weight.reshape(-1))
    apart, own = x.unflatten(1, (heads, -1)).transpose(0, 1).contiguous(), weight.t().contiguous()
    return torch.stack([_bag(x_h, index, start, w_h) for x_h, w_h in zip(apart, own)], 1).flatten(1)


def _bag(x: Tensor, index: Tensor, start: Tensor, weight: Tensor | None) -> Tensor:
    if not x.numel() or not len(index):
        return x.new_zeros(len(start) - 1, x.shape[1])
    weight = None if weight is None else weight.to(x.dtype)
    return torch.embedding_bag(x.contiguous(), index, start, False, 0, False, weight, True)[0]


def _max(x: Tensor, index: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    if not x.numel() or not len(index):
        shape = (len(start) - 1, x.shape[1])
        return x.new_zeros(shape), index.new_full(shape, -1)
    y, _, _, which = torch.embedding_bag(x.contiguous(), index, start, False, 2, False, None, True)
    return y, which.masked_fill((start.diff() == 0)[:, None], -1)  # which row of x


def _max_back(g: Tensor, which: Tensor, target: Tensor, order: Tensor, start: Tensor) -> Tensor:
    gx = g.new_zeros(len(start) - 1, g.shape[1])
    return gx.scatter_add_(0, which.clamp(min=0), g * (which >= 0)) if gx.numel() else gx


def _dot(a: Tensor, b: Tensor, start: Tensor, target: Tensor, source: Tensor, num_heads: int) -> Tensor:
    if not len(target) or not a.numel():
        return a.new_zeros(len(target), num_heads, dtype=_wide(a))
    apart = [x.to(_wide(a)).unflatten(1, (num_heads, -1)).transpose(0, 1).contiguous() for x in (a, b)]
    if a.is_cuda:
        products = [a_h.index_select(0, target).mul_(b_h.index_select(0, source)).sum(-1) for a_h, b_h in zip(*apart)]
        return torch.stack(products, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torch may yet change how its sparse matrices look
        zero = torch.zeros(len(source), dtype=_wide(a))
        where = torch.sparse_csr_tensor(start, source, zero, (len(a), len(b)), check_invariants=False)
    return torch.stack([torch.sparse.sampled_addmm(where, x, y.t(), beta=0.0).values() for x, y in zip(*apart)], 1)


def _wide(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _shares(scores: Tensor, start: Tensor, target: Tensor, rows: Tensor | None) -> Tensor:
    if not scores.numel():
        return torch.zeros_like(scores)
    most = torch.segment_reduce(scores.contiguous(), "max", offsets=start, unsafe=True)
    e = (scores - most.index_select(0, target)).exp_()
    sums = _sum(e, None, start, None, None, None, None)
    return e.div_(sums.index_select(0, target))


def _pick(x: Tensor, index: Tensor) -> Tensor:
    return x.index_select(0, index)


# ── which of the two, as operators ──


def _kernels_read(x: Tensor, count: int) -> bool:
    return x.is_cuda and x.numel() > 0 and count > 0 and x.dtype != torch.float64 and has_triton()


def _sum_on_cuda(x: Tensor, index: Tensor | None, start: Tensor, weight: Tensor | None, *plan: Any) -> Tensor:
    if not _kernels_read(x, len(x) if index is None else len(index)):
        return _sum(x, index, start, weight, None, None, None)
    return segments_kernel.gather_sum(x, index, start, weight, *plan)


def _max_on_cuda(x: Tensor, index: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    return segments_kernel.gather_max(x, index, start) if _kernels_read(x, len(index)) else _max(x, index, start)


def _max_back_on_cuda(g: Tensor, which: Tensor, target: Tensor, order: Tensor, start: Tensor) -> Tensor:
    if not _kernels_read(g, len(order)):
        return _max_back(g, which, target, order, start)
    return segments_kernel.gather_max_back(g, which, target, order, start)


def _dot_on_cuda(a: Tensor, b: Tensor, start: Tensor, target: Tensor, source: Tensor, num_heads: int) -> Tensor:
    if not _kernels_read(a, len(target)):
        return _dot(a, b, start, target, source, num_heads)
    return segments_kernel.edge_dot(a, b, target, source, num_heads)


def _shares_on_cuda(scores: Tensor, start: Tensor, target: Tensor, rows: Tensor | None) -> Tensor:
    if not _kernels_read(scores, len(scores)):
        return _shares(scores, start, target, None)
    return segments_kernel.edge_shares(scores, start, rows)


def _pick_on_cuda(x: Tensor, index: Tensor) -> Tensor:
    short = x.dim() == 2 and x.shape[1] * x.element_size() <= _SHORT
    return segments_kernel.pick(x, index) if short and _kernels_read(x, len(index)) else _pick(x, index)


def _each_alone(op: Any, info: Any, dims: Any, *tensors: Any) -> tuple[Any, Any]:
    """Under vmap: one after another."""
    columns = [[t] * info.batch_size if dim is None else t.unbind(dim) for t, dim in zip(tensors, dims, strict=True)]
    found = [op(*row) for row in zip(*columns, strict=True)]
    if isinstance(found[0], Tensor):
        return torch.stack(found), 0
    return tuple(torch.stack(parts) for parts in zip(*found, strict=True)), (0,) * len(found[0])


def _sums_together(info: Any, dims: Any, x: Tensor, index: Any, start: Tensor, weight: Any, *plan: Any) -> Any:
    """Under vmap: where x alone differs, its axis is one more of columns."""
    if dims[0] is None or any(dim is not None for dim in dims[1:]) or (weight is not None and weight.dim() == 2):
        return _each_alone(gather_sum, info, dims, x, index, start, weight, *plan)
    wide = x.movedim(dims[0], 1)
    return gather_sum(wide.flatten(1), index, start, weight, *plan).unflatten(1, wide.shape[1:]), 1


_library = torch.library.Library("leadline", "FRAGMENT")
_OPTIONAL = "Tensor? rows, Tensor? cuts, Tensor? joins"
for _schema, _anywhere, _cuda, _fake in (
    (
        f"gather_sum(Tensor x, Tensor? index, Tensor start, Tensor? weight, {_OPTIONAL}) -> Tensor",
        _sum,
        _sum_on_cuda,
        lambda x, index, start, *rest: x.new_empty(start.shape[0] - 1, x.shape[1]),
    ),
    (
        "gather_max(Tensor x, Tensor index, Tensor start) -> (Tensor, Tensor)",
        _max,
        _max_on_cuda,
        lambda x, index, start: (
            x.new_empty(start.shape[0] - 1, x.shape[1]),
            index.new_empty(start.shape[0] - 1, x.shape[1]),
        ),
    ),
    (
        "gather_max_back(Tensor g, Tensor which, Tensor target, Tensor order, Tensor start) -> Tensor",
        _max_back,
        _max_back_on_cuda,
        lambda g, which, target, order, start: g.new_empty(start.shape[0] - 1, g.shape[1]),
    ),
    (
        "edge_dot(Tensor a, Tensor b, Tensor start, Tensor target, Tensor source, int num_heads) -> Tensor",
        _dot,
        _dot_on_cuda,
        lambda a, b, start, target, source, num_heads: a.new_empty(target.shape[0], num_heads, dtype=_wide(a)),
    ),
    (
        "edge_shares(Tensor scores, Tensor start, Tensor target, Tensor? rows) -> Tensor",
        _shares,
        _shares_on_cuda,
        lambda scores, start, target, rows: torch.empty_like(scores, memory_format=torch.contiguous_format),
    ),
    (
        "pick(Tensor x, Tensor index) -> Tensor",
        _pick,
        _pick_on_cuda,
        lambda x, index: x.new_empty(index.shape[0], *x.shape[1:]),
    ),
):
    _name = _schema.split("(")[0]
    _library.define(_schema)
    _library.impl(_name, _anywhere, "CompositeExplicitAutograd")
    _library.impl(_name, _cuda, "CUDA")
    torch.library.register_fake(f"leadline::{_name}", _fake, lib=_library)
    _rule = (
        _sums_together if _name == "gather_sum" else functools.partial(_each_alone, getattr(torch.ops.leadline, _name))
    )
    torch.library.register_vmap(f"leadline::{_name}", _rule, lib=_library)
