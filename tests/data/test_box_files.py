"""Boxes: formats, checks, and where they come to lie."""

from __future__ import annotations

import json

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.data import images
from leadline.data.boxes import Marked, checked, placed, stacked
from leadline.data.decode import FITS, Header
from leadline.data.folder import Lost
from leadline.errors import DataError


def pictures(root, num=6, size=(40, 60)):
    (root / "images").mkdir(parents=True, exist_ok=True)
    for k in range(num):
        array = np.random.default_rng(k).integers(0, 256, (*size, 3), dtype=np.uint8)
        PIL.Image.fromarray(array).save(root / f"images/{k}.png")
    return root


def coco(root, marks, num=6, name="boxes.json", **changes):
    content = {
        "images": [{"id": k, "file_name": f"{k}.png", "width": 60, "height": 40} for k in range(num)],
        "annotations": [
            {"id": i, "image_id": 0, "category_id": 7, "bbox": [5, 5, 10, 10], **m} for i, m in enumerate(marks)
        ],
        "categories": [{"id": 9, "name": "dog"}, {"id": 7, "name": "cat"}],
    }
    (root / name).write_text(json.dumps({**content, **changes}))
    return root


def test_coco_counts_what_it_leaves_out(tmp_path):
    marks = [
        {},
        {"image_id": 1, "category_id": 9, "bbox": [0, 0, 60.4, 40]},
        {"image_id": 1, "bbox": [10, 10, 80, 10]},
        {"image_id": 2, "bbox": [10, 10, 0, 10]},
        {"image_id": 2, "bbox": [10, 10, -5, 10]},
        {"image_id": 2, "category_id": 8},
        {"image_id": 3, "iscrowd": 1},
        {"image_id": 3, "bbox": [1, 2, 3]},
        {"image_id": 3, "bbox": [1, 2, 3, "nan"]},
        {"image_id": 3, "bbox": None},
        {"image_id": 77},
        {"image_id": [1], "category_id": {}},
    ]
    data = images(coco(pictures(tmp_path), marks), cache=False)
    told = str(data.account)
    for words in (
        "1 box clipped",
        "1 box left out: it lies outside its picture (images/1.png)",
        "2 boxes left out: its corners are not in order, or it has no area (images/2.png)",
        "1 box left out: its category is not known (images/2.png)",
        "1 box left out: it is a crowd (images/3.png)",
        "3 boxes left out: it has no four numbers (images/3.png)",
        "2 boxes left out: its image_id names no picture",
    ):
        assert words in told, told
    assert data.target.classes == ("cat", "dog") and data.account.used == 6
    boxes = {int(row): y[y[:, 0] >= 0] for _, s in data.splits() for row, y in zip(s.rows, s.y.numpy())}
    assert np.allclose(boxes[0], [[0, 10 / 60, 10 / 40, 10 / 60, 10 / 40]])
    assert np.allclose(boxes[1], [[1, 0.5, 0.5, 1, 1]]) and all(len(boxes[k]) == 0 for k in (2, 3, 4, 5))


def test_coco_names_pictures_that_are_missing_or_of_another_size(tmp_path):
    listed = [{"id": k, "file_name": f"x/{k}.png", "width": 60, "height": 41 if k == 2 else 40} for k in range(5)]
    listed[1]["file_name"] = "gone.png"
    data = images(coco(pictures(tmp_path), [{}, {"image_id": 3}], images=listed), cache=False)
    told = str(data.account)
    assert "1 annotated picture not there: gone.png" in told and "is annotated for another size: images/2.png" in told
    assert "refused 2: is not annotated: images/1.png, images/5.png" in told and data.account.used == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"annotations": []}, "an empty list annotations"),
        ({"images": []}, "an empty list images"),
        ({"categories": {}}, "no list categories"),
    ],
)
def test_coco_without_annotations_is_an_error(tmp_path, changes, words):
    with pytest.raises(DataError, match=words):
        images(coco(pictures(tmp_path), [{}], **changes), cache=False)


def test_coco_that_is_no_json_is_an_error(tmp_path):
    pictures(tmp_path)
    for text, words in (("", "an empty file"), ('{"images": [', "must be JSON"), ("[" * 100_000, "must be JSON")):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(DataError, match=words):
            images(tmp_path, boxes="a.json", cache=False)


def test_coco_files_may_name_the_splits(tmp_path):
    for part in ("train", "val"):
        folder = pictures(tmp_path / part, 4)
        coco(folder, [{"image_id": k} for k in range(4)], 4, f"instances_{part}.json")
    for k in range(4):  # other pixels than those of train
        PIL.Image.new("RGB", (60, 40), (k, k, k)).save(tmp_path / f"val/images/{k}.png")
    data = images(tmp_path, test=0.0, cache=False)
    assert len(data.train) == 4 and len(data.val) == 4 and len(data.test) == 0


def yolo(root, text, names="cat\ndog\n"):
    (root / "labels").mkdir()
    for k in range(6):
        (root / f"labels/{k}.txt").write_text("0 0.5 0.5 0.2 0.2\n" if k else text)
    if names:
        (root / "classes.txt").write_text(names)
    return root


def test_yolo_counts_what_it_leaves_out(tmp_path):
    ends = "0.5 0.5 0.1 0.1"
    wrong = ("0 0.5 0.5", f"99999999999999 {ends}", f"² {ends}", f"2 {ends}", f"x {ends}", "0 0.9 0.5 0.4 0.1")
    text = "\n".join(("1 0.5 0.5 0.2 0.4", "", *wrong, "0 0.5 0.5 0 0.1"))
    data = images(yolo(pictures(tmp_path), text), cache=False)
    told = str(data.account)
    for words in (
        "4 boxes left out: its line is not a code and four numbers (images/0.png)",
        "1 box left out: its code is not below 2",
        "1 box left out: it lies outside",
        "1 box left out: its corners",
    ):
        assert words in told, told
    assert data.target.classes == ("cat", "dog")


def test_yolo_names_come_from_a_yaml_or_are_codes(tmp_path):
    root = yolo(pictures(tmp_path), "1 0.5 0.5 0.2 0.4\n", names="")
    assert images(root, cache=False).target.classes == ("0", "1")
    assert images(root, classes=["a", "b"], cache=False).target.classes == ("a", "b")
    (root / "data.yaml").write_text("train: images\nnames:\n  - cat # a comment\n  - 'dog'\nnc: 2\n")
    assert images(root, cache=False).target.classes == ("cat", "dog")


def test_yolo_pictures_without_a_file_show_nothing(tmp_path):
    root = yolo(pictures(tmp_path), "0 0.5 0.5 0.2 0.4\n")
    (root / "labels/3.txt").unlink()
    data = images(root, cache=False)
    assert data.account.used == 6 and "1 picture without a .txt" in str(data.account)
    for k in range(6):
        (root / f"labels/{k}.txt").write_text("")
    with pytest.raises(DataError, match="some picture must have a box"):
        images(root, boxes="labels", cache=False)


def voc(root, things, head="<size><width>60</width><height>40</height></size>"):
    (root / "Annotations").mkdir(exist_ok=True)
    for k in range(6):
        body = things if k == 0 else thing("dog", 1, 1, 20, 20)
        (root / f"Annotations/{k}.xml").write_text(f"<annotation>{head}{body}</annotation>")
    return root


def thing(name, *ends):
    box = "".join(f"<{key}>{value}</{key}>" for key, value in zip(("xmin", "ymin", "xmax", "ymax"), ends))
    return f"<object><name>{name}</name><bndbox>{box}</bndbox></object>"


def test_voc_counts_from_one_and_checks(tmp_path):
    things = (
        thing("cat", 1, 1, 60, 40) + thing("dog", 30, 1, 10, 9) + thing("", 1, 1, 9, 9) + thing("cat", 1, 1, "x", 9)
    )
    data = images(voc(pictures(tmp_path), things), cache=False)
    boxes = {int(row): y[y[:, 0] >= 0] for _, s in data.splits() for row, y in zip(s.rows, s.y.numpy())}
    assert np.allclose(boxes[0], [[0, 0.5, 0.5, 1, 1]]) and np.allclose(boxes[1], [[1, 10 / 60, 0.25, 1 / 3, 0.5]])
    told = str(data.account)
    assert "its class is not named" in told and "no four numbers" in told and "corners are not in order" in told


def test_voc_files_that_are_damaged_or_dangerous_are_not_read(tmp_path):
    root = voc(pictures(tmp_path), thing("cat", 1, 1, 9, 9))
    (root / "Annotations/1.xml").write_text("<annotation><object>")
    (root / "Annotations/2.xml").write_text("")
    (root / "Annotations/3.xml").write_text(
        '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;&b;">]><annotation><x>&c;</x></annotation>'
    )
    (root / "Annotations/4.xml").write_text("<other/>")
    data = images(root, cache=False)
    told = str(data.account)
    for words in (
        "1.xml is not read: it is no XML",
        "2.xml is not read: it is empty",
        "3.xml is not read: it defines entities",
        "4.xml is not read: its root is other",
    ):
        assert words in told, told
    assert data.account.used == 2 and "refused 4: is not annotated" in told


WIDE = st.tuples(st.integers(2, 300), st.integers(2, 300))


@settings(max_examples=80, deadline=None)
@given(
    WIDE,
    WIDE,
    st.sampled_from(FITS),
    st.lists(st.tuples(*[st.floats(0, 1)] * 4), min_size=1, max_size=5),
    st.booleans(),
)
def test_boxes_that_are_kept_are_sound_wherever_they_lie(wide, size, fit, ends, relative):
    sides = np.array([*wide, *wide]) if not relative else np.ones(4)
    rows = np.array([[k, min(a, c), min(b, d), max(a, c), max(b, d)] for k, (a, b, c, d) in enumerate(ends)])
    rows[:, 1:] *= sides
    lost = Lost()
    good, clipped = checked(Marked(rows, relative), wide, "a", lost)
    assert len(good) + len(lost) == len(rows) and clipped == 0
    found, cut = placed(good, Header(*wide, "RGB"), fit, size)
    assert len(found) + cut == len(good) and (cut == 0 or fit == "crop")
    low, high = found[:, 1:3] - found[:, 3:] / 2, found[:, 1:3] + found[:, 3:] / 2
    assert (low > -1e-5).all() and (high < 1 + 1e-5).all() and (found[:, 3:] > 0).all()
    if fit == "stretch":  # parts of the picture stay what they are
        whole = good[:, 1:] / np.array([*wide, *wide])
        assert np.allclose(np.concatenate([low, high], 1), whole, atol=1e-5)


@pytest.mark.parametrize(("out", "kept"), [(0.9, True), (1.1, False)])
def test_how_far_a_box_may_stick_out(out, kept):
    lost = Lost()
    good, clipped = checked(Marked(np.array([[0, 10, 10, 50 + out, 20.0]])), (50, 50), "a", lost)
    assert (len(good), clipped, len(lost)) == ((1, 1, 0) if kept else (0, 0, 1))
    assert not kept or good[0, 3] == 50
    wide = checked(Marked(np.array([[0, 10, 10, 1000 + 10 * out, 20.0]])), (1000, 50), "a", Lost())[0]
    assert len(wide) == kept


def test_padding_has_the_code_minus_one():
    found = stacked([np.ones((2, 5)), np.zeros((0, 5))])
    assert found.shape == (2, 2, 5) and (found[1, :, 0] == -1).all() and stacked([np.zeros((0, 5))]).shape == (1, 1, 5)
