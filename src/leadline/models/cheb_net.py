"""Spectral network: each layer is a polynomial of the graph's Laplacian (Defferrard, Bresson and Vandergheynst, 2016).

    h_{k+1} = a[β_k + Σ_{j=0}^{J-1} Ω_kj T_j(L - I) h_k],   h_0 = x,   L = I - D^{-1/2} A D^{-1/2}                (1)
    answer  = h_K at a node;   of h_K at both ends of an edge;   of the mean of h_K over a graph                  (2)

T_j are Chebyshev's polynomials, or plain powers of D^{-1/2} A D^{-1/2}. A layer looks J - 1 steps far. Edges have no
direction.

Notation   Ω_kj, β_k -> stack.layers[k], `leadline.layers.graph_filters`;  (2) -> head
Shapes     numbers of nodes (B, 1), pairs (B, 2) or graphs (B, 1) -> (B, dim_output)
Train it   leadline train nodes.csv --edges edges.csv --target label --model ChebNet
"""

from __future__ import annotations

import functools

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.graph_filters import PolynomialFilter
from leadline.layers.graph_head import GraphHead, last_width
from leadline.layers.graph_stack import GraphStack
from leadline.layers.held_graph import HeldGraph
from leadline.models.sizes import check_sizes


class ChebNet(nn.Module, Configured):
    """Args:
        dim_input, dim_output: numbers of a node, and of an answer.
        dim: width of the layers.
        num_layers: how many layers, K, at least 1.
        num_terms: terms of a polynomial, J, at least 1.
        kind: "chebyshev" or "polynomial".
        p_drop: of what the layers after the first one read, from 0 to below 1.
        residual: "none", "sum" or "concat".
        jumping: which layers the end reads: "none" is the last; "concat" and "max" all.
        level: "node", "edge" or "graph".
        readout: of graphs, "mean", "sum" or "max".
        edge_head: of pairs, "dot" or "mlp".

    >>> ChebNet.tiny().config["num_layers"]
    2
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        dim: int = 64,
        num_layers: int = 2,
        num_terms: int = 3,
        kind: str = "chebyshev",
        p_drop: float = 0.0,
        residual: str = "none",
        jumping: str = "none",
        level: str = "node",
        readout: str = "mean",
        edge_head: str = "dot",
    ):
        super().__init__()
        check_sizes("ChebNet", dim_input=dim_input, dim_output=dim_output, dim=dim, num_layers=num_layers)
        self.dim_input, self.dim_output, self.dim, self.num_layers = dim_input, dim_output, dim, num_layers
        self.num_terms, self.kind = num_terms, kind
        self.p_drop, self.residual, self.jumping = p_drop, residual, jumping
        self.level, self.readout, self.edge_head = level, readout, edge_head
        self.held = HeldGraph(level, whole=True)
        self.stack = GraphStack(
            functools.partial(PolynomialFilter, num_terms=num_terms, kind=kind),
            *(dim_input, dim, num_layers, last_width(level, jumping, dim, dim_output)),
            p_drop=p_drop,
            residual=residual,
            jumping=jumping,
        )
        self.head = GraphHead(level, self.stack.dim_output, dim_output, readout, edge_head, done=jumping == "none")

    @classmethod
    def tiny(cls) -> ChebNet:
        return cls(3, 2, dim=4)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.held.row_shape

    def forward(self, asked: Tensor) -> Tensor:
        read = self.held(asked, self.num_layers)
        return self.head(self.stack(read.x, read.blocks, read.keys), read)  # eqs. 1, 2
