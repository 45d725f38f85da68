"""IDX files, as MNIST and its kin come: bytes after a header of big-endian numbers, packed by gzip or not.

    0 0 8 d   n_1 … n_d (4 bytes each)   n_1 · … · n_d bytes          (8: of type uint8; d axes)

A folder holds train-images, train-labels and, to test, t10k-images and t10k-labels.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from leadline.config import plain
from leadline.data.arguments import checked
from leadline.data.data import Data
from leadline.data.npz import of_arrays
from leadline.errors import DataError

_LARGEST = 64 * 2**30


@checked
def idx(
    path: str | Path | None,
    *,
    labels: str | Path | None = None,
    classes: Sequence[str] = (),
    val: float = 0.15,
    test: float = 0.15,
    seed: int = 0,
) -> Data:
    """The pictures of IDX files.

    Args:
        path: a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and, where there are any, the t10k files
            of the same kind, which are the test split; or a file of images.
        labels: the file of labels, when `path` is a file.
        classes: names of the classes; by default 0, 1, 2, …
        val, test: parts of the pictures, from 0 and together below 1, classes spread evenly; `test` is not used where
            there are t10k files.
        seed: of that draw, any whole number.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, numbers in (("images-idx3", np.zeros((20, 8, 8))), ("labels-idx1", np.arange(20) % 2)):
    ...         write_idx(Path(folder, f"train-{name}-ubyte"), numbers.astype(np.uint8))
    ...     data = idx(folder)
    >>> tuple(data.train.x.shape), data.target.classes
    ((14, 1, 8, 8), ('0', '1'))
    """
    place = Path(path or "").expanduser().absolute()
    if path is None or not place.exists():
        raise DataError("path must name a folder of IDX files, or a file", got=f"path={path}", do="Check its name")
    if place.is_dir():
        seen = _both(place, "train")
        held = _both(place, "t10k") if _find(place, "t10k", "images") else None
    elif labels is None:
        raise DataError("labels must name the file of labels", got="labels=None", do=f"Or pass {place.parent}")
    else:
        seen, held = _pair(place, Path(labels).expanduser()), None
    most = int(max(part[1].max(initial=0) for part in (seen, held) if part is not None))
    names = tuple(classes) or tuple(str(k) for k in range(max(most + 1, 2)))
    made = of_arrays(place.name.split(".")[0], seen, None, held, names, None, None, "crop", (val, test, seed))
    options = {
        "path": str(place),
        "labels": None,
        "classes": plain(tuple(classes)),
        "val": val,
        "test": test,
        "seed": seed,
    }
    if labels is not None:
        options["labels"] = str(Path(labels).expanduser().absolute())
    return replace(made, recipe={"source": "idx", "options": options})


def holds_idx(folder: Path) -> bool:
    """Whether a folder has the files that `idx` reads."""
    return _find(folder, "train", "images") is not None


def read_idx(path: str | Path) -> np.ndarray:
    """The array of bytes in a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_idx(Path(folder, "x.gz"), np.eye(2, dtype=np.uint8))
    ...     read_idx(Path(folder, "x.gz")).tolist()
    [[1, 0], [0, 1]]
    """
    path = Path(path)
    try:
        packed = path.suffix.lower() == ".gz"
        with gzip.open(path) if packed else open(path, "rb") as file:
            start = file.read(4)
            if len(start) < 4 or start[:3] != b"\0\0\x08" or not 1 <= start[3] <= 4:
                raise DataError(
                    f"{path.name} must begin with 0 0 8 and its number of axes, as IDX files of bytes do",
                    got=" ".join(map(str, start)) or "an empty file",
                    do="Check what it is",
                )
            sides = file.read(4 * start[3])
            shape = struct.unpack(f">{start[3]}I", sides) if len(sides) == 4 * start[3] else ()
            size = int(np.prod([*shape], dtype=object)) if shape else 0
            if not shape or size > _LARGEST:
                raise DataError(f"{path.name} must have a whole header", got=f"sides {shape}", do="Fetch it again")
            content = file.read(size + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path.name} must be a whole gzip file", got=str(error), do="Fetch it again") from None
    except OSError as error:
        raise DataError(f"{path} must be readable", got=error.strerror or str(error), do="Check it") from None
    if len(content) != size:
        got = "more" if len(content) > size else f"{len(content)}"
        raise DataError(
            f"{path.name} must hold {size} bytes after its header, for {' × '.join(map(str, shape))}",
            got=got,
            do="Fetch it again",
        )
    return np.frombuffer(bytearray(content), np.uint8).reshape(shape)


def write_idx(path: str | Path, x: np.ndarray) -> None:
    """An array of bytes to a file; a name that ends in .gz packs it."""
    path = Path(path)
    content = struct.pack(f">BBBB{x.ndim}I", 0, 0, 8, x.ndim, *x.shape) + np.ascontiguousarray(x, np.uint8).tobytes()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _find(folder: Path, part: str, what: str) -> Path | None:
    axes = 3 if what == "images" else 1
    for name in (f"{part}-{what}-idx{axes}-ubyte", f"{part}-{what}.idx{axes}-ubyte"):
        for ending in ("", ".gz"):
            if (path := folder / f"{name}{ending}").is_file():
                return path
    return None


def _both(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    found = [_find(folder, part, what) for what in ("images", "labels")]
    if found[0] is None or found[1] is None:
        what = "labels" if found[1] is None and found[0] is not None else "images"
        raise DataError(
            f"{folder} must hold {part}-images-idx3-ubyte and {part}-labels-idx1-ubyte, packed (.gz) or not",
            got=f"no {part}-{what} file",
            do="Fetch it, or pass path=images, labels=labels",
        )
    return _pair(*found)  # type: ignore[arg-type]


def _pair(images: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    x, y = read_idx(images), read_idx(labels)
    if x.ndim not in (3, 4) or y.ndim != 1 or len(x) != len(y) or not len(x):
        raise DataError(
            "images and labels must go together, (N, Y, X) and (N,)",
            got=f"{images.name} of shape {x.shape}, {labels.name} of shape {y.shape}",
            do="Check which file is which",
        )
    return x, y
