"""Vision transformer: a picture as a sentence of patches (Dosovitskiy et al., 2021).

    h_t  = E [patch t] + e_t,   t = 1 … T;     h_0 = c + e_0                                     (1)
    h   <- h + attention(N h)                                                                    (2)
    h   <- h + W₂ gelu(W₁ N h)                                                                   (3)
    output = β + Ω (N h)_0       pool="cls";    of the mean of N h_t, without h_0, pool="mean"   (4)

(2) and (3) are repeated `num_layers` times. Nothing tells the network which patches are neighbours: e_t is one learned
vector a place, and what lies where is learned from data. So is that a thing stays the same when it moves.

Notation   E -> enter;  e -> position;  c -> class_token;  N -> norm, a layer normalisation;  W₁, W₂ -> widen, narrow;
           Ω, β -> head.weight, head.bias;  T patches, D -> dim, C channels, Y X rows and columns
Paper      the default is a small network for small pictures; SIZES has those of the paper. Dropout follows the first
           sum and each branch
Shapes     x (B, channels, Y, X) -> (B, dim_output), (Y, X) = size
Train it   leadline train pictures/ --model ViT --patch 4
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import ShapeError, UserError
from leadline.layers.attention import SelfAttention
from leadline.layers.dropout import Dropout
from leadline.layers.feed_forward import FeedForward
from leadline.layers.patches import Patches, regridded
from leadline.layers.sublayer import Sublayer
from leadline.layers.truncated import draw_truncated
from leadline.models.picture import check_picture, pair
from leadline.models.sizes import check_sizes
from leadline.settings import given, real

POOLS = ("cls", "mean")


class ViT(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        size: its rows and columns.
        dim_output: classes, at least 1.
        patch: rows and columns of a patch; where they do not divide the picture, it is filled with zeros.
        dim: width of the stream, a multiple of num_heads.
        num_layers: of attention and a feed-forward network each, at least 1.
        num_heads: of each attention, at least 1.
        dim_hidden: width inside the feed-forward networks; four times dim by default.
        p_drop: of the first sum and of what each branch gives, from 0 to below 1.
        pool: what is classified: the token "cls", or the "mean" of all.
        eps: of the normalisations, above 0.

    >>> ViT(3, (32, 32), 10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    >>> with torch.device("meta"):
    ...     sum(p.numel() for p in ViT(3, (224, 224), 1000, **SIZES["B/16"]).parameters())
    86567656
    """

    def __init__(
        self,
        channels: int,
        size: Sequence[int],
        dim_output: int,
        patch: int = 4,
        dim: int = 128,
        num_layers: int = 6,
        num_heads: int = 4,
        dim_hidden: int | None = None,
        p_drop: float = 0.0,
        pool: str = "cls",
        eps: float = 1e-6,
    ):
        super().__init__()
        Y, X = pair("ViT", size)
        check_sizes("ViT", channels=channels, dim_output=dim_output, patch=patch, dim=dim)
        check_sizes("ViT", num_layers=num_layers, dim_hidden=4 * dim if dim_hidden is None else dim_hidden)
        if pool not in POOLS:
            raise UserError("ViT: pool must be cls or mean", got=given("pool", pool), do="Pass one of the two")
        self.channels, self.size, self.dim_output, self.patch, self.dim = channels, (Y, X), dim_output, patch, dim
        self.num_layers, self.num_heads, self.dim_hidden = num_layers, num_heads, dim_hidden
        self.p_drop, self.pool, self.eps = p_drop, pool, real("eps", eps, 0, above=True, usual=1e-6)
        self.enter = Patches(channels, dim, patch)
        self.class_token = nn.Parameter(torch.empty(1, 1, dim)) if pool == "cls" else None
        rows, columns = self.grid
        self.position = nn.Parameter(torch.empty(rows * columns + (pool == "cls"), dim))
        self.dropout = Dropout(p_drop, site=1)
        self.blocks = nn.Sequential(
            *[_block(dim, num_heads, dim_hidden or 4 * dim, p_drop, eps, 2 * layer + 2) for layer in range(num_layers)]
        )
        self.norm = nn.LayerNorm(dim, eps)
        self.head = nn.Linear(dim, dim_output)
        draw_truncated(self)
        for drawn in (self.class_token, self.position):
            if drawn is not None:
                nn.init.trunc_normal_(drawn, std=0.02)

    @classmethod
    def tiny(cls) -> ViT:
        return cls(1, (8, 8), 2, patch=4, dim=8, num_layers=2, num_heads=2, p_drop=0.1)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, *self.size

    @property
    def grid(self) -> tuple[int, int]:
        """Patches in a column and in a row of a picture."""
        Y, X = self.size
        return -(-Y // self.patch), -(-X // self.patch)

    def forward(self, x: Tensor) -> Tensor:
        check_picture("ViT", x, self.channels)
        if tuple(x.shape[2:]) != self.size:
            raise ShapeError(
                f"ViT: a picture must have {self.size[0]} rows and {self.size[1]} columns",
                got=f"{x.shape[2]} x {x.shape[3]}",
                do="Resize the pictures to this size, or take model.resized((rows, columns))",
            )
        h = self.enter(x).flatten(1, 2)  # (B, T, D)
        if self.class_token is not None:
            h = torch.cat([self.class_token.expand(len(h), -1, -1), h], 1)
        h = self.blocks(self.dropout(h + self.position))  # eqs. 1 - 3
        h = self.norm(h)
        return self.head(h.mean(1) if self.class_token is None else h[:, 0])  # eq. 4

    def resized(self, size: Sequence[int]) -> ViT:
        """The same network for pictures of another size: e_t is read off between the places where it was learned.

        >>> ViT.tiny().resized((16, 12)).grid
        (4, 3)
        """
        made = type(self)(**{**self.config, "size": size}).to(self.position).train(self.training)
        first = int(self.class_token is not None)
        places = regridded(self.position.detach()[first:], self.grid, made.grid)
        made.load_state_dict({**self.state_dict(), "position": torch.cat([self.position.detach()[:first], places])})
        return made


def _block(dim: int, num_heads: int, dim_hidden: int, p_drop: float, eps: float, site: int) -> nn.Sequential:
    attention = Sublayer(SelfAttention(dim, num_heads), nn.LayerNorm(dim, eps), p_drop=p_drop, site=site)
    forward = Sublayer(FeedForward(dim, dim_hidden), nn.LayerNorm(dim, eps), p_drop=p_drop, site=site + 1)
    return nn.Sequential(OrderedDict(attention=attention, feed_forward=forward))


#: of the paper (B, L, H) and of Touvron et al., 2021 (Ti, S), with the rows of a patch; for pictures of 224 x 224
SIZES: dict[str, dict[str, Any]] = {
    "Ti/16": {"patch": 16, "dim": 192, "num_layers": 12, "num_heads": 3},
    "S/16": {"patch": 16, "dim": 384, "num_layers": 12, "num_heads": 6},
    "B/16": {"patch": 16, "dim": 768, "num_layers": 12, "num_heads": 12},
    "B/32": {"patch": 32, "dim": 768, "num_layers": 12, "num_heads": 12},
    "L/16": {"patch": 16, "dim": 1024, "num_layers": 24, "num_heads": 16},
    "H/14": {"patch": 14, "dim": 1280, "num_layers": 32, "num_heads": 16},
}
