"""Masks: values, palettes, colours, sizes."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest

from leadline.data import images
from leadline.data.decode import Unreadable
from leadline.data.masks import UNLABELLED, Masks
from leadline.errors import DataError


def written(tmp_path, values, mode=None, name="m.png"):
    image = PIL.Image.fromarray(np.asarray(values, np.uint8))
    if mode == "P":
        image = image.convert("L").point(lambda v: v)
        image = PIL.Image.frombytes("P", image.size, image.tobytes())
        image.putpalette([k * 7 % 256 for k in range(768)])
    image.save(tmp_path / name)
    return tmp_path / name


def coded(reader, *masks, names=()):
    table, words, notes = reader.codes(names)
    return [table[mask].tolist() for mask in masks], words, notes


@pytest.mark.parametrize("mode", [None, "P"])
def test_values_become_codes_in_their_order(tmp_path, mode):
    reader = Masks((2, 2), "stretch")
    one = reader.read(written(tmp_path, [[9, 4], [4, 0]], mode), (2, 2))
    two = reader.read(written(tmp_path, [[2, 2], [2, 255]], mode), (2, 2))
    masks, words, notes = coded(reader, one, two)
    assert masks == [[[3, 2], [2, 0]], [[1, 1], [1, UNLABELLED]]] and words == ("0", "2", "4", "9")
    assert any("255 have no label" in note for note in notes)


def test_black_and_white_are_two_classes(tmp_path):
    reader = Masks((1, 2), "stretch")
    masks, words, _ = coded(reader, reader.read(written(tmp_path, [[255, 0]]), (2, 1)), names=("no", "yes"))
    assert masks == [[[1, 0]]] and words == ("no", "yes")


def test_colours_are_classes(tmp_path):
    reader = Masks((1, 3), "stretch")
    colours = [[[255, 0, 0], [0, 0, 255], [0, 0, 0]]]
    masks, words, _ = coded(reader, reader.read(written(tmp_path, colours), (3, 1)))
    assert masks == [[[2, 1, 0]]] and words == ("#000000", "#0000ff", "#ff0000")
    with pytest.raises(Unreadable, match="colours among masks of codes"):
        reader.read(written(tmp_path, [[1, 2, 3]]), (3, 1))


def test_names_go_by_value(tmp_path):
    reader = Masks((1, 2), "stretch")
    mask = reader.read(written(tmp_path, [[2, 0]]), (2, 1))
    assert coded(reader, mask, names=("sky", "sea", "sand"))[1] == ("sky", "sand")


def test_no_class_is_mixed_from_others_and_padding_has_no_label(tmp_path):
    values = np.zeros((30, 50), np.uint8)
    values[:, 25:] = 10
    path = written(tmp_path, values)
    for fit in ("stretch", "crop", "pad"):
        reader = Masks((16, 16), fit)
        (mask,), words, _ = coded(reader, reader.read(path, (50, 30)))
        assert words == ("0", "10")
        assert (np.unique(mask) == ([0, 1, UNLABELLED] if fit == "pad" else [0, 1])).all()
        assert np.array(mask)[8, :8].max() == 0 and np.array(mask)[8, 8:].min() == 1


def test_too_many_values_or_too_few_are_errors(tmp_path):
    reader = Masks((20, 20), "stretch")
    with pytest.raises(DataError, match="at most 255 values"):
        reader.read(written(tmp_path, np.arange(1200).reshape(20, 20, 3) * 37 % 256), (20, 20))
    reader = Masks((2, 2), "stretch")
    reader.read(written(tmp_path, [[3, 3], [3, 3]]), (2, 2))
    with pytest.raises(DataError, match="at least two classes"):
        reader.codes()


def test_masks_are_found_by_other_names_and_in_splits(tmp_path):
    rng = np.random.default_rng(0)
    for part, num in (("train", 5), ("val", 2), ("test", 2)):
        for folder in ("JPEGImages", "SegmentationClass"):
            (tmp_path / part / folder).mkdir(parents=True)
        for k in range(num):
            x = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            PIL.Image.fromarray(x).save(tmp_path / part / f"JPEGImages/{k}.jpg")
            PIL.Image.fromarray((x[..., 0] > 99).astype(np.uint8)).save(tmp_path / part / f"SegmentationClass/{k}.png")
    data = images(tmp_path, cache=False)
    assert [len(split) for _, split in data.splits()] == [5, 2, 2] and data.target.classes == ("0", "1")


def test_a_folder_of_masks_may_be_named(tmp_path):
    for k in range(6):
        for folder in ("photos", "truth"):
            (tmp_path / folder).mkdir(exist_ok=True)
        x = np.random.default_rng(k).integers(0, 2, (8, 8), dtype=np.uint8)
        PIL.Image.fromarray(x * 200).save(tmp_path / f"photos/{k}.png")
        PIL.Image.fromarray(x).save(tmp_path / f"truth/{k}_mask.png")
    data = images(tmp_path, masks="truth", cache=False)
    assert data.target.kind == "pixels" and data.account.used == 6 and ((data.train.x[:, 0] > 0) == data.train.y).all()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="the name of its picture"):
        images(tmp_path, masks="empty", cache=False)
