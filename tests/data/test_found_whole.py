"""What a killed process leaves in a cache does not stay there."""

from __future__ import annotations

import os
import time

from leadline.data.found_whole import new_folder


def _left(root, name, days):
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "train.bin").write_bytes(b"half")
    for path in (folder / "train.bin", folder):
        os.utime(path, (time.time() - 86_400 * days,) * 2)
    return folder


def test_folders_that_were_left_behind_are_removed(tmp_path):
    root = tmp_path / "tokens"
    left, entry = _left(root, ".new-left", 3), _left(root, "entry", 3)
    written = _left(root, ".new-written", 3)  # its folder is old, but another process writes into a file of it
    os.utime(written / "train.bin")
    made = new_folder(root)
    assert made.parent == root and not any(made.iterdir())
    assert not left.exists() and (written / "train.bin").exists() and (entry / "train.bin").exists()


def test_the_folder_of_a_cache_is_made(tmp_path):
    assert new_folder(tmp_path / "cache" / "tokens").is_dir()
