"""What an edge counts in a sum over neighbours: degrees keep sums of many neighbours from growing.

    mean         w_e = a_e / d_target                            ½ of each of two, ⅓ of each of three               (1)
    kipf         w_e = a_e / √(d_target d_source)  of A + I      every node is its own neighbour first (Kipf, 2017) (2)
    kipf_after   w_e = a_e / √(d_target d_source)  of A, and I   the node itself is added as it is                  (3)

The matrix of (2) has no eigenvalue beyond ±1. A node without neighbours has itself alone in (2) and (3). Both belong to
graphs without directions, in which d_source is what the source receives as well as what it sends.

Paper      (3) is how Prince writes it (2023, eq. 13.20), (2) how Kipf and Welling do. A loop that the graph already has
           is one more neighbour; PyG has it in place of the loop of (2).
Notation   a_e -> edges.weight, 1 where there is none;  d -> edges.strength, the sum of a_e over the edges that end
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leadline.data.edges import Edges
from leadline.errors import UserError
from leadline.layers.once import once


def kipf(edges: Edges, dtype: torch.dtype = torch.float32) -> tuple[Edges, Tensor]:
    """Eq. 2: the edges with a loop at each node, and the weight of each, in 32 bits or, for `dtype`, in 64.

    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2, directed=False)
    >>> kipf(pair)[1].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    looped = once(edges, "looped", edges.with_loops)
    return looped, kipf_after(looped, dtype)


def kipf_after(edges: Edges, dtype: torch.dtype = torch.float32) -> Tensor:
    """Eq. 3: the weight of each edge.

    >>> star = Edges.of(torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4]]), num_nodes=5, directed=False)
    >>> kipf_after(star).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    undirected(edges, "a layer of Kipf and Welling")
    return _once(edges, "kipf", dtype, _symmetric)


def mean_weights(edges: Edges, dtype: torch.dtype = torch.float32) -> Tensor:
    """Eq. 1: by the sum of weights that are there; where edges were left out at random, by that of all.

    >>> mean_weights(Edges.of(torch.tensor([[1, 2], [0, 0]]), num_nodes=3)).tolist()
    [0.5, 0.5]
    """
    return _once(edges, "mean", dtype, _mean)


def undirected(edges: Edges, who: str) -> None:
    """Refuses edges that may be there one way alone."""
    if edges.directed:
        raise UserError(
            f"{who} must be given a graph without directions",
            got="directed edges",
            do="Leave out directed, so that each edge runs back too; or use GraphSAGE or GAT",
        )


def _once(edges: Edges, name: str, dtype: torch.dtype, make: Callable[[Edges], Tensor]) -> Tensor:
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return once(edges, f"{name} in {wide}", lambda: make(edges).to(wide))


def _mean(edges: Edges) -> Tensor:
    _check_signs(edges)
    d = edges.strength[: edges.num_targets].double()
    return _own(edges) / torch.where(d == 0, 1.0, d)[edges.target]


def _symmetric(edges: Edges) -> Tensor:
    _check_signs(edges)
    d = edges.strength.double()
    both = d[edges.target] * d[edges.source]
    return _own(edges) / torch.where(both > 0, both, torch.inf).sqrt()


def _check_signs(edges: Edges) -> None:
    """Refuses weights below 0 in a whole graph: sums of them are no degrees."""
    if edges.weight is not None and edges.full_strength is None and bool((edges.weight < 0).any()):
        raise UserError(
            "weights of edges must be at least 0 where sums are divided by them",
            got=f"{float(edges.weight.min()):g}",
            do="Leave out weight, which makes the column a feature of edges; or use GIN, or MessageNet with a sum",
        )


def _own(edges: Edges) -> Tensor:
    """a_e, times what it stands for."""
    a = torch.ones_like(edges.source, dtype=torch.float64) if edges.weight is None else edges.weight.double()
    return a if edges.times is None else a * edges.times
