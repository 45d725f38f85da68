"""What files hold, as a hash: a file that was only touched, copied back or checked out anew is known again.

All bytes are read for it, which takes a hundredth of the time of tokenising them. Where that is more than a moment the
hash is kept in the folder `contents` of the cache, beside one of names, sizes and times: while these stay, no file is
read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from leadline.data.folder import survey
from leadline.data.picture_cache import cache_root
from leadline.data.text_files import changed, stamp_of

Stamps = Mapping[str, tuple[int, int]]
_QUICK = 2**24  # bytes up to which files are read again rather than remembered


def stamps_of(place: Path) -> Stamps:
    """Size and time of a file, or of all files below a folder, by their names."""
    return {place.name: stamp_of(place)} if place.is_file() else survey(place).stamps


def contents_of(place: Path, stamps: Stamps) -> str:
    """A hash of the names and bytes of a file, or of all files below a folder.

    Args:
        stamps: theirs, as of `stamps_of`; whoever reads the files after this must see to it that they still hold.
    """
    now = _hash([json.dumps(sorted(stamps.items())).encode()])
    kept = cache_root() / "contents" / _hash([os.fsencode(place.resolve())])
    with suppress(OSError, ValueError):
        seen, found = kept.read_text("ascii").split()
        if seen == now:
            return found
    root = place.parent if place.is_file() else place
    found = _hash(
        part for name in sorted(stamps) for part in (name.encode("utf-8", "surrogatepass"), _bytes(root / name))
    )
    if sum(size for size, _ in stamps.values()) > _QUICK:
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            new = kept.with_name(f"{kept.name}.{os.getpid()}")
            new.write_text(f"{now} {found}", "ascii")
            new.replace(kept)
    return found


def check_unchanged(place: Path, stamps: Stamps) -> None:
    """Refuse files that have changed."""
    if stamps_of(place) != stamps:
        raise changed(place)


def _bytes(path: Path) -> bytes:
    """The hash of a file; empty where it cannot be read, which reading its text will tell."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").digest()
    except OSError:
        return b""


def _hash(parts: Iterable[bytes]) -> str:
    seen = hashlib.blake2b(digest_size=16)
    for part in parts:
        seen.update(len(part).to_bytes(8, "little") + part)
    return seen.hexdigest()
