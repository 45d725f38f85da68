"""Folders of pictures: every layout, every kind of damage, splits, sizes, recipes."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib

import numpy as np
import PIL.Image
import pytest
import torch

from leadline.data import find_task, gathering, images, load, reader_of
from leadline.data.scene_files import write_scenes
from leadline.data.scenes import SHAPES, generate
from leadline.data.target import Target
from leadline.errors import DataError, UnknownName, UserError

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path_factory.mktemp("cache")))


def bomb(path, side=20_000):
    """A small file whose header claims side × side pixels of grey."""
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    body = b"\x89PNG\r\n\x1a\n"
    for kind, content in ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")):
        body += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    path.write_bytes(body)


def picture(path, size=(12, 10), value=None, mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (*size, 3) if value is None else size
    array = RNG.integers(0, 256, shape, dtype=np.uint8) if value is None else np.full(size, value, np.uint8)
    PIL.Image.fromarray(array).convert(mode).save(path)
    return path


def pets(root, num=10, names=("cat", "dog", "eel")):
    for name in names:
        for k in range(num):
            picture(root / name / f"{k:02d}.png")
    return root


def test_one_folder_a_class(tmp_path):
    data = images(pets(tmp_path / "pets"))
    assert find_task(tmp_path / "pets") == "classes"
    assert (
        data.name == "pets" and data.target.classes == ("cat", "dog", "eel") and data.train.x.shape[1:] == (3, 12, 10)
    )
    assert sum(len(split) for _, split in data.splits()) == 30 and 20 <= len(data.train) <= 22
    assert (torch.bincount(data.train.y) >= 6).all() and (torch.bincount(data.test.y) >= 1).all()
    files = sorted((tmp_path / "pets").rglob("*.png"))
    for row, x, y in zip(data.val.rows.tolist(), data.val.x, data.val.y.tolist()):
        assert files[row].parent.name == data.target.classes[y]
        assert (x.numpy() == np.asarray(PIL.Image.open(files[row])).transpose(2, 0, 1)).all()


def test_recipes_give_the_same_data_again(tmp_path):
    pets(tmp_path)
    data = images(tmp_path, size=16, val=0.2, test=0.2, seed=5, workers=2)
    assert load(data.recipe).fingerprint == data.fingerprint
    assert load(tmp_path, size=16, val=0.2, test=0.2, seed=5).fingerprint == data.fingerprint
    assert images(tmp_path, size=16, val=0.2, test=0.2, seed=6).fingerprint != data.fingerprint
    assert images(tmp_path, size=16, val=0.2, test=0.2, seed=5, workers=1).fingerprint == data.fingerprint


def test_folders_may_name_the_splits(tmp_path):
    for part, num in (("train", 6), ("valid", 2), ("test", 3)):
        pets(tmp_path / part, num)
    data = images(tmp_path)
    assert [len(split) for _, split in data.splits()] == [18, 6, 9] and data.target.classes == ("cat", "dog", "eel")
    assert "train, val and test are folders" in str(data.account)
    again = images(tmp_path, split="random")
    assert sum(len(split) for _, split in again.splits()) == 33 and len(again.train) > 18


def test_a_split_without_a_folder_is_drawn_from_train(tmp_path):
    pets(tmp_path / "train", 10)
    pets(tmp_path / "test", 2)
    data = images(tmp_path, val=0.2)
    assert [len(split) for _, split in data.splits()] == [24, 6, 6] and "val, which is missing" in str(data.account)


def test_copies_of_held_out_pictures_leave_train(tmp_path):
    pets(tmp_path / "train", 6)
    pets(tmp_path / "test", 2)
    (tmp_path / "train/cat/copy.png").write_bytes((tmp_path / "test/dog/00.png").read_bytes())
    data = images(tmp_path, val=0.0)
    assert len(data.train) == 18 and "the same, in val or test: train/cat/copy.png" in str(data.account)


def test_equal_pictures_stay_in_one_split(tmp_path):
    pets(tmp_path, 8)
    for name in ("cat", "dog"):
        for k in range(6):
            (tmp_path / name / f"copy{k}.png").write_bytes((tmp_path / name / "00.png").read_bytes())
    for seed in range(4):
        data = images(tmp_path, seed=seed, val=0.3, test=0.3)
        where = {}
        for part, split in data.splits():
            for x in split.x:
                where.setdefault(x.numpy().tobytes(), set()).add(part)
        assert all(len(parts) == 1 for parts in where.values()) and len(where) == 24
        assert "12 pictures equal to another" in str(data.account)


def test_one_class_or_none_is_an_error_in_words(tmp_path):
    picture(tmp_path / "cat/1.png")
    with pytest.raises(DataError, match=r"at least two classes.*one folder, cat.*labels="):
        images(tmp_path)
    (tmp_path / "b").mkdir()
    picture(tmp_path / "b/1.png")
    with pytest.raises(DataError, match="1 pictures and no folders"):
        images(tmp_path / "b")
    (tmp_path / "none").mkdir()
    (tmp_path / "none/a.txt").touch()
    with pytest.raises(DataError, match="must hold pictures"):
        images(tmp_path / "none")
    with pytest.raises(DataError, match="no folder"):
        images(tmp_path / "gone")
    assert find_task(tmp_path / "b") == "pictures" and find_task(tmp_path / "none") == "none"


def test_damaged_files_are_named_and_counted(tmp_path):
    pets(tmp_path)
    whole = (tmp_path / "cat/00.png").read_bytes()
    (tmp_path / "cat/empty.png").write_bytes(b"")
    (tmp_path / "cat/text.jpg").write_text("hello")
    (tmp_path / "dog/cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "dog/gone.png").symlink_to(tmp_path / "nowhere")
    bomb(tmp_path / "eel/bomb.png")
    (tmp_path / "eel/.hidden.png").touch()
    (tmp_path / "eel/notes.txt").touch()
    picture(tmp_path / "stray.png")
    data = images(tmp_path)
    told = str(data.account)
    assert data.account.read == 36 and data.account.used == 30 == sum(len(split) for _, split in data.splits())
    for words in (
        "is empty: cat/empty.png",
        "is not a picture: cat/text.jpg",
        "dog/cut.png",
        "cannot be opened",
        "eel/bomb.png",
        "lies in no class's folder: stray.png",
        "1 hidden file",
        "1 other file in the folder",
    ):
        assert words in told, told


@pytest.mark.parametrize("large", [False, True])
def test_rows_are_those_of_their_files_where_others_are_damaged(tmp_path, monkeypatch, large):
    """A file that is cut is found out only when it is decoded."""
    write_scenes(tmp_path, ("masks",), num=12, size=32)
    for k in (0, 5, 6):
        path = tmp_path / f"images/{k:05d}.png"
        path.write_bytes(path.read_bytes()[:900])
    monkeypatch.setattr(gathering, "LARGE", 0 if large else 2**40)
    made, data = generate(num=12, size=32), images(tmp_path)
    assert data.account.used == 9 == sum(len(split) for _, split in data.splits())
    values = np.array([int(name) for name in data.target.classes])
    for _, split in data.splits():
        for row, x, y in zip(split.rows.tolist(), split.x.numpy(), split.y.numpy()):
            assert (x == made.x[row]).all() and (values[y] == made.mask[row]).all()


def test_nothing_left_is_an_error(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"some picture must be usable.*2 is empty"):
        images(tmp_path)


def test_loops_of_links_end_and_links_outside_are_followed(tmp_path):
    pets(tmp_path / "in", 5, ("cat", "dog"))
    pets(tmp_path / "out", 5, ("x",))
    (tmp_path / "in/eel").symlink_to(tmp_path / "out/x")
    (tmp_path / "in/cat/loop").symlink_to(tmp_path / "in")
    data = images(tmp_path / "in")
    assert data.account.used == 15 and data.target.classes == ("cat", "dog", "eel")


def test_colours_are_made_one_and_said(tmp_path):
    pets(tmp_path, 4, ("cat", "dog"))
    picture(tmp_path / "cat/grey.png", mode="L")
    picture(tmp_path / "cat/clear.png", mode="RGBA")
    picture(tmp_path / "dog/palette.png", mode="P")
    deep = RNG.integers(0, 65536, (12, 10)).astype(np.uint16)
    PIL.Image.fromarray(deep).save(tmp_path / "dog/deep.png")
    data = images(tmp_path)
    assert data.inputs.channels == 3
    for words in ("mode L converted to RGB", "mode RGBA converted", "mode P converted", "mode I;16 converted"):
        assert words in str(data.account), data.account
    assert images(tmp_path, colour="grey").train.x.shape[1] == 1
    grey = tmp_path / "grey"
    for name in ("a", "b"):
        for k in range(4):
            picture(grey / name / f"{k}.png", mode="L")
    assert images(grey).inputs.channels == 1 and images(grey, colour="rgb").inputs.channels == 3


def test_sizes_are_found_or_given(tmp_path):
    pets(tmp_path, 3, ("cat", "dog"))
    assert images(tmp_path).inputs.size == (12, 10)
    for k in range(4):
        picture(tmp_path / f"dog/large{k}.png", (70 + k, 100))
    data = images(tmp_path)
    assert data.inputs.size == (32, 32)
    assert "sizes from 12 × 10 to 73 × 100" in str(data.account) and "cropped to" in str(data.account)
    assert images(tmp_path, size=(20, 30), fit="pad").train.x.shape[2:] == (20, 30)
    assert load(images(tmp_path, size=24, fit="stretch").recipe).inputs.config["fit"] == "stretch"
    picture(tmp_path / "dog/huge.png", (900, 900))
    for k in range(30):
        picture(tmp_path / f"dog/huge{k}.png", (600, 640), value=k)
    assert images(tmp_path).inputs.size == (224, 224)


def table(root, lines, name="labels.csv"):
    (root / name).write_text("\n".join(lines) + "\n")


def test_a_table_of_classes(tmp_path):
    for k in range(12):
        picture(tmp_path / f"images/{k}.png")
    table(tmp_path, ["file,kind", *(f"{k}.png,{'ab'[k % 2]}" for k in range(12)), "gone.png,a", "3.png,b"])
    assert find_task(tmp_path) == "labels"
    data = images(tmp_path)
    assert data.target.classes == ("a", "b") and data.target.name == "kind" and data.account.used == 12
    assert "names no picture of the folder: line 14" in str(data.account) and "names it twice" in str(data.account)
    files = sorted(path.name for path in (tmp_path / "images").iterdir())
    assert all(
        int(files[row].split(".")[0]) % 2 == y for row, y in zip(data.train.rows.tolist(), data.train.y.tolist())
    )


def test_a_table_of_numbers_stems_and_splits(tmp_path):
    for k in range(12):
        picture(tmp_path / f"{k}.png")
    parts = ["train"] * 8 + ["val"] * 2 + ["test"] * 2
    table(tmp_path, ["id\tage\tname\tsplit", *(f"{k}\t{k + 0.5}\tn{k}\t{parts[k]}" for k in range(12))], "a.tsv")
    with pytest.raises(DataError, match=r"one column to predict.*age, name.*target='age'"):
        images(tmp_path)
    data = images(tmp_path, target="age")
    assert data.target.kind == "real" and sorted(data.test.y.tolist()) == [10.5, 11.5]
    assert data.target.shift[0] == pytest.approx(data.train.y.mean().item())
    assert load(data.recipe).fingerprint == data.fingerprint
    with pytest.raises(DataError, match="Did you mean age"):
        images(tmp_path, target="agee")


def test_a_table_elsewhere_and_one_that_names_nothing(tmp_path):
    pets(tmp_path / "p", 4, ("x",))
    table(tmp_path, ["file,y", *(f"{k:02d},{k % 2 == 0}" for k in range(4))])
    data = images(tmp_path / "p", labels=tmp_path / "labels.csv", val=0.25, test=0.25)
    assert data.target.kind == "binary" and load(data.recipe).fingerprint == data.fingerprint
    table(tmp_path / "p", ["file,y", *(f"{k:02d},{k % 2 == 0}" for k in range(4))], "own.csv")
    data = images(tmp_path / "p", labels="own.csv")
    assert load(data.recipe).fingerprint == data.fingerprint
    table(tmp_path, ["file,y", "a,1", "b,2"])
    with pytest.raises(DataError, match="a column with the pictures' file names"):
        images(tmp_path / "p", labels=tmp_path / "labels.csv")


def test_masks_beside_pictures(tmp_path):
    write_scenes(tmp_path, ("masks",), num=10, size=32, num_classes=4)
    assert find_task(tmp_path) == "pixels" and reader_of(tmp_path) == "images"
    made = generate(num=10, size=32, num_classes=4)
    data = images(tmp_path)
    assert data.target.kind == "pixels" and data.inputs.fit == "stretch" and data.train.y.dtype == torch.uint8
    values = sorted(np.unique(made.mask).tolist())
    assert data.target.classes == tuple(map(str, values))
    for row, x, y in zip(data.train.rows.tolist(), data.train.x, data.train.y):
        assert (x.numpy() == made.x[row]).all() and (np.array(values)[y.numpy()] == made.mask[row]).all()
    assert load(data.recipe).fingerprint == data.fingerprint


def test_a_task_may_be_told_where_a_folder_holds_several(tmp_path):
    write_scenes(tmp_path, ("masks", "coco"), num=10, size=24)
    pets(tmp_path / "images", 2, ("cat", "dog"))
    assert images(tmp_path).target.kind == "boxes" and images(tmp_path, boxes="annotations.json").target.kind == "boxes"
    assert images(tmp_path, task="pixels").target.kind == images(tmp_path, masks="masks").target.kind == "pixels"
    assert images(tmp_path / "images", task="classes").target.classes == ("cat", "dog")
    with pytest.raises(UnknownName, match="task"):
        images(tmp_path, task="pixel art")


def test_masks_are_no_pictures_to_find_boxes_in(tmp_path):
    write_scenes(tmp_path, ("masks", "yolo", "voc"), num=10, size=24)
    for place in ("labels", "xml"):
        data = images(tmp_path, boxes=place)
        assert data.account.read == data.account.used == 10 and load(data.recipe).fingerprint == data.fingerprint


def test_equal_pictures_of_two_classes_are_counted(tmp_path):
    pets(tmp_path, 4, ("cat", "dog"))
    (tmp_path / "dog/copy.png").write_bytes((tmp_path / "cat/00.png").read_bytes())
    assert "1 picture equal to one of another class" in str(images(tmp_path).account)


def test_large_pictures_of_one_size_are_made_smaller(tmp_path):
    for name, value in (("a", 10), ("b", 200)):
        for k in range(3):
            picture(tmp_path / name / f"{k}.png", (300, 1000), value + k)
    data = images(tmp_path)
    assert data.inputs.size == (64, 224) and "a size of 300 × 1000" in str(data.account)


def test_masks_that_do_not_fit_are_named(tmp_path):
    write_scenes(tmp_path, ("masks",), num=10, size=32)
    PIL.Image.new("L", (30, 32)).save(tmp_path / "masks/00003.png")
    (tmp_path / "masks/00004.png").unlink()
    (tmp_path / "masks/00005.png").write_bytes(b"")
    data = images(tmp_path)
    assert data.account.used == 7
    for words in (
        "has a mask of 30 × 32 for 32 × 32 pixels: images/00003.png",
        "has no mask",
        "is empty: images/00005.png",
    ):
        assert words in str(data.account)


@pytest.mark.parametrize("form", ["coco", "yolo", "voc"])
def test_boxes_in_every_format(tmp_path, form):
    write_scenes(tmp_path, (form,), num=12, size=32, seed=2)
    assert find_task(tmp_path) == "boxes"
    made = generate(num=12, size=32, seed=2)
    data = images(tmp_path)
    assert data.target.kind == "boxes" and data.train.y.dtype == torch.float32
    for row, x, y in zip(data.train.rows.tolist(), data.train.x, data.train.y.numpy()):
        there = made.boxes[row][made.boxes[row][:, 0] >= 0]
        own = y[y[:, 0] >= 0]
        assert (x.numpy() == made.x[row]).all() and len(own) == len(there)
        assert np.allclose(own[:, 1:], there[:, 1:], atol=1e-5)
        assert [data.target.classes[int(code)] for code in own[:, 0]] == [SHAPES[int(code)] for code in there[:, 0]]
    assert load(data.recipe).fingerprint == data.fingerprint


def test_boxes_follow_their_pictures(tmp_path):
    """A white rectangle on black, in a picture of another shape: its box is where it is, however it was placed."""
    for k in range(6):
        array = np.zeros((60, 90, 3), np.uint8)
        array[20 + k : 44 + k, 30:54] = 255
        (tmp_path / "images").mkdir(exist_ok=True)
        (tmp_path / "labels").mkdir(exist_ok=True)
        PIL.Image.fromarray(array).save(tmp_path / f"images/{k}.png")
        (tmp_path / f"labels/{k}.txt").write_text(f"0 {42 / 90} {(32 + k) / 60} {24 / 90} {24 / 60}\n")
    for fit, size in (("stretch", (30, 30)), ("pad", (48, 40)), ("crop", (40, 40)), ("stretch", (60, 90))):
        data = images(tmp_path, fit=fit, size=size)
        for x, y in zip(data.train.x.numpy(), data.train.y.numpy()):
            rows, columns = np.nonzero(x[0] > 127)
            code, cx, cy, width, height = y[0]
            assert code == 0 and data.target.classes == ("0",)
            found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            box = np.array([cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2])
            assert np.allclose(box * [size[1], size[0], size[1], size[0]], found, atol=1.01)


def test_options_that_do_not_fit_are_said(tmp_path):
    pets(tmp_path, 3)
    with pytest.raises(UnknownName, match="fit"):
        images(tmp_path, fit="squash")
    with pytest.raises(UnknownName, match="colour"):
        images(tmp_path, colour="green")
    for wrong in ({"size": 0}, {"size": (1, 2, 3)}, {"workers": 0}, {"val": 0.9, "test": 0.2}, {"sise": 3}):
        with pytest.raises(UserError):
            images(tmp_path, **wrong)
    with pytest.raises(UserError, match="one task at a time"):
        images(tmp_path, masks="m", boxes="b")
    with pytest.raises(DataError, match="boxes must be there"):
        images(tmp_path, boxes="none.json")
    with pytest.raises(DataError, match="or in an .npz"):
        images(tmp_path / "cat/00.png")
    with pytest.raises(DataError, match="path must name a folder"):
        images(None)


def test_names_lead_to_readers(tmp_path, monkeypatch):
    pets(tmp_path / "pets", 3)
    monkeypatch.chdir(tmp_path)
    assert reader_of("pets") == "images" and reader_of(os.curdir) == "images" and reader_of("a.csv") == "table"
    assert load("./pets").fingerprint == load("pets").fingerprint


def test_folders_name_the_splits_of_a_table_too(tmp_path):
    lines = ["file,kind"]
    for part, num in (("train", 8), ("val", 2), ("test", 4)):
        for k in range(num):
            picture(tmp_path / part / f"{part}{k}.png")
            lines.append(f"{part}/{part}{k}.png,{'ab'[k % 2]}")
    table(tmp_path, lines)
    data = images(tmp_path)
    assert [len(split) for _, split in data.splits()] == [8, 2, 4]
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.png"))
    assert {names[row].split("/")[0] for row in data.test.rows.tolist()} == {"test"}
    table(tmp_path, [lines[0], *(line for line in lines if line.startswith("train"))])
    assert sorted(len(split) for _, split in images(tmp_path).splits()) == [1, 1, 6]  # train alone is no split


def test_copies_of_val_leave_test(tmp_path):
    for part in ("train", "val", "test"):
        pets(tmp_path / part, 3)
    (tmp_path / "test/cat/copy.png").write_bytes((tmp_path / "val/dog/00.png").read_bytes())
    data = images(tmp_path)
    assert [len(split) for _, split in data.splits()] == [9, 9, 9]
    assert "refused 1: is in test and, the same, in val: test/cat/copy.png" in str(data.account)


def test_a_refused_picture_is_not_told_as_converted(tmp_path):
    pets(tmp_path, 3, ("cat", "dog"))
    PIL.Image.fromarray(np.zeros((12, 10), np.float32)).save(tmp_path / "cat/float.tif")
    told = str(images(tmp_path).account)
    assert "has floating-point pixels: cat/float.tif" in told and "converted" not in told


def test_files_of_several_pictures_are_counted(tmp_path):
    pets(tmp_path, 3, ("cat", "dog"))
    frames = [PIL.Image.fromarray(RNG.integers(0, 256, (12, 10, 3), dtype=np.uint8)) for _ in range(3)]
    for name in ("cat/moves.gif", "dog/pages.tif", "dog/moves.webp"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "cat/still.gif")
    data = images(tmp_path)
    assert data.account.used == 10
    assert "3 pictures of several frames or pages, of which the first is read" in str(data.account)


def test_names_cannot_move_the_cursor(tmp_path):
    pets(tmp_path, 4, ("cat", "d\x1b[31mo\u202eg"))
    (tmp_path / "cat/bad\x1b[2J\n.png").write_text("x")
    data = images(tmp_path)
    told = f"{data.account}{data}"
    assert "d\x1b[31mo\u202eg" in data.target.classes
    assert "bad\\x1b[2J\\n.png" in told and "d\\x1b[31mo\\u202eg" in told
    assert "\x1b" not in told and "\u202e" not in told
    with pytest.raises(DataError, match=r"one folder, \\x1b"):
        images(pets(tmp_path / "one", 2, ("\x1b[2J",)))


@pytest.mark.parametrize(("kind", "words"), [("boxes", "boxes of 1 class"), ("pixels", "1 class a pixel")])
def test_one_class_is_told_as_one(kind, words):
    assert str(Target(kind, "y", classes=("cat",))) == f"y: {words}"


def lying(path, shape, packed=False):
    """An .npz whose header claims an array of `shape`."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        archive.writestr("x.npy", head.getvalue() + bytes(1000))
    return path


@pytest.mark.parametrize("shape", [(10**13, 8, 8), (10**9, 8, 8), (2**62, 2**62, 8)])
def test_an_npz_that_claims_more_than_it_holds_is_refused_at_once(tmp_path, shape, monkeypatch):
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("room was taken"))
    with pytest.raises(DataError, match=r"x\.npy claims \d+ bytes, and has 1128"):
        images(lying(tmp_path / "a.npz", shape))


def test_an_npz_whose_directory_lies_is_refused(tmp_path):
    path = lying(tmp_path / "a.npz", (2**33,), packed=True)
    content = path.read_bytes()
    for mark, at in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):  # where the sizes of unpacked files stand
        place = content.rindex(mark) + at
        content = content[:place] + struct.pack("<I", 2**31) + content[place + 4 :]
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.npy claims 2147483648 bytes, out of"):
        images(path)
