"""Pictures as tokens: a grid of patches, each mapped to a vector (Dosovitskiy et al., 2021; Liu et al., 2021).

    h_{yx} = W [patch at y, x] + b                               patches of P x P pixels side by side        (1)
    g_{yx} = W' N [h_{2y,2x}; h_{2y+1,2x}; h_{2y,2x+1}; h_{2y+1,2x+1}]      four neighbours become one       (2)

(1) is a convolution whose stride is its kernel, and just as well a linear map of the pixels laid out in a row. Rows and
columns that do not divide are filled with zeros at the lower and right border.

Notation   W, b -> map;  N -> norm;  W' -> map of `Merging`
Shapes     (1) (B, C, Y, X) -> (B, ⌈Y / P⌉, ⌈X / P⌉, D);   (2) (B, Y, X, D) -> (B, ⌈Y / 2⌉, ⌈X / 2⌉, 2 D)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.settings import whole


class Patches(nn.Module):
    """Eq. 1.

    Args:
        channels: C.
        dim: D.
        patch: P.

    >>> Patches(3, 8, patch=4)(torch.zeros(2, 3, 30, 32)).shape
    torch.Size([2, 8, 8, 8])
    """

    def __init__(self, channels: int, dim: int, patch: int):
        super().__init__()
        self.patch = whole("patch", patch)
        whole("channels", channels), whole("dim", dim)
        self.map = nn.Conv2d(channels, dim, patch, patch)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(filled(x, self.patch)).permute(0, 2, 3, 1)


class Merging(nn.Module):
    """Eq. 2.

    Args:
        dim: D.
        eps: of the normalisation.

    >>> Merging(8)(torch.zeros(2, 5, 4, 8)).shape
    torch.Size([2, 3, 2, 16])
    """

    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim, eps)
        self.map = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, h: Tensor) -> Tensor:
        Y, X = h.shape[1:3]
        h = F.pad(h, (0, 0, 0, X % 2, 0, Y % 2))
        four = torch.cat([h[:, y::2, x::2] for x in range(2) for y in range(2)], -1)  # (B, ⌈Y / 2⌉, ⌈X / 2⌉, 4 D)
        return self.map(self.norm(four))


def filled(x: Tensor, unit: int) -> Tensor:
    """Pictures (B, C, Y, X) with zeros below and at the right, so that `unit` divides their rows and columns.

    >>> filled(torch.ones(1, 1, 3, 4), 4).shape
    torch.Size([1, 1, 4, 4])
    """
    Y, X = x.shape[2:]
    return F.pad(x, (0, -X % unit, 0, -Y % unit)) if Y % unit or X % unit else x


def regridded(positions: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """Vectors learned for a grid of places, (Y X, D), read off at the places of another grid, by cubic splines.

    >>> regridded(torch.arange(4.0)[:, None], (2, 2), (2, 2)).flatten().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    grid = positions.T.unflatten(1, old)[None]  # (1, D, Y, X)
    if tuple(old) == tuple(new):
        return positions
    return F.interpolate(grid, size=tuple(new), mode="bicubic", align_corners=False)[0].flatten(1).T
