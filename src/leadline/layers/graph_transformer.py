"""A transformer block on a graph: the library's attention, with a mask that says who is near (Dwivedi 2021; Ying 2021).

    x <- x + attend(norm(x)),   i may look at j where dist(i, j) <= R           R = 1: itself and its neighbours   (1)
    score_ij <- score_ij + b_{h, dist(i, j)}                                    what a distance is worth           (2)
    x <- x + feed(norm(x))                                                                                          (3)

Distances are counted in steps along the edges, against their direction: j sends to i in so many. Nodes of different
graphs never see one another. The matrix of all pairs is written, so that graphs of thousands of nodes are its limit.

Notation   b -> hops, (H, R + 1)
Shapes     x (N, D), edges of a whole graph -> (N, D)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.errors import UserError
from leadline.layers.attention import SelfAttention
from leadline.layers.feed_forward import FeedForward
from leadline.layers.graph_filters import whole_graph
from leadline.layers.masks import Graph as GraphMask
from leadline.layers.once import once
from leadline.settings import whole

MOST_NODES = 20_000  # of which all pairs are looked at


class GraphTransformerBlock(nn.Module):
    """Args:
        dim: D.
        num_heads: H, of which D is a multiple.
        num_hops: R.
        positions: whether scores depend on distances, eq. 2.

    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2)
    >>> GraphTransformerBlock(8, 2)(torch.ones(2, 8), pair).shape
    torch.Size([2, 8])
    """

    def __init__(self, dim: int, num_heads: int = 4, num_hops: int = 1, positions: bool = True):
        super().__init__()
        self.num_hops = whole("num_hops", num_hops)
        self.attention, self.feed = SelfAttention(dim, num_heads), FeedForward(dim, 2 * dim)
        self.before_attention, self.before_feed = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.hops = nn.Parameter(torch.zeros(num_heads, num_hops + 1)) if positions else None

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        far = distances(edges, self.num_hops)
        mask = once(edges, f"seen in {self.num_hops}", lambda: GraphMask(far <= self.num_hops))
        bias = None if self.hops is None else self.hops[:, far.clamp(max=self.num_hops)]
        x = x + self.attention(self.before_attention(x)[None], mask, bias)[0]  # eqs. 1, 2
        return x + self.feed(self.before_feed(x))  # eq. 3


def distances(edges: Edges, most: int) -> Tensor:
    """(N, N), steps in which j sends to i, up to `most`; most + 1 is farther.

    >>> distances(Edges.of(torch.tensor([[0, 1], [1, 2]]), num_nodes=3), 1).tolist()
    [[0, 2, 2], [1, 0, 2], [2, 1, 0]]
    """
    whole_graph(edges, "a transformer on a graph")
    N = edges.num_targets
    if N > MOST_NODES:
        raise UserError(
            f"a graph must have at most {MOST_NODES:,} nodes for all its pairs",
            got=f"{N:,}",
            do="Use GAT, which looks along edges alone",
        )

    def made() -> Tensor:
        A = torch.zeros(N, N, device=edges.source.device)
        A[edges.target, edges.source] = 1.0
        reach = torch.eye(N, device=A.device)
        far = torch.where(reach > 0, 0, most + 1)
        for k in range(1, most + 1):
            reach = ((A @ reach + reach) > 0).float()
            far = torch.where((reach > 0) & (far > most), k, far)
        return far

    return once(edges, f"distances to {most}", made)
