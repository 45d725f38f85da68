"""Pictures as rows of tokens: few colours, pixel after pixel (Chen et al., 2020).

    q_c  = ⌊v_c 2^b / 256⌋                          value v_c of channel c in b bits                           (1)
    s_t  = Σ_c q_c 2^{b (C - c)},  c = 1 … C        one of V = 2^{b C} colours; t runs along rows              (2)
    next     x = start s_1 … s_{T-1},  y = s_1 … s_T         start = V                                         (3)
    classes  x = start s_1 … s_T,      y as it was                                                             (4)
    v_c  = 255 q_c / (2^b - 1), rounded             back: black stays black, white stays white                 (5)

With b = 3, red, green and blue make 512 colours, and grey 8.

Notation   b -> bits, C channels, T = Y X pixels
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline.data.data import Data, Split
from leadline.data.inputs import Inputs
from leadline.data.pictures import Pictures
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.names import lookup
from leadline.settings import given, whole

TASKS = {"next": "next", "classes": "classes"}


class Colours(Inputs):
    """Raw rows are pictures, uint8 (N, C, Y, X); a network reads eq. 3 or 4, int64 (N, T) or (N, T + 1).

    Args:
        size: rows and columns.
        channels: 1 (grey) or 3 (red, green, blue).
        bits: of each channel, from 1 to 4.
        task: "next" (3) or "classes" (4).
        fit: how a picture of another shape is brought to size, as of `Pictures`.

    >>> inputs = Colours((1, 2), channels=3)
    >>> inputs.encode(torch.tensor([[[[255, 0]], [[0, 0]], [[64, 32]]]], dtype=torch.uint8)).tolist()
    [[512, 450]]
    """

    late = True

    def __init__(self, size: Sequence[int], channels: int = 3, bits: int = 3, task: str = "next", fit: str = "crop"):
        self._pictures = Pictures((0.5,) * channels, (0.5,) * channels, size, channels, fit)
        self.size, self.channels, self.fit = self._pictures.size, channels, self._pictures.fit
        self.bits, self.task = whole("bits", bits, 1, 4, usual=3), lookup(task, TASKS, "task")

    @property
    def num_colours(self) -> int:
        """V; the start token has this number."""
        return 2 ** (self.bits * self.channels)

    @property
    def num_pixels(self) -> int:
        """T."""
        return self.size[0] * self.size[1]

    def tokens(self, x: Tensor) -> Tensor:
        """Eqs. 1 and 2: pictures (N, C, Y, X) -> int64 (N, T)."""
        if x.dim() != 4 or tuple(x.shape[1:]) != (self.channels, *self.size):
            raise ShapeError(
                f"pictures must have the shape (N, {self.channels}, {self.size[0]}, {self.size[1]})",
                got=f"x of shape {tuple(x.shape)}",
                do="Let read(…) of these inputs bring them to it",
            )
        q = (x.round() if x.is_floating_point() else x).to(torch.int64).clamp(0, 255) >> (8 - self.bits)
        found = q[:, 0]
        for c in range(1, self.channels):
            found = (found << self.bits) + q[:, c]
        return found.flatten(1)

    def encode(self, x: Tensor) -> Tensor:
        tokens = self.tokens(x)
        read = tokens[:, :-1] if self.task == "next" else tokens
        return torch.cat([torch.full_like(tokens[:, :1], self.num_colours), read], 1)  # eqs. 3, 4

    def drawn(self, x: Tensor, y: Tensor, keys: Tensor | None) -> tuple[Tensor, Tensor]:
        return x, y.long() if y.dim() == 2 else y

    def read(self, rows: Any) -> Tensor:
        return self._pictures.read(rows)

    def sizes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        return {"num_tokens": self.num_colours + 1, "length": self.num_pixels + 1}

    def room(self, shape: tuple[int, ...]) -> int:
        return 4 * self.num_pixels * self.num_colours if self.task == "next" else 0

    def dim(self, x: Tensor) -> int:
        return self.num_pixels + (self.task == "classes")

    def pictures_of(self, tokens: Tensor) -> Tensor:
        """Eq. 5: the pictures, uint8 (N, C, Y, X), of colours (N, T); the last rows may be missing, and are black.

        >>> inputs = Colours((2, 2), channels=1)
        >>> inputs.pictures_of(torch.tensor([[0, 7, 3]])).tolist()
        [[[[0, 255], [109, 0]]]]
        """
        T = self.num_pixels
        if tokens.dim() != 2 or tokens.shape[1] > T:
            raise ShapeError(
                f"colours must be rows of at most {T}, (N, T)",
                got=f"shape {tuple(tokens.shape)}",
                do="Leave out the start token",
            )
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.num_colours:
            raise DataError(
                f"colours must lie in 0 … {self.num_colours - 1}",
                got=f"values from {int(tokens.min())} to {int(tokens.max())}",
                do="Leave out the start token",
            )
        grid = F.pad(tokens.long(), (0, T - tokens.shape[1])).unflatten(1, self.size)  # (N, Y, X)
        most = 2**self.bits - 1
        parts = [(grid >> (self.bits * c)) & most for c in range(self.channels - 1, -1, -1)]
        return (torch.stack(parts, 1) * (255 / most)).round().to(torch.uint8)


def colours(data: Data, task: str = "next", size: Sequence[int] | None = None, bits: int = 3) -> Data:
    """Pictures as rows of colours.

    Args:
        data: pictures, such as of `ll.data.images`.
        task: "next", to predict each colour from those before it, or "classes", what y was.
        size: rows and columns to which pictures are made smaller first: every pixel is a token.
        bits: of each channel, from 1 to 4.

    >>> import leadline as ll
    >>> colours(ll.data.scenes(num=20, size=32), size=(8, 8))
    Data(scenes, colours: train 14, val 3, test 3; x (3, 8, 8); y colour: one of 512 tokens at each place)
    """
    if not isinstance(data, Data) or not isinstance(data.inputs, Pictures):
        raise UserError(
            "colours takes data of pictures",
            got=f"inputs of type {type(data.inputs).__name__}" if isinstance(data, Data) else given("data", data),
            do="Pass ll.data.images(…), ll.data.idx(…) or ll.data.scenes(…)",
        )
    own = data.inputs
    inputs = Colours(own.size if size is None else size, own.channels, bits, task, own.fit)

    def turned(split: Split) -> Split:
        x = split.x if size is None else _smaller(split.x, inputs.size)
        y = split.y if inputs.task == "classes" else _stored(inputs, x)
        return Split(x, y, split.weight, split.rows, split.group, split.time)

    train, val, test = (turned(split) for split in (data.train, data.val, data.test))
    asked = data.target if inputs.task == "classes" else Target("tokens", "colour", dim=inputs.num_colours)
    return data.with_(
        train=train, val=val, test=test, target=asked, inputs=inputs, name=f"{data.name}, colours", recipe=None
    )


def _stored(inputs: Colours, x: Tensor, at_once: int = 512) -> Tensor:
    """y of (3) in 16 bits."""
    parts = [inputs.tokens(part).to(torch.int16) for part in x.split(at_once)]
    return torch.cat(parts) if len(x) else torch.zeros(0, inputs.num_pixels, dtype=torch.int16)


def _smaller(x: Tensor, size: tuple[int, int], at_once: int = 512) -> Tensor:
    """Means over areas, (N, C, Y, X) -> (N, C, *size)."""
    parts = [F.interpolate(part.float(), size, mode="area").round().to(torch.uint8) for part in x.split(at_once)]
    return torch.cat(parts) if len(x) else x.new_zeros(0, x.shape[1], *size)
