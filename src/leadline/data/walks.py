"""Random walks against the direction of messages: what a node may hear of, one step after another.

    i_0 asked,   i_{t+1} = source of a random edge that ends in i_t        a node without such edges stays        (1)

The nodes that walks meet, with all edges between them, are a small graph around the asked ones (GraphSAINT's walks;
Zeng et al., 2020). Nodes that many walks meet are close: how often each is met says how important it is to the node
where the walks begin (PinSAGE; Ying et al., 2018).

Shapes     seeds (B,) -> (W B, T + 1) for W walks of T steps, those of a seed one after the other
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.edges import Edges
from leadline.data.hashes import below, keyed


def walks(edges: Edges, seeds: Tensor, num_steps: int, num_walks: int, key: Tensor) -> Tensor:
    """Eq. 1.

    >>> path = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    >>> walks(path, torch.tensor([3, 1]), num_steps=2, num_walks=1, key=torch.tensor([0])).tolist()
    [[3, 2, 1], [1, 0, 0]]
    """
    at = seeds.repeat_interleave(num_walks)
    met = [at]
    keys = keyed(key, at * num_walks + torch.arange(num_walks, device=at.device).repeat(len(seeds)), 0)
    for step in range(num_steps):
        begin, end = edges.start[at], edges.start[at + 1]
        spot = begin + below(keys, step, (end - begin).clamp(min=1))
        if len(edges):
            at = torch.where(end > begin, edges.source[spot.clamp(max=len(edges) - 1)], at)
        met.append(at)
    return torch.stack(met, 1)


def visits(edges: Edges, seed: int, num_steps: int, num_walks: int, key: Tensor) -> Tensor:
    """How often walks from a node come to each node, (N,), its own place left out.

    >>> star = Edges.of(torch.tensor([[1, 2, 3], [0, 0, 0]]), num_nodes=5, directed=False)
    >>> found = visits(star, 0, num_steps=1, num_walks=300, key=torch.tensor([0]))
    >>> int(found.sum()), bool((found[1:4] > 60).all()), int(found[4])
    (300, True, 0)
    """
    met = walks(edges, torch.tensor([seed], device=edges.source.device), num_steps, num_walks, key)
    found = met[:, 1:].flatten().bincount(minlength=edges.num_targets)
    found[seed] = 0
    return found
