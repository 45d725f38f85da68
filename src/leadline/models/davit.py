"""DaViT: patches look at patches, then channels at channels (Ding et al., 2022).

    h <- N C [picture]                           stem: a convolution that takes every `patch`-th place            (1)
    h <- h + P h                                 a depthwise 3x3 convolution tells places apart                   (2)
    h <- h + attention in windows (N h)          places look at places near by, with all channels                 (3)
    h <- h + channel attention (N h)             channels look at channels, with all places                       (4)
    h <- h + W₂ gelu(W₁ N h)                                                                                      (5)
    h <- C' N h                                  between stages: a 2x2 convolution, half the size                 (6)
    output = β + Ω N mean_{y,x} h                                                                                 (7)

A block is (2) (3) (2) (5) (2) (4) (2) (5). Both attentions cost as much for each place however large the picture is:
windows have a fixed number of places, and the matrix of (4) a fixed number of channels, while it sees everything.

Notation   C, C' -> conv;  N -> norm;  P -> near;  W₁, W₂ -> widen, narrow;  Ω, β -> head.weight, head.bias;
           D -> dims, Y X rows and columns
Paper      the default is a small network for small pictures; SIZES has those of the paper. Whole branches are not
           dropped here (stochastic depth)
Shapes     x (B, channels, Y, X) -> (B, dim_output); any Y, X
Train it   leadline train pictures/ --model DaViT
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.channel_attention import ChannelAttention
from leadline.layers.feed_forward import FeedForward
from leadline.layers.sublayer import Sublayer
from leadline.layers.truncated import draw_truncated
from leadline.layers.window_attention import WindowAttention
from leadline.models.picture import check_picture
from leadline.models.sizes import check_sizes, check_stages


class DaViT(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: classes, at least 1.
        patch: how many rows and columns of the picture one place of the first stage stands for.
        dims: width of each stage.
        stages: blocks of each stage, at least 1 each.
        num_heads: of each stage: heads of attention among places, groups of attention among channels.
        window: rows and columns of a window; what does not divide is filled with zeros.
        p_drop: of what each branch gives, from 0 to below 1.

    >>> import torch
    >>> DaViT(3, 10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        patch: int = 2,
        dims: Sequence[int] = (48, 96, 192),
        stages: Sequence[int] = (1, 1, 1),
        num_heads: Sequence[int] = (3, 6, 12),
        window: int = 4,
        p_drop: float = 0.0,
    ):
        super().__init__()
        check_sizes("DaViT", channels=channels, dim_output=dim_output, patch=patch, window=window)
        check_stages("DaViT", dims=dims, stages=stages, num_heads=num_heads)
        if not 0 < len(dims) == len(stages) == len(num_heads):
            raise UserError(
                "DaViT: dims, stages and num_heads must have a number for each stage",
                got=f"{len(dims)}, {len(stages)} and {len(num_heads)}",
                do="Pass three lists of one length",
            )
        self.channels, self.dim_output, self.patch = channels, dim_output, patch
        self.dims, self.stages, self.num_heads = tuple(dims), tuple(stages), tuple(num_heads)
        self.window, self.p_drop = window, p_drop
        self.body = nn.Sequential()
        site = 1
        for s, (dim, num, heads) in enumerate(zip(dims, stages, num_heads, strict=True)):
            stage = nn.Sequential(_Stem(channels, dim, patch) if s == 0 else _Halved(dims[s - 1], dim))
            for _ in range(num):
                stage.append(_block(dim, WindowAttention(dim, heads, window, relative=False), p_drop, site))
                stage.append(_block(dim, ChannelAttention(dim, heads), p_drop, site + 2))
                site += 4
            self.body.append(stage)
        self.norm = nn.LayerNorm(dims[-1])
        self.head = nn.Linear(dims[-1], dim_output)
        draw_truncated(self)

    @classmethod
    def tiny(cls) -> DaViT:
        return cls(1, 2, patch=2, dims=(4, 8), stages=(1, 1), num_heads=(1, 2), window=2, p_drop=0.1)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, 10, 12

    def forward(self, x: Tensor) -> Tensor:
        check_picture("DaViT", x, self.channels)
        h = self.body(x)  # eqs. 1 - 6   (B, Y', X', D)
        return self.head(self.norm(h.mean((1, 2))))  # eq. 7


class _Stem(nn.Module):
    """Eq. 1: windows of the convolution overlap, (B, C, Y, X) -> (B, Y', X', D)."""

    def __init__(self, channels: int, dim: int, patch: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, dim, 2 * patch - 1, patch, patch - 1)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x).permute(0, 2, 3, 1))


class _Halved(nn.Module):
    """Eq. 6, odd rows and columns filled with zeros."""

    def __init__(self, dim: int, dim_output: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv2d(dim, dim_output, 2, 2)

    def forward(self, h: Tensor) -> Tensor:
        Y, X = h.shape[1:3]
        h = F.pad(self.norm(h), (0, 0, 0, X % 2, 0, Y % 2))
        return self.conv(h.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class _Near(nn.Module):
    """Eq. 2."""

    def __init__(self, dim: int):
        super().__init__()
        self.conv = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.conv(h.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def _block(dim: int, attention: nn.Module, p_drop: float, site: int) -> nn.Sequential:
    """(2), one of the two attentions, (2), (5)."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["near"] = _Near(dim)
    parts["attention"] = Sublayer(attention, nn.LayerNorm(dim), p_drop=p_drop, site=site)
    parts["near_again"] = _Near(dim)
    parts["feed_forward"] = Sublayer(FeedForward(dim, 4 * dim), nn.LayerNorm(dim), p_drop=p_drop, site=site + 1)
    return nn.Sequential(parts)


#: of the paper, for pictures of 224 x 224; a block here is a pair of the paper's
SIZES: dict[str, dict[str, Any]] = {
    name: {"patch": 4, "dims": dims, "stages": stages, "num_heads": tuple(dim // 32 for dim in dims), "window": 7}
    for name, dims, stages in (
        ("T", (96, 192, 384, 768), (1, 1, 3, 1)),
        ("S", (96, 192, 384, 768), (1, 1, 9, 1)),
        ("B", (128, 256, 512, 1024), (1, 1, 9, 1)),
    )
}
