"""Rows that hold two sentences: a source, padded to a fixed length, and after it what a decoder reads.

Shapes     x (B, S + T) -> source (B, S), target (B, T)
"""

from __future__ import annotations

from torch import Tensor

from leadline.errors import ShapeError
from leadline.settings import given


def parted(owner: str, x: Tensor, len_source: int, length: int) -> tuple[Tensor, Tensor]:
    """Source and target of rows, or the message that they do not fit.

    >>> import torch
    >>> [part.tolist() for part in parted("Transformer", torch.tensor([[5, 6, 0, 1, 7]]), len_source=3, length=2)]
    [[[5, 6, 0]], [[1, 7]]]
    """
    if not isinstance(x, Tensor):
        raise ShapeError(f"{owner}: rows must be a tensor of tokens, (B, S + T)", got=given("x", x), do="Pass a tensor")
    if x.dim() != 2 or x.is_floating_point() or not len_source < x.shape[1] <= len_source + length:
        raise ShapeError(
            f"{owner}: rows must hold a source of {len_source} tokens and a target of 1 to {length}",
            got=f"{x.dtype} of shape {tuple(x.shape)}" if x.is_floating_point() else f"shape {tuple(x.shape)}",
            do="Pass whole numbers"
            if x.is_floating_point()
            else f"Pad sources to {len_source} tokens and put what the decoder reads after them",
        )
    return x[:, :len_source], x[:, len_source:]


def check_source(owner: str, source: Tensor, rows: int, most: int | None = None) -> None:
    """Sources that are read before their targets are written must be as many as a cache has rows, and have places.

    Args:
        most: words of a source; None is no end.

    >>> import torch
    >>> check_source("Transformer", torch.ones(2, 9), rows=2, most=5)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    leadline.errors.ShapeError: Transformer: sources must be 2 rows of 1 to 5 tokens. Got shape (2, 9)...
    """
    if source.dim() == 2 and len(source) == rows and 0 < source.shape[1] <= (most or source.shape[1]):
        return
    raise ShapeError(
        f"{owner}: sources must be {rows} rows of {'at least 1 token' if most is None else f'1 to {most} tokens'}",
        got=f"shape {tuple(source.shape)}",
        do="Make the cache for as many rows as there are sources, and cut sources that are too long",
    )
