"""Message passing network: any aggregation, any way to join it with the node (Gilmer et al., 2017).

    h_{k+1}^{(n)} = a[combine_k(h_k^{(n)}, agg_{m ∈ ne(n)} h_k^{(m)})],   h_0 = x                                 (1)
    answer        = h_K at a node;   of h_K at both ends of an edge;   of the mean of h_K over a graph            (2)

With aggregate="sum" and combine="together" it is the plain convolution a[β + Ω H (A + I)]; with several aggregations it
is that of Corso et al. (2020), without their scaling by degrees.

Notation   combine_k, agg -> stack.layers[k], `leadline.layers.message_passing`;  (2) -> head
Shapes     numbers of nodes (B, 1), pairs (B, 2) or graphs (B, 1) -> (B, dim_output)
Train it   leadline train nodes.csv --edges edges.csv --target label --model MessageNet
"""

from __future__ import annotations

import functools

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.graph_head import GraphHead, last_width
from leadline.layers.graph_stack import GraphStack
from leadline.layers.held_graph import HeldGraph
from leadline.layers.message_passing import MessagePassing
from leadline.models.sizes import check_sizes


class MessageNet(nn.Module, Configured):
    """Args:
        dim_input, dim_output: numbers of a node, and of an answer.
        dim: width of the layers.
        num_layers: how many layers, K, at least 1.
        aggregate: "sum", "mean", "max", "min", "std", "kipf" or "attention", or several of them.
        combine: "together", "diagonal" or "separate"; of several aggregations "separate".
        p_drop: of what the layers after the first one read, from 0 to below 1.
        residual: "none", "sum" or "concat".
        jumping: which layers the end reads: "none" is the last; "concat" and "max" all.
        level: "node", "edge" or "graph".
        readout: of graphs, "mean", "sum" or "max".
        edge_head: of pairs, "dot" or "mlp".

    >>> MessageNet.tiny().config["num_layers"]
    2
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        dim: int = 64,
        num_layers: int = 2,
        aggregate: str | tuple[str, ...] = "sum",
        combine: str = "together",
        p_drop: float = 0.0,
        residual: str = "none",
        jumping: str = "none",
        level: str = "node",
        readout: str = "mean",
        edge_head: str = "dot",
    ):
        super().__init__()
        check_sizes("MessageNet", dim_input=dim_input, dim_output=dim_output, dim=dim, num_layers=num_layers)
        self.dim_input, self.dim_output, self.dim, self.num_layers = dim_input, dim_output, dim, num_layers
        self.aggregate, self.combine = aggregate, combine
        self.p_drop, self.residual, self.jumping = p_drop, residual, jumping
        self.level, self.readout, self.edge_head = level, readout, edge_head
        self.held = HeldGraph(level)
        self.stack = GraphStack(
            functools.partial(MessagePassing, aggregate=aggregate, combine=combine),
            *(dim_input, dim, num_layers, last_width(level, jumping, dim, dim_output)),
            p_drop=p_drop,
            residual=residual,
            jumping=jumping,
        )
        self.head = GraphHead(level, self.stack.dim_output, dim_output, readout, edge_head, done=jumping == "none")

    @classmethod
    def tiny(cls) -> MessageNet:
        return cls(3, 2, dim=4, aggregate=("mean", "max"), combine="separate")

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.held.row_shape

    def forward(self, asked: Tensor) -> Tensor:
        read = self.held(asked, self.num_layers)
        return self.head(self.stack(read.x, read.blocks, read.keys), read)  # eqs. 1, 2
