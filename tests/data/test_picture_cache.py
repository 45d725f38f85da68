"""The cache of decoded pictures: hits, misses, damage, a full disk."""

from __future__ import annotations

import json
import os

import numpy as np
import PIL.Image
import pytest
import torch

from leadline.data import found_whole, gathering, images, picture_cache
from leadline.data.folder import survey
from leadline.data.found_whole import Unusable
from leadline.data.picture_cache import cache_root, checksum, key_of, stored
from leadline.data.scene_files import write_scenes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of pictures, and a cache that keeps everything."""
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gathering, "LARGE", 0)
    write_scenes(tmp_path / "scenes", ("masks",), num=12, size=24)
    return tmp_path / "scenes"


def entries():
    root = cache_root() / "pictures"
    return sorted(root.iterdir()) if root.exists() else []


def refuse_to_decode(monkeypatch):
    monkeypatch.setattr(gathering, "decoded", lambda *_: pytest.fail("a picture was decoded"))
    monkeypatch.setattr(gathering, "header", lambda *_: pytest.fail("a picture was opened"))


def test_the_second_time_nothing_is_opened(folder, monkeypatch):
    fresh, first = images(folder, cache=False), images(folder)
    assert len(entries()) == 1 and first.fingerprint == fresh.fingerprint
    refuse_to_decode(monkeypatch)
    again = images(folder)
    assert (
        again.fingerprint == fresh.fingerprint and str(again.account) == str(fresh.account) and again.name == "scenes"
    )
    assert again.recipe == first.recipe and torch.equal(again.test.rows, fresh.test.rows)


def test_splits_are_views_of_the_file_that_writing_does_not_change(folder):
    images(folder)
    data = images(folder)
    whole = data.train.x.untyped_storage().data_ptr()
    assert data.val.x.untyped_storage().data_ptr() == whole
    data.train.x.zero_()
    assert stored(entries()[0].name).train.x.any()


def test_other_options_and_changed_files_are_another_entry(folder):
    images(folder)
    images(folder, seed=1)
    assert len(entries()) == 2
    path = folder / "images/00000.png"
    os.utime(path, ns=(1, 1))
    assert images(folder).fingerprint == images(folder, cache=False).fingerprint and len(entries()) == 3
    (folder / "images/00001.png").unlink()
    assert images(folder).account.used == 11 and len(entries()) == 4


@pytest.mark.parametrize("harm", ["cut", "flip", "json", "gone", "empty", "format", "pickle"])
def test_a_damaged_entry_is_made_again(folder, harm):
    fresh = images(folder)
    expected, entry = fresh.fingerprint, entries()[0]
    del fresh
    path = entry / "x.npy"
    content = path.read_bytes()
    if harm == "cut":
        path.write_bytes(content[:-100])
    elif harm == "flip":
        path.write_bytes(content[:2000] + bytes([content[2000] ^ 255]) + content[2001:])
    elif harm == "json":
        (entry / "entry.json").write_text("{")
    elif harm == "gone":
        path.unlink()
    elif harm == "empty":
        path.write_bytes(b"")
    elif harm == "format":
        told = json.loads((entry / "entry.json").read_text())
        (entry / "entry.json").write_text(json.dumps({**told, "format": 0}))
    else:
        np.save(path, np.array([{"run": "me"}], dtype=object), allow_pickle=True)
    with pytest.raises(Unusable):
        stored(entry.name)
    assert images(folder).fingerprint == expected and stored(entry.name).fingerprint == expected and len(entries()) == 1


@pytest.mark.parametrize("where", ["folder", "write"])
def test_a_full_disk_means_memory_and_a_note(folder, monkeypatch, where):
    expected = images(folder, cache=False).fingerprint
    if where == "folder":
        monkeypatch.setattr(picture_cache, "_take", _full)
    else:
        monkeypatch.setattr(picture_cache.os, "fsync", _full)
    data = images(folder)
    assert data.fingerprint == expected and "not kept on disk: No space left" in str(data.account) and not entries()


def _full(*_):
    raise OSError(28, "No space left on device")


def test_pictures_that_do_not_fit_in_memory_go_through_a_file(folder, monkeypatch):
    monkeypatch.setattr(gathering, "_HELD", 0)
    assert images(folder).fingerprint == images(folder, cache=False).fingerprint
    monkeypatch.setattr(gathering, "room_for", _full)
    (folder / "images/00001.png").unlink()
    assert "held in memory" in str(images(folder).account)


def test_small_and_quick_folders_are_not_kept(folder, monkeypatch):
    monkeypatch.setattr(gathering, "LARGE", 2**40)
    images(folder)
    assert not entries()
    monkeypatch.setattr(gathering, "SLOW", 0.0)
    images(folder)
    assert len(entries()) == 1


def test_keys_and_checksums_see_changes(folder, tmp_path):
    one = survey(folder)
    assert key_of(one, {"a": 1}) == key_of(survey(folder), {"a": 1}) != key_of(one, {"a": 2})
    path = tmp_path / "x"
    path.write_bytes(bytes(10**6))
    before = checksum(path)
    path.write_bytes(bytes(10**6 - 1) + b"\1")
    assert checksum(path) != before


def test_two_folders_never_share_an_entry(tmp_path, monkeypatch):
    """Names, sizes and times may all be equal, and pixels not."""
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gathering, "LARGE", 0)
    for root, values in (("one", (10, 200)), ("two", (200, 10))):
        for name, value in zip("ab", values):
            (tmp_path / root / name).mkdir(parents=True)
            for k in range(4):
                path = tmp_path / root / name / f"{k}.bmp"
                PIL.Image.new("RGB", (8, 8), (value, value, k)).save(path)
                os.utime(path, ns=(1, 1))
    for root, value in (("one", 10), ("two", 200), ("one", 10)):
        data = images(tmp_path / root)
        assert (data.train.x[data.train.y == 0][:, 0] == value).all()


def test_all_bytes_are_checked_once_a_file_changed(folder, monkeypatch):
    images(folder)
    entry = entries()[0]
    monkeypatch.setattr(picture_cache, "checksum", lambda path: pytest.fail(f"{path.name} was checked again"))
    stored(entry.name)
    monkeypatch.undo()
    monkeypatch.setenv("LEADLINE_CACHE", str(entry.parent.parent))
    for name in ("x", "y"):
        os.utime(entry / f"{name}.npy")
    stored(entry.name)  # whole, whatever its time
    monkeypatch.setattr(picture_cache, "checksum", lambda path: pytest.fail(f"{path.name} was checked again"))
    stored(entry.name)


def test_one_changed_byte_is_found_wherever_it_is(tmp_path):
    content = bytearray(20_000_000)
    seen = set()
    for place in (None, 0, 7_654_321, 16_777_216, 19_999_999):
        if place is not None:
            content[place] ^= 1
        (tmp_path / "x").write_bytes(content)
        seen.add(checksum(tmp_path / "x"))
    assert len(seen) == 5


@pytest.mark.parametrize(
    "change",
    [
        {"arrays": []},
        {"arrays": {}},
        {"sizes": [1, 1, 1]},
        {"sizes": "abc"},
        {"account": None},
        {"account": {"refused": 3}},
        {"inputs": {"mean": [1]}},
        {"target": {"kind": "nonsense"}},
        {"name": None},
        [],
        None,
    ],
)
@pytest.mark.parametrize("signed", [False, True])
def test_an_entry_that_is_malformed_is_made_again(folder, change, signed):
    expected = images(folder).fingerprint
    path = entries()[0] / "entry.json"
    told = json.loads(path.read_text())
    told = {**told, **change} if isinstance(change, dict) else change
    if signed and isinstance(told, dict):
        told.pop("check")
        told["check"] = found_whole.check_of(told)
    path.write_text(json.dumps(told))
    assert images(folder).fingerprint == expected
    (entries()[0] / "seen.json").write_text("[1")
    assert images(folder).fingerprint == expected


def test_an_entry_whose_splits_were_shifted_is_made_again(folder):
    expected = images(folder).fingerprint
    path = entries()[0] / "entry.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "sizes": told["sizes"][::-1]}))
    assert images(folder).fingerprint == expected
