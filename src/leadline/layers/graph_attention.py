"""Graph attention: how much a node takes from each neighbour is learned (Veličković 2018; Brody, Alon and Yahav 2022).

    h'  = Ω h                                                                 in H heads                           (1)
    s_e = LeakyReLU(φ · h'_source + ψ · h'_target + χ · Ω_e f_e)              version 1: the ranking of neighbours
                                                                              is the same for all nodes            (2)
    s_e = φ · LeakyReLU(Ω h_source + Ω_t h_target + Ω_e f_e)                  version 2: it is not                 (3)
    p_e = softmax of s over the edges that end in i,    y_i = β + Σ_e p_e h'_source(e)                             (4)

A loop at each node comes first, unless told otherwise. Shares are one number for an edge and a head; that of all edges
and features is never written in version 1. Heads stand one after the other, or their mean is taken.

Notation   Ω -> value;  Ω_t -> query;  φ, ψ, χ -> from_source, from_target, from_edge;  Ω_e -> edge
           f_e -> edges.features
Paper      φ · [h'_m; h'_n] of the papers is two products here. A loop's features are 0; PyG can take a mean
Shapes     h (N_s, dim_input), edges of N targets -> (N, dim_output)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.errors import UserError
from leadline.layers.once import once
from leadline.layers.segments import arrived, received, sent, shares
from leadline.settings import whole


class GraphAttention(nn.Module):
    """Args:
        dim_input, dim_output: widths, at least 1.
        num_heads: H; dim_output must be a multiple of it, unless heads are averaged.
        version: 1 or 2, eqs. 2 and 3.
        dim_edge: numbers of an edge that are read; 0 is none.
        average: take the mean of the heads, each of dim_output numbers.
        loops: whether every node is its own neighbour too.
        slope: of LeakyReLU below 0.

    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2)
    >>> GraphAttention(3, 8, num_heads=2)(torch.ones(2, 3), pair).shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        num_heads: int = 1,
        version: int = 1,
        dim_edge: int = 0,
        average: bool = False,
        loops: bool = True,
        slope: float = 0.2,
    ):
        super().__init__()
        self.version, self.num_heads = whole("version", version, 1, 2), whole("num_heads", num_heads)
        self.dim_edge, self.average, self.loops, self.slope = dim_edge, average, loops, slope
        if not average and dim_output % num_heads:
            raise UserError(
                "dim_output must be a multiple of num_heads",
                got=f"dim_output={dim_output}, num_heads={num_heads}",
                do=f"Nearest: {dim_output // num_heads * num_heads + num_heads}; or average the heads",
            )
        self.dim_head = dim_output if average else dim_output // num_heads
        wide = num_heads * self.dim_head
        self.value = nn.Linear(dim_input, wide, bias=False)
        self.query = nn.Linear(dim_input, wide, bias=False) if version == 2 else None
        self.edge = nn.Linear(dim_edge, wide, bias=False) if dim_edge else None
        vector = lambda: nn.Parameter(torch.empty(num_heads, self.dim_head))  # noqa: E731
        self.from_source = vector()
        self.from_target = vector() if version == 1 else None
        self.from_edge = vector() if version == 1 and dim_edge else None
        self.bias = nn.Parameter(torch.zeros(dim_output))
        for phi in (self.from_source, self.from_target, self.from_edge):
            if phi is not None:
                nn.init.uniform_(phi, -1 / math.sqrt(self.dim_head), 1 / math.sqrt(self.dim_head))

    def forward(self, h: Tensor, edges: Edges) -> Tensor:
        edges = once(edges, "looped", edges.with_loops) if self.loops else edges
        v = self.value(h)  # eq. 1, (N_s, H K)
        s = self.scores(h, v, edges)
        if edges.times is not None:  # an edge that stands for many has the share of many
            s = s + edges.times.log()[:, None].to(s.dtype)
        y = received(v, edges, shares(s, edges))  # eq. 4
        y = y.unflatten(1, (self.num_heads, self.dim_head)).mean(1) if self.average else y
        return y + self.bias.to(y.dtype)

    def scores(self, h: Tensor, v: Tensor, edges: Edges) -> Tensor:
        """Eq. 2 or 3, (E, H)."""
        if self.query is None:
            return self._of_sums(v, edges)
        N = edges.num_targets
        z = sent(v, edges) + arrived(self.query(h[:N]), edges)
        if self.edge is not None:
            z = z + self.edge(self._features(edges))
        return _heads(nn.functional.leaky_relu(z, self.slope), self.from_source)  # eq. 3

    def _of_sums(self, v: Tensor, edges: Edges) -> Tensor:
        if self.from_target is None:
            raise RuntimeError("version 1 has a vector for targets")
        s = sent(_heads(v, self.from_source), edges) + arrived(_heads(v[: edges.num_targets], self.from_target), edges)
        if self.edge is not None and self.from_edge is not None:
            s = s + _heads(self.edge(self._features(edges)), self.from_edge)
        return nn.functional.leaky_relu(s, self.slope)  # eq. 2

    def _features(self, edges: Edges) -> Tensor:
        if edges.features is None or edges.features.shape[1] != self.dim_edge:
            got = "none" if edges.features is None else f"{edges.features.shape[1]}"
            raise UserError(
                f"edges must have {self.dim_edge} numbers each",
                got=got,
                do="Pass a graph with those, or build the network for this one",
            )
        return edges.features


def _heads(x: Tensor, phi: Tensor) -> Tensor:
    """φ · x of each head, in float32 at least, (…, H): one product, with a matrix that has φ of a head in its rows."""
    H, K = phi.shape
    matrix = (phi[:, :, None] * torch.eye(H, dtype=phi.dtype, device=phi.device)[:, None]).view(H * K, H)
    y = x @ matrix
    return y if y.dtype == torch.float64 else y.float()
