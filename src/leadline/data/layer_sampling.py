"""Layer sampling: so many nodes a layer are read, however many edges there are (FastGCN, LADIES; Zou et al., 2019).

    p_j = Σ_{e: j → targets} w_e² / (d_j d_target(e))      importance of a node for the targets of the layer     (1)
    q_j = p_j / u_j,  u_j uniform                          the M largest q are drawn, τ is the next              (2)
    all edges from j to the targets count max(1, τ / p_j) times:  E[Σ drawn] = Σ all                             (3)

Nodes that are targets themselves are read anyway: their edges all count once, and M others are drawn. A node is drawn
for all targets together, so a batch reads at most M (layers) + B nodes, while neighbours of neighbours multiply.

Paper      M draws with replacement there, M different nodes here, whose weights are those of priority sampling
           (Duffield, Lund and Thorup, 2007).
Notation   d edges that end in a node,  M nodes a layer
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.blocks import block, renumbered, runs
from leadline.data.edges import Edges
from leadline.data.hashes import keyed, priority


def layers(
    edges: Edges, seeds: Tensor, num_nodes: int, num_layers: int, key: Tensor
) -> tuple[Tensor, tuple[Edges, ...]]:
    """Eq. 3: the nodes that are read for `seeds`, these first, and the edges of each layer.

    Args:
        seeds: (B,), none of them twice.
        num_nodes: M, that are drawn for each layer.
        key: (1,), which says all that is drawn.

    >>> star = Edges.of(torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]]), num_nodes=5)
    >>> nodes, [one] = layers(star, torch.tensor([0, 1]), 2, 1, torch.tensor([7]))
    >>> len(nodes), len(one), one.times[0].item()  # node 1 is read anyway
    (4, 3, 1.0)
    """
    nodes, blocks = seeds, []
    for site in range(num_layers):
        spots, start, times = _drawn(edges, nodes, num_nodes, key, site)
        nodes, read = block(edges, nodes, spots, start, times)
        blocks.append(read)
    return nodes, tuple(blocks[::-1])


def _drawn(edges: Edges, nodes: Tensor, most: int, key: Tensor, site: int) -> tuple[Tensor, Tensor, Tensor]:
    """The edges that are read, where those of each node begin, and how many each stands for."""
    spots, start = runs(edges.start[nodes], edges.start[nodes + 1] - edges.start[nodes])
    read, source = renumbered(nodes, edges.source[spots], edges.num_sources)
    owner = torch.repeat_interleave(start.diff(), output_size=len(spots))
    degree = edges.degree[read].clamp(min=1).float()
    squared = torch.ones(len(spots), device=spots.device) if edges.weight is None else edges.weight[spots].float() ** 2
    p = torch.zeros(len(read), device=spots.device).index_add_(0, source, squared / degree[owner]) / degree  # eq. 1
    p = p.clamp(min=torch.finfo(torch.float32).tiny)
    times = torch.ones_like(p)
    others = p[len(nodes) :]
    if len(others) > most:
        q = priority(keyed(key, read[len(nodes) :], site), others)
        least = q.topk(most + 1).values[-1]
        times[len(nodes) :] = torch.where(q > least, (least / others).clamp(min=1.0), 0.0)  # eq. 2
    kept = times[source] > 0
    count = torch.zeros_like(nodes).index_add_(0, owner, kept.long())
    return spots[kept], torch.cat([count.new_zeros(1), count.cumsum(0)]), times[source[kept]]
