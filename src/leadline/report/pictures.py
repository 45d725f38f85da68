"""Answers drawn on their pictures: masks, boxes and points, of the truth and of a prediction alike.

    >>> import torch
    >>> picture = torch.zeros(3, 32, 48, dtype=torch.uint8)
    >>> drawn(picture, torch.tensor([[0, 0.5, 0.5, 0.4, 0.6]]), "boxes", ("cat",)).size
    (384, 256)

What is drawn has the form of a row of y, which is also that of a prediction's mode. Small pictures are enlarged in
whole steps, so that lines and names can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from leadline.data.target import SPATIAL
from leadline.errors import ShapeError, UserError
from leadline.lens.style import HUES
from leadline.names import suggest
from leadline.settings import whole

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

UNLABELLED = 255
_VEIL = 0.5  # how much of a pixel's colour is that of its class


def drawn(
    picture: Tensor,
    answer: Tensor,
    kind: str,
    names: Sequence[str] = (),
    scores: Sequence[float] | Tensor = (),
    side: int = 256,
) -> Image:
    """A picture with an answer drawn on it, as an image of PIL.

    Args:
        picture: uint8 (C, Y, X), C 1 or 3.
        answer: "pixels" (Y, X), codes, or fewer for the middle; "boxes" (M, 5), code -1 is none; "points" (J, 3),
            points of which the third number is 0 are left out.
        kind: of the target.
        names: of the classes, or of the points.
        scores: of boxes, to write beside their names.
        side: pixels that the shorter side has at least, at least 1.

    >>> import torch
    >>> drawn(torch.zeros(1, 64, 64, dtype=torch.uint8), torch.ones(64, 64), "pixels").getpixel((0, 0))
    (119, 51, 59)
    """
    if kind not in SPATIAL:
        raise UserError(
            "kind must be one that has places in a picture", got=f"kind={kind!r}", do=suggest(str(kind), SPATIAL)
        )
    if picture.dim() != 3 or picture.shape[0] not in (1, 3):
        raise ShapeError(
            "a picture must have shape (1, Y, X) or (3, Y, X)",
            got=f"shape {tuple(picture.shape)}",
            do="Pass one picture at a time, as uint8",
        )
    from PIL import Image, ImageDraw

    pixels = picture.expand(3, -1, -1).permute(1, 2, 0).cpu().numpy().astype(np.uint8)  # (Y, X, 3)
    if kind == "pixels":
        pixels = _veiled(pixels, answer.cpu().numpy())
    times = max(1, -(-whole("side", side) // min(pixels.shape[:2])))
    image = Image.fromarray(pixels).resize((pixels.shape[1] * times, pixels.shape[0] * times), Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(image)
    if kind == "boxes":
        _boxes(pen, image.size, answer, names, [float(score) for score in scores])
    elif kind == "points":
        _points(pen, image.size, answer, names)
    return image


def hue(code: int) -> tuple[int, int, int]:
    """The colour of a class; they come again after the last.

    >>> hue(0), hue(0) == hue(len(HUES))
    ((68, 119, 170), True)
    """
    text = HUES[code % len(HUES)]
    red, green, blue = (int(text[k : k + 2], 16) for k in (1, 3, 5))
    return red, green, blue


def _veiled(pixels: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Pixels under a veil of their class's colour; those without a class, or outside of the answer, as they are."""
    num_rows, num_columns, _ = pixels.shape
    full = np.full((num_rows, num_columns), UNLABELLED)
    rows, columns = (num_rows - codes.shape[0]) // 2, (num_columns - codes.shape[1]) // 2
    full[rows : rows + codes.shape[0], columns : columns + codes.shape[1]] = codes
    veil = np.array([hue(code) for code in range(UNLABELLED + 1)])[full]
    mixed = ((1 - _VEIL) * pixels + _VEIL * veil).astype(np.uint8)
    return np.where((full == UNLABELLED)[..., None], pixels, mixed)


def _boxes(pen: ImageDraw, size: tuple[int, int], answer: Tensor, names: Sequence[str], scores: list[float]) -> None:
    for place, (code, x, y, width, height) in enumerate(answer.tolist()):
        if code < 0:
            continue
        colour = hue(int(code))
        left, top = (x - width / 2) * size[0], (y - height / 2) * size[1]
        pen.rectangle((left, top, left + width * size[0], top + height * size[1]), outline=colour, width=3)
        word = names[int(code)] if int(code) < len(names) else ""
        word = f"{word} {scores[place]:.2f}".strip() if place < len(scores) else word
        _tagged(pen, (left, top), word, colour, size)


def _points(pen: ImageDraw, size: tuple[int, int], answer: Tensor, names: Sequence[str]) -> None:
    for place, (x, y, seen) in enumerate(answer.tolist()):
        if not seen > 0:
            continue
        u, v, colour = x * size[0], y * size[1], hue(place)
        pen.ellipse((u - 5, v - 5, u + 5, v + 5), fill=colour, outline=(255, 255, 255), width=2)
        _tagged(pen, (u + 7, v - 7), names[place] if place < len(names) else "", colour, size)


def _tagged(
    pen: ImageDraw, corner: tuple[float, float], word: str, colour: tuple[int, ...], size: tuple[int, int]
) -> None:
    """A name in white on its colour, moved into the picture where it would leave it."""
    if not word:
        return
    left, top, right, bottom = pen.textbbox((0, 0), word)
    width, height = right - left + 6, bottom - top + 4
    x, y = (min(max(at, 0), max(end - own, 0)) for at, end, own in zip(corner, size, (width, height), strict=True))
    pen.rectangle((x, y, x + width, y + height), fill=colour)
    pen.text((x + 3 - left, y + 2 - top), word, fill=(255, 255, 255))
