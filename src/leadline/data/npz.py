"""Pictures in an .npz of numpy: arrays x (or images) and y (or labels), or x_train, y_train, x_test, y_test."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import Account, counted
from leadline.data.cells import cells_of
from leadline.data.data import Data, Split
from leadline.data.decode import array_of
from leadline.data.outcome import read_outcome, with_figures
from leadline.data.outcomes import settle
from leadline.data.pictures import Pictures
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.data.words import plain_text
from leadline.errors import DataError, ShapeError

_X, _Y = (
    ("x", "images", "data", "pictures", "x_train", "train_images"),
    ("y", "labels", "targets", "y_train", "train_labels"),
)
_TEST = (("x_test", "test_images"), ("y_test", "test_labels"))
_VAL = (("x_val", "val_images"), ("y_val", "val_labels"))
_LARGEST = 64 * 2**30
_MOST_PACKED = 1100  # bytes out of each, which zip's own way of packing cannot exceed


def of_npz(
    path: Path,
    classes: tuple[str, ...],
    size: tuple[int, int] | None,
    channels: int | None,
    fit: str,
    how: tuple[float, float, int],
) -> Data:
    """The pictures of a file.

    Args:
        classes: names of the codes in y; by default the codes.
        size, channels, fit: as `images` has them; None is as they are.
        how: val, test and seed of the split.
    """
    arrays = arrays_of(path)
    x, y = _pair(path, arrays, (_X, _Y))
    return of_arrays(
        path.stem,
        (x, y),
        _pair(path, arrays, _VAL) if any(name in arrays for name in _VAL[0]) else None,
        _pair(path, arrays, _TEST) if any(name in arrays for name in _TEST[0]) else None,
        classes,
        size,
        channels,
        "crop" if fit == "auto" else fit,
        how,
    )


def of_arrays(
    name: str,
    seen: tuple[np.ndarray, np.ndarray],
    val: tuple[np.ndarray, np.ndarray] | None,
    test: tuple[np.ndarray, np.ndarray] | None,
    classes: tuple[str, ...],
    size: tuple[int, int] | None,
    channels: int | None,
    fit: str,
    how: tuple[float, float, int],
) -> Data:
    """Pictures (N, C, Y, X) or (N, Y, X[, C]) with labels (N,); splits that are not given are drawn from `seen`."""
    parts = [(bytes_of(x), y) for x, y in (seen, *(part for part in (val, test) if part is not None))]
    x, y, target = parts[0][0], *_labels(parts[0][1], classes)
    share = (0.0 if val is not None else how[0], 0.0 if test is not None else how[1])
    index = split_indices(len(x), val=share[0], test=share[1], seed=how[2], stratify=y if target.discrete else None)
    splits = [Split(x[rows], y[rows], rows=rows) for rows in index]
    for k, part in ((1, val), (2, test)):
        if part is not None:
            other, known = parts[1 if k == 1 or val is None else 2]
            rows = torch.arange(len(other))
            splits[k] = Split(other, _codes(known, target, coded=bool(classes)), rows=rows)
    wanted = (channels or x.shape[1], *(size or x.shape[2:]))
    if any(tuple(split.x.shape[1:]) != wanted for split in splits):
        splits = [Split(_resized(split.x, wanted, fit), split.y, rows=split.rows) for split in splits]
    target = with_figures(target, splits[0].y)
    account = Account(name, sum(map(len, splits)), columns=(f"{target}, the target",))
    train, held, tested = splits
    return Data(train, held, tested, target, Pictures.of(splits[0].x, fit), name, None, account)


def bytes_of(x: np.ndarray) -> Tensor:
    """Pictures as uint8 (N, C, Y, X).

    >>> bytes_of(np.zeros((5, 8, 8), np.uint8)).shape, bytes_of(np.zeros((5, 8, 8, 3))).shape
    (torch.Size([5, 1, 8, 8]), torch.Size([5, 3, 8, 8]))
    """
    if x.dtype.kind not in "uifb" or x.ndim not in (3, 4) or 0 in x.shape:
        raise ShapeError(
            "pictures must be numbers of shape (N, Y, X), (N, Y, X, C) or (N, C, Y, X)",
            got=f"{x.dtype} of shape {x.shape}",
            do="Reshape them",
        )
    if x.ndim == 3:
        x = x[:, None]
    elif x.shape[1] not in (1, 3):
        if x.shape[3] not in (1, 3):
            raise ShapeError("pictures must have 1 or 3 channels", got=f"shape {x.shape}", do="Pick some")
        x = x.transpose(0, 3, 1, 2)
    if x.dtype != np.uint8:
        low, high = float(x.min()), float(x.max())
        if not (low >= 0 and high <= 255) or (x.dtype.kind == "f" and 0 < high <= 1 and (x != np.round(x)).any()):
            raise DataError(
                "pixels must lie from 0 to 255",
                got=f"values from {low:g} to {high:g}",
                do="Multiply them by 255" if low >= 0 and high <= 1 else "Scale them",
            )
        x = np.rint(x).astype(np.uint8)
    return torch.from_numpy(np.ascontiguousarray(x))


def _labels(y: np.ndarray, classes: tuple[str, ...]) -> tuple[Tensor, Target]:
    """Labels, and what they are; names are for codes from 0 on."""
    if classes:
        target = Target("binary" if len(classes) == 2 else "classes", "class", classes=classes)
        return _codes(y, target, coded=True), target
    outcome = read_outcome("class", cells_of(y, "y"))
    labels, _, target = settle([outcome], np.arange(len(y)), [None], lambda row: f"row {row}", ())
    return labels, target


def _codes(y: np.ndarray, target: Target, coded: bool) -> Tensor:
    """Labels of another split; `coded`: whole numbers are codes, whatever the names of the classes."""
    if not target.discrete:
        return torch.from_numpy(y.astype(np.float32))
    if not coded or y.dtype.kind not in "iub":
        return target.encode([plain_text(value) if y.dtype.kind in "iuf" else str(value) for value in y.tolist()])
    codes = y.astype(np.int64)
    wrong = (codes < 0) | (codes >= len(target.classes))
    if wrong.any():
        raise DataError(
            f"labels must be codes below {len(target.classes)}, the number of classes",
            got=f"{codes[wrong][0]} in row {int(np.flatnonzero(wrong)[0])}",
            do="Name every class",
        )
    return torch.from_numpy(codes)


def _resized(x: Tensor, shape: tuple[int, ...], fit: str) -> Tensor:
    import PIL.Image

    out = torch.empty(len(x), *shape, dtype=torch.uint8)
    for k, row in enumerate(x.permute(0, 2, 3, 1).numpy()):
        image = PIL.Image.fromarray(np.ascontiguousarray(row[..., 0] if row.shape[2] == 1 else row))
        out[k] = torch.from_numpy(array_of(image, (shape[1], shape[2]), shape[0], fit).copy())
    return out


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name; one that claims more than it holds is refused."""
    try:
        with zipfile.ZipFile(path) as archive:
            whole = sum(entry.file_size for entry in archive.infolist())
            if whole > _LARGEST:
                raise DataError(f"{path.name} must unpack to at most 64 GiB", got=f"{whole >> 30} GiB", do="Split it")
            for entry in archive.infolist():
                _check_claim(archive, entry)
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
    except DataError:
        raise
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise _not_arrays(path, error) from None
        raise DataError(
            f"{path.name} must hold arrays of numbers or words",
            got="an array of objects, which only pickle can read, and that could run any code",
            do="Write rows that differ in length one after another, and their lengths as `lengths`",
        ) from None
    except (zipfile.BadZipFile, OSError, EOFError, KeyError, MemoryError, RuntimeError) as error:
        raise _not_arrays(path, error) from None


def _not_arrays(path: Path, error: Exception) -> DataError:
    return DataError(f"{path.name} must be an .npz of arrays", got=str(error), do="Write it with np.savez")


def _check_claim(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Refuses a file of the archive whose header claims more than is there, before room is taken for it."""
    if entry.file_size > _MOST_PACKED * entry.compress_size + 1024:
        raise ValueError(f"{entry.filename} claims {entry.file_size} bytes, out of {entry.compress_size}")
    if not entry.filename.endswith(".npy"):
        return
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if read is None:
            raise ValueError(f"{entry.filename} is of version {version[0]}, not of plain numbers")
        shape, _, dtype = read(file)
        claimed = math.prod(shape) * dtype.itemsize
        if claimed > entry.file_size:
            raise ValueError(f"{entry.filename} claims {claimed} bytes, and has {entry.file_size}")


def _pair(path: Path, arrays: dict[str, np.ndarray], names: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple:
    found = [arrays[name] for words in names for name in words if name in arrays]
    if len(found) != 2:
        raise DataError(
            f"{path.name} must hold pictures and labels, as x and y or images and labels",
            got=", ".join(arrays) or "no arrays",
            do="Write np.savez(file, x=…, y=…)",
        )
    x, y = found[0], found[1]
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or len(x) != len(y):
        raise ShapeError(
            "labels must be one a picture",
            got=f"{counted(len(x), 'picture')}, labels of shape {y.shape}",
            do="Pass one label for each picture; name the field that holds them, --field x, if these are sequences",
        )
    return x, y
