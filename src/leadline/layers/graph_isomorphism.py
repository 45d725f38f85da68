"""Graph isomorphism layer: as good at telling graphs apart as colours that are refined (Xu et al., 2019; Hu, 2020).

    h'_i = network[(1 + ε) h_i + Σ_{e → i} h_source(e)]                      a sum tells how many there were      (1)
    h'_i = network[(1 + ε) h_i + Σ_{e → i} a[h_source(e) + Ω_e f_e]]         with features of edges (GINE)        (2)

Notation   ε -> epsilon;  network -> two maps with ReLU between;  Ω_e -> edge;  a -> ReLU
Shapes     h (N_s, dim_input), edges of N targets -> (N, dim_output)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.errors import UserError
from leadline.layers.message_passing import summed
from leadline.layers.once import of_own
from leadline.layers.segments import sent, total


class IsomorphismLayer(nn.Module):
    """Args:
        dim_input, dim_output: widths, at least 1.
        dim_edge: numbers of an edge that are read; 0 is none, eq. 1.
        dim_hidden: of the network; dim_output by default.

    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2)
    >>> IsomorphismLayer(3, 8)(torch.ones(2, 3), pair).shape
    torch.Size([2, 8])
    """

    def __init__(self, dim_input: int, dim_output: int, dim_edge: int = 0, dim_hidden: int | None = None):
        super().__init__()
        self.dim_edge = dim_edge
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.edge = nn.Linear(dim_edge, dim_input) if dim_edge else None
        hidden = dim_hidden or dim_output
        self.network = nn.Sequential(nn.Linear(dim_input, hidden), nn.ReLU(), nn.Linear(hidden, dim_output))

    def forward(self, h: Tensor, edges: Edges) -> Tensor:
        return self.network((1 + self.epsilon) * h[: edges.num_targets] + self._sum(h, edges))

    def _sum(self, h: Tensor, edges: Edges) -> Tensor:
        if self.edge is None:
            return of_own(h, edges, "sum of neighbours", lambda: summed(h, edges))  # eq. 1
        if edges.features is None or edges.features.shape[1] != self.dim_edge:
            got = "none" if edges.features is None else f"{edges.features.shape[1]}"
            raise UserError(
                f"edges must have {self.dim_edge} numbers each",
                got=got,
                do="Pass a graph with those, or build the network for this one",
            )
        m = (sent(h, edges) + self.edge(edges.features)).relu()
        return total(m if edges.times is None else m * edges.times[:, None].to(m.dtype), edges)  # eq. 2
