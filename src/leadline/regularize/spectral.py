"""Spectral penalty: matrices that stretch no direction much (Yoshida and Miyato, 2017).

    loss + λ Σ_k σ(Ω_k)²,   σ -> the largest singular value = max ‖Ω v‖ over ‖v‖ = 1,   gradient 2λ σ u vᵀ        (1)

The product of all σ bounds how fast the output can change with the input, where activations have slopes of at most 1.
σ comes from power iteration, v <- Ωᵀ Ω v, begun anew in each step from a fixed direction.

Paper      the penalty has a factor ½ there; a kernel counts as the matrix of (outputs, everything else)
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from leadline.regularize.penalty import Penalty
from leadline.regularize.strength import weights_of

_ITERATIONS = 12


class Spectral(Penalty):
    """Args:
        strength: λ of eq. 1, at least 0.

    >>> model = nn.Linear(2, 2)
    >>> _ = model.weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    >>> round(Spectral(0.5).objective(torch.tensor(1.0), model, 1.0).item(), 4)
    5.5
    """

    name = "spectral"

    def __init__(self, strength: float = 1e-3):
        super().__init__(strength)

    def sizes(self, model: nn.Module) -> Iterable[Tensor]:
        return (largest(w.flatten(1)).square() for w in weights_of(model))  # eq. 1


def largest(matrix: Tensor) -> Tensor:
    """Largest singular value, whose gradient is that of uᵀ Ω v with u and v held."""
    held = matrix.detach()
    place = torch.arange(held.shape[1], device=held.device, dtype=held.dtype)
    v = (1.0 + place * 0.618).sin() + 0.1  # any direction that is not likely to be at right angles to the first
    scaled = held / (held.norm() + 1e-30)  # its largest singular value is 1 at most: nothing overflows on the way
    for turn in range(_ITERATIONS):
        v = scaled.mT @ (scaled @ v)
        if turn % 4 == 3:
            v = v / (v.norm() + 1e-30)
    u = scaled @ v
    return (u / (u.norm() + 1e-30)) @ (matrix @ v)
