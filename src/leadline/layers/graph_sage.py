"""GraphSAGE: a node keeps a map of its own beside that of its neighbours (Hamilton, Ying and Leskovec, 2017).

    mean        h'_i = β + Ψ h_i + Ω mean_{m ∈ ne(i)} h_m                                                           (1)
    max         h'_i = β + Ψ h_i + Ω max_{m ∈ ne(i)} a[γ + Γ h_m]         each neighbour goes through a layer       (2)
    with_self   h'_i = β + Ω (h_i + Σ_m h_m) / (1 + d_i)                  the node is one of its neighbours         (3)

Notation   Ω, β -> map;  Ψ -> own.weight;  Γ, γ -> pool;  a -> ReLU;  d_i edges that end in i
Paper      outputs are not scaled to length 1 here
Shapes     h (N_s, dim_input), edges of N targets -> (N, dim_output)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.layers.edge_weights import mean_weights
from leadline.layers.once import of_own, once
from leadline.layers.segments import largest_received, received
from leadline.names import lookup

KINDS = ("mean", "max", "with_self")


class SageLayer(nn.Module):
    """Args:
        dim_input, dim_output: widths, at least 1.
        aggregate: "mean", "max" or "with_self", as in eqs. 1 to 3.

    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2)
    >>> layer = SageLayer(1, 1, "with_self")
    >>> _ = nn.init.ones_(layer.map.weight), nn.init.zeros_(layer.map.bias)
    >>> layer(torch.tensor([[2.0], [6.0]]), pair).tolist()
    [[2.0], [4.0]]
    """

    def __init__(self, dim_input: int, dim_output: int, aggregate: str = "mean"):
        super().__init__()
        self.aggregate = lookup(aggregate, {name: name for name in KINDS}, "aggregation")
        self.map = nn.Linear(dim_input, dim_output)
        self.own = None if self.aggregate == "with_self" else nn.Linear(dim_input, dim_output, bias=False)
        self.pool = nn.Linear(dim_input, dim_input) if self.aggregate == "max" else None

    def forward(self, h: Tensor, edges: Edges) -> Tensor:
        if self.pool is not None and self.own is not None:
            return self.map(largest_received(self.pool(h).relu(), edges)) + self.own(h[: edges.num_targets])  # eq. 2
        neighbours = self._means(h, edges)
        return neighbours if self.own is None else neighbours + self.own(h[: edges.num_targets])  # eqs. 3, 1

    def _means(self, h: Tensor, edges: Edges) -> Tensor:
        """β + Ω mean, the mean before or after Ω, where it is narrower."""
        ring = edges if self.own is not None else once(edges, "looped", edges.with_loops)
        w = mean_weights(ring, h.dtype)
        if self.map.in_features <= self.map.out_features:
            return self.map(of_own(h, edges, self.aggregate, lambda: received(h, ring, w)))
        sums = received(torch.nn.functional.linear(h, self.map.weight), ring, w)
        return sums + self.map.bias.to(sums.dtype)
