"""What comes together at a node: sums, means, largest values and shares over the edges that end in it.

    total     y_i = Σ_{e → i} m_e                   mean     y_i = total_i / (edges that end in i)               (1)
    largest   y_i = max_{e → i} m_e, 0 of none      shares   p_e = exp(s_e) / Σ_{f → i} exp(s_f)                 (2)
    received  y_i = Σ_{e → i} w_e x_{source(e)}     a sparse matrix times x: no message is ever written down     (3)
    agreement u_e = a_{target(e)} · b_{source(e)}   ∂w of (3); and ∂x is (3) along edges turned round            (4)
    sent      m_e = x_{source(e)}                   arrived  m_e = x_{target(e)}                                 (5)

Edges are sorted by where they end, and once more by where they begin, so each sum, and each sum of a gradient, runs
over one piece of memory in one order: the same bits every time. Sums are in float32 at least.

On a CPU a sum is torch's bag of embeddings, several times faster than its product of a sparse matrix; on a GPU it is
a kernel (`leadline.layers.segments_kernel`).

Notation   H heads, each of which has its own weight for an edge and its own K = D / H numbers of x
Shapes     messages (E, …) -> (N, …);  scores (E, H) -> (E, H);  x (N_s, D), weight (E,) or (E, H) -> (N, D)
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from leadline.data.edges import Edges
from leadline.layers import segment_operators as ops
from leadline.layers.once import once


def total(messages: Tensor, edges: Edges) -> Tensor:
    """Eq. 1.

    >>> edges = Edges.of(torch.tensor([[0, 1, 1], [1, 0, 1]]), num_nodes=2)
    >>> total(torch.tensor([[1.0], [2.0], [4.0]]), edges).tolist()
    [[1.0], [6.0]]
    """
    flat = messages.reshape(len(messages), _columns(messages))
    return _Unpick.apply(flat, _Ends(edges)).reshape(edges.num_targets, *messages.shape[1:])


def mean(messages: Tensor, edges: Edges) -> Tensor:
    """Eq. 1, 0 where no edge ends.

    >>> edges = Edges.of(torch.tensor([[0, 1, 1], [1, 0, 1]]), num_nodes=2)
    >>> mean(torch.tensor([[1.0], [2.0], [4.0]]), edges).tolist()
    [[1.0], [3.0]]
    """
    per = once(edges, "one over the edges there", lambda: 1 / edges.start.diff().clamp(min=1).double())
    return total(messages, edges) * per.to(messages.dtype).view(-1, *(1,) * (messages.dim() - 1))


def largest(messages: Tensor, edges: Edges) -> Tensor:
    """Eq. 2, 0 where no edge ends; of equal ones the first has the gradient.

    >>> edges = Edges.of(torch.tensor([[0, 1, 1], [1, 0, 1]]), num_nodes=3)
    >>> largest(torch.tensor([[1.0], [2.0], [4.0]]), edges).tolist()
    [[1.0], [4.0], [0.0]]
    """
    flat = messages.reshape(len(messages), _columns(messages))
    each = once(edges, "each alone", lambda: _alone(edges))
    return _Max.apply(flat, each)[0].reshape(edges.num_targets, *messages.shape[1:])


def largest_received(x: Tensor, edges: Edges) -> Tensor:
    """y_i = max_{e → i} x_{source(e)}, 0 of none, number by number.

    >>> edges = Edges.of(torch.tensor([[0, 1], [2, 2]]), num_nodes=3)
    >>> largest_received(torch.tensor([[1.0, 5.0], [3.0, 4.0], [9.0, 9.0]]), edges).tolist()
    [[0.0, 0.0], [0.0, 0.0], [3.0, 5.0]]
    """
    return cast(Tensor, _Max.apply(x, edges)[0])


def spread(messages: Tensor, edges: Edges) -> Tensor:
    """The standard deviation of what arrives, 0 where less than two edges end.

    >>> edges = Edges.of(torch.tensor([[0, 1, 1], [1, 1, 0]]), num_nodes=2)
    >>> spread(torch.tensor([[7.0], [1.0], [5.0]]), edges).tolist()
    [[0.0], [2.0]]
    """
    off = messages - arrived(mean(messages, edges), edges)
    variance = mean(off.square(), edges)
    return torch.where(variance > 0, variance, 1.0).sqrt() * (variance > 0)  # the root has no slope at 0


def shares(scores: Tensor, edges: Edges) -> Tensor:
    """Eq. 2: a softmax over the edges of each node.

    >>> edges = Edges.of(torch.tensor([[0, 1, 1], [1, 0, 1]]), num_nodes=2)
    >>> shares(torch.tensor([[9.0], [3.0], [3.0]]), edges).tolist()
    [[1.0], [0.5], [0.5]]
    """
    flat = scores.reshape(len(scores), _columns(scores))
    return _Shares.apply(flat, edges).reshape(scores.shape)


def received(x: Tensor, edges: Edges, weight: Tensor | None = None) -> Tensor:
    """Eq. 3.

    Args:
        weight: (E,), of each edge, or (E, H), of each edge for each of H equal parts of x; None is 1.

    >>> edges = Edges.of(torch.tensor([[0, 1, 1], [1, 0, 1]]), num_nodes=2)
    >>> received(torch.tensor([[10.0], [1.0]]), edges, torch.tensor([1.0, 2.0, 3.0])).tolist()
    [[1.0], [23.0]]
    """
    return cast(Tensor, _Sum.apply(_in_half(x), weight, Way(edges)))


def agreement(a: Tensor, b: Tensor, edges: Edges, num_heads: int = 1) -> Tensor:
    """Eq. 4, of each of H equal parts, (E, H).

    >>> edges = Edges.of(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> agreement(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.eye(2), edges).tolist()
    [[2.0], [3.0]]
    """
    return cast(Tensor, _Dot.apply(_in_half(a), _in_half(b), num_heads, Way(edges)))


def sent(x: Tensor, edges: Edges) -> Tensor:
    """Eq. 5: what stands where each edge begins.

    >>> sent(torch.tensor([[1.0], [2.0]]), Edges.of(torch.tensor([[1], [0]]), num_nodes=2)).tolist()
    [[2.0]]
    """
    return cast(Tensor, _Pick.apply(x, _Begins(edges)))


def arrived(x: Tensor, edges: Edges) -> Tensor:
    """Eq. 5: what stands where each edge ends.

    >>> arrived(torch.tensor([[1.0], [2.0]]), Edges.of(torch.tensor([[1], [0]]), num_nodes=2)).tolist()
    [[1.0]]
    """
    return cast(Tensor, _Pick.apply(x, _Ends(edges)))


def picked(x: Tensor, places: Tensor) -> Tensor:
    """x[places], whose gradient has one order too, where a place comes twice.

    >>> picked(torch.tensor([[1.0], [2.0]]), torch.tensor([1, 1, 0])).tolist()
    [[2.0], [2.0], [1.0]]
    """
    flat = places.flatten()
    return _PickAt.apply(x, flat).unflatten(0, places.shape)


def over(x: Tensor, first: Tensor, kind: str) -> Tensor:
    """One row for the rows first[g] … first[g + 1] - 1 of each g: their sum, mean or max; 0 of none.

    >>> over(torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([0, 1, 3]), "mean").tolist()
    [[1.0], [4.0]]
    """
    run = Edges(torch.arange(len(x), device=x.device), first, len(x))
    return {"sum": total, "mean": mean, "max": largest}[kind](x, run)


def _columns(messages: Tensor) -> int:
    return messages[:1].numel() if len(messages) else max(1, torch.Size(messages.shape[1:]).numel())


def _in_half(x: Tensor) -> Tensor:
    """In 16 bits where products of matrices are."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if x.dtype == torch.float32 and torch.is_autocast_enabled(kind) else x


def _alone(edges: Edges) -> Edges:
    """As many sources as there are edges, each of which sends one."""
    return Edges(torch.arange(len(edges), device=edges.source.device), edges.start, len(edges))


# ── which rows are read for which: plain objects, so that a trace looks at the tensors in them alone ──


class Way:
    """Edges as they run, or turned round: which rows of x come to each row of y."""

    def __init__(self, edges: Edges, back: bool = False):
        self.edges, self.back = edges, back

    @property
    def turned(self) -> Way:
        return Way(self.edges, not self.back)

    def sum(self, x: Tensor, weight: Tensor | None) -> Tensor:
        edges = self.edges
        if not self.back:
            return ops.gather_sum(x, edges.source, edges.start, weight, *self.plan(edges.start, x, "arriving"))
        order, start = leaving(edges)
        index = once(edges, "where edges end that leave", lambda: edges.target[order])
        weight = None if weight is None else ops.pick(weight, order)
        return ops.gather_sum(x, index, start, weight, *self.plan(start, x, "leaving"))

    def plan(self, start: Tensor, x: Tensor, name: str) -> tuple[Tensor | None, ...]:
        return once(self.edges, f"pieces of {name}", lambda: ops.pieces(start)) if x.is_cuda else (None, None, None)

    def dot(self, a: Tensor, b: Tensor, num_heads: int) -> Tensor:
        a, b = (b, a) if self.back else (a, b)
        return ops.edge_dot(a, b, self.edges.start, target(self.edges), self.edges.source, num_heads)


def leaving(edges: Edges) -> tuple[Tensor, Tensor]:
    """`edges.leaving`, kept apart from what is traced."""
    return once(edges, "leaving", lambda: type(edges).leaving.func(edges))  # type: ignore[attr-defined]


def target(edges: Edges) -> Tensor:
    """`edges.target`, kept apart from what is traced."""
    return once(edges, "target", lambda: type(edges).target.func(edges))  # type: ignore[attr-defined]


class _Ends:
    """Rows of x by where edges end."""

    def __init__(self, edges: Edges):
        self.edges = edges

    def index(self) -> Tensor:
        return target(self.edges)

    def sorted(self, x: Tensor) -> tuple[Tensor | None, ...]:
        start = self.edges.start
        return None, start, None, *Way(self.edges).plan(start, x, "arriving")


class _Begins:
    """Rows of x by where edges begin."""

    def __init__(self, edges: Edges):
        self.edges = edges

    def index(self) -> Tensor:
        return self.edges.source

    def sorted(self, x: Tensor) -> tuple[Tensor | None, ...]:
        order, start = leaving(self.edges)
        return order, start, None, *Way(self.edges).plan(start, x, "leaving")


# ── their derivatives, each made of the others ──


class _Pick(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, how: Any) -> Tensor:
        return ops.pick(x, how.index())

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.how = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return _Unpick.apply(g, ctx.how), None

    @staticmethod
    def jvp(ctx: Any, dx: Tensor, _: Any) -> Tensor:
        return cast(Tensor, _Pick.apply(dx, ctx.how))


class _Unpick(torch.autograd.Function):
    """y_j = Σ of the rows that were read of row j."""

    generate_vmap_rule = True

    @staticmethod
    def forward(g: Tensor, how: Any) -> Tensor:
        return ops.gather_sum(g, *how.sorted(g))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.how = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return _Pick.apply(g, ctx.how), None

    @staticmethod
    def jvp(ctx: Any, dg: Tensor, _: Any) -> Tensor:
        return cast(Tensor, _Unpick.apply(dg, ctx.how))


class _PickAt(torch.autograd.Function):
    """Rows by number; the numbers are of the batch, and a trace must see them."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, places: Tensor) -> Tensor:
        return ops.pick(x, places)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.count = len(inputs[0])
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return _UnpickAt.apply(g, *ctx.saved_tensors, ctx.count), None

    @staticmethod
    def jvp(ctx: Any, dx: Tensor, _: Any) -> Tensor:
        return cast(Tensor, _PickAt.apply(dx, *ctx.saved_tensors))


class _UnpickAt(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(g: Tensor, places: Tensor, count: int) -> Tensor:
        if g.device.type == "cpu" and g.dtype in (torch.float32, torch.float64):  # one order there, and no sorting
            return torch.index_add(g.new_zeros(count, *g.shape[1:]), 0, places, g)
        found, order = places.sort(stable=True)
        start = torch.searchsorted(found, torch.arange(count + 1, device=found.device))
        return ops.gather_sum(g, order, start)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        return _PickAt.apply(g, *ctx.saved_tensors), None, None


class _Sum(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor | None, way: Way) -> Tensor:
        return way.sum(x, weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, weight, ctx.way = inputs
        needed = weight is not None and ctx.needs_input_grad[1]  # else x is not held
        ctx.shape = None if weight is None else weight.shape
        ctx.dtype = None if weight is None else weight.dtype
        ctx.save_for_backward(x if needed else None, weight)
        ctx.save_for_forward(x, weight)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        gx = _Sum.apply(g, weight, ctx.way.turned) if ctx.needs_input_grad[0] else None
        if x is None or not ctx.needs_input_grad[1]:
            return gx, None, None
        heads = ctx.shape[1] if len(ctx.shape) == 2 else 1
        return gx, _Dot.apply(g, x, heads, ctx.way).view(ctx.shape).to(ctx.dtype), None

    @staticmethod
    def jvp(ctx: Any, dx: Tensor | None, dw: Tensor | None, _: Any) -> Tensor:
        x, weight = ctx.saved_tensors
        parts = [_Sum.apply(a, b, ctx.way) for a, b in ((dx, weight), (x, dw)) if a is not None and b is not None]
        if dx is not None and weight is None:
            parts = [_Sum.apply(dx, None, ctx.way)]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]


class _Dot(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor, num_heads: int, way: Way) -> Tensor:
        return way.dot(a, b, num_heads)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        a, b, _, ctx.way = inputs
        ctx.save_for_backward(a, b)

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        a, b = ctx.saved_tensors
        ga = _Sum.apply(b, u, ctx.way) if ctx.needs_input_grad[0] else None
        gb = _Sum.apply(a, u, ctx.way.turned) if ctx.needs_input_grad[1] else None
        return ga, gb, None, None


class _Max(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
        return ops.gather_max(x, edges.source, edges.start)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.edges, ctx.count = inputs[1], len(inputs[0])
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> tuple[Tensor, None]:
        order, start = leaving(ctx.edges)
        (which,) = ctx.saved_tensors
        return ops.gather_max_back(g, which, target(ctx.edges), order, start), None


class _Shares(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, edges: Edges) -> Tensor:
        rows = Way(edges).plan(edges.start, scores, "arriving")[0]
        return ops.edge_shares(scores, edges.start, target(edges), rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.edges = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (p,) = ctx.saved_tensors
        own = p * g
        back: Tensor = own - p * arrived(total(own, ctx.edges), ctx.edges)
        return back, None
