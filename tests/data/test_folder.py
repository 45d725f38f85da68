"""What a folder holds: files, links, and which mask is whose."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from leadline.data import find_task, folder
from leadline.data.folder import Folder, mask_of, survey
from leadline.data.pairs import pairs_of
from leadline.data.text_files import find_texts


def holding(*names, others=()):
    return Folder(Path("/none"), tuple(sorted(names)), others)


def test_a_mask_is_matched_by_its_path_first():
    names = [f"{part}/{split}/{k}.png" for part in ("gt", "img8") for split in ("train", "val") for k in range(3)]
    found = pairs_of(names, "gt")
    assert found.mask == {name: name.replace("img8", "gt") for name in names if name.startswith("img8")}
    assert found.masks == {name for name in names if name.startswith("gt")}


def test_a_name_that_occurs_twice_matches_nothing():
    assert mask_of(holding("a/0.png", "gt/x/0.png", "gt/y/0.png"), "gt") == {}
    assert mask_of(holding("a/0.png", "b/0.png", "gt/x/0.png"), "gt") == {}
    assert mask_of(holding("a/0.png", "a/1.png", "gt/x/0_mask.png"), "gt") == {"a/0.png": "gt/x/0_mask.png"}
    assert mask_of(holding("val/0.png", "gt/train/0.png"), "gt") == {}
    assert mask_of(holding("images/0.jpg", "images/0.png", "masks/0.png")) == {}


def test_what_lies_in_the_folder_of_masks_is_no_picture():
    found = pairs_of(("images/0.png", "masks/0.png", "masks/1.png", "images/2.png"))
    assert found.mask == {"images/0.png": "masks/0.png"} and found.masks == {"masks/0.png", "masks/1.png"}
    assert pairs_of(("a/gt.png", "gt/b.png", "gt/c/gt.png"), "gt").masks == {"gt/b.png", "gt/c/gt.png"}


@pytest.mark.parametrize(
    ("picture", "mask"),
    [
        ("images/a.jpg", "annotations/trimaps/a.png"),
        ("train/a.jpg", "train_labels/a_L.png"),
        ("data/train/a.jpg", "data/train_masks/a_mask.gif"),
        ("Val/a.jpg", "val_mask/a.png"),
        ("images/train/a.jpg", "masks/train/a.png"),
        ("train/images/a.jpg", "train/masks/a.png"),
    ],
)
def test_layouts_of_masks(picture, mask):
    one = holding(picture, mask)
    assert mask_of(one) == {picture: mask} and find_task(one) == "pixels"


def test_a_class_is_no_folder_of_masks():
    assert mask_of(holding("face/0.png", "face_mask/0.png")) == {}


def test_pairs_take_time_in_proportion():
    names = [f"d{k}/{part}/{k}.png" for k in range(3000) for part in ("images", "masks")]
    many = holding(*names)
    began = time.perf_counter()
    assert len(mask_of(many)) == 3000
    assert time.perf_counter() - began < 2.0  # 7 s where each picture looks at all folders


def test_a_link_that_leads_to_itself_is_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "a.txt").write_text("one two three " * 20)
    (tmp_path / "loop").symlink_to("loop")
    found = survey(tmp_path)
    assert found.others == ("a.txt", "loop") and found.stamps["loop"] == (-1, 0)
    assert find_texts(tmp_path).lost.names == {"cannot be read (Too many levels of symbolic links)": ["loop"]}


def test_links_to_one_folder_are_walked_by_name_and_after_folders(tmp_path):
    (tmp_path / "away").mkdir()
    (tmp_path / "away/1.png").touch()
    root = tmp_path / "root"
    (root / "dog").mkdir(parents=True)
    (root / "dog/1.png").touch()
    for name in ("zebra", "cat", "mole"):
        (root / name).symlink_to(tmp_path / "away")
    (root / "aardvark").symlink_to(root / "dog")
    assert survey(root).pictures == ("cat/1.png", "dog/1.png")


def test_a_folder_is_surveyed_once_for_several_questions(tmp_path, monkeypatch):
    for name in ("cat/1.png", "dog/1.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    counts, plain = [], folder.survey
    monkeypatch.setattr(folder, "survey", lambda root: counts.append(1) or plain(root))
    assert [find_task(tmp_path), find_task(str(tmp_path)), find_task(tmp_path)] == ["classes"] * 3 and len(counts) == 1
    (tmp_path / "dog/1.png").unlink()
    (tmp_path / "cat/1.png").unlink()
    os.utime(tmp_path / "cat", ns=(1, 1))
    assert find_task(tmp_path) == "none" and len(counts) == 2
    monkeypatch.setattr(folder, "_FRESH", -1.0)
    assert find_task(tmp_path) == "none" and len(counts) == 3


def test_a_json_is_looked_into_once_until_it_changes(tmp_path):
    (tmp_path / "1.png").touch()
    path = tmp_path / "a.json"
    path.write_text('{"images": [], "categories": []}')
    folder._holds_keys.cache_clear()
    for _ in range(3):
        assert folder.coco_files(survey(tmp_path)) == ["a.json"]
    assert folder._holds_keys.cache_info().misses == 1
    path.write_text('{"images": [], "annotations": []}, "captions"')
    assert folder.coco_files(survey(tmp_path)) == []
