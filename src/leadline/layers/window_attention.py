"""Attention inside windows of a picture, which may be shifted (Liu et al., 2021).

    score_{ij} = q_i · k_j / √K + t_{y_i - y_j, x_i - x_j}         i, j in one window of W x W places         (1)
    shifted:  windows begin ⌊W / 2⌋ places further down and right, so that what a border parted is joined      (2)

(2) is computed on a picture that is rolled up and left. Some windows then hold places from opposite borders: those may
not look at each other. Places that fill up the last windows are zeros, and are looked at like any others.

Where the shorter side is one window or less, windows are as large as that side and are not shifted, along the longer
side neither, as in the paper's code; a smaller window reads the middle of the table.

Notation   t -> offsets, one number for each head and each of (2W - 1)² differences
Shapes     (B, Y, X, D) -> (B, Y, X, D);  offsets ((2W - 1)², H)
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.attention import SelfAttention
from leadline.settings import truth, whole


class WindowAttention(nn.Module):
    """Args:
        dim: D.
        num_heads: H.
        window: W.
        shifted: eq. 2.
        relative: learn t; otherwise it is 0.

    >>> WindowAttention(8, 2, window=4, shifted=True)(torch.zeros(3, 6, 9, 8)).shape
    torch.Size([3, 6, 9, 8])
    """

    index: Tensor

    def __init__(self, dim: int, num_heads: int, window: int, shifted: bool = False, relative: bool = True):
        super().__init__()
        self.window, self.shifted = whole("window", window), truth("shifted", shifted)
        self.attention = SelfAttention(dim, num_heads)
        self.offsets = nn.Parameter(torch.zeros((2 * window - 1) ** 2, num_heads)) if relative else None
        self.register_buffer("index", _differences(window), persistent=False)  # (W, W, W, W)

    def forward(self, h: Tensor) -> Tensor:
        B, Y, X, _ = h.shape
        W = min(self.window, Y, X)
        shift = W // 2 if self.shifted and min(Y, X) > W else 0
        h = F.pad(h, (0, 0, 0, -X % W, 0, -Y % W))
        grid = (h.shape[1], h.shape[2])
        h = torch.roll(h, (-shift, -shift), (1, 2)) if shift else h
        h = self.attention(windows(h, W), bias=self._bias(B, grid, W, shift))  # eq. 1
        h = unwindowed(h, grid, W)
        h = torch.roll(h, (shift, shift), (1, 2)) if shift else h
        return h[:, :Y, :X]

    def _bias(self, B: int, grid: tuple[int, int], W: int, shift: int) -> Tensor | None:
        """What is added to the scores of all windows, (1, H, W², W²) or (B n, H, W², W²)."""
        T = W * W
        bias = None
        if self.offsets is not None:
            bias = self.offsets[self.index[:W, :W, :W, :W].reshape(T, T)].permute(2, 0, 1)[None]  # (1, H, T, T)
        if not shift:
            return bias
        apart = ~together(grid, W, shift, self.index.device)[:, None]  # (n, 1, T, T)
        bias = torch.zeros(1, 1, T, T, device=apart.device, dtype=self._dtype) if bias is None else bias
        return bias.masked_fill(apart, -math.inf).repeat(B, 1, 1, 1)

    @property
    def _dtype(self) -> torch.dtype:
        return self.attention.out.weight.dtype


def windows(h: Tensor, window: int) -> Tensor:
    """(B, Y, X, D) -> (B n, W², D): the windows of each picture, row by row.

    >>> windows(torch.arange(16).view(1, 4, 4, 1), 2)[1].flatten().tolist()
    [2, 3, 6, 7]
    """
    B, Y, X, D = h.shape
    cut = h.view(B, Y // window, window, X // window, window, D).transpose(2, 3)
    return cut.reshape(-1, window * window, D)


def unwindowed(h: Tensor, grid: tuple[int, int], window: int) -> Tensor:
    """(B n, W², D) -> (B, Y, X, D): `windows` backwards.

    >>> h = torch.arange(24).view(1, 4, 6, 1)
    >>> bool((unwindowed(windows(h, 2), (4, 6), 2) == h).all())
    True
    """
    Y, X = grid
    joined = h.view(-1, Y // window, X // window, window, window, h.shape[-1]).transpose(2, 3)
    return joined.reshape(-1, Y, X, h.shape[-1])


def together(grid: tuple[int, int], window: int, shift: int, device: torch.device | str = "cpu") -> Tensor:
    """Which places of each window are neighbours in the picture too, after it was rolled by `shift`: (n, W², W²).

    >>> together((4, 4), 2, 1)[1].int().tolist()  # the upper right window: its right column came from the left border
    [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    """
    down, right = (torch.arange(size, device=device) >= size - shift for size in grid)  # came from the other side
    side = windows((2 * down[:, None] + right.long())[None, :, :, None], window)[..., 0]  # (n, W²)
    return side[:, :, None] == side[:, None]


def _differences(window: int) -> Tensor:
    """Row of the table for each pair of places, (W, W, W, W): that of y_i, x_i, y_j, x_j."""
    step = torch.arange(window)
    apart = step[:, None] - step + window - 1  # (W, W)
    return apart[:, None, :, None] * (2 * window - 1) + apart[:, None, :]
