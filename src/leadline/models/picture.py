"""Pictures that a model can read."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from leadline.errors import ShapeError, UserError
from leadline.settings import given


def pair(owner: str, size: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of the pictures that a model is built for.

    >>> pair("ViT", 8)
    Traceback (most recent call last):
    leadline.errors.UserError: ViT: size must be rows and columns, at least 1 each. Got size=8. Pass size=(32, 32).
    """
    fits = isinstance(size, Sequence) and len(size) == 2 and all(isinstance(s, int) and s >= 1 for s in size)
    if fits:
        return int(size[0]), int(size[1])
    raise UserError(
        f"{owner}: size must be rows and columns, at least 1 each", got=given("size", size), do="Pass size=(32, 32)"
    )


def check_picture(owner: str, x: Tensor, channels: int, least: int = 1) -> None:
    """Refuse what is not (B, channels, Y, X) with at least `least` rows and columns.

    >>> import torch
    >>> check_picture("VGG", torch.zeros(2, 3, 16, 64), 3, least=32)
    Traceback (most recent call last):
    leadline.errors.ShapeError: VGG: a picture must have at least 32 rows and 32 columns. Got 16 x 64. Enlarge the \
pictures, or take a model with fewer halvings.
    """
    if not isinstance(x, Tensor) or not x.is_floating_point():
        got = f"x of {x.dtype}" if isinstance(x, Tensor) else given("x", x)
        do = "Pass pixels from 0 to 1, such as x / 255"
        raise ShapeError(f"{owner}: x must be pictures of real numbers, (B, {channels}, Y, X)", got=got, do=do)
    if x.dim() != 4 or x.shape[1] != channels:
        raise ShapeError(
            f"{owner}: x must be pictures, (B, {channels}, Y, X)",
            got=f"x of shape {tuple(x.shape)}",
            do=f"Build {owner} with channels={x.shape[1]}" if x.dim() == 4 else "Permute the axes into this order",
        )
    if min(x.shape[2:]) < least:
        raise ShapeError(
            f"{owner}: a picture must have at least {least} rows and {least} columns",
            got=f"{x.shape[2]} x {x.shape[3]}",
            do="Enlarge the pictures, or take a model with fewer halvings",
        )
