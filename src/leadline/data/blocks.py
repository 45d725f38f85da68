"""Some of the edges of a graph as the edges of one layer: nodes get new numbers, those that are asked for the first.

    nodes     the targets in their order, then the other nodes that are read, in the order of the graph

New numbers are looked up in a table of all nodes, of which only the places that matter are written and read; where few
nodes of many are read, sorting them takes less. Both give the same numbers.

Notation   T targets,  N nodes of the graph
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from leadline.data.edges import Edges

_COLUMNS = ("weight", "features", "relation")
_SPARSE = 100  # nodes of the graph to one that is read, from which on sorting takes less


def runs(begin: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers begin[k] … begin[k] + count[k] - 1 of all k, one after the other, and where those of each k begin.

    >>> [t.tolist() for t in runs(torch.tensor([5, 0]), torch.tensor([2, 3]))]
    [[5, 6, 0, 1, 2], [0, 2, 5]]
    """
    first = torch.cat([count.new_zeros(1), count.cumsum(0)])
    shift = torch.repeat_interleave(begin - first[:-1], count)
    return torch.arange(len(shift), device=begin.device) + shift, first


def renumbered(targets: Tensor, source: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The nodes that are read, targets first, and the place of each source among them.

    Args:
        targets: (T,), none of them twice.

    >>> [t.tolist() for t in renumbered(torch.tensor([7, 2]), torch.tensor([9, 2, 5, 9]), 10)]
    [[7, 2, 5, 9], [3, 1, 2, 3]]
    """
    if (len(source) + len(targets)) * _SPARSE < num_nodes:
        return _by_sorting(targets, source)
    return _by_table(targets, source, num_nodes)


def _by_table(targets: Tensor, source: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    read = torch.zeros(num_nodes, dtype=torch.bool, device=source.device)
    read[source] = True
    read[targets] = False
    nodes = torch.cat([targets, read.nonzero().flatten()])
    place = torch.empty(num_nodes, dtype=torch.int32, device=source.device)
    place[nodes] = torch.arange(len(nodes), dtype=torch.int32, device=source.device)
    return nodes, place[source].long()


def _by_sorting(targets: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    known, order = targets.sort()
    found, which = source.unique(return_inverse=True)
    at = torch.searchsorted(known, found).clamp(max=len(known) - 1)
    old = known[at] == found if len(known) else torch.zeros_like(found, dtype=torch.bool)
    new = found[~old]
    place = (~old).cumsum(0) - 1 + len(targets)
    if len(known):
        place = torch.where(old, order[at], place)
    return torch.cat([targets, new]), place[which]


def block(edges: Edges, targets: Tensor, spots: Tensor, start: Tensor, times: Tensor | None) -> tuple[Tensor, Edges]:
    """The nodes that some edges join, and those edges between them, without their `number`.

    Args:
        edges: of the whole graph.
        spots: which of them, sorted by target.
        start: where those of each target begin among `spots`, (T + 1,).
        times: how many edges each of them stands for; None is 1.

    >>> ring = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    >>> nodes, one = block(ring, torch.tensor([2]), torch.tensor([2]), torch.tensor([0, 1]), None)
    >>> nodes.tolist(), one.pairs.tolist(), one.num_sources, one.degree.tolist()
    ([2, 1], [[1], [0]], 2, [1, 1])
    """
    nodes, source = renumbered(targets, edges.source[spots], edges.num_sources)
    taken: dict[str, Any] = {name: None if (c := getattr(edges, name)) is None else c[spots] for name in _COLUMNS}
    if edges.times is not None:
        times = edges.times[spots] if times is None else times * edges.times[spots]
    taken["full_degree"] = edges.degree[nodes]
    taken["full_strength"] = None if edges.weight is None else edges.strength[nodes]
    return nodes, Edges(source, start, len(nodes), times=times, directed=edges.directed, **taken)


def inside(edges: Edges, nodes: Tensor) -> Edges:
    """The edges between some nodes, as those of a graph of its own: degrees are what is there.

    Args:
        nodes: none of them twice; they are numbered in this order.

    >>> ring = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    >>> inside(ring, torch.tensor([2, 1])).pairs.tolist()
    [[1], [0]]
    """
    place = torch.full((edges.num_sources,), -1, device=nodes.device)
    place[nodes] = torch.arange(len(nodes), device=nodes.device)
    spots, start = runs(edges.start[nodes], edges.start[nodes + 1] - edges.start[nodes])
    source = place[edges.source[spots]]
    kept = source >= 0
    owner = torch.repeat_interleave(start.diff(), output_size=len(spots))
    count = torch.zeros_like(nodes).index_add_(0, owner, kept.long())
    spots, source = spots[kept], source[kept]
    taken: dict[str, Any] = {
        name: None if (c := getattr(edges, name)) is None else c[spots] for name in (*_COLUMNS, "number", "times")
    }
    start = torch.cat([count.new_zeros(1), count.cumsum(0)])
    return Edges(source, start, len(nodes), directed=edges.directed, **taken)
