"""The linear map of a set that moves with its members (Zaheer et al., 2017).

    y_m = Λ x_m + Γ pool_{m'} x_{m'} + β                                            (1)

Where members change places, so do the y_m. With numbers in place of matrices, (1) is x (λ I + γ 1 1ᵀ): of all linear
maps of M numbers the only ones that do so.

Notation   Λ, β -> own;  Γ -> others
Paper      Γ is subtracted there, which a sign of the weight makes the same
Shapes     x (B, M, D), there (B, M) -> (B, M, D')
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.layers.set_pool import SetPool


class Equivariant(nn.Module):
    """Args:
        dim: D.
        dim_output: D'.
        pool: sum, mean or max.
        typical: what a sum is divided by, above 0.

    >>> import torch
    >>> layer, x = Equivariant(2, 3), torch.randn(1, 4, 2)
    >>> torch.allclose(layer(x.flip(1)), layer(x).flip(1), atol=1e-6)
    True
    """

    def __init__(self, dim: int, dim_output: int, pool: str = "mean", typical: float = 1.0):
        super().__init__()
        self.own = nn.Linear(dim, dim_output)
        self.others = nn.Linear(dim, dim_output, bias=False)
        self.pool = SetPool(pool, typical)

    def forward(self, x: Tensor, there: Tensor | None = None) -> Tensor:
        return self.own(x) + self.others(self.pool(x, there))[:, None]  # eq. 1
