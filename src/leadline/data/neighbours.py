"""Neighbourhoods of some nodes, layer by layer backwards: all neighbours, or a few that are drawn (Hamilton, 2017).

    hops          the targets of layer k read all their edges: loss and gradient are those of the whole graph   (1)
    neighbours    each target reads f_k of its d edges, drawn without replacement; each counts d / f_k times:
                  E[Σ_{drawn e} (d / f_k) m_e] = Σ_e m_e                                                        (2)

Few of many are drawn by Floyd's way: of d edges, for j = d - f … d - 1, take a random one of 0 … j, or j itself where
that one is taken. So a node with a million edges costs as much as any other. What is drawn follows from a key, the
layer, and the node; not from who else asks.

Weighted draws take the largest of weight over a uniform number, which favours heavy edges and meets sums on average
too: an edge counts max(1, τ / w_e) times, τ being the largest that was left out (Duffield, Lund and Thorup, 2007).

Notation   d edges that end in a node,  f fan-out
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from leadline.data.blocks import block, runs
from leadline.data.edges import Edges
from leadline.data.hashes import below, keyed, priority


def hops(edges: Edges, seeds: Tensor, num_layers: int) -> tuple[Tensor, tuple[Edges, ...]]:
    """Eq. 1: the nodes that are read for `seeds`, these first, and the edges of each layer.

    Args:
        seeds: (B,), none of them twice.

    >>> path = Edges.of(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), num_nodes=5)
    >>> nodes, blocks = hops(path, torch.tensor([4]), 2)
    >>> nodes.tolist(), [b.pairs.tolist() for b in blocks]
    ([4, 3, 2], [[[1, 2], [0, 1]], [[1], [0]]])
    """
    found = hops_within(edges, seeds, num_layers, num_layers * len(edges))
    return cast(tuple[Tensor, tuple[Edges, ...]], found)


def hops_within(edges: Edges, seeds: Tensor, num_layers: int, most: int) -> tuple[Tensor, tuple[Edges, ...]] | None:
    """The same where all layers together read at most so many edges; else None.

    >>> path = Edges.of(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), num_nodes=5)
    >>> hops_within(path, torch.tensor([4]), 2, most=2) is None
    True
    """
    nodes, blocks = seeds, []
    for _ in range(num_layers):
        count = edges.start[nodes + 1] - edges.start[nodes]
        most -= int(count.sum())
        if most < 0:
            return None
        spots, start = runs(edges.start[nodes], count)
        nodes, read = block(edges, nodes, spots, start, None)
        blocks.append(read)
    return nodes, tuple(blocks[::-1])


def neighbours(
    edges: Edges, seeds: Tensor, fan_outs: Sequence[int], key: Tensor, weighted: bool = False
) -> tuple[Tensor, tuple[Edges, ...]]:
    """Eq. 2: the nodes that are read for `seeds`, these first, and the edges of each layer.

    Args:
        seeds: (B,), none of them twice.
        fan_outs: edges that a node reads at most, the last layer's first, as they are drawn.
        key: (1,), which says all that is drawn.
        weighted: favour heavy edges; the graph must have weights.

    >>> star = Edges.of(torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]]), num_nodes=5)
    >>> nodes, [one] = neighbours(star, torch.tensor([0, 1]), [2], torch.tensor([7]))
    >>> one.start.tolist(), one.times.tolist(), one.degree.tolist()
    ([0, 2, 2], [2.0, 2.0], [4, 0, 0, 0])
    """
    nodes, blocks = seeds, []
    for site, fan_out in enumerate(fan_outs):
        draw = _heavy if weighted else _few
        spots, start, times = draw(edges, nodes, fan_out, keyed(key, nodes, site))
        nodes, read = block(edges, nodes, spots, start, times)
        blocks.append(read)
    return nodes, tuple(blocks[::-1])


def _few(edges: Edges, nodes: Tensor, fan_out: int, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """At most `fan_out` edges of each node, where those of each begin, and how many each stands for."""
    begin = edges.start[nodes]
    degree = edges.start[nodes + 1] - begin
    count = degree.clamp(max=fan_out)
    spots, start = runs(begin, count)
    rich = (degree > fan_out).nonzero().flatten()
    if len(rich):
        drawn = subsets(degree[rich], fan_out, keys[rich])
        at = start[rich] + torch.arange(fan_out, device=start.device)[:, None]
        spots[at.flatten()] = (begin[rich] + drawn).flatten()
    share = degree.to(edges.weight.dtype if edges.weight is not None else torch.get_default_dtype())
    times = torch.repeat_interleave(share / count.clamp(min=1), count, output_size=len(spots))
    return spots, start, times


def subsets(n: Tensor, size: int, keys: Tensor) -> Tensor:
    """A random subset of 0 … n[b] - 1 for each key, all of `size` equally probable; shape (size, B). Floyd's way.

    Args:
        n: each at least `size`.

    >>> subsets(torch.tensor([2, 3]), 2, torch.tensor([4, 5])).T.sort().values.tolist()
    [[0, 1], [1, 2]]
    """
    drawn = torch.empty(size, len(n), dtype=torch.int64, device=n.device)
    for j in range(size):
        top = n - (size - j)
        pick = below(keys, j, top + 1)
        if j:
            pick = torch.where((drawn[:j] == pick).any(0), top, pick)
        drawn[j] = pick
    return drawn


def _heavy(edges: Edges, nodes: Tensor, fan_out: int, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same, heavy edges first: all edges of the nodes are looked at."""
    begin = edges.start[nodes]
    degree = edges.start[nodes + 1] - begin
    spots, start = runs(begin, degree)
    owner = torch.repeat_interleave(degree, output_size=len(spots))
    place = torch.arange(len(spots), device=spots.device) - start[owner]
    weight = torch.ones_like(spots, dtype=torch.float32) if edges.weight is None else edges.weight[spots].abs()
    q = priority(keys[owner] + place, weight)
    order = q.argsort(descending=True, stable=True)
    order = order[owner[order].argsort(stable=True)]  # by node, then by priority
    rank = place  # of what now stands there
    kept = order[rank < fan_out]
    first_out = (start[:-1] + fan_out).clamp(max=len(order) - 1)
    least = torch.where(degree > fan_out, q[order[first_out]], 0.0) if len(order) else q.new_zeros(len(nodes))
    times = (least[owner[kept]] / weight[kept]).nan_to_num(nan=1.0, posinf=1.0).clamp(min=1.0)
    _, begins = runs(begin, degree.clamp(max=fan_out))
    return spots[kept], begins, times
