"""Graph convolutional network: each node becomes a map of its neighbourhood, layer by layer (Kipf and Welling, 2017).

    h_{k+1} = a[β_k + Ω_k Σ_{m ∈ ne(n)} w_nm h_k^{(m)}],   h_0 = x,   w = (D+I)^{-1/2} (A+I) (D+I)^{-1/2}        (1)
    answer  = h_K at a node;   of h_K at both ends of an edge;   of the mean of h_K over a graph                  (2)

Of nodes, the last layer is (1) without a[·] and has the width of the answer, unless layers jump to the end.

Notation   Ω_k, β_k -> stack.layers[k].map;  (2) -> head, `leadline.layers.graph_head`
Shapes     numbers of nodes (B, 1), pairs (B, 2) or graphs (B, 1) -> (B, dim_output)
Train it   leadline train nodes.csv --edges edges.csv --target label --model GCN
"""

from __future__ import annotations

import functools

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.graph_convolution import GraphConvolution
from leadline.layers.graph_head import GraphHead, last_width
from leadline.layers.graph_stack import GraphStack
from leadline.layers.held_graph import HeldGraph
from leadline.models.sizes import check_sizes


class GCN(nn.Module, Configured):
    """Args:
        dim_input, dim_output: numbers of a node, and of an answer.
        dim: width of the layers.
        num_layers: how many layers, K, at least 1.
        norm: "kipf", in which a node is its own neighbour first, or "kipf_after", in which it is added as it is.
        p_drop: of what the layers after the first one read, from 0 to below 1.
        residual: "none", "sum" or "concat".
        jumping: which layers the end reads: "none" is the last; "concat" and "max" all.
        level: "node", "edge" or "graph".
        readout: of graphs, "mean", "sum" or "max".
        edge_head: of pairs, "dot" or "mlp".

    >>> import torch
    >>> from leadline.data.edges import Edges
    >>> from leadline.data.graph import Graph
    >>> net = GCN(3, 2)
    >>> net.held.put(Graph(torch.zeros(4, 3), Edges.of(torch.tensor([[0], [1]]), num_nodes=4, directed=False)))
    >>> net(torch.tensor([[0], [3]])).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        dim: int = 64,
        num_layers: int = 2,
        norm: str = "kipf",
        p_drop: float = 0.0,
        residual: str = "none",
        jumping: str = "none",
        level: str = "node",
        readout: str = "mean",
        edge_head: str = "dot",
    ):
        super().__init__()
        check_sizes("GCN", dim_input=dim_input, dim_output=dim_output, dim=dim, num_layers=num_layers)
        self.dim_input, self.dim_output, self.dim, self.num_layers = dim_input, dim_output, dim, num_layers
        self.norm, self.p_drop, self.residual, self.jumping = norm, p_drop, residual, jumping
        self.level, self.readout, self.edge_head = level, readout, edge_head
        self.held = HeldGraph(level)
        self.stack = GraphStack(
            functools.partial(GraphConvolution, norm=norm),
            *(dim_input, dim, num_layers, last_width(level, jumping, dim, dim_output)),
            p_drop=p_drop,
            residual=residual,
            jumping=jumping,
        )
        self.head = GraphHead(level, self.stack.dim_output, dim_output, readout, edge_head, done=jumping == "none")

    @classmethod
    def tiny(cls) -> GCN:
        return cls(3, 2, dim=4)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.held.row_shape

    def forward(self, asked: Tensor) -> Tensor:
        read = self.held(asked, self.num_layers)
        return self.head(self.stack(read.x, read.blocks, read.keys), read)  # eqs. 1, 2
