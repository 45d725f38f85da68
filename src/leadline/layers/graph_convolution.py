"""Graph convolution: a node becomes an affine map of the weighted sum of its neighbours and itself (Kipf, 2017).

    h'_i = β + Ω Σ_{e → i} w_e h_{source(e)}        kipf: w of A + I;    kipf_after: w of A, and h_i besides      (1)

Ω is linear, so it is applied before the sum or after it, whichever is narrower. Of a graph's own numbers the sum never
changes: it is computed once.

Notation   Ω, β -> map.weight, map.bias;  w_e -> leadline.layers.edge_weights
Shapes     h (N_s, dim_input), edges of N targets -> (N, dim_output)
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.layers.edge_weights import kipf, kipf_after
from leadline.layers.once import of_own
from leadline.layers.segments import received
from leadline.names import lookup

NORMS = ("kipf", "kipf_after")


class GraphConvolution(nn.Module):
    """Args:
        dim_input, dim_output: widths, at least 1.
        norm: "kipf" or "kipf_after", as in eq. 1.
        bias: whether there is β.

    >>> import torch
    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2, directed=False)
    >>> layer = GraphConvolution(1, 1, bias=False)
    >>> _ = nn.init.ones_(layer.map.weight)
    >>> layer(torch.tensor([[2.0], [6.0]]), pair).tolist()
    [[4.0], [4.0]]
    """

    def __init__(self, dim_input: int, dim_output: int, norm: str = "kipf", bias: bool = True):
        super().__init__()
        self.norm = lookup(norm, {name: name for name in NORMS}, "norm")
        self.map = nn.Linear(dim_input, dim_output, bias)

    def forward(self, h: Tensor, edges: Edges) -> Tensor:
        if self.map.in_features <= self.map.out_features:
            return self.map(of_own(h, edges, self.norm, lambda: self._sum(h, edges)))  # eq. 1
        h = self._sum(nn.functional.linear(h, self.map.weight), edges)
        return h if self.map.bias is None else h + self.map.bias.to(h.dtype)

    def _sum(self, h: Tensor, edges: Edges) -> Tensor:
        if self.norm == "kipf":
            looped, w = kipf(edges, h.dtype)
            return received(h, looped, w)
        return received(h, edges, kipf_after(edges, h.dtype)) + h[: edges.num_targets]
