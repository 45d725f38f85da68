"""A cloud of points, or of features, turned by a matrix that the cloud itself says (T-net: Qi et al., 2017).

    h_m  = W_3 a(N(W_2 a(N(W_1 x_m))))                                                alike for all points        (1)
    A    = I + M(a(N(max_m h_m))),   M a network of two hidden layers whose last map begins at 0                   (2)
    y_m  = A x_m                                                                                                   (3)

It begins as the identity, and sees no order. The widest vector is normalised once for a cloud, after the maximum, and
not for every point: that costs a third. Where A has many rows, it is kept near a rotation by a regulariser,
`leadline.regularize.Orthogonal`, which adds ‖I - A Aᵀ‖².

Notation   W_k -> largest.read;  M -> say and matrix;  N -> layer normalisation;  a -> ReLU
Shapes     x (B, M, D), there (B, M) -> A (B, D, D)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from leadline.layers.set_pool import SetPool


def pointwise(*widths: int) -> nn.Sequential:
    """Linear maps of each point alone, each with a normalisation and a ReLU after it.

    >>> pointwise(3, 8, 16)(torch.zeros(2, 5, 3)).shape
    torch.Size([2, 5, 16])
    """
    steps = [(nn.Linear(low, high), nn.LayerNorm(high), nn.ReLU()) for low, high in pairwise(widths)]
    return nn.Sequential(*(module for step in steps for module in step))


class LargestFeatures(nn.Module):
    """What a cloud is: the largest of each feature over its points, normalised: a(N(max_m h_m)) of eqs. 1 and 2.

    Args:
        widths: of the features of a point, first to last.

    >>> LargestFeatures(3, 8, 16)(torch.zeros(2, 5, 3)).shape
    torch.Size([2, 16])
    """

    def __init__(self, *widths: int):
        super().__init__()
        self.read = nn.Sequential(*pointwise(*widths[:-1]), nn.Linear(widths[-2], widths[-1]))
        self.pool = SetPool("max")
        self.norm = nn.LayerNorm(widths[-1])

    def forward(self, x: Tensor, there: Tensor | None = None) -> Tensor:
        return self.norm(self.pool(self.read(x), there)).relu()


class PointTransform(nn.Module):
    """Args:
        dim: D.
        widths: of the maps of eq. 1, then those of the two hidden layers of M.

    >>> A = PointTransform(3, (8, 8, 16, 8, 8))(torch.randn(2, 5, 3))
    >>> torch.equal(A, torch.eye(3).expand(2, 3, 3))
    True
    """

    def __init__(self, dim: int, widths: Sequence[int] = (64, 128, 1024, 512, 256)):
        super().__init__()
        self.dim = dim
        *own, one, two = widths
        self.largest = LargestFeatures(dim, *own)
        self.say, self.matrix = pointwise(own[-1], one, two), nn.Linear(two, dim * dim)
        nn.init.zeros_(self.matrix.weight)
        nn.init.zeros_(self.matrix.bias)

    def forward(self, x: Tensor, there: Tensor | None = None) -> Tensor:
        moved = self.matrix(self.say(self.largest(x, there))).unflatten(-1, (self.dim, self.dim))
        return torch.eye(self.dim, dtype=moved.dtype, device=moved.device) + moved  # eq. 2
