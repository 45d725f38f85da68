"""How pictures are moved, and what is said about places in them: one affine map a row.

    p' = A p + t                                             (1)   p, p' in pixels from the centre, (x, y), y downwards
    x~(p') = x(A⁻¹ (p' - t))                                 (2)   between pixels: bilinear, or the nearest
    box': centre c' = A c + t,   half sides |A| h            (3)   the upright hull of the moved box

Outside the picture x~ is 0 (the mean colour, where inputs are standardized) and a mask says 255, not labelled. A box is
cut at the edges, and gone where less than a fifth of it is left. A point that leaves is no longer seen.

Maps that take pixels onto pixels (mirrors, shifts by whole pixels, quarter turns) blur nothing: see `shifted`.
Everything is written as sums of products: a matrix product would be rounded to 8 bits under bf16 autocast.

Notation   (A, t) -> ahead (B, 2, 3),  its inverse -> back,  (Y, X) -> size
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

UNLABELLED = 255
_LEAST_LEFT = 0.2  # of a box's area


def affine(a: Tensor, b: Tensor, c: Tensor, d: Tensor, right: Tensor, down: Tensor) -> Tensor:
    """Maps (B, 2, 3) of the entries of A, row by row, and of t, each (B,).

    >>> one = torch.ones(1)
    >>> affine(one, 0 * one, 0 * one, one, 3 * one, 4 * one).tolist()
    [[[1.0, 0.0, 3.0], [0.0, 1.0, 4.0]]]
    """
    return torch.stack([torch.stack([a, b, right], -1), torch.stack([c, d, down], -1)], -2)


def unmoved(count: int, like: Tensor) -> Tensor:
    """The map that moves nothing, for `count` rows, of the type and on the device of `like`."""
    none = torch.zeros(count, dtype=like.dtype, device=like.device)
    return affine(none + 1, none, none, none + 1, none, none)


def then(first: Tensor, second: Tensor) -> Tensor:
    """The map that does `first` and after it `second`; (B, 2, 3) each.

    >>> one, none = torch.ones(1), torch.zeros(1)
    >>> shift, double = affine(one, none, none, one, one, none), affine(2 * one, none, none, 2 * one, none, none)
    >>> then(shift, double)[0, :, 2].tolist(), then(double, shift)[0, :, 2].tolist()
    ([2.0, 0.0], [1.0, 0.0])
    """
    linear = second[:, :, :2]
    both = linear[:, :, :1] * first[:, :1] + linear[:, :, 1:] * first[:, 1:]  # (B, 2, 3)
    return torch.cat([both[:, :, :2], both[:, :, 2:] + second[:, :, 2:]], -1)


def inverse(ahead: Tensor) -> Tensor:
    """The maps that undo `ahead`, which must stretch no direction to nothing.

    >>> one, none = torch.ones(1), torch.zeros(1)
    >>> inverse(affine(2 * one, one, one, one, 4 * one, one))[0].tolist()
    [[1.0, -1.0, -3.0], [-1.0, 2.0, 2.0]]
    """
    (a, b, right), (c, d, down) = (row.unbind(-1) for row in ahead.unbind(-2))
    over = 1 / (a * d - b * c)
    a, b, c, d = d * over, -b * over, -c * over, a * over
    return affine(a, b, c, d, -(a * right + b * down), -(c * right + d * down))


def bilinear(x: Tensor, back: Tensor, outside: str = "zeros") -> Tensor:
    """Pictures (B, C, Y, X) by eq. 2, each pixel a mean of four.

    Args:
        outside: "zeros", or "border" for the nearest pixel inside.

    >>> one, none = torch.ones(1), torch.zeros(1)
    >>> bilinear(torch.arange(4.0).view(1, 1, 1, 4), affine(one, none, none, one, 0.5 * one, none)).tolist()
    [[[[0.5, 1.5, 2.5, 1.5]]]]
    """
    rows, columns = x.shape[-2:]
    own = torch.promote_types(x.dtype, torch.float32)
    across, down = _sources(back.to(own), rows, columns)
    grid = torch.stack([across * (2 / columns), down * (2 / rows)], -1)  # (B, Y, X, 2), the picture's edges at -1 and 1
    return F.grid_sample(x.to(own), grid, "bilinear", outside, align_corners=False).to(x.dtype)


def shifted(x: Tensor, right: Tensor, down: Tensor) -> Tensor:
    """Pictures (B, C, Y, X) moved by whole pixels, (B,) each; 0 outside.

    A row of the result is a stretch of memory that begins at some place of x: it is copied as such, which takes a
    tenth of the time of picking pixels.

    >>> shifted(torch.arange(4.0).view(1, 1, 1, 4), torch.ones(1), torch.zeros(1)).tolist()
    [[[[0.0, 0.0, 1.0, 2.0]]]]
    """
    B, C, rows, columns = x.shape  # noqa: N806
    right, down = right.long()[:, None], down.long()[:, None]
    row = torch.arange(rows, device=x.device) - down  # (B, Y), where each comes from
    column = torch.arange(columns, device=x.device) - right  # (B, X)
    picture = torch.arange(B * C, device=x.device).view(B, C, 1) * rows
    begin = (picture + row.clamp(0, rows - 1)[:, None]) * columns - right.clamp(-columns, columns)[:, None]
    stretches = F.pad(x.flatten(), (columns, columns)).unfold(0, columns, 1)  # one from every place
    within, beside = ((row >= 0) & (row < rows)).to(x.dtype), ((column >= 0) & (column < columns)).to(x.dtype)
    return stretches[begin + columns] * (within[:, None, :, None] * beside[:, None, None])


def nearest(y: Tensor, back: Tensor) -> Tensor:
    """Masks (B, Y, X) by eq. 2, each pixel the nearest one there.

    >>> one, none = torch.ones(1), torch.zeros(1)
    >>> nearest(torch.arange(4).view(1, 1, 4), affine(one, none, none, one, one, none)).tolist()
    [[[1, 2, 3, 255]]]
    """
    rows, columns = y.shape[-2:]
    across, down = _sources(back, rows, columns)
    column, row = (across + columns / 2).floor().long(), (down + rows / 2).floor().long()  # (B, Y, X)
    inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    index = (row.clamp(0, rows - 1) * columns + column.clamp(0, columns - 1)).flatten(1)  # (B, Y X)
    return y.flatten(1).gather(1, index).view(y.shape).masked_fill(~inside, UNLABELLED)


def _sources(back: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Where each pixel comes from, across and down, in pixels from the centre; (B, Y, X) each."""
    like = partial(torch.arange, dtype=back.dtype, device=back.device)
    x, y = like(columns) - (columns - 1) / 2, (like(rows) - (rows - 1) / 2)[:, None]
    across, down = (
        a[:, None, None] * x + b[:, None, None] * y + t[:, None, None]
        for a, b, t in (row.unbind(-1) for row in back.unbind(-2))
    )
    return across, down


def moved_boxes(boxes: Tensor, ahead: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes (B, M, 5) of (code, x, y, width, height), relative to the picture, by eq. 3; code -1 for those gone.

    >>> one, none = torch.ones(1), torch.zeros(1)
    >>> right = affine(one, none, none, one, 2 * one, none)  # by half a picture of 4 columns
    >>> boxes = torch.tensor([[[7, 0.5, 0.5, 0.5, 1.0], [7, 0.75, 0.5, 0.5, 1.0]]])
    >>> moved_boxes(boxes, right, (4, 4))[0].tolist()
    [[7.0, 0.875, 0.5, 0.25, 1.0], [-1.0, 0.0, 0.0, 0.0, 0.0]]
    """
    code, x, y, width, height = boxes.unbind(-1)
    (a, b, right), (c, d, down) = _relative(ahead.to(boxes.dtype), size)
    x, y = a * (x - 0.5) + b * (y - 0.5) + right + 0.5, c * (x - 0.5) + d * (y - 0.5) + down + 0.5
    width, height = a.abs() * width + b.abs() * height, c.abs() * width + d.abs() * height
    left, top = ((middle - side / 2).clamp(0, 1) for middle, side in ((x, width), (y, height)))
    rest, bottom = ((middle + side / 2).clamp(0, 1) for middle, side in ((x, width), (y, height)))
    wide, high = rest - left, bottom - top
    kept = (code >= 0) & (wide > 0) & (high > 0) & (wide * high >= _LEAST_LEFT * width * height)
    cut = torch.stack([code, (left + rest) / 2, (top + bottom) / 2, wide, high], -1)
    none = F.pad(torch.full_like(code, -1)[..., None], (0, 4))
    return torch.where(kept[..., None], cut, none)


def moved_points(points: Tensor, ahead: Tensor, size: tuple[int, int], partners: Tensor | None = None) -> Tensor:
    """Points (B, J, 3) of (x, y, seen), x and y relative to the picture, by eq. 1.

    Args:
        partners: which point each one becomes in a mirrored picture, (J,): the left hand the right one.

    >>> one, none = torch.ones(1), torch.zeros(1)
    >>> mirror = affine(-one, none, none, one, none, none)
    >>> points = torch.tensor([[[0.25, 0.5, 1.0], [0.5, 1.0, 1.0]]])
    >>> moved_points(points, mirror, (4, 4), torch.tensor([1, 0]))[0].tolist()
    [[0.5, 1.0, 1.0], [0.75, 0.5, 1.0]]
    """
    x, y, seen = points.unbind(-1)
    (a, b, right), (c, d, down) = _relative(ahead.to(points.dtype), size)
    x, y = a * (x - 0.5) + b * (y - 0.5) + right + 0.5, c * (x - 0.5) + d * (y - 0.5) + down + 0.5
    inside = (x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)
    moved = torch.stack([x, y, seen * inside], -1)
    if partners is None:
        return moved
    mirrored = (a * d < b * c)[..., None]
    return torch.where(mirrored, moved[:, partners], moved)


def _relative(ahead: Tensor, size: tuple[int, int]) -> list[tuple[Tensor, ...]]:
    """The entries of eq. 1, (B, 1) each, for places in units of the picture's width and height."""
    (a, b, right), (c, d, down) = (row[:, None].unbind(-1) for row in ahead.unbind(-2))
    rows, columns = size
    return [(a, b * (rows / columns), right / columns), (c * (columns / rows), d, down / rows)]
