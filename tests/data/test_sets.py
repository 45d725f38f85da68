"""Sets of different sizes: padded, scaled, read from everywhere alike; what is wrong is named."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leadline as ll
from leadline.data.point_files import points_of
from leadline.data.solids import PARTS, SOLIDS, generate
from leadline.errors import DataError, ShapeError, UserError


def _lists(count=30, columns=3):
    rng = np.random.default_rng(0)
    x = [rng.normal(loc=3, size=(2 + k % 4, columns)).astype(np.float32) for k in range(count)]
    return x, ["up" if k % 2 else "down" for k in range(count)]


def _csv(path, x, labels):
    lines = ["id,x,y,z,word,label"]
    for k, (own, label) in enumerate(zip(x, labels)):
        each = label if isinstance(label, list) else [label] * len(own)
        lines += [f"s{k},{row[0]},{row[1]},{row[2]},w,{each[t]}" for t, row in enumerate(own)]
    path.write_text("\n".join(lines) + "\n")


def test_rows_are_padded_and_features_scaled_by_the_training_members():
    x, y = _lists()
    data = ll.data.sets(x, y)
    assert data.train.x.shape[1:] == (5, 4) and data.target.classes == ("down", "up")
    encoded = data.inputs.encode(data.train.x)
    there = encoded[..., -1] > 0
    torch.testing.assert_close(encoded[there][:, :3].mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    assert bool((encoded[~there] == 0).all())
    sizes = data.inputs.sizes((5, 4))
    assert sizes == {"channels": 3, "coordinates": 0, "typical": pytest.approx(float(there.sum(1).float().mean()))}


def test_coordinates_lose_place_and_size_and_features_beside_them_do_not():
    x, y = _lists(columns=4)
    data = ll.data.sets(x, y, coordinates=3)
    moved = [np.concatenate([2.5 * own[:, :3] + 7, own[:, 3:]], 1) for own in x]
    one, other = (data.inputs.encode(data.inputs.read(rows)) for rows in (x, moved))
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    there = one[..., -1] > 0
    reach = one[..., :3].norm(dim=2).amax(1)
    torch.testing.assert_close(reach, torch.ones_like(reach))
    centre = one[..., :3].sum(1) / there.sum(1, keepdim=True)
    torch.testing.assert_close(centre, torch.zeros_like(centre), atol=1e-5, rtol=0)
    alone = data.inputs.encode(data.inputs.read([x[0][:1]]))
    assert alone[0, 0, :3].tolist() == [0.0, 0.0, 0.0] and bool(alone.isfinite().all())


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 7), st.integers(0, 2))
def test_rows_do_not_depend_on_their_neighbours(counts, size, coordinates):
    inputs = ll.data.Sets((0.5, 0.0), (2.0, 1.0), size, coordinates=coordinates)
    parts = [np.random.default_rng(n).normal(size=(n, 2)).astype(np.float32) for n in counts]
    together = inputs.encode(inputs.read(parts))
    M = max(size, *counts)
    assert together.shape == (len(parts), M, 3)  # what is larger than any in training is not cut
    for own, part in zip(together, parts):
        alone = inputs.encode(inputs.read([part]))[0]
        torch.testing.assert_close(own[: len(part)], alone[: len(part)], atol=1e-6, rtol=1e-5)
        assert own[:, -1].sum() == len(part) and bool((own[len(part) :] == 0).all())


def test_all_ways_of_writing_hold_the_same(tmp_path):
    x, y = _lists()
    listed = ll.data.sets(x, y, coordinates=3)
    _csv(tmp_path / "s.csv", x, y)
    lengths = [len(own) for own in x]
    np.savez(tmp_path / "behind.npz", x=np.concatenate(x), lengths=lengths, y=np.array(y))
    wide = np.zeros((30, 5, 3))
    for row, own in zip(wide, x):
        row[: len(own)] = own
    np.savez(tmp_path / "wide.npz", points=wide, lengths=lengths, label=np.array(y))
    for name in ("behind.npz", "wide.npz"):
        data = ll.data.load(tmp_path / name, coordinates=3)
        assert torch.equal(data.train.x, listed.train.x) and torch.equal(data.test.y, listed.test.y)
        assert ll.data.load(data.recipe).fingerprint == data.fingerprint
    table = ll.data.sets(tmp_path / "s.csv", "label", set="id", coordinates=3)
    assert table.inputs.columns == ("x", "y", "z") and "word: left out" in str(table.account)
    assert torch.equal(table.train.x, listed.train.x)
    assert "members of 30 sets" in str(table.account) and "2 to 5 members" in str(table.account)
    with open(tmp_path / "s.csv") as file:
        rows = [dict(zip(("id", "x", "y", "z"), line.split(","))) for line in file.read().splitlines()[1:]]
    assert torch.equal(table.inputs.read(rows), table.inputs.read(x))


def test_every_member_may_have_a_class(tmp_path):
    x, _ = _lists()
    tags = [[("low", "high")[int(row[0] > 3)] for row in own] for own in x]
    data = ll.data.sets(x, tags)
    assert (data.target.kind, data.target.classes) == ("tokens", ("high", "low"))
    assert str(data.target) == "y: 2 classes a member"
    assert ll.data.Target.from_config(data.target.config) == data.target
    _csv(tmp_path / "s.csv", x, tags)
    assert torch.equal(ll.data.sets(tmp_path / "s.csv", "label", set="id").train.y, data.train.y)
    np.savez(tmp_path / "s.npz", x=np.concatenate(x), lengths=[len(own) for own in x], y=np.concatenate(tags))
    assert torch.equal(ll.data.sets(tmp_path / "s.npz").train.y, data.train.y)
    run = ll.fit(ll.models.build("DeepSets", data, 2), data, epochs=40, lr=0.01, progress=False)
    found = run.evaluate("test")
    assert found["mean_iou"] > 0.7 and found["accuracy"] > 0.8 and "perplexity" not in found
    assert run.likelihood.headline == "mean_iou"


def test_overlap_is_that_of_all_members_together():
    likelihood = ll.likelihoods.Tokens(3, names=("a", "b", "c"))
    y = torch.tensor([[0, 1, 1, -1], [2, 1, 0, 0]])
    said = torch.tensor([[0, 1, 0, 2], [1, 1, 0, 2]])
    output = torch.nn.functional.one_hot(said, 3).float()
    means = {name: float(value.mean()) for name, value in likelihood.measures(output, y).items()}
    found = likelihood.summary(means)
    assert found["iou_a"] == pytest.approx(2 / 4) and found["iou_b"] == pytest.approx(2 / 4) and found["iou_c"] == 0
    assert found["mean_iou"] == pytest.approx(1 / 3) and found["accuracy"] == pytest.approx(4 / 7)


def test_a_folder_of_clouds_is_read_in_every_form(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(12):
        cloud = rng.normal(size=(4 + k % 3, 3)).round(3)
        lines = [" ".join(map(str, row)) for row in cloud]
        place = tmp_path / "scans" / ("odd" if k % 2 else "even")
        place.mkdir(parents=True, exist_ok=True)
        form = ("off", "ply", "xyz", "off2")[k % 4]
        head = {
            "off": ["OFF", f"{len(cloud)} 1 0"],
            "off2": [f"OFF{len(cloud)} 1 0"],
            "ply": ["ply", "format ascii 1.0", f"element vertex {len(cloud)}", "property float x", "end_header"],
            "xyz": ["# x y z"],
        }[form]
        tail = ["3 0 1 2"] if form != "xyz" else []
        (place / f"{k}.{form[:3]}").write_text("\n".join([*head, *lines, *tail]) + "\n")
        np.testing.assert_allclose(points_of(place / f"{k}.{form[:3]}"), cloud, rtol=1e-6)
    data = ll.data.sets(tmp_path / "scans", coordinates=3)
    assert data.target.classes == ("even", "odd") and data.account.used == 12 and data.name == "scans"
    assert ll.data.load(data.recipe).fingerprint == data.fingerprint


@pytest.mark.parametrize(
    ("text", "said"),
    [("OFF\n9 0 0\n1 2 3\n", "9 said and 1 line"), ("1 2 3\n4 5\n", "2 in line 2"), ("1 2 a\n", "line 1"), ("", "0")],
)
def test_a_broken_cloud_is_named(tmp_path, text, said):
    path = tmp_path / ("a.off" if text.startswith("OFF") else "a.xyz")
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        points_of(path)


def test_what_is_wrong_is_named(tmp_path):
    x, y = _lists()
    for mend, error, said in (
        (lambda x: [*x[:4], np.zeros((0, 3)), *x[5:]], ShapeError, "no member at all in set 4"),
        (lambda x: [*x[:4], np.full((2, 3), np.nan), *x[5:]], DataError, "nan in column 0 of member 0 of set 4"),
        (lambda x: [*x[:4], np.zeros((2, 2)), *x[5:]], ShapeError, "must have 3 values. Got 2 in set 4"),
        (lambda x: [*x[:4], [["a"]], *x[5:]], DataError, "set 4"),
        (lambda x: x[:-1], ShapeError, "29 sets and 30 targets"),
    ):
        with pytest.raises(error, match=said):
            ll.data.sets(mend(x), y)
    with pytest.raises(DataError, match="at least three sets.*Got 1 set"):
        ll.data.sets(x[:1], y[:1])
    with pytest.raises(ShapeError, match="4 coordinates. Got 3 columns"):
        ll.data.sets(x, y, coordinates=4)
    _csv(tmp_path / "s.csv", x, y)
    with pytest.raises(UserError, match="needs set"):
        ll.data.sets(tmp_path / "s.csv", "label")
    with pytest.raises(DataError, match="set must name a column"):
        ll.data.sets(tmp_path / "s.csv", "label", set="nr")
    holes = (tmp_path / "s.csv").read_text().splitlines()
    cells = holes[3].split(",")
    (tmp_path / "hole.csv").write_text("\n".join([*holes[:3], ",".join(["s0", "", *cells[2:]]), *holes[4:]]))
    with pytest.raises(DataError, match="column x must hold a number for every member. Got none in line 4"):
        ll.data.sets(tmp_path / "hole.csv", "label", set="id")
    data = ll.data.sets(x, y)
    with pytest.raises(ShapeError, match="must have 3 values. Got 2 in set 0"):
        data.inputs.read([[[1.0, 2.0]]])


def test_points_of_solids_lie_on_their_surfaces():
    clouds, code, part = generate(num=100, points=200, noise=0.0, seed=3)
    for cloud, which, own in zip(clouds, code, part):
        name = list(SOLIDS)[which]
        z = (cloud[:, 2] - cloud[:, 2].min()) / np.ptp(cloud[:, 2])
        roles = {PARTS[role] for role in own}
        assert roles == {role for role, _, _ in SOLIDS[name]}
        for role, low, high in (("base", 0, 1e-3), ("top", 1 - 1e-3, 1)):
            there = own == PARTS.index(role)
            if there.any():
                assert z[there].min() >= low and z[there].max() <= high, (name, role)


def test_points_are_spread_by_area():
    """A cylinder's discs have the share of its area that they should: each 0.75² of 2 · 0.75² + 2 · 0.75 · 1.6."""
    clouds, code, part = generate(num=200, points=500, noise=0.0, seed=0)
    top = (part[code == list(SOLIDS).index("cylinder")] == PARTS.index("top")).mean()
    assert top == pytest.approx(0.75**2 / (2 * 0.75**2 + 2 * 0.75 * 1.6), abs=0.01)
    tube = clouds[code == list(SOLIDS).index("torus")]
    assert len(tube) == 20 and np.isfinite(tube).all()


def test_solids_are_a_pure_function_of_their_seed_and_refuse_what_is_no_number():
    first, again, other = (ll.data.solids(num=20, points=8, seed=seed) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert ll.data.load(first.recipe).fingerprint == first.fingerprint
    for options in ({"num": 5}, {"points": 0}, {"task": "part of"}, {"noise": -1.0}):
        with pytest.raises(UserError):
            ll.data.solids(**options)


def test_complex_numbers_are_refused():
    with pytest.raises(DataError, match="complex numbers have two parts; make two columns"):
        ll.data.sets([np.ones((3, 2)) + 1j] * 12, [0, 1] * 6)


def test_arrays_of_sets_have_a_usual_name(tmp_path):
    np.savez(tmp_path / "clouds.npz", cloud=np.zeros((12, 3, 2)), y=np.arange(12) % 2)
    with pytest.raises(DataError, match=r"must hold x, by a name such as x or points\. Got cloud, y\. .* call it x"):
        ll.data.sets(tmp_path / "clouds.npz")
