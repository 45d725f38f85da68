"""Graph attention network: how much a node takes of each neighbour is learned (Veličković 2018; Brody et al. 2022).

    h_{k+1}^{(n)} = a[β_k + Σ_{m ∈ ne(n) ∪ n} p_nm Ω_k h_k^{(m)}],   p_n = softmax of scores,   h_0 = x           (1)
    answer        = h_K at a node;   of h_K at both ends of an edge;   of the mean of h_K over a graph            (2)

Heads stand one after the other; those of a last layer that answers are averaged.

Notation   Ω_k, β_k, scores -> stack.layers[k], `leadline.layers.graph_attention`;  (2) -> head
Shapes     numbers of nodes (B, 1), pairs (B, 2) or graphs (B, 1) -> (B, dim_output)
Train it   leadline train nodes.csv --edges edges.csv --target label --model GAT
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.graph_attention import GraphAttention
from leadline.layers.graph_head import GraphHead, last_width
from leadline.layers.graph_stack import GraphStack
from leadline.layers.held_graph import HeldGraph
from leadline.models.sizes import check_sizes


class GAT(nn.Module, Configured):
    """Args:
        dim_input, dim_output: numbers of a node, and of an answer.
        dim: width of the layers, of which num_heads must be a part.
        num_layers: how many layers, K, at least 1.
        num_heads: of attention.
        version: 1, or 2, in which each node ranks its neighbours by itself.
        p_drop: of what the layers after the first one read, from 0 to below 1.
        residual: "none", "sum" or "concat".
        jumping: which layers the end reads: "none" is the last; "concat" and "max" all.
        level: "node", "edge" or "graph".
        dim_edge: numbers of an edge that are read; 0 is none.
        readout: of graphs, "mean", "sum" or "max".
        edge_head: of pairs, "dot" or "mlp".

    >>> GAT.tiny().config["num_layers"]
    2
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        dim: int = 64,
        num_layers: int = 2,
        num_heads: int = 4,
        version: int = 1,
        p_drop: float = 0.0,
        residual: str = "none",
        jumping: str = "none",
        level: str = "node",
        dim_edge: int = 0,
        readout: str = "mean",
        edge_head: str = "dot",
    ):
        super().__init__()
        check_sizes("GAT", dim_input=dim_input, dim_output=dim_output, dim=dim, num_layers=num_layers)
        self.dim_input, self.dim_output, self.dim, self.num_layers = dim_input, dim_output, dim, num_layers
        self.num_heads, self.version, self.dim_edge = num_heads, version, dim_edge
        self.p_drop, self.residual, self.jumping = p_drop, residual, jumping
        self.level, self.readout, self.edge_head = level, readout, edge_head
        self.held = HeldGraph(level)
        self.stack = GraphStack(
            self._layer,
            *(dim_input, dim, num_layers, last_width(level, jumping, dim, dim_output)),
            p_drop=p_drop,
            residual=residual,
            jumping=jumping,
        )
        self.head = GraphHead(level, self.stack.dim_output, dim_output, readout, edge_head, done=jumping == "none")

    def _layer(self, dim_input: int, dim_output: int) -> GraphAttention:
        average = dim_output != self.dim or dim_output % self.num_heads > 0
        return GraphAttention(dim_input, dim_output, self.num_heads, self.version, self.dim_edge, average)

    @classmethod
    def tiny(cls) -> GAT:
        return cls(3, 2, dim=4, num_heads=2, dim_edge=2)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.held.row_shape

    def forward(self, asked: Tensor) -> Tensor:
        read = self.held(asked, self.num_layers)
        return self.head(self.stack(read.x, read.blocks, read.keys), read)  # eqs. 1, 2
