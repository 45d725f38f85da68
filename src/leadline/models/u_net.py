"""U-Net: down to a coarse picture of what is where, and up again beside the fine one (Ronneberger et al., 2015).

    e_0      = two(x)                                                                                   (1)
    e_k      = two(pool e_{k-1})                       k = 1 … K,  half the size, twice the channels    (2)
    d_K      = e_K
    d_{k-1}  = two([crop e_{k-1}, up d_k])             twice the size, half the channels                (3)
    output   = C1 d_0                                                                                   (4)

two() is a 3x3 convolution with normalisation and ReLU, twice; pool a 2x2 maximum, up a 2x2 transposed convolution.
The way down sees far and forgets where; the links of (3) bring back the places.

    padding   same    output as large as the input: zeros at the borders, and, where the size is no multiple of 2^K,
                      zeros on the right and below that are cut off again
              valid   no zeros anywhere: each 3x3 kernel costs 2 places an axis, crop of (3) takes the middle. The
                      output is the middle of the input, and every value of it has seen real pixels alone

Notation   e_k -> down[k];  up, two of (3) -> up[k-1], merge[k-1];  C1 -> head;  K -> depth
Paper      PAPER: 572 -> 388, widths 64 to 1024, no normalisation. dims=3 is the volume of Çiçek et al. 2016
Shapes     x (B, channels, Y, X) -> (B, dim_output, Y, X); with dims=3 an axis Z before Y
Train it   leadline train photos/ --model UNet
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import ShapeError, UserError
from leadline.layers.feature_norm import feature_norm
from leadline.models.sizes import check_sizes
from leadline.names import lookup

PADDINGS = {"same": "same", "valid": "valid"}

_CONV: dict[int, Any] = {2: nn.Conv2d, 3: nn.Conv3d}
_UP: dict[int, Any] = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
_POOL: dict[int, Any] = {2: F.max_pool2d, 3: F.max_pool3d}


class UNet(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: outputs at each place, at least 1.
        width: channels of e_0, at least 1; e_k has width · 2^k.
        depth: halvings K, at least 1.
        dims: 2, a picture, or 3, a volume.
        padding: "same" or "valid".
        norm: a name in `leadline.layers.feature_norm.NORMS`.

    >>> UNet(3, 11)(torch.zeros(1, 3, 50, 70)).shape
    torch.Size([1, 11, 50, 70])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        width: int = 16,
        depth: int = 4,
        dims: int = 2,
        padding: str = "same",
        norm: str = "batch",
    ):
        super().__init__()
        check_sizes("UNet", channels=channels, dim_output=dim_output, width=width, depth=depth)
        if dims not in _CONV:
            raise UserError("UNet: dims must be 2 or 3", got=f"dims={dims!r}", do="A picture has dims=2, a volume 3")
        self.channels, self.dim_output, self.width, self.depth = channels, dim_output, width, depth
        self.dims, self.padding, self.norm = dims, lookup(padding, PADDINGS, "padding"), norm
        two = lambda before, after: _twice(before, after, dims, self.padding == "same", norm)  # noqa: E731
        C = [width * 2**k for k in range(depth + 1)]
        self.down = nn.ModuleList(two(before, after) for before, after in zip([channels, *C], C, strict=False))
        self.up = nn.ModuleList(_UP[dims](C[k + 1], C[k], 2, 2) for k in range(depth))
        self.merge = nn.ModuleList(two(2 * C[k], C[k]) for k in range(depth))
        self.head = _CONV[dims](width, dim_output, 1)

    @classmethod
    def tiny(cls) -> UNet:
        return cls(1, 2, width=4, depth=2)

    @property
    def input_shape(self) -> tuple[int, ...]:
        size = 32 if self.padding == "same" else smallest(self.depth)
        return (self.channels, *(size,) * self.dims)

    def forward(self, x: Tensor) -> Tensor:
        places = x.shape[2:]
        h = self._fitted(x)
        kept = []
        for k, two in enumerate(self.down):
            h = two(_POOL[self.dims](h, 2) if k else h)  # eq. 1, 2
            kept.append(h)
        for k in reversed(range(self.depth)):
            h = self.up[k](h)
            h = self.merge[k](torch.cat([_middle(kept[k], h.shape[2:]), h], dim=1))  # eq. 3
        h = self.head(h)  # eq. 4
        return h if self.padding == "valid" else _first(h, places)

    def _fitted(self, x: Tensor) -> Tensor:
        """x with zeros up to a multiple of 2^K; with valid padding, x, or the message that its size does not fit."""
        if self.padding == "same":
            more = [-size % 2**self.depth for size in x.shape[2:]]
            ends = [end for size in reversed(more) for end in (0, size)]
            return F.pad(x, ends) if any(more) else x
        for size in x.shape[2:]:
            if valid_output(size, self.depth) is None:
                near = smallest(self.depth)
                near += max(0, round((size - near) / 2**self.depth)) * 2**self.depth
                raise ShapeError(
                    "UNet: with valid padding every map must be halved without remainder",
                    got=f"a picture of {' x '.join(map(str, x.shape[2:]))} at depth={self.depth}",
                    do=f"Use a size of {near} or {near + 2**self.depth}, or padding='same'",
                )
        return x


#: the network of the paper
PAPER = {"width": 64, "depth": 4, "padding": "valid", "norm": "none", "dim_output": 2, "channels": 1}


def valid_output(size: int, depth: int) -> int | None:
    """Places that are left of `size` without padding, or None where a map cannot be halved.

    >>> valid_output(572, 4), valid_output(573, 4)
    (388, None)
    """
    for _ in range(depth):
        size -= 4
        if size < 2 or size % 2:
            return None
        size //= 2
    size -= 4
    for _ in range(depth):
        size = 2 * size - 4
    return size if size > 0 else None


def smallest(depth: int) -> int:
    """The smallest picture that valid padding leaves anything of.

    >>> smallest(1), smallest(4)
    (18, 188)
    """
    return next(size for size in range(1, 200 * 2**depth) if valid_output(size, depth) is not None)


def _twice(before: int, after: int, dims: int, padded: bool, norm: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (before, after):
        layers.append(_CONV[dims](channels, after, 3, padding=int(padded), bias=norm == "none"))
        layers += [feature_norm(norm, after, dims), nn.ReLU()]
    return nn.Sequential(*layers)


def _first(h: Tensor, size: torch.Size) -> Tensor:
    """The first places of a map on each axis: what zeros were added to."""
    for axis, want in enumerate(size, 2):
        h = h.narrow(axis, 0, want)
    return h


def _middle(h: Tensor, size: torch.Size) -> Tensor:
    """The middle of a map, `size` places large."""
    for axis, want in enumerate(size, 2):
        h = h.narrow(axis, (h.shape[axis] - want) // 2, want)
    return h
