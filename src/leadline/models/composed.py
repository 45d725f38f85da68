"""Composition of shallow networks: the output of each is the input of the next.

    y_1 = f_1[x],   y_k = f_k[y_{k-1}]        k = 2 … K                      (1)
    f_k[z] = φ_k0 + Φ_k a[θ_k0 + Θ_k z]       one hidden layer each          (2)

The first network folds its input, so that every piece of the next one appears once in each fold: pieces multiply where
those of one network only add. Nothing nonlinear stands between Φ_k and Θ_{k+1}, so the whole is a deep network whose
matrices Θ_{k+1} Φ_k have a rank of dim_between at most: `leadline.models.fuse` builds it.

Notation   Θ_k, θ_k0 -> networks[k-1].inner;  Φ_k, φ_k0 -> networks[k-1].outer
Shapes     x (B, dim_input) -> (B, dim_output), with (B, dim_between) in between; further axes of x are flattened
Train it   leadline train moons --model Composed --hidden 8 8
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.activation import activation as make_activation
from leadline.layers.activation import widening
from leadline.models.sizes import check_sizes
from leadline.settings import given


class Composed(nn.Module, Configured):
    """Args:
        dim_input, dim_output: widths, at least 1.
        hidden: hidden units of each network, at least one network of at least 1.
        dim_between: width of what one network hands to the next, at least 1.
        activation: a name in `leadline.layers.activation.ACTIVATIONS`, but for crelu.

    >>> import torch
    >>> Composed(1, (3, 3), 1)(torch.zeros(5, 1)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        dim_input: int,
        hidden: Sequence[int] = (10, 10),
        dim_output: int = 1,
        dim_between: int = 1,
        activation: str = "relu",
    ):
        super().__init__()
        if isinstance(hidden, str) or not hasattr(hidden, "__iter__") or not len(tuple(hidden)):
            raise UserError(
                "Composed: hidden must be a list of widths, one for each network",
                got=given("hidden", hidden),
                do="Write hidden=(10, 10)",
            )
        check_sizes("Composed", dim_input=dim_input, dim_output=dim_output, dim_between=dim_between)
        check_sizes("Composed", **{f"hidden[{k}]": width for k, width in enumerate(hidden)})
        self.dim_input, self.hidden, self.dim_output = dim_input, tuple(hidden), dim_output
        self.dim_between, self.activation = dim_between, activation
        ends = [dim_input, *[dim_between] * (len(self.hidden) - 1), dim_output]
        self.networks = nn.ModuleList(
            _Network(ends[k], width, ends[k + 1], activation) for k, width in enumerate(self.hidden)
        )

    @classmethod
    def tiny(cls) -> Composed:
        return cls(3, (4, 5), 2, dim_between=2, activation="tanh")

    def forward(self, x: Tensor) -> Tensor:
        y = x.flatten(1)
        for network in self.networks:
            y = network(y)  # eq. 1
        return y


class _Network(nn.Module):
    def __init__(self, dim_input: int, num_units: int, dim_output: int, activation: str):
        super().__init__()
        self.inner = nn.Linear(dim_input, num_units)
        self.nonlinearity = make_activation(activation)
        if widening(self.nonlinearity) != 1:
            raise UserError(
                "Composed: activation must give one output for each unit",
                got=f"activation={activation!r}, which gives two",
                do="Use an MLP for it",
            )
        self.outer = nn.Linear(num_units, dim_output)

    def forward(self, z: Tensor) -> Tensor:
        return self.outer(self.nonlinearity(self.inner(z)))  # eq. 2
