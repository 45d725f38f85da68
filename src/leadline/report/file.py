"""The report as files: each written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from leadline.report.facts import Facts
from leadline.report.page import page


def write(facts: Facts, path: str | os.PathLike[str]) -> Path:
    """Write the page to `path`, and its figures as PNG into the folder `figures` beside it.

    An old report stays as it is until the new one is complete.
    """
    path = Path(path)
    finished = page(facts)
    folder = path.parent / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, png in finished.figures.items():
        _replace(folder / f"{name}.png", png)
    _replace(path, finished.html.encode("utf-8"))
    return path


def _replace(path: Path, content: bytes) -> None:
    """Write beside it, wait for the disk, then rename: a reader sees the old file or the new one."""
    beside = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        with beside.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
