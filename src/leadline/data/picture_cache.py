"""Decoded pictures kept on disk, so that a large folder is decoded once, and need not fit in memory.

An entry is a folder: x.npy, y.npy and rows.npy, in the order train, val, test, and entry.json with everything else of
the `Data`. It is written under a temporary name and renamed when it is whole. Its name is a hash of what it was made
from: the folder, the names, sizes and times of all files, and the options. Splits are views of the mapped file, copied
on write.

    $LEADLINE_CACHE, or else leadline in $XDG_CACHE_HOME, or else ~/.cache/leadline

An entry that is damaged is made again; a disk that is full means a note in the account, and pictures in memory. All of
a file is checked against its checksum unless it has the size and the time that it had when it was last found whole, as
seen.json tells: a disk that loses bytes without a trace in these is not found out.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leadline.data.account import Account, Refusal
from leadline.data.data import Data, Split
from leadline.data.folder import Folder
from leadline.data.found_whole import Unusable, check_of, new_folder, put, remember, seen_in, stamp
from leadline.data.pictures import Pictures
from leadline.data.target import Target

LARGE = 64 * 2**20  # bytes from which pictures are mapped rather than held
SLOW = 2.0  # seconds of decoding from which they are kept
_FORMAT = 2
_BLOCK = 2**24
_AT_ONCE = 1024


def cache_root() -> Path:
    """Where entries are kept."""
    own = os.environ.get("LEADLINE_CACHE")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leadline"


def key_of(folder: Folder, options: Mapping[str, Any]) -> str:
    """A hash of what the pictures are made from.

    >>> key_of(Folder(Path("a"), ("x.png",), ()), {}) == key_of(Folder(Path("b"), ("x.png",), ()), {})
    False
    """
    told = [
        _FORMAT,
        os.path.realpath(folder.root),
        sorted(folder.stamps.items()),
        folder.pictures,
        sorted(options.items()),
    ]
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()[:32]


def stored(key: str) -> Data:
    """The data of an entry, mapped; `Unusable` where there is none."""
    place = cache_root() / "pictures" / key
    try:
        entry = json.loads((place / "entry.json").read_text("utf-8"))
        if entry["format"] != _FORMAT or entry.pop("check") != check_of(entry):
            raise Unusable
        arrays, seen = {}, seen_in(place)
        for name, (shape, dtype, size, check) in entry["arrays"].items():
            path = place / f"{name}.npy"
            if path.stat().st_size != size or (seen.get(name) != stamp(path) and checksum(path) != check):
                raise Unusable
            array = np.load(path, mmap_mode="c") if shape[0] else np.empty(shape, dtype)
            if list(array.shape) != shape or str(array.dtype) != dtype:
                raise Unusable
            arrays[name] = torch.from_numpy(np.asarray(array))
        refused = tuple(
            Refusal(**{**refusal, "rows": tuple(refusal["rows"])}) for refusal in entry["account"]["refused"]
        )
        words = {name: tuple(entry["account"][name]) for name in ("columns", "notes")}
        remember(place, seen, [f"{name}.npy" for name in arrays])
        return Data(
            *_splits(arrays["x"], arrays["y"], arrays["rows"], entry["sizes"]),
            Target.from_config(entry["target"]),
            Pictures(**entry["inputs"]),
            name=entry["name"],
            account=Account(**{**entry["account"], **words, "refused": refused}),
        )
    except Exception as error:  # whatever is wrong with an entry, it is made again
        raise Unusable from error


def keep(key: str, x: np.ndarray, y: np.ndarray, parts: list[np.ndarray], data: Data) -> Data:
    """`data`, with its splits as views of an entry that is written now. An `OSError` means that there is no room.

    Args:
        x, y: in any order, with rows that are not used among them.
        parts: the rows of train, val and test.
        data: the rest; of its splits only the numbers of the rows are read.
    """
    root = cache_root() / "pictures"
    order = np.concatenate(parts)
    rows = torch.cat([split.rows for split in (data.train, data.val, data.test)]).numpy()  # type: ignore[misc]
    work = new_folder(root)
    try:
        for name, array, wanted in (("x", x, order), ("y", y, order), ("rows", rows, np.arange(len(order)))):
            _write(work / f"{name}.npy", array, wanted)
        arrays = {
            name: [[len(order), *array.shape[1:]], str(array.dtype), path.stat().st_size, checksum(path)]
            for name, array in (("x", x), ("y", y), ("rows", rows))
            if (path := work / f"{name}.npy")
        }
        entry = {
            "format": _FORMAT,
            "arrays": arrays,
            "sizes": [len(part) for part in parts],
            "target": data.target.config,
            "inputs": data.inputs.config,
            "name": data.name,
            "account": asdict(data.account),
        }
        entry = json.loads(json.dumps(entry))
        (work / "entry.json").write_text(json.dumps({**entry, "check": check_of(entry)}), "utf-8")
        remember(work, {}, [f"{name}.npy" for name in arrays])
        put(work, root / key, lambda: stored(key))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    try:
        return stored(key)
    except Unusable as error:
        raise OSError("what was written cannot be read back") from error


def room_for(shape: tuple[int, ...]) -> np.ndarray:
    """An array of bytes in a file without a name, for what may not fit in memory; an `OSError` if the disk is full.

    The room is taken before anything is written: a mapped file that outgrows its disk would end the process.
    """
    root = cache_root() / "pictures"
    root.mkdir(parents=True, exist_ok=True)
    size = int(np.prod(shape))
    with tempfile.TemporaryFile(dir=root) as file:
        _take(file.fileno(), size, root)
        return np.memmap(file, np.uint8, "r+", shape=shape)


def checksum(path: Path) -> int:
    """Of all bytes of a file."""
    check = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            check = zlib.crc32(block, check)
    return check


def _write(path: Path, array: np.ndarray, order: np.ndarray) -> None:
    with open(path, "wb") as file:
        shape = (len(order), *array.shape[1:])
        np.lib.format.write_array_header_1_0(
            file, {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
        )
        _take(file.fileno(), file.tell() + int(np.prod(shape)) * array.dtype.itemsize, path.parent)
        for first in range(0, len(order), _AT_ONCE):
            file.write(np.ascontiguousarray(array[order[first : first + _AT_ONCE]]).data)
        file.flush()
        os.fsync(file.fileno())


def _take(descriptor: int, size: int, folder: Path) -> None:
    """Room on the disk for a file of `size` bytes, or an `OSError`."""
    if shutil.disk_usage(folder).free < size:
        raise OSError(28, "No space left on device")
    if hasattr(os, "posix_fallocate") and size:
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


def _splits(x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor, sizes: list[int]) -> tuple[Split, Split, Split]:
    xs, ys, numbers = (column.split(sizes) for column in (x, y, rows))
    train, val, test = (Split(*some[:2], rows=some[2]) for some in zip(xs, ys, numbers))
    return train, val, test
