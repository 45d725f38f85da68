"""Inception block: kernels of several sizes beside each other, and the network weighs them (Szegedy et al., 2015).

    y = [a[w_1 ⋆ x], a[w_3 ⋆ a[u_3 x]], a[w_5 ⋆ a[u_5 x]], a[u_max max_3(x)]]        (1)

Every branch keeps the size of the picture, so their channels stand in one row one after another. The 1×1 maps u in
front of larger kernels cut the number of channels, and with it the weights.

Notation   w_K -> branches[…], kernels of K taps;  u -> the 1×1 maps;  a -> ReLU;  max_3 -> largest of 3×3, stride 1
Paper      defaults are its block 3a: 192 channels in, 64 + 128 + 32 + 32 out
Shapes     (B, dim_input, Y, X) -> (B, dim_output, Y, X)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.settings import whole


class Inception(nn.Module):
    """Args:
        dim_input: channels, at least 1.
        branches: (kernel, squeezed, width) of each: odd taps, channels of the 1×1 map in front (0: none), channels out.
        pooled: channels out of the branch that begins with the maximum; 0 leaves it out.

    >>> layer = Inception(192)
    >>> layer.dim_output, sum(p.numel() for p in layer.parameters())
    (256, 163696)
    """

    def __init__(
        self,
        dim_input: int,
        branches: Sequence[tuple[int, int, int]] = ((1, 0, 64), (3, 96, 128), (5, 16, 32)),
        pooled: int = 32,
    ):
        super().__init__()
        whole("dim_input", dim_input)
        self.branches = nn.ModuleList()
        for kernel, squeezed, width in branches:
            if whole("kernel", kernel) % 2 == 0:
                raise UserError("kernels must have odd sizes", got=f"kernel={kernel}", do=f"Pass {kernel + 1}")
            parts = [_mapped(dim_input, squeezed, 1)] if whole("squeezed", squeezed, 0) else []
            self.branches.append(nn.Sequential(*parts, _mapped(squeezed or dim_input, whole("width", width), kernel)))
        if whole("pooled", pooled, 0):
            self.branches.append(nn.Sequential(nn.MaxPool2d(3, 1, 1), _mapped(dim_input, pooled, 1)))
        self.dim_output = sum(width for *_, width in branches) + pooled
        if not self.dim_output:
            raise UserError("a block must have a branch", got="none", do="Pass branches=((3, 0, 16),)")

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)  # eq. 1


def _mapped(dim_input: int, dim_output: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(dim_input, dim_output, kernel, padding=kernel // 2), nn.ReLU())
