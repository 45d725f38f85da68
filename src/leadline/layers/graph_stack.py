"""Layers on a graph, one after another: what goes on past them, and which of them the end reads.

    h_{k+1} = a[layer_k(h_k)]                       residual "none"                                               (1)
    h_{k+1} = a[layer_k(h_k)] + h_k                 residual "sum", where the widths agree                        (2)
    h_{k+1} = [a[layer_k(h_k)]; h_k]                residual "concat": widths grow                                (3)
    h       = h_K;   [h_1; …; h_K];   max_k h_k     jumping "none", "concat", "max" (Xu et al., 2018)             (4)

Where the end is the last layer itself, this one has no activation.

Shapes     x (N_s, F), the edges of each layer -> (N, dim_output)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.layers.activation import activation as make_activation
from leadline.layers.node_dropout import NodeDropout
from leadline.layers.piecewise import piecewise
from leadline.names import lookup

RESIDUALS = ("none", "sum", "concat")
JUMPS = ("none", "concat", "max")


class GraphStack(nn.Module):
    """Args:
        make: a layer, of the width that it reads and the width that it makes.
        dim_input, dim, num_layers: F, widths of the layers, and how many.
        dim_last: width of the last layer, which then has no activation; None is one like the others.
        activation: a name in `leadline.layers.activation.ACTIVATIONS`.
        p_drop: of what the layers after the first one read.
        residual, jumping: as in eqs. 1 to 4.

    >>> from leadline.layers.graph_convolution import GraphConvolution
    >>> stack = GraphStack(GraphConvolution, 3, 8, 2, jumping="concat")
    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2, directed=False)
    >>> stack(torch.ones(2, 3), (pair, pair), None).shape, stack.dim_output
    (torch.Size([2, 16]), 16)
    """

    def __init__(
        self,
        make: Callable[[int, int], nn.Module],
        dim_input: int,
        dim: int,
        num_layers: int,
        dim_last: int | None = None,
        activation: str = "relu",
        p_drop: float = 0.0,
        residual: str = "none",
        jumping: str = "none",
    ):
        super().__init__()
        self.residual = lookup(residual, {name: name for name in RESIDUALS}, "residual")
        self.jumping = lookup(jumping, {name: name for name in JUMPS}, "jumping")
        self.plain_end = dim_last is not None
        widths = [dim_input]  # of what each layer reads
        layers = []
        for k in range(num_layers):
            made = dim if dim_last is None or k < num_layers - 1 else dim_last
            layers.append(make(widths[-1], made))
            ends = self.plain_end and k == num_layers - 1
            widths.append(made + (widths[-1] if residual == "concat" and not ends else 0))
        self.layers, self.activation = nn.ModuleList(layers), make_activation(activation)
        self.drops = nn.ModuleList(NodeDropout(p_drop, site=k) for k in range(1, num_layers))
        self.dim_output = sum(widths[1:]) if jumping == "concat" else widths[-1]

    def forward(self, x: Tensor, blocks: Sequence[Edges], keys: Tensor | None) -> Tensor:
        h, seen = x, []
        for k, (layer, edges) in enumerate(zip(self.layers, blocks, strict=True)):
            if k:
                h = self.drops[k - 1](h, keys)
            ends = self.plain_end and k == len(self.layers) - 1
            step = layer if ends else functools.partial(self._step, layer)
            h = step(h, edges) if getattr(layer, "looks_far", False) else piecewise(step, h, edges)
            seen.append(h)
        return h if self.jumping == "none" else self._jumped([h_k[: len(h)] for h_k in seen])

    def _step(self, layer: nn.Module, h: Tensor, edges: Edges) -> Tensor:
        return self._joined(self.activation(layer(h, edges)), h[: edges.num_targets])

    def _joined(self, new: Tensor, old: Tensor) -> Tensor:
        if self.residual == "concat":
            return torch.cat([new, old.to(new.dtype)], -1)  # eq. 3
        return new + old if self.residual == "sum" and new.shape == old.shape else new  # eqs. 2, 1

    def _jumped(self, seen: list[Tensor]) -> Tensor:
        if self.jumping == "concat":
            return torch.cat(seen, -1)  # eq. 4
        return torch.stack(seen).amax(0)
