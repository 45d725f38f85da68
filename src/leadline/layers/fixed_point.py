"""Recursive graph layer: a node's state is what its neighbours' states make it, until nothing changes (Scarselli 2009).

    h_i <- tanh(β + Ω x_i + c V Σ_{e → i} w_e h_source(e)),    w mean weights,    ‖V‖_∞ <= 1                       (1)
    max |Δh'| <= c max |Δh|                                    c < 1: a contraction, one fixed point from any start (2)

Rows of w sum to at most 1, tanh moves nothing apart, and V is divided by its largest row sum of |·|, where that is
above 1: so (2) holds for every graph and every weight. After n steps the state is within c^n of the fixed point.

The steps are unrolled: gradients are those of what was computed.

Notation   Ω, β -> map;  V -> recurrent
Paper      Scarselli et al. penalise weights that are no contraction; here none can be chosen
Shapes     x (N, dim_input), edges of a whole graph -> (N, dim)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.layers.edge_weights import mean_weights
from leadline.layers.graph_filters import whole_graph
from leadline.layers.segments import received
from leadline.settings import real, whole


class FixedPoint(nn.Module):
    """Args:
        dim_input, dim: widths, at least 1.
        contraction: c, from 0 to below 1.
        num_steps: of eq. 1.

    >>> torch.manual_seed(0) and None
    >>> pair, layer = Edges.of(torch.tensor([[0], [1]]), num_nodes=2, directed=False), FixedPoint(3, 4, 0.5, 40)
    >>> x = torch.randn(2, 3)
    >>> bool(layer.change(layer(x, pair), x, pair) < 1e-6)
    True
    """

    def __init__(self, dim_input: int, dim: int, contraction: float = 0.9, num_steps: int = 20):
        super().__init__()
        self.contraction = real("contraction", contraction, 0, 1, usual=0.9)
        self.num_steps = whole("num_steps", num_steps)
        self.map = nn.Linear(dim_input, dim)
        self.recurrent = nn.Parameter(torch.empty(dim, dim))
        nn.init.uniform_(self.recurrent, -1 / math.sqrt(dim), 1 / math.sqrt(dim))

    def forward(self, x: Tensor, edges: Edges, first: Tensor | None = None) -> Tensor:
        """Args:
        first: states to begin with; 0 by default.
        """
        whole_graph(edges, "a recursive layer")
        own, V, w = self.map(x), self.matrix(), mean_weights(edges, x.dtype)
        h = torch.zeros_like(own) if first is None else first
        for _ in range(self.num_steps):
            h = torch.tanh(own + received(h, edges, w).to(own.dtype) @ V.T.to(own.dtype))  # eq. 1
        return h

    def matrix(self) -> Tensor:
        """c V, whose rows of |·| sum to at most c."""
        return self.contraction * self.recurrent / self.recurrent.abs().sum(1).max().clamp(min=1.0)

    @torch.no_grad()
    def change(self, h: Tensor, x: Tensor, edges: Edges) -> Tensor:
        """How far one more step moves any number of h: 0 at the fixed point."""
        w = mean_weights(edges, x.dtype)
        return (torch.tanh(self.map(x) + received(h, edges, w) @ self.matrix().T) - h).abs().max()
