"""Edge network: nodes and edges both have numbers, and are updated from one another by turns (Prince, 2023, 13.10).

    f_{k+1} = a[β_f + Ω_f [f; h at both ends; Σ of f that lead to it]]            of each edge                    (1)
    h_{k+1} = a[β_h + Ω_h [h; Σ of f_{k+1}; Σ of neighbours' h]]                  of each node                    (2)
    answer  = of h_K at a node;   of h_K at both ends of an edge;   of the mean of h_K over a graph               (3)

h_0 = x; f_0 are the features of the edges, or 1 where they have none.

Notation   (1), (2) -> layers[k], `leadline.layers.edge_updates`;  (3) -> head
Shapes     numbers of nodes (B, 1), pairs (B, 2) or graphs (B, 1) -> (B, dim_output)
Train it   leadline train nodes.csv --edges edges.csv --target label --model EdgeNetwork
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.config import Configured
from leadline.data.edges import Edges
from leadline.errors import UserError
from leadline.layers.edge_updates import EdgeUpdate
from leadline.layers.graph_head import GraphHead
from leadline.layers.held_graph import HeldGraph
from leadline.layers.node_dropout import NodeDropout
from leadline.models.sizes import check_sizes


class EdgeNetwork(nn.Module, Configured):
    """Args:
        dim_input, dim_output: numbers of a node, and of an answer.
        dim: width of nodes in the layers.
        dim_edge_layer: width of edges in the layers.
        num_layers: how many layers, K, at least 1.
        through_edges: whether edges hear of edges that lead to them.
        p_drop: of what the layers after the first one read of nodes, from 0 to below 1.
        level: "node", "edge" or "graph".
        dim_edge: numbers of an edge that are read; 0 is none.
        readout: of graphs, "mean", "sum" or "max".
        edge_head: of pairs, "dot" or "mlp".

    >>> EdgeNetwork.tiny().config["dim_edge"]
    2
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        dim: int = 64,
        dim_edge_layer: int = 32,
        num_layers: int = 2,
        through_edges: bool = True,
        p_drop: float = 0.0,
        level: str = "node",
        dim_edge: int = 0,
        readout: str = "mean",
        edge_head: str = "dot",
    ):
        super().__init__()
        check_sizes("EdgeNetwork", dim_input=dim_input, dim_output=dim_output, dim=dim, num_layers=num_layers)
        check_sizes("EdgeNetwork", dim_edge_layer=dim_edge_layer)
        self.dim_input, self.dim_output, self.dim, self.dim_edge_layer = dim_input, dim_output, dim, dim_edge_layer
        self.num_layers, self.through_edges, self.p_drop = num_layers, through_edges, p_drop
        self.level, self.dim_edge, self.readout, self.edge_head = level, dim_edge, readout, edge_head
        self.held = HeldGraph(level, whole=True)
        nodes = [dim_input] + [dim] * num_layers
        edges = [max(1, dim_edge)] + [dim_edge_layer] * num_layers
        self.layers = nn.ModuleList(
            EdgeUpdate(nodes[k], edges[k], dim, dim_edge_layer, through_edges) for k in range(num_layers)
        )
        self.drops = nn.ModuleList(NodeDropout(p_drop, site=k) for k in range(num_layers))
        self.head = GraphHead(level, dim, dim_output, readout, edge_head)

    @classmethod
    def tiny(cls) -> EdgeNetwork:
        return cls(3, 2, dim=4, dim_edge_layer=3, dim_edge=2)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.held.row_shape

    def forward(self, asked: Tensor) -> Tensor:
        read = self.held(asked, self.num_layers)
        h = read.x
        f = self._features(h, read.blocks[0])
        for layer, drop, edges in zip(self.layers, self.drops, read.blocks, strict=True):
            h, f = layer(drop(h, read.keys) if layer is not self.layers[0] else h, f, edges)  # eqs. 1, 2
        return self.head(h, read)  # eq. 3

    def _features(self, h: Tensor, edges: Edges) -> Tensor:
        if self.dim_edge == 0:
            return h.new_ones(len(edges), 1)
        if edges.features is None or edges.features.shape[1] != self.dim_edge:
            got = "none" if edges.features is None else f"{edges.features.shape[1]}"
            raise UserError(
                f"edges must have {self.dim_edge} numbers each",
                got=got,
                do="Pass a graph with those, or build the network for this one",
            )
        return edges.features
