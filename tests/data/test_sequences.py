"""Sequences of different lengths: padded behind their steps, scaled by training steps alone; what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leadline as ll
from leadline.errors import DataError, ShapeError, UserError


def _lists(count: int = 30, channels: int = 2) -> tuple[list[np.ndarray], list[str]]:
    rng = np.random.default_rng(0)
    x = [rng.normal(loc=3, size=(2 + k % 4, channels)).astype(np.float32) for k in range(count)]
    return x, ["up" if k % 2 else "down" for k in range(count)]


def _csv(path, x, labels):
    lines = ["id,t,a,b,word,label"]
    for k, (own, label) in enumerate(zip(x, labels)):
        each = label if isinstance(label, list) else [label] * len(own)
        lines += [f"s{k},{t},{row[0]},{row[1]},w,{each[t]}" for t, row in enumerate(own)]
    head, *rows = lines
    np.random.default_rng(1).shuffle(rows)
    path.write_text("\n".join([head, *rows]) + "\n")


def test_rows_are_padded_and_scaled_by_the_training_steps():
    x, y = _lists()
    data = ll.data.sequences(x, y)
    assert data.train.x.shape[1:] == (5, 3) and data.target.classes == ("down", "up")
    encoded = data.inputs.encode(data.train.x)
    there = encoded[..., -1] > 0
    steps = encoded[there][:, :2]
    torch.testing.assert_close(steps.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(steps.std(0, unbiased=False), torch.ones(2))
    assert bool((encoded[~there] == 0).all())
    row = int(data.test.rows[0])
    own = data.test.x[0]
    np.testing.assert_allclose(own[: len(x[row]), :2], x[row])
    assert own[:, 2].tolist() == [1.0] * len(x[row]) + [0.0] * (5 - len(x[row]))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 7))
def test_rows_do_not_depend_on_their_neighbours(lengths, T):
    inputs = ll.data.Sequences((0.5,), (2.0,), length=T)
    parts = [np.arange(n, dtype=np.float32) for n in lengths]
    together = inputs.encode(inputs.read(parts))
    alone = torch.cat([inputs.encode(inputs.read([part])) for part in parts])
    assert torch.equal(together, alone) and together.shape == (len(parts), T, 2)
    assert together[..., -1].sum(1).tolist() == [min(n, T) for n in lengths]


def test_all_ways_of_writing_hold_the_same(tmp_path):
    x, y = _lists()
    listed = ll.data.sequences(x, y)
    _csv(tmp_path / "s.csv", x, y)
    np.savez(tmp_path / "behind.npz", x=np.concatenate(x), lengths=[len(own) for own in x], y=np.array(y))
    wide = np.zeros((30, 5, 2))
    for row, own in zip(wide, x):
        row[: len(own)] = own
    np.savez(tmp_path / "wide.npz", x=wide, lengths=[len(own) for own in x], y=np.array(y))
    lines = [json.dumps({"points": own.tolist(), "label": label}) for own, label in zip(x, y)]
    (tmp_path / "s.jsonl").write_text("\n".join(lines) + "\n")
    found = [
        ll.data.sequences(tmp_path / "behind.npz"),
        ll.data.sequences(tmp_path / "wide.npz"),
        ll.data.sequences(tmp_path / "s.jsonl", field="points"),
        ll.data.load(tmp_path / "s.jsonl", field="points"),
    ]
    for data in found:
        assert torch.equal(data.train.x, listed.train.x) and torch.equal(data.test.y, listed.test.y)
        assert ll.data.load(data.recipe).fingerprint == data.fingerprint
    table = ll.data.sequences(tmp_path / "s.csv", "label", sequence="id", order="t")
    assert table.inputs.channels == ("a", "b") and "word: left out" in str(table.account)
    every = lambda data: {tuple(row.flatten().tolist()) for _, s in data.splits() for row in s.x}  # noqa: E731
    assert every(table) == every(listed)


def test_every_step_may_have_a_class(tmp_path):
    x, _ = _lists()
    tags = [[("low", "high")[int(row[0] > 3)] for row in own] for own in x]
    data = ll.data.sequences(x, tags)
    assert (data.target.kind, data.target.classes, data.target.dim) == ("tokens", ("high", "low"), 2)
    there = data.train.x[..., -1] > 0
    assert bool(((data.train.y >= 0) == there).all())
    assert bool(((data.train.y == 0) == (data.train.x[..., 0] > 3))[there].all())
    _csv(tmp_path / "s.csv", x, tags)
    assert ll.data.sequences(tmp_path / "s.csv", "label", sequence="id", order="t").target.kind == "tokens"
    model = ll.models.build("Recurrent", data, 2, dim=8, num_layers=1)
    run = ll.fit(model, data, epochs=25, lr=0.03, progress=False)
    assert run.evaluate("test")["nll"] < 0.3


def test_numbers_are_asked_and_learned():
    x, _ = _lists(60, 1)
    data = ll.data.sequences([own[:, 0] for own in x], [float(own.sum()) for own in x])
    assert data.target.kind == "real" and data.train.y.shape == (39,)
    run = ll.fit(ll.models.build("MLP", data, 1), data, epochs=30, progress=False)
    assert run.evaluate("train")["r2"] > 0.8
    assert len(run.predict([[1.0, 2.0], [3.0]])) == 2


def test_what_is_longer_is_cut_and_told():
    x, y = _lists()
    data = ll.data.sequences(x, y, length=3)
    assert data.train.x.shape[1] == 3 and "14 sequences cut to 3 steps" in str(data.account)


def test_a_missing_value_is_read_as_the_mean_and_told():
    x, y = _lists()
    x[0][1, 0] = np.nan
    data = ll.data.sequences(x, y)
    assert bool(torch.cat([data.inputs.encode(s.x) for _, s in data.splits()]).isfinite().all())
    assert "1 number of 206 missing, read as the mean of the channel" in (told := str(data.account))
    assert "at the ends" not in told and "missing" not in str(ll.data.sequences(*_lists()).account)
    x[1] = np.concatenate([x[1], np.full((2, 2), np.nan, np.float32)])  # as others pad
    told = " ".join(str(ll.data.sequences(x, y).account).split())
    assert "2 steps at the ends of sequences without any number: if they are padding" in told


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0], [2.0]], ["a"], "a target for each sequence. Got 2 sequences and 1 target"),
        ([[[1.0, 2.0]], [[1.0]]], ["a", "b"], "every step must have 2 values. Got 1 in sequence 1"),
        ([[1.0], []], ["a", "b"], "at least one step.*sequence 1"),
        (
            [[1.0], ["x"]],
            ["a", "b"],
            r"must be a list of numbers.*Got \['x'\] \(a list\) as sequence 1 with 'x' in step 0",
        ),
        ([[1.0], [[1.0, 2], [3]]], ["a", "b"], "with 1 channel in step 1, where step 0 has 2. Pass one number"),
        ([[1.0], [float("inf")]], ["a", "b"], "an infinite value as sequence 1"),
        ([[1.0, 2.0], [1.0]], [["a", "b"], "a"], "one a sequence, or a list a sequence"),
        ([[1.0, 2.0], [1.0]], [["a"], ["b"]], "a target for each of its steps. Got 2 steps and 1 target in sequence 0"),
        ([[1.0], [2.0]], None, "a value for each sequence of a list"),
        ([], [], "there must be sequences"),
    ],
)
def test_what_is_wrong_is_named(x, y, message):
    with pytest.raises(UserError, match=message):
        ll.data.sequences(x, y)


def test_sequences_without_steps_are_counted_and_lines_are_named(tmp_path):
    path = tmp_path / "s.jsonl"
    lines = [json.dumps({"x": [k, k + 1.0], "y": "ab"[k % 2]}) for k in range(9)]
    lines[4:4] = ["", '{"x": [], "y": "a"}']
    path.write_text("\n".join(lines))
    data = ll.data.sequences(path)
    assert "10 sequences read, 9 used, 1 refused" in str(data.account)
    assert "refused 1: the sequence has no step (line 6)" in str(data.account)
    assert sorted(int(n) for _, split in data.splits() for n in split.rows) == [1, 2, 3, 4, 7, 8, 9, 10, 11]
    path.write_text("\n".join([*lines, '{"x": [1, "z"], "y": "a"}']))
    with pytest.raises(DataError, match="as line 12 "):
        ll.data.sequences(path)
    path.write_text('{"x": [], "y": 1}\n{"x": [], "y": 2}')
    with pytest.raises(DataError, match="sequences with steps. Got 2 without"):
        ll.data.sequences(path)
    lengths = np.array([2, 0, 1, 3, 2])
    np.savez(tmp_path / "s.npz", x=np.arange(8.0), y=np.array([0, 1, 0, 1, 0]), lengths=lengths)
    assert "refused 1: the sequence has no step (sequence 1)" in str(ll.data.sequences(tmp_path / "s.npz").account)


def test_what_is_wrong_in_a_table_is_named(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("id,t,a,label\n" + "".join(f"s{k},{t},{k + t},{k % 2}\n" for k in range(9) for t in (0, 1)))
    with pytest.raises(UserError, match="needs sequence, the column"):
        ll.data.sequences(path, "label")
    with pytest.raises(DataError, match="sequence must name a column.*Got sequence 'ids'"):
        ll.data.sequences(path, "label", sequence="ids")
    with pytest.raises(DataError, match="one role. Got 'id' as target and sequence. Name another column as the seq"):
        ll.data.sequences(path, "id", sequence="id")
    with pytest.raises(DataError, match="one role. Got 'id' as sequence and order. Name another column as the order"):
        ll.data.sequences(path, "label", sequence="id", order="id")
    path.write_text("id,t,a,label\ns1,0,1,x\ns1,0,2,x\ns2,0,2,y\n")
    with pytest.raises(DataError, match="one row for each t. Got the same in line 2 and line 3, of id s1"):
        ll.data.sequences(path, "label", sequence="id", order="t")
    path.write_text("id,t,a,label\ns1,0,1,x\ns1,1,2,y\ns2,0,2,y\n")
    with pytest.raises(DataError, match="label must be the same at all steps.*x, y for id s1, from line 2 on"):
        ll.data.sequences(path, "label", sequence="id", order="t", each=False)


def test_a_sequence_whose_name_has_a_space_in_some_rows_is_one(tmp_path):
    x, y = _lists()
    for name, end in (("plain", ""), ("spaces", " ")):
        _csv(tmp_path / f"{name}.csv", x, y)
        lines = (tmp_path / f"{name}.csv").read_text().splitlines()
        lines[1:] = [line.replace(",", f"{end},", 1) if k % 2 else line for k, line in enumerate(lines[1:])]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    one, two = (
        ll.data.sequences(tmp_path / f"{name}.csv", "label", sequence="id", order="t") for name in ("plain", "spaces")
    )
    assert two.account.read == 30 and torch.equal(one.train.x, two.train.x) and torch.equal(one.test.y, two.test.y)


def test_a_class_that_changes_within_a_few_sequences_alone_is_told(tmp_path):
    path = tmp_path / "s.csv"
    x, y = _lists()
    _csv(path, x, [label if k != 3 else ["odd"] + [label] * (len(x[3]) - 1) for k, label in enumerate(y)])
    told = "\n".join(ll.data.sequences(path, "label", sequence="id", order="t").account.notes)
    assert "label is asked at every step, for it changes within 1 sequence, first in id s3, from line" in told
    assert "changes" not in str(ll.data.sequences(path, "label", sequence="id", order="t", each=True).account)
    _csv(path, x, [["odd", *[label] * (len(own) - 1)] for own, label in zip(x, y)])
    assert "changes" not in str(ll.data.sequences(path, "label", sequence="id", order="t").account)


def test_sequences_without_a_target_are_counted(tmp_path):
    rows = [{"x": [k % 2, k / 9], "y": None if k % 6 == 0 else "ab"[k % 2]} for k in range(60)]
    file = tmp_path / "some.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    data = ll.data.sequences(file)
    assert sum(len(split.y) for split in (data.train, data.val, data.test)) == 50
    assert "refused 10: the target is missing (lines 1, 7, 13, 19, 25, …)" in str(data.account)
    told = ll.data.sequences([row["x"] for row in rows], [row["y"] for row in rows])
    assert sorted(told.test.rows.tolist()) == sorted(row - 1 for row in data.test.rows.tolist())
    numbers = ll.data.sequences([row["x"] for row in rows], [float("nan") if k < 9 else k * 0.3 for k in range(60)])
    assert numbers.account.refused[0].count == 9
    with pytest.raises(DataError, match="y must have a value for some sequences"):
        ll.data.sequences([[1.0], [2.0], [3.0]], [None, None, None])


def test_a_number_of_every_step_is_not_made_a_class(tmp_path):
    x = [[0.1 * k, 0.2, 0.3] for k in range(30)]
    y = [[0.37 * value for value in own] for own in x]
    with pytest.raises(DataError, match=r"numbers at every step cannot be learned. Got 0\.0?\d+"):
        ll.data.sequences(x, y)
    lines = [f"{k},{a},{b}" for k, (own, asked) in enumerate(zip(x, y)) for a, b in zip(own, asked)]
    (tmp_path / "steps.csv").write_text("\n".join(["who,v,next", *lines]))
    with pytest.raises(DataError, match="numbers at every step cannot be learned"):
        ll.data.sequences(tmp_path / "steps.csv", "next", sequence="who")
    assert ll.data.sequences(x, [[0.5, 1.5, 0.5]] * 30, kind="classes").target.classes == ("0.5", "1.5")


def lists(value):
    return [[float(k % 2), value] for k in range(12)]


@pytest.mark.parametrize(
    ("asked", "kind", "message"),
    [
        (lists(float("inf")), None, r"numbers at every step cannot be learned\. Got inf"),
        (lists([0.5, 1.5]), None, r"y must be one word or number at each step\. Got it=.* in sequence 0"),
        (lists([0.5, 1.5]), "classes", r"y must be one word or number at each step"),
        ([[1, 1]] * 12, None, r"y must have from 2 to 65,536 classes\. Got 1: 1\."),
    ],
)
def test_what_is_asked_at_a_step_is_a_class(asked, kind, message):
    with pytest.raises(UserError, match=message):
        ll.data.sequences([[0.1, 0.2]] * 12, asked, kind=kind)


@pytest.mark.parametrize("wrong", [-1, 2.5, float("nan")])
def test_lengths_are_whole_numbers(tmp_path, wrong):
    file = tmp_path / "some.npz"
    np.savez(file, x=np.zeros((30, 5, 2)), lengths=np.array([5] * 29 + [wrong]), y=np.arange(30) % 2)
    with pytest.raises(UserError, match=rf"lengths must be whole numbers from 0 on. Got {wrong} among 30"):
        ll.data.sequences(file)


def test_arrays_of_objects_are_told_how_to_be_written(tmp_path):
    np.savez(tmp_path / "some.npz", x=np.array([np.ones(k % 3 + 1) for k in range(30)], dtype=object), y=np.arange(30))
    with pytest.raises(DataError, match=r"only pickle can read.*one after another, and their lengths as `lengths`"):
        ll.data.sequences(tmp_path / "some.npz")


def test_complex_numbers_are_refused():
    with pytest.raises(DataError, match="complex numbers have two parts; make two channels"):
        ll.data.sequences(np.ones((30, 4)) + 1j, [0, 1] * 15)


def test_a_field_that_is_not_there_is_answered_by_one_that_is(tmp_path):
    path = tmp_path / "strokes.jsonl"
    path.write_text("".join(f'{{"points": [0.{k}, 1.5], "letter": "{"ab"[k % 2]}"}}\n' for k in range(12)))
    with pytest.raises(DataError, match=r"Got points, letter\. Name one of those: field='points', say"):
        ll.data.sequences(path, "letter")
    with pytest.raises(DataError, match=r"target='letter', say"):
        ll.data.sequences(path, field="points")
    with pytest.raises(UserError, match=r"pass field='points'"):
        ll.data.sequences(path, "letter", field="points", sequence="points")


def test_training_decides_how_dates_and_decimals_are_read():
    steps = [(s, f"{day:02}/{month:02}/2024") for s in range(20) for month in (1, 2) for day in (1, 28)]
    table = {"id": [s for s, _ in steps], "day": [day for _, day in steps]}
    table |= {"a": ["0,5"] * len(steps), "y": [f"{1 + s / 100:.3f}".replace(".", ",") for s, _ in steps]}
    data = ll.data.sequences(table, "y", sequence="id", order="day", kind="real")
    assert 1 < data.target.shift[0] < 2
    kept = ll.data.Sequences(**data.inputs.config)
    rows = {"id": [1, 1, 1], "day": ["03/04/2024", "01/05/2024", "04/04/2024"], "a": ["1,234", "2,345", "3,456"]}
    np.testing.assert_allclose(kept.read(rows)[0, :3, 0], [1.234, 3.456, 2.345])


def _in_rows() -> dict[str, list]:
    steps = [[float(k % 2) + 0.5 * t for t in range(2 + k % 3)] for k in range(24)]
    return {"pen": steps, "kind": ["up" if own[0] else "down" for own in steps]}


@pytest.mark.parametrize("held", ["parquet", "array", "csv", "polars", "pandas"])
def test_a_table_may_hold_a_sequence_in_each_row(tmp_path, held):
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    rows = _in_rows()
    said = ll.data.sequences(rows["pen"], rows["kind"])
    if held == "array":
        rows["pen"] = [(own + own)[:4] for own in rows["pen"]]
        said = ll.data.sequences(rows["pen"], rows["kind"])
        frame = pl.DataFrame(rows, schema_overrides={"pen": pl.Array(pl.Float64, 4)})
    else:
        frame = pd.DataFrame(rows) if held == "pandas" else pl.DataFrame(rows)
    if held in ("parquet", "array"):
        frame.write_parquet(tmp_path / "s.parquet")
        frame = tmp_path / "s.parquet"
    elif held == "csv":
        pd.DataFrame(rows).to_csv(tmp_path / "s.csv", index=False)
        frame = tmp_path / "s.csv"
    data = ll.data.sequences(frame, "kind", field="pen")
    assert torch.equal(data.train.x, said.train.x) and torch.equal(data.test.y, said.test.y)
    assert data.target.classes == ("down", "up") and data.target.name == "kind"
    if isinstance(frame, Path):
        assert ll.data.load(data.recipe).fingerprint == data.fingerprint


@pytest.mark.parametrize("held", ["pandas", "pyarrow", "lazy"])
def test_a_frame_of_any_library_has_its_lists_and_what_is_missing(held):
    pl, pd, pa = (pytest.importorskip(name) for name in ("polars", "pandas", "pyarrow"))
    rows = _in_rows()
    said = ll.data.sequences(rows["pen"], rows["kind"])
    rows = {"pen": [*rows["pen"], pd.NA if held == "pandas" else None], "kind": [*rows["kind"], "up"]}
    frame = {"pandas": pd.DataFrame, "pyarrow": pa.table, "lazy": pl.LazyFrame}[held](rows)
    data = ll.data.sequences(frame, "kind", field="pen")
    assert torch.equal(data.train.x, said.train.x) and torch.equal(data.test.y, said.test.y)
    assert data.account.read == said.account.read + 1


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "npz"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "t"}, r"order is of a table with a row for each step. Got order='t' beside field='pen' for s\."),
        ({"drop": ["w"]}, r"drop is .* Got drop=\['w'\] beside field='pen'"),
        ({"sequence": "id", "order": "t"}, r"sequence and order are .* Got sequence='id', order='t' .* Leave them out"),
    ],
)
def test_what_is_said_of_steps_is_refused_where_sequences_are_whole(tmp_path, ending, options, message):
    rows = _in_rows()
    path = tmp_path / f"s.{ending}"
    if ending == "npz":
        np.savez(path, pen=np.ones((24, 3)), kind=rows["kind"])
    elif ending == "jsonl":
        path.write_text("\n".join(json.dumps({"pen": pen, "kind": kind}) for pen, kind in zip(*rows.values())))
    else:
        import pandas as pd

        frame = pd.DataFrame(rows)
        frame.to_parquet(path) if ending == "parquet" else frame.to_csv(path, index=False)
    assert len(ll.data.sequences(path, "kind", field="pen").train)
    with pytest.raises(UserError, match=message) as told:
        ll.data.sequences(path, "kind", field="pen", **options)
    assert ("if each row is a step, leave field out" in str(told.value)) == (ending in ("parquet", "csv"))


def test_lists_have_no_columns_to_name():
    x, y = _lists()
    with pytest.raises(UserError, match=r"field is of a table with a row for each step. Got field='x' for a list"):
        ll.data.sequences(x, y, field="x")
    with pytest.raises(UserError, match=r"set and drop are of a table with a row for each member. Got set='id', drop="):
        ll.data.sets(x, y, set="id", drop=["w"])


def test_rows_of_a_table_may_have_channels_and_a_class_for_every_step(tmp_path):
    pl = pytest.importorskip("polars")
    rows = _in_rows()
    rows["kinds"] = [["high" if v > 1 else "low" for v in own] for own in rows["pen"]]
    rows["two"] = [[[v, -v] for v in own] for own in rows["pen"]]
    pl.DataFrame(rows).write_parquet(tmp_path / "s.parquet")
    data = ll.data.sequences(tmp_path / "s.parquet", "kinds", field="two")
    assert data.target.kind == "tokens" and data.train.x.shape[2] == 3
    assert torch.equal(data.train.x[..., 0], -data.train.x[..., 1])


@pytest.mark.parametrize(
    ("cells", "field", "message"),
    [
        (["[1, 2]", "one", "[3]"], "pen", r"pen must hold a list of numbers in every row. Got 'one' in line 3"),
        (["[1, 2]", "[1 2]", "[3]"], "pen", r"Got '\[1 2\]' in line 3"),
        (["[1, 2]", "[1]", "[3]"], "pan", "must hold pan. Got pen, kind"),
        (["[]", "[]", "[]"], "pen", "must hold sequences with steps"),
    ],
)
def test_rows_that_hold_no_sequence_are_named(tmp_path, cells, field, message):
    lines = [f'"{cell}",{kind}' for cell, kind in zip(cells, ("a", "b", "a"))]
    (tmp_path / "s.csv").write_text("pen,kind\n" + "\n".join(lines) + "\n")
    with pytest.raises(DataError, match=message):
        ll.data.sequences(tmp_path / "s.csv", "kind", field=field)


def test_a_table_read_as_such_says_how_a_column_of_lists_is_read():
    with pytest.raises(DataError, match="if each is a sequence, pass field='pen'"):
        ll.data.table({"pen": [[1.0], [2.0]], "kind": ["a", "b"]}, target="kind")


def test_ordered_classes_of_sequences_are_numbers():
    steps = _in_rows()["pen"]
    with pytest.raises(DataError, match="ordered classes of sequences must be numbers, here y. Got words"):
        ll.data.sequences(steps, ["low", "high"] * 12, kind="ordered")
    assert ll.data.sequences(steps, [1, 2, 3] * 8, kind="ordered").target.kind == "ordered"


def test_rows_of_another_shape_are_refused():
    inputs = ll.data.sequences([torch.zeros(4, 2) + k for k in range(9)], list(range(9))).inputs
    for wrong in (torch.zeros(3, 4), torch.zeros(3, 4, 2), torch.zeros(3, 4, 4)):
        with pytest.raises(ShapeError, match=r"sequences must have shape \(N, T, 3\): 2 channels"):
            inputs.encode(wrong)
    assert inputs.encode(torch.ones(3, 4, 3)).shape == (3, 4, 3)
