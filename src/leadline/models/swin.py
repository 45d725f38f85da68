"""Swin: attention in windows that shift from block to block, over a picture that shrinks (Liu et al., 2021).

    h_{yx} = N E [patch at y, x]                                                                     (1)
    h <- h + attention in windows (N h)          every second block in windows shifted by half       (2)
    h <- h + W₂ gelu(W₁ N h)                                                                         (3)
    h <- W' N [four neighbours]                  between stages: half the size, twice the width      (4)
    output = β + Ω mean_{y,x} N h                                                                    (5)

Attention costs W² for each place, not the size of the picture; what lies in other windows is reached by the shift and,
after each (4), by windows that see twice as far. Places have no vectors of their own: a table says what a distance adds
to the scores. So one network reads pictures of any size.

Notation   E, its N -> enter, enter_norm;  N -> norm;  W₁, W₂ -> widen, narrow;  W' -> the last part of a stage;
           Ω, β -> head.weight, head.bias;  D -> dim, W -> window, Y X rows and columns
Paper      the default is a small network for small pictures; SIZES has those of the paper. Whole branches are not
           dropped here (stochastic depth)
Shapes     x (B, channels, Y, X) -> (B, dim_output); any Y, X
Train it   leadline train pictures/ --model Swin --window 4
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.dropout import Dropout
from leadline.layers.feed_forward import FeedForward
from leadline.layers.patches import Merging, Patches
from leadline.layers.sublayer import Sublayer
from leadline.layers.truncated import draw_truncated
from leadline.layers.window_attention import WindowAttention
from leadline.models.picture import check_picture, pair
from leadline.models.sizes import check_sizes, check_stages
from leadline.settings import real


class Swin(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        size: its rows and columns; others can be read too.
        dim_output: classes, at least 1.
        patch: rows and columns of a patch.
        dim: width of the first stage; each later one has twice as much.
        stages: blocks of each stage, at least 1 each.
        num_heads: of the attention of each stage.
        window: rows and columns of a window; what does not divide is filled with zeros.
        widening: width inside the feed-forward networks over that of their stage, at least 1 / dim.
        p_drop: of a unit of the patches and of what each branch gives, from 0 to below 1.

    >>> import torch
    >>> Swin(3, (32, 32), 10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        size: Sequence[int],
        dim_output: int,
        patch: int = 2,
        dim: int = 48,
        stages: Sequence[int] = (2, 2, 2),
        num_heads: Sequence[int] = (3, 6, 12),
        window: int = 4,
        widening: float = 4.0,
        p_drop: float = 0.0,
    ):
        super().__init__()
        Y, X = pair("Swin", size)
        check_sizes("Swin", channels=channels, dim_output=dim_output, patch=patch, dim=dim)
        check_sizes("Swin", window=window)
        check_stages("Swin", stages=stages, num_heads=num_heads)
        if len(num_heads) != len(stages) or not stages:
            raise UserError(
                "Swin: num_heads must have a number for each stage",
                got=f"{len(num_heads)} for {len(stages)} stages",
                do=f"Pass num_heads={tuple(max(1, dim * 2**s // 32) for s in range(len(stages)))}"
                if stages
                else "Pass one",
            )
        self.channels, self.size, self.dim_output, self.patch, self.dim = channels, (Y, X), dim_output, patch, dim
        self.stages, self.num_heads = tuple(stages), tuple(num_heads)
        self.window, self.p_drop = window, p_drop
        self.widening = real("widening", widening, 1 / dim, usual=4.0)
        self.enter, self.enter_norm = Patches(channels, dim, patch), nn.LayerNorm(dim)
        self.dropout = Dropout(p_drop, site=1)
        self.body = nn.Sequential()
        site = 2
        for s, (num, heads) in enumerate(zip(stages, num_heads, strict=True)):
            hidden = int(widening * dim)
            stage = nn.Sequential(
                *[_block(dim, heads, window, k % 2 == 1, hidden, p_drop, site + 2 * k) for k in range(num)]
            )
            site += 2 * num
            if s < len(stages) - 1:
                stage.append(Merging(dim))
                dim *= 2
            self.body.append(stage)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, dim_output)
        draw_truncated(self)

    @classmethod
    def tiny(cls) -> Swin:
        return cls(1, (9, 8), 2, patch=2, dim=4, stages=(2, 1), num_heads=(1, 2), window=2, widening=2.0, p_drop=0.1)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, *self.size

    def forward(self, x: Tensor) -> Tensor:
        check_picture("Swin", x, self.channels)
        h = self.dropout(self.enter_norm(self.enter(x)))  # eq. 1   (B, Y', X', D)
        h = self.body(h)  # eqs. 2 - 4
        return self.head(self.norm(h).mean((1, 2)))  # eq. 5


def _block(
    dim: int, num_heads: int, window: int, shifted: bool, dim_hidden: int, p_drop: float, site: int
) -> nn.Sequential:
    within = WindowAttention(dim, num_heads, window, shifted)
    attention = Sublayer(within, nn.LayerNorm(dim), p_drop=p_drop, site=site)
    forward = Sublayer(FeedForward(dim, dim_hidden), nn.LayerNorm(dim), p_drop=p_drop, site=site + 1)
    return nn.Sequential(OrderedDict(attention=attention, feed_forward=forward))


#: of the paper, for pictures of 224 x 224
SIZES: dict[str, dict[str, Any]] = {
    "T": {"patch": 4, "dim": 96, "stages": (2, 2, 6, 2), "num_heads": (3, 6, 12, 24), "window": 7},
    "S": {"patch": 4, "dim": 96, "stages": (2, 2, 18, 2), "num_heads": (3, 6, 12, 24), "window": 7},
    "B": {"patch": 4, "dim": 128, "stages": (2, 2, 18, 2), "num_heads": (4, 8, 16, 32), "window": 7},
    "L": {"patch": 4, "dim": 192, "stages": (2, 2, 18, 2), "num_heads": (6, 12, 24, 48), "window": 7},
}
