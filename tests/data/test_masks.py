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


def test_a_named_folder_of_masks_keeps_splits_apart(tmp_path):
    """Names occur in train and in val: each picture has the mask of its own split."""
    rng = np.random.default_rng(0)
    for split, num in (("train", 5), ("val", 4)):
        for part in ("img8", "gt"):
            (tmp_path / part / split).mkdir(parents=True)
        for k in range(num):
            x = rng.integers(0, 2, (8, 8), dtype=np.uint8)
            PIL.Image.fromarray(x * 200).save(tmp_path / f"img8/{split}/{k}.png")
            PIL.Image.fromarray(x).save(tmp_path / f"gt/{split}/{k}.png")
    PIL.Image.fromarray(x).save(tmp_path / "gt/val/extra.png")
    data = images(tmp_path, masks="gt", test=0.0, cache=False)
    assert len(data.train) == 5 and len(data.val) == 4 and data.account.read == 9
    for _, split in data.splits():
        assert ((split.x[:, 0] > 0) == split.y).all()
    assert "1 mask of no picture: gt/val/extra.png" in str(data.account)


def test_folders_called_as_masks_are_no_classes(tmp_path):
    for name in ("images/a.png", "images/b.png", "masks/c.png", "masks/d.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        seed = ord(name[-5])
        PIL.Image.fromarray(np.random.default_rng(seed).integers(0, 9, (8, 8), dtype=np.uint8)).save(tmp_path / name)
    with pytest.raises(DataError, match=r"a mask must have the name of its picture.*no file of masks.*task='classes'"):
        images(tmp_path, cache=False)
    assert images(tmp_path, task="classes", cache=False).target.classes == ("images", "masks")


def disc(side=40):
    rows, columns = np.indices((side, side)) - side / 2
    return np.where(np.hypot(rows, columns) < side / 3, 255, 0).astype(np.uint8)


def test_stray_values_do_not_make_the_foreground_unlabelled(tmp_path):
    values, reader = disc(), Masks((40, 40), "stretch")
    clean = values > 0
    values[0, 0], values[20, 20] = 100, 254
    (mask,), words, notes = coded(reader, reader.read(written(tmp_path, values), (40, 40)))
    assert words == ("0", "255") and (np.array(mask) == clean).all()
    assert "2 pixels of 2 other values in masks of 0 and 255, taken for the nearer of the two" in notes


def test_255_that_covers_most_is_a_class_beside_codes(tmp_path):
    values, reader = disc(), Masks((40, 40), "stretch")
    values[0, 0] = 1
    (mask,), words, notes = coded(reader, reader.read(written(tmp_path, values), (40, 40)))
    assert words == ("0", "1", "255") and (np.array(mask) == 2).sum() == (values == 255).sum()
    assert any("255 are a class" in note for note in notes)


@pytest.mark.parametrize("levels", [(0, 255), (20, 180)])
def test_masks_of_two_levels_as_jpeg_are_thresholded_and_said(tmp_path, levels):
    clean = disc() > 0
    PIL.Image.fromarray(np.where(clean, levels[1], levels[0]).astype(np.uint8)).save(tmp_path / "m.jpg", quality=85)
    reader = Masks((40, 40), "stretch")
    (mask,), words, notes = coded(reader, reader.read(tmp_path / "m.jpg", (40, 40)))
    assert len(words) == 2 and np.mean(np.array(mask) == clean) > 0.995
    assert any("taken for the nearer of the two" in note for note in notes)


def test_soft_edges_with_all_values_are_thresholded(tmp_path):
    values = np.repeat(disc(64)[None], 8, 0).reshape(512, 64)
    values[:4] = np.arange(256, dtype=np.uint8).reshape(4, 64)
    reader = Masks((512, 64), "stretch")
    (mask,), words, _ = coded(reader, reader.read(written(tmp_path, values), (64, 512)))
    assert words == ("0", "255") and (np.array(mask) == (values > 127)).all()


def test_many_classes_in_jpeg_are_an_error(tmp_path):
    values = np.kron(np.arange(16).reshape(4, 4) * 15, np.ones((12, 12)))
    PIL.Image.fromarray(values.astype(np.uint8)).save(tmp_path / "m.jpg", quality=60)
    reader = Masks((48, 48), "stretch")
    reader.read(tmp_path / "m.jpg", (48, 48))
    with pytest.raises(DataError, match=r"of \.jpg, which mixes values. Write masks as \.png"):
        reader.codes()


def test_many_codes_and_a_void_stay_classes(tmp_path):
    values = np.kron(np.arange(16).reshape(4, 4) * 10, np.ones((5, 5))).astype(np.uint8)
    values[:2] = 255
    reader = Masks((20, 20), "stretch")
    (mask,), words, notes = coded(reader, reader.read(written(tmp_path, values), (20, 20)))
    assert (
        len(words) == 16 and (np.array(mask)[:2] == UNLABELLED).all() and (np.array(mask)[2:] == values[2:] // 10).all()
    )
    assert any("255 have no label" in note for note in notes)


def test_where_palettes_differ_the_colour_is_the_class(tmp_path):
    def saved(values, palette):
        image = PIL.Image.frombytes("P", (3, 1), bytes(values))
        image.putpalette(palette)
        image.save(tmp_path / "p.png")
        return tmp_path / "p.png"

    reader = Masks((1, 3), "stretch")
    one = reader.read(saved([0, 1, 2], [0, 0, 0, 255, 0, 0, 0, 255, 0]), (3, 1))
    masks, words, notes = coded(reader, one)
    assert words == ("0", "1", "2") and masks == [[[0, 1, 2]]] and not notes
    two = reader.read(saved([0, 1, 2], [0, 255, 0, 255, 0, 0, 0, 0, 0]), (3, 1))
    masks, words, notes = coded(reader, one, two)
    assert words == ("#000000", "#00ff00", "#ff0000") and masks == [[[0, 2, 1]], [[1, 2, 0]]]
    assert any("different palettes" in note for note in notes)
