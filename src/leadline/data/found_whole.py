"""Entries of a cache that are whole: how one comes to its place, and which files need not be read again to find out.

A file whose size and time are those of the last time it was found whole is taken for whole; any other is read and its
checksum compared. `seen.json` in the folder of a cache holds sizes and times by name.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

_LEFT = 86_400.0  # seconds after which a folder in which nothing was written is one that its process left behind


class Unusable(Exception):
    """An entry of a cache that is not there, or not whole."""


def new_folder(root: Path) -> Path:
    """A folder to write an entry into; those of processes that were killed a day ago and more are removed first."""
    root.mkdir(parents=True, exist_ok=True)
    for left in root.glob(".new-*"):
        with suppress(OSError):
            if time.time() - max(path.stat().st_mtime for path in (left, *left.iterdir())) > _LEFT:
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=".new-", dir=root))


def put(work: Path, place: Path, check: Callable[[], object]) -> None:
    """A folder that was written whole, put in its place. Another process may have been faster: what is whole stays.

    Args:
        check: raises `Unusable` where what stands in that place is damaged.
    """
    try:
        os.rename(work, place)
    except OSError:
        if not place.exists():
            raise
        try:
            check()
        except Unusable:
            shutil.rmtree(place, ignore_errors=True)
            os.rename(work, place)


def check_of(entry: dict[str, Any]) -> int:
    """The checksum of what a cache says of itself.

    >>> check_of({"a": 1, "b": 2}) == check_of({"b": 2, "a": 1}) != check_of({"a": 2})
    True
    """
    return zlib.crc32(json.dumps(entry, sort_keys=True).encode())


def stamp(path: Path) -> list[int]:
    """Size and time of a file."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def seen_in(place: Path) -> dict[str, Any]:
    """Size and time of each file when it was last found whole, by its name without ending."""
    try:
        seen = json.loads((place / "seen.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return seen if isinstance(seen, dict) else {}


def remember(place: Path, seen: dict[str, Any], files: Iterable[str]) -> None:
    """Enter files that were found whole; a cache that cannot be written is checked again the next time."""
    now = {Path(name).stem: stamp(place / name) for name in files}
    if now != seen:
        with suppress(OSError):
            (place / "seen.json").write_text(json.dumps(now), "utf-8")
