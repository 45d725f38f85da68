"""Writing that survives a kill: a file is either whole or not there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> None:
    """Write to the disk itself, past the caches."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_bytes(path: Path, content: bytes) -> None:
    """Put `content` in the place of `path` in one move: a reader sees the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_bytes(temporary, content)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_json(path: Path, value: Any) -> None:
    """The same, for a JSON value."""
    replace_bytes(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
