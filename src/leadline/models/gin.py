"""Graph isomorphism network: tells apart whatever colours that are refined tell apart (Xu et al., 2019).

    h_{k+1}^{(n)} = a[network_k((1 + ε_k) h_k^{(n)} + Σ_{m ∈ ne(n)} h_k^{(m)})],   h_0 = x                        (1)
    answer        = h_K at a node;   of h_K at both ends of an edge;   of the sum of h_K over a graph             (2)

Features of edges, where there are any, are added to what a neighbour sends (Hu et al., 2020).

Notation   network_k, ε_k -> stack.layers[k], `leadline.layers.graph_isomorphism`;  (2) -> head
Paper      (1) has h_k on its right side, where one textbook prints h_{k+1}
Shapes     numbers of nodes (B, 1), pairs (B, 2) or graphs (B, 1) -> (B, dim_output)
Train it   leadline train nodes.csv --edges edges.csv --target label --model GIN
"""

from __future__ import annotations

import functools

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.graph_head import GraphHead, last_width
from leadline.layers.graph_isomorphism import IsomorphismLayer
from leadline.layers.graph_stack import GraphStack
from leadline.layers.held_graph import HeldGraph
from leadline.models.sizes import check_sizes


class GIN(nn.Module, Configured):
    """Args:
        dim_input, dim_output: numbers of a node, and of an answer.
        dim: width of the layers.
        num_layers: how many layers, K, at least 1.
        p_drop: of what the layers after the first one read, from 0 to below 1.
        residual: "none", "sum" or "concat".
        jumping: which layers the end reads: "none" is the last; "concat" and "max" all.
        level: "node", "edge" or "graph".
        dim_edge: numbers of an edge that are read; 0 is none.
        readout: of graphs, "mean", "sum" or "max".
        edge_head: of pairs, "dot" or "mlp".

    >>> GIN.tiny().config["num_layers"]
    2
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        dim: int = 64,
        num_layers: int = 2,
        p_drop: float = 0.0,
        residual: str = "none",
        jumping: str = "none",
        level: str = "node",
        dim_edge: int = 0,
        readout: str = "sum",
        edge_head: str = "dot",
    ):
        super().__init__()
        check_sizes("GIN", dim_input=dim_input, dim_output=dim_output, dim=dim, num_layers=num_layers)
        self.dim_input, self.dim_output, self.dim, self.num_layers = dim_input, dim_output, dim, num_layers
        self.dim_edge = dim_edge
        self.p_drop, self.residual, self.jumping = p_drop, residual, jumping
        self.level, self.readout, self.edge_head = level, readout, edge_head
        self.held = HeldGraph(level)
        self.stack = GraphStack(
            functools.partial(IsomorphismLayer, dim_edge=dim_edge, dim_hidden=dim),
            *(dim_input, dim, num_layers, last_width(level, jumping, dim, dim_output)),
            p_drop=p_drop,
            residual=residual,
            jumping=jumping,
        )
        self.head = GraphHead(level, self.stack.dim_output, dim_output, readout, edge_head, done=jumping == "none")

    @classmethod
    def tiny(cls) -> GIN:
        return cls(3, 2, dim=4, dim_edge=2)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.held.row_shape

    def forward(self, asked: Tensor) -> Tensor:
        read = self.held(asked, self.num_layers)
        return self.head(self.stack(read.x, read.blocks, read.keys), read)  # eqs. 1, 2
