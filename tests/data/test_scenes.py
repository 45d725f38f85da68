"""Generated scenes: what is said of a picture is in the picture."""

from __future__ import annotations

import hashlib
import sys
import tracemalloc

import numpy as np
import pytest

from leadline.data import load, scenes
from leadline.data.scenes import _DART, _OUTSIDE, POINTS, SHAPES, class_names, generate
from leadline.errors import UserError


def test_scenes_are_a_function_of_the_seed():
    one, same, other = generate(num=6, size=32), generate(num=6, size=32), generate(num=6, size=32, seed=1)
    assert all((a == b).all() for a, b in zip(one, same))
    assert (one.x != other.x).any()
    data = scenes(num=12, size=32, task="boxes", seed=3)
    assert load(data.recipe).fingerprint == data.fingerprint


@pytest.mark.parametrize(
    ("task", "shape", "words"),
    [
        ("pixels", (32, 32), "11 classes a pixel"),
        ("boxes", (5,), "boxes of 10 classes"),
        ("points", (5, 3), "5 points"),
        ("classes", (), "10 classes"),
    ],
)
def test_every_task_has_its_y(task, shape, words):
    data = scenes(num=20, size=32, task=task)
    y = data.train.y
    assert data.train.x.shape == (14, 3, 32, 32) and words in str(data.target)
    assert tuple(y.shape[1:][-len(shape) :] if shape else y.shape[1:]) == shape
    assert data.inputs.size == (32, 32) and abs(float(data.inputs.encode(data.train.x).mean())) < 1e-4


def test_shapes_stand_out_from_the_ground():
    made = generate(num=60, size=48, noise=0.0)
    for x, mask in zip(made.x.astype(int), made.mask):
        inside, ground = x[:, mask > 0].mean(1), x[:, mask == 0].mean(1)
        assert np.abs(inside - ground).max() > 20


def test_a_box_is_the_hull_of_what_is_seen():
    """Boxes are found again from the masks, wherever a class occurs once in a picture."""
    made = generate(num=80, size=48, seed=5)
    found = 0
    for mask, boxes in zip(made.mask, made.boxes):
        boxes = boxes[boxes[:, 0] >= 0]
        for code in np.unique(mask[mask > 0]).astype(int) - 1:
            own = boxes[boxes[:, 0] == code]
            if len(own) != 1 or (mask == code + 1).sum() < 40:
                continue
            rows, columns = np.nonzero(mask == code + 1)
            hull = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) / 48
            _, x, y, width, height = own[0]
            box = np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2])
            found += bool(np.allclose(box, hull, atol=1e-6))
    assert found > 100


def test_boxes_lie_inside_and_padding_comes_last():
    boxes = generate(num=100, size=40, num_shapes=6).boxes
    there = boxes[..., 0] >= 0
    assert (there[:, :-1] >= there[:, 1:]).all() and there[:, 0].mean() > 0.95
    x, y, width, height = boxes[there][:, 1:].T
    assert (width > 0).all() and (height > 0).all()
    for centre, side in ((x, width), (y, height)):
        assert (centre - side / 2 > -1e-6).all() and (centre + side / 2 < 1 + 1e-6).all()


def test_hidden_shapes_have_no_box():
    crowded = generate(num=60, size=32, num_shapes=30)
    assert ((crowded.boxes[..., 0] >= 0).sum(1) < 25).all()


def test_points_lie_on_the_dart():
    made = generate(num=50, size=96, task="points", num_shapes=1, noise=0.0)
    assert (made.points[..., 2] == 1).all() and (made.points[..., :2] > 0).all() and (made.points[..., :2] < 1).all()
    for x, points in zip(made.x, made.points):
        centre = (points[4, :2] * 96).astype(int)
        corner = np.array([1, 1]) if abs(centre - 8).min() > 8 else np.array([94, 94])
        assert (x[:, centre[1], centre[0]].astype(int) != x[:, corner[1], corner[0]]).any()
    for name, (u, v) in POINTS.items():
        edge = float(_OUTSIDE[_DART](np.float32([[u]]), np.float32([[v]]))[0, 0])
        assert abs(edge) < 1e-6 if name != "centre" else edge < -0.2


def test_points_behind_another_shape_are_not_seen():
    seen = generate(num=200, size=48, task="points").points[..., 2].mean()
    assert 0.7 < seen < 0.99


@pytest.mark.parametrize("kind", range(len(SHAPES) + 1))
def test_every_shape_has_an_inside_of_its_own(kind):
    grid = np.linspace(-1.2, 1.2, 241, dtype=np.float32)
    u, v = np.meshgrid(grid, grid)
    areas = [float((outside(u, v) < 0).mean()) * 2.4**2 for outside in _OUTSIDE]
    assert 0.5 < areas[kind] < np.pi
    inside = _OUTSIDE[kind](u, v) < 0
    assert not inside[np.hypot(u, v) > 1.15].any()
    exact = {0: np.pi * 0.81, 1: 2.56, 2: 3 * np.sqrt(3) / 4, 6: 1.1, 7: 3 * np.sqrt(3) / 2, 9: 1.2, 5: 2 * 1.2 - 0.36}
    if kind in exact:
        assert areas[kind] == pytest.approx(exact[kind], rel=0.03)


def test_more_than_ten_classes_are_textures_of_shapes():
    assert len(set(class_names(40))) == 40 and class_names(11)[10] == "checked disc"
    assert generate(num=40, size=16, num_classes=40).mask.max() > 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"num": 2},
        {"size": 4},
        {"task": "texts"},
        {"num_classes": 1},
        {"num_classes": 41},
        {"noise": 2.0},
        {"num_shapes": 0},
    ],
)
def test_settings_out_of_range_are_said(wrong):
    with pytest.raises(UserError):
        scenes(**wrong)


@pytest.mark.parametrize(
    "options",
    [{"num": 260, "size": 20}, {"num": 6, "size": 32, "task": "points", "noise": 0.0}, {"num": 9, "num_classes": 40}],
)
def test_scenes_are_the_same_however_few_are_painted_together(options, monkeypatch):
    whole = generate(**options)
    monkeypatch.setattr(sys.modules["leadline.data.scenes"], "_PIXELS", 5000)
    assert all((a == b).all() for a, b in zip(whole, generate(**options), strict=True))


def test_scenes_are_what_they_were():
    made = generate(num=260, size=20)
    told = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in made)).hexdigest()
    assert told.startswith("21e872c4dc77a937")


def test_large_scenes_need_little_room():
    tracemalloc.start()
    made = generate(num=24, size=512, num_shapes=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * sum(part.nbytes for part in made)  # 13 times as much where all are painted together
