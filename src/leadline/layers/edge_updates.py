"""Nodes and edges that have numbers both: each is updated from the other, by turns (Prince, 2023, section 13.10).

    f'_e = a[β_f + Ω_f [f_e; h_source; h_target; Σ_{d → source(e)} f_d]]       an edge: itself, its ends, and the
                                                                               edges that lead to it                (1)
    h'_i = a[β_h + Ω_h [h_i; Σ_{e → i} f'_e; Σ_{e → i} h_source(e)]]           a node: itself, edges, neighbours    (2)

The last sum of (1) is a step along the graph whose nodes are the edges, without building that graph: edges that meet in
a node are summed there once, for all edges that leave it.

Notation   Ω_f, β_f -> edge;  Ω_h, β_h -> node;  a -> ReLU
Shapes     h (N, dim), f (E, dim_edge) -> the same; widths of both are free
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.layers.graph_filters import whole_graph
from leadline.layers.segments import arrived, received, sent, total


class EdgeUpdate(nn.Module):
    """Args:
        dim_input, dim_edge_input: widths of what is read of nodes and edges, at least 1.
        dim, dim_edge: of what is made.
        through_edges: whether the last sum of eq. 1 is there.

    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2)
    >>> h, f = EdgeUpdate(3, 2, 8, 5)(torch.ones(2, 3), torch.ones(1, 2), pair)
    >>> h.shape, f.shape
    (torch.Size([2, 8]), torch.Size([1, 5]))
    """

    def __init__(self, dim_input: int, dim_edge_input: int, dim: int, dim_edge: int, through_edges: bool = True):
        super().__init__()
        self.through_edges = through_edges
        self.edge = nn.Linear((1 + through_edges) * dim_edge_input + 2 * dim_input, dim_edge)
        self.node = nn.Linear(2 * dim_input + dim_edge, dim)

    def forward(self, h: Tensor, f: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
        whole_graph(edges, "a layer that updates edges")
        parts = [f, sent(h, edges), arrived(h, edges)]
        if self.through_edges:
            parts.append(sent(total(f, edges), edges))
        f = self.edge(torch.cat(parts, -1)).relu()  # eq. 1
        h = self.node(torch.cat([h, total(f, edges), received(h, edges)], -1)).relu()  # eq. 2
        return h, f
