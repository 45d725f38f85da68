"""Edges of a graph, sorted by the node they end in: what a node receives lies in one piece, and sums have one order.

    source[e] -> target[e]         edge e runs from one node to another, and messages run along it
    e = start[i] … start[i+1] - 1  are the edges that end in node i

An edge without a direction is two, one each way. Parallel edges and loops are allowed.

Where nodes are many, a layer is computed for some of them at a time: of the nodes that are read, those that are asked
for come first, so that there are at least as many sources as targets (a block; in a whole graph they are the same).
What a sum over all edges would have been is told by `times`, and by how many edges the nodes have in the whole graph.

Notation   N_s sources,  N targets,  E edges,  D numbers an edge
Shapes     source, weight, relation, number, times (E,);  start (N + 1,);  features (E, D);  degree (N_s,)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from leadline.errors import ShapeError


@dataclass(frozen=True, eq=False)
class Edges:
    """Args:
        source: where each edge begins.
        start: where the edges of each target begin.
        num_sources: nodes that are read; the targets are the first of them.
        weight: of each edge; None is 1.
        features: numbers of each edge.
        relation: which kind of edge each is, from 0 on.
        number: which edge of its source, a table say, each was; both ways of one without a direction have the same.
        times: how many edges each stands for, where others were left out at random; None is 1.
        full_degree: of each source, edges that end in it in the whole graph, where some are left out here.
        full_strength: of each source, the weights of those edges together, where there are weights.
        directed: whether an edge may be there one way alone.

    >>> edges = Edges.of(torch.tensor([[2, 0, 1], [0, 1, 0]]), num_nodes=3)  # 2 → 0, 0 → 1, 1 → 0
    >>> edges.source.tolist(), edges.start.tolist(), edges.degree.tolist()
    ([1, 2, 0], [0, 2, 3, 3], [2, 1, 0])
    """

    source: Tensor
    start: Tensor
    num_sources: int
    weight: Tensor | None = None
    features: Tensor | None = None
    relation: Tensor | None = None
    number: Tensor | None = None
    times: Tensor | None = None
    full_degree: Tensor | None = None
    full_strength: Tensor | None = None
    directed: bool = True

    @classmethod
    def of(cls, pairs: Tensor, num_nodes: int, *, directed: bool = True, **columns: Tensor | None) -> Edges:
        """Edges of a whole graph, in any order.

        Args:
            pairs: (2, E), where they begin and where they end.
            directed: False adds to each edge the one that runs back, but for loops.
            columns: weight, features, relation, number, one row an edge.
        """
        if pairs.dim() != 2 or pairs.shape[0] != 2 or pairs.is_floating_point():
            raise ShapeError(
                "edges must be two rows of whole numbers, where they begin and where they end",
                got=f"{pairs.dtype} of shape {tuple(pairs.shape)}",
                do="Pass pairs of shape (2, E)",
            )
        if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < num_nodes:
            raise ShapeError(
                f"ends of edges must be nodes 0 … {num_nodes - 1}",
                got=f"{int(pairs.min())} … {int(pairs.max())}",
                do="Pass the right number of nodes, or correct the edges",
            )
        if columns.get("number") is None:
            columns["number"] = torch.arange(pairs.shape[1], device=pairs.device)
        if not directed:
            back = (pairs[0] != pairs[1]).nonzero().flatten()
            pairs = torch.cat([pairs, pairs[:, back].flip(0)], 1)
            columns = {name: c if c is None else torch.cat([c, c[back]]) for name, c in columns.items()}
        order = (pairs[1] * num_nodes + pairs[0]).argsort(stable=True)
        source, target = pairs[:, order]
        start = torch.searchsorted(target, torch.arange(num_nodes + 1, device=target.device))
        picked: dict[str, Any] = {name: None if c is None else c[order] for name, c in columns.items()}
        return cls(source, start, num_nodes, directed=directed, **picked)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def num_targets(self) -> int:
        """Nodes that are computed."""
        return len(self.start) - 1

    @cached_property
    def target(self) -> Tensor:
        """Where each edge ends."""
        counts = self.start.diff()
        return torch.repeat_interleave(counts, output_size=len(self))

    @cached_property
    def degree(self) -> Tensor:
        """Of each source, edges that end in it, in the whole graph."""
        return self.start.diff() if self.full_degree is None else self.full_degree

    @cached_property
    def strength(self) -> Tensor:
        """Of each source, the weights of the edges that end in it, together, in the whole graph."""
        if self.weight is None:
            return self.degree.double()
        if self.full_strength is not None:
            return self.full_strength
        zero = self.weight.new_zeros(self.num_sources)
        return zero.index_add_(0, self.target, self.weight if self.times is None else self.weight * self.times)

    @cached_property
    def pairs(self) -> Tensor:
        """(2, E), where they begin and where they end."""
        return torch.stack([self.source, self.target])

    @cached_property
    def leaving(self) -> tuple[Tensor, Tensor]:
        """The same edges sorted by where they begin: which edge comes when (E,), and where those of a source begin
        (N_s + 1,). Gradients run along them.
        """
        order = self.source.argsort(stable=True)
        nodes = torch.arange(self.num_sources + 1, device=order.device)
        return order, torch.searchsorted(self.source[order], nodes)

    def with_(self, **changes: Any) -> Edges:
        """The same with some fields replaced."""
        return replace(self, **changes)

    def map(self, function: Callable[[Tensor], Tensor]) -> Edges:
        """Edges of `function` of each tensor, which keeps their shapes: to another device, say."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        changed: dict[str, Any] = {name: function(x) if isinstance(x, Tensor) else x for name, x in own.items()}
        return Edges(**changed)

    def with_loops(self) -> Edges:
        """The same with one loop more at every node, of weight 1 and without features.

        >>> Edges.of(torch.tensor([[1], [0]]), num_nodes=2).with_loops().pairs.tolist()
        [[1, 0, 1], [0, 0, 1]]
        """
        N, device = self.num_targets, self.source.device
        nodes = torch.arange(N, device=device)
        start = self.start + torch.arange(N + 1, device=device)
        loops = start[1:] - 1  # a loop comes after its node's other edges
        others = torch.arange(len(self), device=device) + self.target

        def column(c: Any, fill: float | Tensor) -> Any:
            if c is None:
                return None
            new = c.new_empty(len(self) + N, *c.shape[1:])
            new[others], new[loops] = c, torch.as_tensor(fill, dtype=c.dtype, device=device)
            return new

        return replace(
            self,
            source=column(self.source, nodes),
            start=start,
            weight=column(self.weight, 1),
            features=column(self.features, 0),
            relation=column(self.relation, 0),
            number=column(self.number, -1),
            times=column(self.times, 1),
            full_degree=None if self.full_degree is None else self.full_degree + 1,
            full_strength=None if self.full_strength is None else self.full_strength + 1,
        )
