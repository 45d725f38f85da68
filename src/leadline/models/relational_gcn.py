"""Relational graph convolutional network: a map for each kind of edge, made of a few (Schlichtkrull et al., 2018).

    h_{k+1}^{(n)} = a[β_k + Ψ_k h_k^{(n)} + Σ_r mean_{m ∈ ne_r(n)} Ω_kr h_k^{(m)}],   Ω_kr = Σ_b a_krb V_kb   (1)
    answer        = h_K at a node;   of h_K at both ends of an edge;   of the mean of h_K over a graph            (2)

Notation   Ψ_k, a_krb, V_kb -> stack.layers[k], `leadline.layers.relational`;  (2) -> head
Shapes     numbers of nodes (B, 1), pairs (B, 2) or graphs (B, 1) -> (B, dim_output)
Train it   leadline train nodes.csv --edges edges.csv --target label --model RelationalGCN
"""

from __future__ import annotations

import functools

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.graph_head import GraphHead, last_width
from leadline.layers.graph_stack import GraphStack
from leadline.layers.held_graph import HeldGraph
from leadline.layers.relational import RelationalConvolution
from leadline.models.sizes import check_sizes


class RelationalGCN(nn.Module, Configured):
    """Args:
        dim_input, dim_output: numbers of a node, and of an answer.
        dim: width of the layers.
        num_layers: how many layers, K, at least 1.
        num_bases: of the maps; None is one for each kind of edge, up to four.
        p_drop: of what the layers after the first one read, from 0 to below 1.
        residual: "none", "sum" or "concat".
        jumping: which layers the end reads: "none" is the last; "concat" and "max" all.
        level: "node", "edge" or "graph".
        num_relations: kinds of edges.
        readout: of graphs, "mean", "sum" or "max".
        edge_head: of pairs, "dot" or "mlp".

    >>> RelationalGCN.tiny().config["num_layers"]
    2
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        dim: int = 64,
        num_layers: int = 2,
        num_bases: int | None = None,
        p_drop: float = 0.0,
        residual: str = "none",
        jumping: str = "none",
        level: str = "node",
        num_relations: int = 1,
        readout: str = "mean",
        edge_head: str = "dot",
    ):
        super().__init__()
        check_sizes("RelationalGCN", dim_input=dim_input, dim_output=dim_output, dim=dim, num_layers=num_layers)
        self.dim_input, self.dim_output, self.dim, self.num_layers = dim_input, dim_output, dim, num_layers
        self.num_bases, self.num_relations = num_bases, num_relations
        self.p_drop, self.residual, self.jumping = p_drop, residual, jumping
        self.level, self.readout, self.edge_head = level, readout, edge_head
        self.held = HeldGraph(level)
        self.stack = GraphStack(
            functools.partial(RelationalConvolution, num_relations=num_relations, num_bases=num_bases),
            *(dim_input, dim, num_layers, last_width(level, jumping, dim, dim_output)),
            p_drop=p_drop,
            residual=residual,
            jumping=jumping,
        )
        self.head = GraphHead(level, self.stack.dim_output, dim_output, readout, edge_head, done=jumping == "none")

    @classmethod
    def tiny(cls) -> RelationalGCN:
        return cls(3, 2, dim=4, num_relations=3)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.held.row_shape

    def forward(self, asked: Tensor) -> Tensor:
        read = self.held(asked, self.num_layers)
        return self.head(self.stack(read.x, read.blocks, read.keys), read)  # eqs. 1, 2
