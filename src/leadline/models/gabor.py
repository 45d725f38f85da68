"""Gabor model: a wave under a bell, with two parameters and many local minima.

    u_j      = φ0_j + 0.06 Σ_i φ1_ji x_i        (1)
    output_j = sin(u_j) · exp(-u_j² / 8)        (2)

With one input and one output it is the two-parameter laboratory of the textbook: φ0 moves the wave to the left, φ1
squeezes it. It answers between -0.71 and 0.71 in y's own unit, so pair it with a likelihood that does not rescale y,
such as Normal(), and with x as it is: `data.with_(inputs=ll.data.Identity())`.

Notation   φ0_j -> phi0[j],  φ1_ji -> phi1[j, i]
Textbook   more than one input or output is an extension of ours
Shapes     x (B, dim_input) -> (B, dim_output); further axes of x are flattened
Train it   leadline train gabor --model Gabor --squeeze 100
           (the source standardizes x, by which its φ1 of 16.6 becomes one of about 140)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.models.sizes import check_sizes
from leadline.settings import real


class Gabor(nn.Module, Configured):
    """Args:
        dim_input, dim_output: widths, at least 1.
        shift, squeeze: about where φ0 and φ1 start, any number: within 10 % of it.

    >>> model = Gabor()
    >>> model.set(-5.0, 25.0)
    >>> round(model(torch.tensor([[0.0]])).item(), 4)  # sin(-5) exp(-25/8)
    0.0421
    """

    def __init__(self, dim_input: int = 1, dim_output: int = 1, shift: float = 0.5, squeeze: float = 10.0):
        super().__init__()
        check_sizes("Gabor", dim_input=dim_input, dim_output=dim_output)
        self.dim_input, self.dim_output = dim_input, dim_output
        self.shift, self.squeeze = real("shift", shift, usual=0.5), real("squeeze", squeeze, usual=10.0)
        self.phi0 = nn.Parameter(self.shift * (0.9 + 0.2 * torch.rand(dim_output)))
        self.phi1 = nn.Parameter(self.squeeze * (0.9 + 0.2 * torch.rand(dim_output, dim_input)))

    @classmethod
    def tiny(cls) -> Gabor:
        return cls(3, 2)

    @torch.no_grad()
    def set(self, phi0: float, phi1: float) -> None:
        """Put all of φ0 and all of φ1 at these numbers."""
        self.phi0.fill_(real("phi0", phi0))
        self.phi1.fill_(real("phi1", phi1))

    def forward(self, x: Tensor) -> Tensor:
        u = self.phi0 + 0.06 * x.flatten(1) @ self.phi1.T  # eq. 1
        return u.sin() * (-u.square() / 8).exp()  # eq. 2
