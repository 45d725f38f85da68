"""Transformer on a graph: attention to all nodes within a few steps, and what a distance is worth (Ying et al., 2021).

    h_0     = β + Ω x                                                                                             (1)
    h_{k+1} = block_k(h_k):   attention to nodes at most R steps away, then a network, each added to the stream   (2)
    answer  = of norm(h_K) at a node;   at both ends of an edge;   of its mean over a graph                       (3)

Notation   Ω, β -> embed;  block_k -> blocks[k], `leadline.layers.graph_transformer`;  (3) -> head
Shapes     numbers of nodes (B, 1), pairs (B, 2) or graphs (B, 1) -> (B, dim_output)
Train it   leadline train nodes.csv --edges edges.csv --target label --model GraphTransformer
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.graph_head import GraphHead
from leadline.layers.graph_transformer import GraphTransformerBlock
from leadline.layers.held_graph import HeldGraph
from leadline.layers.node_dropout import NodeDropout
from leadline.models.sizes import check_sizes


class GraphTransformer(nn.Module, Configured):
    """Args:
        dim_input, dim_output: numbers of a node, and of an answer.
        dim: width of the stream, of which num_heads must be a part.
        num_layers: how many blocks, at least 1.
        num_heads: of attention.
        num_hops: how many steps far a node looks, R, at least 1.
        positions: whether a score depends on the distance.
        p_drop: of what the blocks after the first one read, from 0 to below 1.
        level: "node", "edge" or "graph".
        readout: of graphs, "mean", "sum" or "max".
        edge_head: of pairs, "dot" or "mlp".

    >>> GraphTransformer.tiny().config["num_heads"]
    2
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        dim: int = 64,
        num_layers: int = 2,
        num_heads: int = 4,
        num_hops: int = 2,
        positions: bool = True,
        p_drop: float = 0.0,
        level: str = "node",
        readout: str = "mean",
        edge_head: str = "dot",
    ):
        super().__init__()
        check_sizes("GraphTransformer", dim_input=dim_input, dim_output=dim_output, dim=dim, num_layers=num_layers)
        self.dim_input, self.dim_output, self.dim, self.num_layers = dim_input, dim_output, dim, num_layers
        self.num_heads, self.num_hops, self.positions, self.p_drop = num_heads, num_hops, positions, p_drop
        self.level, self.readout, self.edge_head = level, readout, edge_head
        self.held = HeldGraph(level, whole=True)
        self.embed = nn.Linear(dim_input, dim)
        self.drops = nn.ModuleList(NodeDropout(p_drop, site=k) for k in range(num_layers))
        self.blocks = nn.ModuleList(
            GraphTransformerBlock(dim, num_heads, num_hops, positions) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.head = GraphHead(level, dim, dim_output, readout, edge_head)

    @classmethod
    def tiny(cls) -> GraphTransformer:
        return cls(3, 2, dim=4, num_heads=2)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.held.row_shape

    def forward(self, asked: Tensor) -> Tensor:
        read = self.held(asked, self.num_layers)
        h = self.embed(read.x)  # eq. 1
        for block, drop, edges in zip(self.blocks, self.drops, read.blocks, strict=True):
            h = block(drop(h, read.keys), edges)  # eq. 2
        return self.head(self.norm(h), read)  # eq. 3
