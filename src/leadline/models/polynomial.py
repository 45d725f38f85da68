"""Polynomial regression: linear in the powers of each input.

    output = β + Σ_i Σ_k Ω_ik h_k(x_i)        k = 1 … degree        (1)

h_k are Hermite's polynomials (`leadline.layers.hermite`): they span the powers 1 … x^degree, and for standardized
inputs they are about orthonormal, so that high orders lose no digits. There are no products of two inputs. As it is
linear in its weights, `LeastSquares` solves it in one pass, and `Newton` its logistic form:

    ridge = σ² / σ0²        the most probable weights where Ω ~ N(0, σ0²) and y ~ N(output, σ²)        (2)

in units of the target's deviation.

Notation   Ω, β -> map.weight, map.bias; column (i, k) of Ω is i · degree + k - 1
Textbook   the prior is on the weights of h_k here, on those of the bare powers there
Shapes     x (B, dim_input) -> (B, dim_output); further axes of x are flattened
Train it   leadline train cubic --model Polynomial --degree 3
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.hermite import hermite
from leadline.models.sizes import check_sizes


class Polynomial(nn.Module, Configured):
    """Args:
        dim_input, dim_output: widths, at least 1.
        degree: the highest power of each input, at least 1.

    >>> import torch
    >>> Polynomial(3, 4, 2)(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, dim_input: int, degree: int = 3, dim_output: int = 1):
        super().__init__()
        check_sizes("Polynomial", dim_input=dim_input, degree=degree, dim_output=dim_output)
        self.dim_input, self.degree, self.dim_output = dim_input, degree, dim_output
        self.map = nn.Linear(dim_input * degree, dim_output)

    @classmethod
    def tiny(cls) -> Polynomial:
        return cls(3, 3, 2)

    def features(self, x: Tensor) -> Tensor:
        """What the map reads: h_1 … h_degree of each input, (B, dim_input · degree)."""
        return hermite(x.flatten(1), self.degree).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(self.features(x))  # eq. 1
