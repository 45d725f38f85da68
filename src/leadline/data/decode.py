"""A picture's file to an array of one size: opened, turned, coloured, placed. Threads suffice, for Pillow decodes
without the interpreter's lock, and each writes its row of an array that is there already.

    x' = a x + s,   y' = b y + t        where a pixel of the file comes to lie                   (1)
    stretch    a = X' / X,  b = Y' / Y                                                           (2)
    crop       a = b = max(X' / X, Y' / Y), the middle is kept                                   (3)
    pad        a = b = min(X' / X, Y' / Y), to whole pixels; the rest is black                   (4)

Notation   X, Y -> columns and rows of the file;  X', Y' -> of the array;  a, b, s, t -> fields of `Placement`

What a stranger wrote into a file can make it refused, never more: a header that claims more than `MOST_PIXELS` is
believed, and nothing of the file is decoded.
"""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from leadline.data.account import printable
from leadline.errors import DataError
from leadline.names import lookup

if TYPE_CHECKING:
    from PIL.Image import Image

A = TypeVar("A")
B = TypeVar("B")

#: how a picture of another shape is brought to size
FITS = ("crop", "stretch", "pad")
#: endings of files that are taken for pictures
PICTURES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".avif"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".tga"),
)
MOST_PIXELS = 2 * 89_478_485  # above which Pillow itself takes a file for an attack
_ORIENTATION = 0x0112
_SEE_THROUGH = ("RGBA", "LA", "PA", "RGBa", "La")
DEEP = ("I", "I;16", "I;16B", "I;16L", "I;16N")
_FRAMED = ("GIF", "TIFF", "WEBP", "PNG", "AVIF")


class Unreadable(Exception):
    """Why a file is refused, in words that follow its name."""


@dataclass(frozen=True)
class Header:
    """What a file says of its picture: columns and rows as it is to be seen, and how its colours are stored."""

    width: int
    height: int
    mode: str
    turned: bool = False
    several: bool = False  # frames or pages, of which the first is read

    @property
    def grey(self) -> bool:
        return self.mode in ("1", "L", "LA", "La", *DEEP)


@dataclass(frozen=True)
class Placement:
    """Eq. 1, in pixels.

    >>> Placement.of("crop", (200, 100), (50, 50))
    Placement(a=0.5, b=0.5, s=-25.0, t=0.0)
    """

    a: float
    b: float
    s: float = 0.0
    t: float = 0.0

    @classmethod
    def of(cls, fit: str, wide: tuple[int, int], size: tuple[int, int]) -> Placement:
        """Where a file's pixels come to lie.

        Args:
            fit: one of `FITS`.
            wide: columns and rows of the file.
            size: rows and columns of the array.
        """
        (X, Y), (rows, columns) = wide, size
        a, b = columns / X, rows / Y
        if fit == "stretch":
            return cls(a, b)  # eq. 2
        if fit == "crop":
            a = max(a, b)
            return cls(a, a, (columns - a * X) / 2, (rows - a * Y) / 2)  # eq. 3
        a = min(a, b)
        left, top = (
            min(round((columns - a * X) / 2), (columns - 1) // 2),
            min(round((rows - a * Y) / 2), (rows - 1) // 2),
        )
        return cls((columns - 2 * left) / X, (rows - 2 * top) / Y, left, top)  # eq. 4, in whole pixels

    def points(self, xy: np.ndarray) -> np.ndarray:
        """Points (…, 2) of the file, in pixels, where they come to lie."""
        return xy * (self.a, self.b) + (self.s, self.t)


def place(image: Image, size: tuple[int, int], fit: str, *, codes: bool = False) -> Image:
    """The picture at `size` (rows, columns).

    Args:
        image: any mode that Pillow can resize.
        size: rows and columns.
        fit: one of `FITS`.
        codes: pixels are codes, which must not be mixed: the nearest is taken, and padding is 255.
    """
    import PIL.Image

    rows, columns = size
    X, Y = image.size
    if image.size == (columns, rows):
        return image
    way = PIL.Image.Resampling.NEAREST if codes else PIL.Image.Resampling.BILINEAR
    at = Placement.of(fit, (X, Y), size)
    if fit != "pad":
        box = (-at.s / at.a, -at.t / at.b, (columns - at.s) / at.a, (rows - at.t) / at.b)
        box = (max(box[0], 0.0), max(box[1], 0.0), min(box[2], X), min(box[3], Y))
        return image.resize((columns, rows), way, box=box)
    left, top = int(at.s), int(at.t)
    inner = image.resize((columns - 2 * left, rows - 2 * top), way)
    whole = PIL.Image.new(image.mode, (columns, rows), 255 if codes else 0)
    whole.paste(inner, (left, top))
    return whole


def coloured(image: Image, channels: int) -> Image:
    """The picture in grey (1 channel) or in red, green and blue (3); what shows through is white.

    Of deep pixels the upper 8 bits are kept, of 16, of 12 where no value needs more, or of 8.
    """
    import PIL.Image

    mode = "L" if channels == 1 else "RGB"
    if image.mode == mode:
        return image
    if image.mode in DEEP:
        values = np.asarray(image)
        low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
        if low < 0 or high > 65535:
            raise Unreadable("has values beyond 16 bits")
        shift = 0 if high < 2**8 else 4 if high < 2**12 else 8
        image = PIL.Image.fromarray((values.astype(np.int64) >> shift).astype(np.uint8))
    elif image.mode == "F":
        raise Unreadable("has floating-point pixels")
    elif image.mode in _SEE_THROUGH or "transparency" in image.info:
        image = image.convert("RGBA")
        ground = PIL.Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = PIL.Image.alpha_composite(ground, image)
    return image if image.mode == mode else image.convert(mode)


@contextmanager
def opened(path: str | Path) -> Iterator[Image]:
    """The file's picture, not yet decoded; whatever is wrong with it, then or later, is `Unreadable`."""
    import PIL.Image

    try:
        if os.path.getsize(path) == 0:
            raise Unreadable("is empty")
        with PIL.Image.open(path) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Unreadable(_too_large(image.width, image.height))
            yield image
    except Unreadable:
        raise
    except PIL.Image.DecompressionBombError as error:
        raise Unreadable(f"claims more than {MOST_PIXELS:,} pixels") from error
    except PIL.UnidentifiedImageError as error:
        raise Unreadable("is not a picture") from error
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise Unreadable(f"cannot be opened ({error.strerror})") from error
    except MemoryError as error:
        raise Unreadable("needs more memory than there is") from error
    except (OSError, SyntaxError, ValueError, TypeError, IndexError, KeyError, struct.error, EOFError) as error:
        raise Unreadable(f"is damaged ({_short(error)})") from error
    except (zlib.error, AttributeError, OverflowError, ZeroDivisionError, NotImplementedError) as error:
        raise Unreadable(f"is damaged ({_short(error)})") from error


def header(path: str | Path) -> Header:
    """Size and mode of a file's picture, out of its first bytes."""
    with opened(path) as image:
        turn = _turn(image)
        width, height = image.size if turn < 5 else image.size[::-1]
        if width < 1 or height < 1:
            raise Unreadable("has no pixels")
        mode = "RGBA" if "transparency" in image.info else image.mode
        several = image.format in _FRAMED and bool(getattr(image, "is_animated", False))
        return Header(width, height, mode, turn > 1, several)


def decoded(path: str | Path, size: tuple[int, int], channels: int, fit: str) -> np.ndarray:
    """The picture of a file, uint8 (channels, rows, columns)."""
    with opened(path) as image:
        turn = _turn(image)
        if image.format == "JPEG":  # decodes at an eighth, a quarter or a half of the size where that is enough
            rows, columns = size if turn < 5 else size[::-1]
            at = Placement.of(fit, image.size, (rows, columns))
            wanted = (ceil(at.a * image.width), ceil(at.b * image.height))
            image.draft("L" if channels == 1 else "RGB", wanted)
        image.load()
        return array_of(_turned(image, turn), size, channels, fit)


def upright(path: str | Path) -> Image:
    """The picture of a file at its own size, turned as the camera was held."""
    with opened(path) as image:
        image.load()
        return turned(image).copy()


def turned(image: Image) -> Image:
    """The picture, turned as the camera was held."""
    return _turned(image, _turn(image))


def array_of(image: Image, size: tuple[int, int], channels: int, fit: str) -> np.ndarray:
    """A picture of Pillow's as uint8 (channels, rows, columns)."""
    values = np.asarray(place(coloured(image, channels), size, fit))  # (Y, X) or (Y, X, 3)
    return values[None] if channels == 1 else values.transpose(2, 0, 1)


def mapped(function: Callable[[A], B], items: Iterable[A], workers: int | None = None) -> Iterator[B]:
    """`function` of each item, in order, by threads; few are under way at a time.

    >>> list(mapped(abs, [-1, 2, -3], workers=2))
    [1, 2, 3]
    """
    workers = workers or default_workers()
    source = iter(items)
    if workers == 1:
        yield from map(function, source)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        waiting = deque(pool.submit(function, item) for item in islice(source, 64 * workers))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(pool.submit(function, item) for item in islice(source, 1))
    finally:
        pool.shutdown(cancel_futures=True)


def default_workers() -> int:
    """As many as there are cores for this process, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(16, cores))


@contextmanager
def hushed() -> Iterator[None]:
    """Without Pillow's warnings: what they warn of is counted or refused here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def decode_all(
    paths: Sequence[str | Path], size: tuple[int, int], channels: int, fit: str, workers: int | None = None
) -> np.ndarray:
    """The pictures of files, uint8 (n, channels, rows, columns); one that cannot be read is an error by name."""
    lookup(fit, {word: word for word in FITS}, "fit")
    x = np.empty((len(paths), channels, *size), np.uint8)

    def one(k: int) -> None:
        try:
            x[k] = decoded(paths[k], size, channels, fit)
        except Unreadable as error:
            raise DataError(
                "every file must be a picture",
                got=f"{printable(str(paths[k]))}, which {error}",
                do="Leave it out, or repair it",
            ) from None

    with hushed():
        for _ in mapped(one, range(len(paths)), workers):
            pass
    return x


def _turn(image: Image) -> int:
    """How the camera was held, 1 … 8 as EXIF counts; 1 where it does not say."""
    try:
        turn: Any = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # a tag that cannot be read says nothing, and Pillow has no single error for it
        return 1
    return turn if isinstance(turn, int) and 1 <= turn <= 8 else 1


def _turned(image: Image, turn: int) -> Image:
    from PIL.Image import Transpose

    names = ("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")
    return image.transpose(Transpose[names[turn - 2]]) if turn > 1 else image


def _too_large(width: int, height: int) -> str:
    return f"claims {width} × {height} pixels, more than {MOST_PIXELS:,}"


def _short(error: BaseException) -> str:
    words = str(error).splitlines()[0] if str(error) else type(error).__name__
    return words if len(words) <= 80 else words[:79] + "…"
