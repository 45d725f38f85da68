"""A residual block around any module, with a scalar of its own (De and Smith, 2020).

    y = x + α f(x)          α learned                    (1)

With α = 0 the block is the identity, f gets no gradient in the first step and α does; from the second step on both
learn. So a stack of any depth begins as the identity without normalisation: `leadline.init` calls it skipinit.

Notation   f -> body;  α -> scale
Shapes     those of f, whose output must have the shape of its input
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.settings import real


class Skip(nn.Module):
    """Args:
        body: the module f.
        scale: α at the start.

    >>> layer = Skip(nn.Linear(3, 3), scale=0.0)
    >>> x = torch.ones(2, 3)
    >>> bool((layer(x) == x).all())
    True
    """

    residual_branch = ("body", "scale")

    def __init__(self, body: nn.Module, scale: float = 1.0):
        super().__init__()
        self.body = body
        self.scale = nn.Parameter(torch.tensor(float(real("scale", scale, usual=1.0))))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.body(x)  # eq. 1
