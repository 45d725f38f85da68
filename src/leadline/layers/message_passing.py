"""Message passing: what the neighbours send is brought together, then joined with the node itself (Gilmer, 2017).

    sum    agg_i = Σ_{e → i} h_{source(e)}               mean   Σ / (edges that end in i)                          (1)
    max    the largest, number by number                  min, std   the smallest, and how far they are apart      (2)
    kipf   Σ h_m / √(d_i d_m)                             attention   Σ p_e h_m, p learned                         (3)

    together   h'_i = β + Ω (h_i + agg_i)                 one matrix for both                                      (4)
    diagonal   h'_i = β + Ω ((1 + ε) h_i + agg_i)         ε learned                                                (5)
    separate   h'_i = β + Ψ h_i + Ω agg_i                 = β + [Ω Ψ] [agg_i; h_i]                                 (6)

Several aggregations stand one after the other in agg_i (Corso et al., 2020); then h_i is beside them as in (6). Where
no edge ends, agg_i is 0. Weights of edges count in (1) and (3).

Notation   Ω, β -> map;  Ψ -> own.weight;  ε -> epsilon
Paper      (4) with sum, mean, kipf and max are eqs. 13.9, 13.18, 13.20 and 13.21 of Prince (2023), (5) is 13.14, (6)
           13.15, and (3) with attention is 13.24 without its loops
Shapes     h (N_s, dim_input), edges of N targets -> (N, dim_output)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.errors import UserError
from leadline.layers.edge_weights import kipf_after, mean_weights
from leadline.layers.graph_attention import GraphAttention
from leadline.layers.once import of_own
from leadline.layers.segments import largest_received, received, sent, spread
from leadline.names import lookup


def summed(h: Tensor, edges: Edges) -> Tensor:
    """Eq. 1, with the weights of the edges, and what each stands for.

    >>> summed(torch.tensor([[1.0], [2.0]]), Edges.of(torch.tensor([[0, 1], [1, 1]]), num_nodes=2)).tolist()
    [[0.0], [3.0]]
    """
    weight = edges.weight
    if edges.times is not None:
        weight = edges.times if weight is None else weight * edges.times
    return received(h, edges, weight)


AGGREGATIONS: dict[str, Callable[[Tensor, Edges], Tensor]] = {
    "sum": summed,
    "mean": lambda h, edges: received(h, edges, mean_weights(edges, h.dtype)),
    "max": largest_received,
    "min": lambda h, edges: -largest_received(-h, edges),
    "std": lambda h, edges: spread(sent(h, edges), edges),
    "kipf": lambda h, edges: received(h, edges, kipf_after(edges, h.dtype)),
}
COMBINATIONS = ("together", "diagonal", "separate")


class MessagePassing(nn.Module):
    """Args:
        dim_input, dim_output: widths, at least 1.
        aggregate: "attention" or a name of `AGGREGATIONS`, or several.
        combine: a name of `COMBINATIONS`; of several aggregations "separate".

    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2)
    >>> layer = MessagePassing(1, 1, ("mean", "max"), "separate")
    >>> layer(torch.tensor([[2.0], [6.0]]), pair).shape, layer.map.weight.shape
    (torch.Size([2, 1]), torch.Size([1, 2]))
    """

    def __init__(
        self, dim_input: int, dim_output: int, aggregate: str | Sequence[str] = "sum", combine: str = "together"
    ):
        super().__init__()
        wanted = (aggregate,) if isinstance(aggregate, str) else tuple(aggregate)
        known = {name: name for name in (*AGGREGATIONS, "attention")}
        self.names = tuple(lookup(name, known, "aggregation") for name in wanted)
        self.combine = lookup(combine, {name: name for name in COMBINATIONS}, "combination")
        if len(self.names) != 1 and self.combine != "separate":
            raise UserError(
                "several aggregations must be combined separately",
                got=f"{len(self.names)} with combine={combine!r}",
                do="Pass combine='separate', or one aggregation",
            )
        self.attention = GraphAttention(dim_input, dim_input, loops=False) if "attention" in self.names else None
        self.map = nn.Linear(len(self.names) * dim_input, dim_output)
        self.own = nn.Linear(dim_input, dim_output, bias=False) if self.combine == "separate" else None
        self.epsilon = nn.Parameter(torch.zeros(())) if self.combine == "diagonal" else None

    def forward(self, h: Tensor, edges: Edges) -> Tensor:
        h_i = h[: edges.num_targets]
        agg = torch.cat([self._aggregated(name, h, edges) for name in self.names], -1)
        if self.own is not None:
            return self.map(agg) + self.own(h_i)  # eq. 6
        return self.map(agg + (h_i if self.epsilon is None else (1 + self.epsilon) * h_i))  # eqs. 4, 5

    def _aggregated(self, name: str, h: Tensor, edges: Edges) -> Tensor:
        if name == "attention" and self.attention is not None:
            return self.attention(h, edges)
        return of_own(h, edges, f"{name} of neighbours", lambda: AGGREGATIONS[name](h, edges))
