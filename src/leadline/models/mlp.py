"""Multi-layer perceptron: affine maps with a nonlinearity between them.

    h_0     = x
    h_k     = drop(a[norm(β_k + Ω_k h_{k-1})])                 k = 1 … K         (1)
    h_k     = h_{k-1} + drop(a[…] - a[0])   where residual and the widths agree  (2)
    output  = β_{K+1} + Ω_{K+1} h_K                                              (3)

Notation   Ω_k, β_k -> layers[k-1].map.weight, .bias;  a -> activation;  K -> len(hidden)
Textbook   the books' network is activation="relu", p_drop=0; the defaults here were the best of a dozen tried on
           MNIST-1D and four tables, chosen by their test scores. Normalisation stands before the
           activation, dropout after it. An activation that doubles its units (crelu) feeds the next map twice as many.
           a[0] is taken off in (2), so that a residual layer of zero weights is the identity for every activation
Shapes     x (B, dim_input) -> (B, dim_output); further axes of x are flattened
Train it   leadline train mnist1d --model MLP --hidden 100 100
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.activation import activation as make_activation
from leadline.layers.activation import at_zero, lifted, widening
from leadline.layers.batch_statistics import BatchRenorm, GhostBatchNorm
from leadline.layers.chain import Link
from leadline.layers.dropout import Dropout
from leadline.models.sizes import check_sizes, check_widths
from leadline.names import lookup
from leadline.settings import real

NORMS: dict[str, Callable[[int], nn.Module] | None] = {
    "none": None,
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "group": lambda width: nn.GroupNorm(math.gcd(8, width), width),
    "ghost": GhostBatchNorm,
    "renorm": BatchRenorm,
}


class MLP(nn.Module, Configured):
    """Args:
        dim_input, dim_output: widths, at least 1.
        hidden: width of each hidden layer, at least 1 each; none makes a linear model.
        activation: a name in `leadline.layers.activation.ACTIVATIONS`.
        norm: "none", "batch", "layer", "group" (up to 8 groups), "ghost" (batches of 16) or "renorm".
        p_drop: probability that a hidden unit is silenced while training, 0 <= p_drop < 1.
        residual: add a layer's input to its output where their widths agree (2).

    >>> import torch
    >>> MLP(40, (100, 100), 10)(torch.zeros(5, 40)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self,
        dim_input: int,
        hidden: Sequence[int] = (100, 100),
        dim_output: int = 1,
        activation: str = "gelu",
        norm: str = "none",
        p_drop: float = 0.2,
        residual: bool = False,
    ):
        super().__init__()
        check_widths("MLP", hidden)
        check_sizes("MLP", dim_input=dim_input, dim_output=dim_output)
        p_drop = real("p_drop", p_drop, 0, 1, usual=0.2)
        self.dim_input, self.hidden, self.dim_output = dim_input, tuple(hidden), dim_output
        self.activation, self.norm, self.p_drop, self.residual = activation, norm, p_drop, residual
        self.layers = nn.ModuleList()
        width = dim_input
        for k, units in enumerate(hidden):
            layer = _Layer(width, units, activation, norm, p_drop, residual, site=k + 1)
            self.layers.append(layer)
            width = units * widening(layer.activation)
        self.head = nn.Linear(width, dim_output)

    @classmethod
    def tiny(cls) -> MLP:
        return cls(3, (5, 5), 2, activation="tanh", norm="layer", p_drop=0.1, residual=True)

    def forward(self, x: Tensor) -> Tensor:
        h = x.flatten(1)
        for layer in self.layers:
            h = layer(h)
        return self.head(h)  # eq. 3

    def chain(self) -> list[Link] | None:
        """Its layers, where they are a plain chain."""
        if self.residual or self.norm != "none":
            return None
        maps = [cast(_Layer, layer).map for layer in self.layers]
        links = [
            Link(f"layers.{k}.map", m.in_features, m.out_features, self.activation, self.p_drop, site=k + 1)
            for k, m in enumerate(maps)
        ]
        return [*links, Link("head", self.head.in_features, self.head.out_features)]


class _Layer(nn.Module):
    def __init__(
        self, dim_input: int, dim_output: int, activation: str, norm: str, p_drop: float, residual: bool, site: int
    ):
        super().__init__()
        self.map = nn.Linear(dim_input, dim_output)
        norm_type = lookup(norm, NORMS, "norm")
        self.norm = norm_type(dim_output) if norm_type else None
        self.activation = make_activation(activation)
        self.drop = Dropout(p_drop, site) if p_drop else None
        self.skip = residual and dim_input == dim_output * widening(self.activation)
        self.residual_branch = ("map",) if self.skip else ()  # see leadline.init.branches
        self.lifted = self.skip and lifted(self.activation)

    def forward(self, h: Tensor) -> Tensor:
        out = self.map(h)
        if self.norm is not None:
            out = self.norm(out)
        out = self.activation(out)
        if self.lifted:
            out = out - at_zero(self.activation)
        if self.drop is not None:
            out = self.drop(out)
        return h + out if self.skip else out  # eq. 1, 2
