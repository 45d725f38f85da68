"""From the numbers of nodes to an answer for each question: of a node, of a pair of nodes, or of a graph.

    node    f_i = β + Ω h_i                                                                                       (1)
    edge    f_mn = h_m · h_n                       "dot", of one output;  Ω (h_m * h_n) of more                   (2)
            f_mn = network of [h_m; h_n]           "mlp", which tells the two ends apart                          (3)
    graph   f = β + Ω pool_i h_i                   the mean, the sum or the max over the nodes of the graph       (4)

Where h are the outputs already, as those of a last layer of that width, (1) only reads them at the asked nodes.

Notation   Ω, β -> map.weight, map.bias
Shapes     h (N, D), a Reading of B questions -> (B, dim_output)
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.layers.held_graph import LEVELS, Reading
from leadline.layers.segments import over, picked
from leadline.names import lookup

#: how the numbers of a graph's nodes become one row, and the numbers of two nodes an answer
READOUTS = ("mean", "sum", "max")
EDGE_HEADS = ("dot", "mlp")


def last_width(level: str, jumping: str, dim: int, dim_output: int) -> int | None:
    """The width of a last layer that has no activation, since what it makes is answers, or is multiplied; None is one
    like all others.

    >>> last_width("node", "none", 64, 3), last_width("edge", "none", 64, 3), last_width("graph", "none", 64, 3)
    (3, 64, None)
    """
    if level == "edge":
        return dim
    return dim_output if level == "node" and jumping == "none" else None


class GraphHead(nn.Module):
    """Args:
        level: what is asked for, one of `LEVELS`.
        dim, dim_output: widths, at least 1.
        readout: of graphs, "mean", "sum" or "max".
        edge_head: of pairs, "dot" or "mlp".
        done: of nodes, whether h are the outputs.

    >>> import torch
    >>> head = GraphHead("edge", 2, 1, edge_head="dot")
    >>> h, asked = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0, 1]])
    >>> head(h, Reading(h, (), asked, torch.tensor([0, 2]))).tolist()
    [[11.0]]
    """

    def __init__(
        self,
        level: str,
        dim: int,
        dim_output: int,
        readout: str = "mean",
        edge_head: str = "dot",
        done: bool = False,
    ):
        super().__init__()
        self.level = lookup(level, {name: name for name in LEVELS}, "level")
        self.readout = lookup(readout, {name: name for name in READOUTS}, "readout")
        self.edge_head = lookup(edge_head, {name: name for name in EDGE_HEADS}, "edge_head")
        self.map: nn.Module = nn.Identity()
        if level == "edge" and edge_head == "mlp":
            self.map = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, dim_output))
        elif level == "edge" and dim_output > 1:
            self.map = nn.Linear(dim, dim_output, bias=False)
        elif level != "edge" and not (level == "node" and done):
            self.map = nn.Linear(dim, dim_output)

    def forward(self, h: Tensor, read: Reading) -> Tensor:
        if self.level == "node":
            return picked(self.map(h), read.places)  # eq. 1
        if self.level == "graph":
            return self.map(picked(over(h, read.first, self.readout), read.places))  # eq. 4
        ends = picked(h, read.places)  # (B, 2, D)
        if self.edge_head == "mlp":
            return self.map(ends.flatten(1))  # eq. 3
        product = ends[:, 0] * ends[:, 1]
        return product.sum(1, keepdim=True) if isinstance(self.map, nn.Identity) else self.map(product)  # eq. 2
