"""Recursive graph network: states of nodes that no longer change, one map for all steps (Gori 2005; Scarselli 2009).

    h^{(n)} = tanh(β + Ω x^{(n)} + c V mean_{m ∈ ne(n)} h^{(m)})           the fixed point, reached from 0        (1)
    answer  = of h at a node;   of h at both ends of an edge;   of the mean of h over a graph                     (2)

Unrolled, it is a convolution whose layers share their weights, and all see x.

Notation   Ω, β, V, c -> layer, `leadline.layers.fixed_point`;  (2) -> head
Shapes     numbers of nodes (B, 1), pairs (B, 2) or graphs (B, 1) -> (B, dim_output)
Train it   leadline train nodes.csv --edges edges.csv --target label --model RecursiveGraphNet
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.fixed_point import FixedPoint
from leadline.layers.graph_head import GraphHead
from leadline.layers.held_graph import HeldGraph
from leadline.models.sizes import check_sizes


class RecursiveGraphNet(nn.Module, Configured):
    """Args:
        dim_input, dim_output: numbers of a node, and of an answer.
        dim: width of a state.
        contraction: how much of a difference a step leaves, c, from 0 to below 1.
        num_steps: steps towards the fixed point, each of which leaves that part of the distance, at least 1.
        level: "node", "edge" or "graph".
        readout: of graphs, "mean", "sum" or "max".
        edge_head: of pairs, "dot" or "mlp".

    >>> RecursiveGraphNet.tiny().config["num_steps"]
    5
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        dim: int = 64,
        contraction: float = 0.9,
        num_steps: int = 20,
        level: str = "node",
        readout: str = "mean",
        edge_head: str = "dot",
    ):
        super().__init__()
        check_sizes("RecursiveGraphNet", dim_input=dim_input, dim_output=dim_output, dim=dim, num_steps=num_steps)
        self.dim_input, self.dim_output, self.dim = dim_input, dim_output, dim
        self.contraction, self.num_steps = contraction, num_steps
        self.level, self.readout, self.edge_head = level, readout, edge_head
        self.held = HeldGraph(level, whole=True)
        self.layer = FixedPoint(dim_input, dim, contraction, num_steps)
        self.head = GraphHead(level, dim, dim_output, readout, edge_head)

    @classmethod
    def tiny(cls) -> RecursiveGraphNet:
        return cls(3, 2, dim=4, num_steps=5)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.held.row_shape

    def forward(self, asked: Tensor) -> Tensor:
        read = self.held(asked, 1)
        return self.head(self.layer(read.x, read.blocks[0]), read)  # eqs. 1, 2
