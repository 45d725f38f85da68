"""Boxes: formats, checks, and where they come to lie."""

from __future__ import annotations

import json

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.data import images
from leadline.data.annotations import Marked
from leadline.data.boxes import checked, placed, stacked
from leadline.data.decode import FITS, Header
from leadline.data.folder import Lost
from leadline.data.yaml_names import yaml_names
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


def boxes_of(data):
    return {int(row): y[y[:, 0] >= 0] for _, s in data.splits() for row, y in zip(s.rows, s.y.numpy())}


def test_keypoints_beside_instances_take_no_boxes_away(tmp_path):
    pictures(tmp_path)
    marks = [{"image_id": k, "bbox": [5, 5, 10 + k, 10]} for k in range(6)]
    marks += [{"image_id": 0, "category_id": 9, "bbox": [20, 20, 10, 10]}]
    coco(tmp_path, marks, name="instances_all.json")
    alone = boxes_of(images(tmp_path, cache=False))
    coco(tmp_path, [marks[0], {"image_id": 1, "bbox": [30, 5, 10, 10]}], name="person_keypoints_all.json")
    coco(tmp_path, [{"caption": "a cat"}], name="captions_all.json", categories=[])
    data = images(tmp_path, cache=False)
    told, both = str(data.account), boxes_of(data)
    assert all((alone[k] == both[k]).all() for k in range(6)) and len(both[0]) == 2
    for words in (
        "1 box left out: it is annotated twice, and was taken once (images/0.png)",
        "1 box left out: it is in person_keypoints_all.json and not among the instances (images/1.png)",
        "captions_all.json is passed over: an empty list categories",
    ):
        assert words in told, told


def test_files_for_one_class_each_are_joined_and_so_are_entries_of_one_picture(tmp_path):
    pictures(tmp_path)
    coco(tmp_path, [{"image_id": k} for k in range(6)], name="cats.json")
    listed = [{"id": k, "file_name": f"{k % 6}.png", "width": 60, "height": 40} for k in range(12)]
    marks = [{"image_id": k, "category_id": 9, "bbox": [30, 5 + k, 10, 10]} for k in (0, 6)]
    coco(tmp_path, marks, name="dogs.json", images=listed)
    found = boxes_of(images(tmp_path, cache=False))
    assert sorted(found[0][:, 0].tolist()) == [0, 1, 1] and len(found[1]) == 1


def test_a_picture_in_train_and_val_is_held_out(tmp_path):
    pictures(tmp_path)
    coco(tmp_path, [{"image_id": k} for k in range(6)], name="instances_train.json")
    listed = [{"id": 3, "file_name": "3.png", "width": 60, "height": 40}]
    coco(tmp_path, [{"image_id": 3}], name="instances_val.json", images=listed)
    data = images(tmp_path, test=0.0, cache=False)
    assert data.val.rows.tolist() == [3] and len(data.train) == 5
    assert "1 picture annotated in two splits, held out: images/3.png" in str(data.account)


def test_coco_finds_pictures_of_its_split_among_others_of_their_name(tmp_path):
    for split in ("train", "val"):
        (tmp_path / "images" / split).mkdir(parents=True)
        for k in range(4):
            array = np.random.default_rng([k, len(split)]).integers(0, 256, (40, 60, 3), dtype=np.uint8)
            PIL.Image.fromarray(array).save(tmp_path / f"images/{split}/{k}.png")
        (tmp_path / "annotations").mkdir(exist_ok=True)
        marks = [{"image_id": k, "bbox": [5, 5, 10, 10 if split == "train" else 30]} for k in range(4)]
        coco(tmp_path / "annotations", marks, 4, f"instances_{split}.json")
    data = images(tmp_path, test=0.0, cache=False)
    assert len(data.train) == 4 and len(data.val) == 4 and "not there" not in str(data.account)
    assert np.allclose(data.train.y[:, 0, 4], 10 / 40) and np.allclose(data.val.y[:, 0, 4], 30 / 40)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("names:\n  1: dog\n  0: cat\n", ("cat", "dog")),
        ("names: {0: cat, 1: dog}\n", ("cat", "dog")),
        ("names: {\n  2: 'd: e',\n  0: cat}\n", ("cat", "1", "d: e")),
        ("names: ['a, b', \"c]\", d] # three\n", ("a, b", "c]", "d")),
        ("names: [cat, # it's one\n  'it''s']\n", ("cat", "it's")),
        ("names:\n# all\n- 'dog' # it's\n- cat\nnc: 2\n", ("dog", "cat")),
        ('names: ["a\\", b", c]\n', ('a", b', "c")),
        ("names: 7\n", ()),
        (f"names:\n  {'9' * 5000}: cat\n  0: dog\n", ("dog",)),
    ],
)
def test_names_of_a_yaml(text, names):
    assert yaml_names(text) == names


def test_numbers_of_many_digits_are_counted(tmp_path):
    many = "9" * 5000
    root = yolo(pictures(tmp_path / "yolo"), f"{many} 0.5 0.5 0.1 0.1\n0 {many} 0.5 0.1 0.1\n0 0.5 0.5 0.2 0.2\n")
    assert "2 boxes left out: its line is not a code and four numbers" in str(images(root, cache=False).account)
    root = voc(pictures(tmp_path / "voc"), thing("cat", 1, 1, many, 9) + thing("cat", 1, 1, 9, 9))
    assert "1 box left out: it has no four numbers" in str(images(root, cache=False).account)
    head = f"<size><width>{many}</width><height>40</height></size>"
    body = f"<annotation>{head}{thing('cat', 1, 1, 9, 9)}</annotation>"
    (root / "Annotations/0.xml").write_text(body)
    assert "refused 1: is annotated for another size: images/0.png" in str(images(root, cache=False).account)
    root = coco(pictures(tmp_path / "coco"), [{}, {"bbox": [10**400, 1, 2, 3]}])
    assert "1 box left out: it has no four numbers" in str(images(root, cache=False).account)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig", "cp037", "punycode"])
def test_entities_are_refused_in_every_encoding(tmp_path, encoding):
    root = voc(pictures(tmp_path), thing("cat", 1, 1, 9, 9))
    head = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>'
    body = '<!DOCTYPE a [<!ENTITY b "cat">]><annotation><object><name>&b;</name></object></annotation>'
    plain = encoding not in ("cp037", "punycode")
    content = (head + body).encode(encoding) if plain else head.encode() + body.encode(encoding)
    (root / "Annotations/0.xml").write_bytes(content)
    told = str(images(root, cache=False).account)
    assert "Annotations/0.xml is not read: it " in told and (not plain or "entities" in told)


def test_xml_of_other_encodings_is_read(tmp_path):
    root = voc(pictures(tmp_path), "")
    for encoding, k in (("utf-16", 0), ("latin-1", 1)):
        head = f'<?xml version="1.0" encoding="{encoding}"?>'
        (root / f"Annotations/{k}.xml").write_bytes(
            f"{head}<annotation>{thing('größe', 1, 1, 9, 9)}</annotation>".encode(encoding)
        )
    assert images(root, cache=False).target.classes == ("dog", "größe")
