"""A graph: nodes with numbers, edges between them. Many graphs are one: their disjoint union, nodes in order.

Notation   N nodes,  F numbers a node,  E edges,  G graphs
Shapes     x (N, F);  kind (N,);  first (G + 1,), where the nodes of each graph begin
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from leadline.data.edges import Edges
from leadline.data.sampling import Sampling
from leadline.errors import ShapeError


@dataclass(frozen=True, eq=False)
class Graph:
    """Args:
        x: numbers of each node.
        edges: as many sources and targets as there are nodes.
        first: where the nodes of each graph begin, and one more; None is one graph.
        kind: which kind of node each is, from 0 on; None is one kind.
        taught: the edges that are there while a network learns, where others are kept from it; None is all.
        taught_x: numbers of the nodes then, where they follow from the edges; None is x.
        batches: how some of it is read while a network learns; None reads all.

    >>> pair = Graph(torch.zeros(2, 1), Edges.of(torch.tensor([[0], [1]]), num_nodes=2))
    >>> both = Graph.union([pair, pair])
    >>> both, both.edges.pairs.tolist(), both.of_node.tolist()
    (Graph(2 graphs, 4 nodes, 2 edges), [[0, 2], [1, 3]], [0, 0, 1, 1])
    """

    x: Tensor
    edges: Edges
    first: Tensor | None = None
    kind: Tensor | None = None
    taught: Edges | None = None
    taught_x: Tensor | None = None
    batches: Sampling | None = None

    def __post_init__(self):
        if self.x.dim() != 2 or not len(self.x) == self.edges.num_targets == self.edges.num_sources:
            raise ShapeError(
                "a graph must have a row of numbers for each node",
                got=f"x of shape {tuple(self.x.shape)} and edges of {self.edges.num_targets} nodes",
                do="Pass x of shape (nodes, numbers)",
            )

    def __len__(self) -> int:
        return len(self.x)

    @property
    def num_graphs(self) -> int:
        return 1 if self.first is None else len(self.first) - 1

    @cached_property
    def while_learning(self) -> Graph:
        """What a network that learns may see of it."""
        if self.taught is None:
            return self
        x = self.x if self.taught_x is None else self.taught_x
        return replace(self, x=x, edges=self.taught, taught=None, taught_x=None)

    @cached_property
    def bounds(self) -> Tensor:
        """Where the nodes of each graph begin, (G + 1,), of a single one too."""
        return torch.tensor([0, len(self)], device=self.x.device) if self.first is None else self.first

    @cached_property
    def of_node(self) -> Tensor:
        """Which graph each node belongs to, (N,)."""
        return torch.repeat_interleave(self.bounds.diff(), output_size=len(self))

    @classmethod
    def union(cls, graphs: Sequence[Graph]) -> Graph:
        """All of them as one; a union among them counts as the graphs that it holds."""
        sizes = torch.tensor([0, *(len(g) for g in graphs)]).cumsum(0).tolist()
        moved = [g.edges for g in graphs]
        many = torch.tensor([0, *(len(e) for e in moved)]).cumsum(0).tolist()

        def column(parts: list[Tensor | None], name: str) -> Tensor | None:
            there = [part for part in parts if part is not None]
            if there and len(there) < len(parts):
                raise ShapeError(
                    f"graphs of a union must all have {name}, or none",
                    got=f"{len(there)} of {len(parts)} that have",
                    do=f"Give all of them {name}",
                )
            return torch.cat(there) if there else None

        names = ("weight", "features", "relation", "number", "times", "full_degree", "full_strength")
        joined: dict[str, Any] = {name: column([getattr(e, name) for e in moved], name) for name in names}
        edges = Edges(
            torch.cat([e.source + at for e, at in zip(moved, sizes)]),
            torch.cat([*(e.start[:-1] + at for e, at in zip(moved, many)), moved[-1].start.new_tensor([many[-1]])]),
            sizes[-1],
            directed=any(e.directed for e in moved),
            **joined,
        )
        ends = [g.bounds[:-1] + at for g, at in zip(graphs, sizes)]
        first = torch.cat([*ends, ends[0].new_tensor([sizes[-1]])])
        return cls(torch.cat([g.x for g in graphs]), edges, first, column([g.kind for g in graphs], "kind"))

    def some(self, graphs: Tensor) -> Graph:
        """The union of some of the graphs, in that order; a graph may come twice."""
        nodes, first = _runs(self.bounds[graphs], self.bounds[graphs + 1])
        spots, start = _runs(self.edges.start[nodes], self.edges.start[nodes + 1])
        shift = torch.repeat_interleave(first[:-1] - self.bounds[graphs], first.diff())
        target = torch.repeat_interleave(start.diff(), output_size=len(spots))
        taken: dict[str, Any] = {
            name: None if (c := getattr(self.edges, name)) is None else c[spots]
            for name in ("weight", "features", "relation", "number", "times")
        }
        source = self.edges.source[spots] + shift[target]
        full = None if self.edges.full_degree is None else self.edges.full_degree[nodes]
        heavy = None if self.edges.full_strength is None else self.edges.full_strength[nodes]
        taken |= {"full_degree": full, "full_strength": heavy}
        edges = replace(self.edges, source=source, start=start, num_sources=len(nodes), **taken)
        return Graph(self.x[nodes], edges, first, None if self.kind is None else self.kind[nodes])

    def to(self, device: Any = None, dtype: torch.dtype | None = None) -> Graph:
        """On a device, with real numbers in a precision."""
        move = lambda t: t.to(device, dtype if t.is_floating_point() else None)  # noqa: E731
        own = {f.name: getattr(self, f.name) for f in fields(self)} | {"edges": self.edges.map(move)}
        own["taught"] = None if self.taught is None else self.taught.map(move)
        return Graph(**{name: move(x) if isinstance(x, Tensor) else x for name, x in own.items()})

    def __repr__(self) -> str:
        graphs = "" if self.first is None else f"{self.num_graphs} graphs, "
        return f"Graph({graphs}{len(self)} nodes, {len(self.edges)} edges)"


def _runs(begin: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers begin[k] … end[k] - 1 of all k, one after the other, and where those of each k begin.

    >>> [t.tolist() for t in _runs(torch.tensor([5, 0]), torch.tensor([7, 3]))]
    [[5, 6, 0, 1, 2], [0, 2, 5]]
    """
    counts = end - begin
    first = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    shift = torch.repeat_interleave(begin - first[:-1], counts)
    return torch.arange(len(shift), device=begin.device) + shift, first
