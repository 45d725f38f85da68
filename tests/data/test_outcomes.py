"""Several columns to predict, ordered words, and rankings, out of tables, frames and arrays."""

import numpy as np
import pandas as pd
import pytest
import torch

import leadline as ll
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError

N = 60
RNG = np.random.default_rng(0)
COLUMNS = {
    "x": RNG.normal(size=N),
    "direction": RNG.uniform(-3, 3, N),
    "speed": RNG.gamma(2, size=N),
    "wind_speed": RNG.normal(size=N),
    "rain": np.array(["no", "yes"])[np.arange(N) % 2],
    "size": np.array(["low", "medium", "high"])[np.arange(N) % 3],
}
KINDS = ("angle", "positive", "binary")


def frame(**changes):
    return pd.DataFrame(COLUMNS | changes)


def several(rows=None, **options):
    options = {"target": ["direction", "speed", "rain"], "kind": KINDS, "drop": ["wind_speed", "size"]} | options
    return ll.data.table(frame() if rows is None else rows, **options)


def test_each_column_is_of_its_own_kind_and_unit():
    data = several()
    target = data.target
    assert target.kind == "several" and target.names == ("direction", "speed", "rain") and target.dim == 3
    assert [column.kind for column in target.columns] == list(KINDS)
    rows = data.train.rows.numpy()
    speed = COLUMNS["speed"][rows]
    assert target.columns[1].shift[0] == pytest.approx(speed.mean()) and target.scale[1] == pytest.approx(speed.std())
    assert data.train.y[:, 1].tolist() == pytest.approx(speed.tolist(), rel=1e-6)
    assert data.train.y[:, 2].tolist() == [float(word == "yes") for word in COLUMNS["rain"][rows]]
    assert [column.name for column in data.inputs.columns] == ["x"]
    assert str(data.account).count(", a target") == 3


def test_classes_among_several_columns_are_spread_over_the_splits():
    rain = np.array(["no"] * 54 + ["yes"] * 6)
    data = several(frame(rain=rain))
    assert [int(split.y[:, 2].sum()) for split in (data.train, data.val, data.test)] == [4, 1, 1]


def test_real_columns_are_one_real_target_with_names():
    data = ll.data.table(frame(), target=("speed", "wind_speed"), drop=["direction", "rain", "size"])
    assert data.target.kind == "real" and data.target.dim == 2 and data.target.names == ("speed", "wind_speed")
    assert type(ll.likelihoods.likelihood_for(data.target)).__name__ == "Normal"


def test_one_word_is_the_kind_of_all_columns_and_a_list_of_one_target_is_that_target():
    data = ll.data.table(frame(), target=["direction", "wind_speed"], kind="angle")
    assert [column.kind for column in data.target.columns] == ["angle", "angle"]
    assert ll.data.table(frame(), target=["speed"]).target == ll.data.table(frame(), target="speed").target


def test_a_row_without_one_of_its_targets_is_refused():
    speed = COLUMNS["speed"].copy()
    speed[3] = np.nan
    data = several(frame(speed=speed))
    assert sum(len(split) for _, split in data.splits()) == N - 1
    assert "speed, the target, is missing" in str(data.account)


def test_a_target_comes_back_from_its_configuration():
    target = several().target
    assert Target.from_config(target.config) == target
    assert "columns" not in Target("real").config  # a run of one column is written as ever


def test_a_table_of_several_targets_is_loaded_again(tmp_path):
    frame().to_csv(tmp_path / "wind.csv", index=False)
    data = several(tmp_path / "wind.csv")
    again = ll.data.load(data.recipe)
    assert again.fingerprint == data.fingerprint


def test_a_name_with_a_comma_is_one_column(tmp_path):
    (tmp_path / "a.csv").write_text('x,"price, net"\n' + "".join(f"{i},{i * i / 7}\n" for i in range(20)))
    assert ll.data.table(tmp_path / "a.csv", target=("price", " net")).target.name == "price, net"


def test_the_test_rows_may_stand_apart():
    held_out = frame().iloc[:5].copy()
    data = several(test_path=held_out)
    assert data.test.y[:, 1].tolist() == pytest.approx(COLUMNS["speed"][:5].tolist(), rel=1e-6)
    held_out.loc[2, "rain"] = "perhaps"
    with pytest.raises(DataError, match="rain must hold classes that the model was trained on. Got 'perhaps'"):
        several(test_path=held_out)
    with pytest.raises(DataError, match="must have the column speed, to compare with"):
        several(test_path=held_out.drop(columns="speed"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": ("angle", "positive")}, "one for each of 3 columns to predict. Got 2: angle, positive"),
        ({"target": ["direction", "sped", "rain"]}, "target must name a column.*Did you mean speed"),
        ({"target": ["speed", "speed", "rain"]}, "a column must have one role"),
        ({"kind": ("angle", "positive", "count")}, "rain must hold numbers to be a count target"),
        ({"kind": ("count", "positive", "binary")}, "direction must be whole and at least 0"),
        ({"order": ["no", "yes"]}, "order must come with a target that is ordered"),
        ({"target": [1, 2], "kind": None}, "target must be text, or a list of words"),
    ],
)
def test_slips_are_told(options, message):
    with pytest.raises(UserError, match=message):
        several(**options)


# ── arrays ──


def test_arrays_of_several_kinds():
    y = np.stack([COLUMNS["direction"], COLUMNS["speed"], np.arange(N) % 3.0], 1)
    data = ll.data.arrays(COLUMNS["x"], y, kind=("angle", "positive", "classes"))
    assert [column.kind for column in data.target.columns] == ["angle", "positive", "classes"]
    assert data.target.names == ("y_1", "y_2", "y_3") and data.target.columns[2].classes == ("0", "1", "2")
    assert ll.data.arrays(COLUMNS["x"], y[:, :2]).target.kind == "real"
    with pytest.raises(DataError, match="y must have a value in every row"):
        ll.data.arrays(COLUMNS["x"], np.where(y == y[5, 1], np.nan, y), kind=("angle", "positive", "classes"))
    with pytest.raises(ShapeError, match=r"y must have shape \(n,\), or \(n, k\)"):
        ll.data.arrays(COLUMNS["x"], y[:9], kind=("angle", "positive", "classes"))


def test_arrays_of_several_kinds_with_test_rows_apart():
    y = np.stack([COLUMNS["direction"], np.arange(N) % 3.0], 1)
    apart = (COLUMNS["x"][:4], y[:4])
    data = ll.data.arrays(COLUMNS["x"], y, kind=("angle", "classes"), test_data=apart)
    torch.testing.assert_close(data.test.y, torch.from_numpy(y[:4]).float())


def test_a_frame_of_targets_beside_a_frame_of_inputs():
    targets = frame()[["direction", "speed"]]
    data = ll.data.arrays(frame()[["x", "rain"]], targets, kind=("angle", "positive"))
    assert data.target.names == ("direction", "speed") and data.target.kind == "several"
    assert ll.data.arrays(frame()[["x", "rain"]], targets).target.kind == "real"
    with pytest.raises(ShapeError, match=r"beside a data frame.*y of shape \(60, 1\).*squeeze"):
        ll.data.arrays(frame()[["x"]], targets[["speed"]])


# ── orders ──


def test_words_are_ordered_as_told():
    data = ll.data.table(frame(), target="size", order=["low", "medium", "high"], drop=["rain"])
    assert str(data.target) == "size: low < medium < high" and data.target.kind == "ordered"
    assert data.train.y.tolist() == [["low", "medium", "high"].index(COLUMNS["size"][row]) for row in data.train.rows]
    with pytest.raises(DataError, match="size needs its order.*Got the words high, low, medium. Pass order="):
        ll.data.table(frame(), target="size", kind="ordered")
    sizes = np.array(["10 much", "9 some"])[np.arange(N) % 2]
    numbered = ll.data.table(frame(size=sizes), target="size", kind="ordered")
    assert numbered.target.classes == ("9 some", "10 much")
    arrays = ll.data.arrays(COLUMNS["x"], COLUMNS["size"], order=["low", "medium", "high"])
    assert arrays.target.classes == ("low", "medium", "high") and arrays.target.kind == "ordered"


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["low", "high"], "without medium"),
        (["low", "medium", "high", "huge"], "with the unknown huge"),
        (["low", "medium", "high", "low"], "twice low"),
    ],
)
def test_an_order_names_every_class_once(order, message):
    with pytest.raises(DataError, match=f"order must name every class of size once, from low to high.*{message}"):
        ll.data.table(frame(), target="size", order=order)


# ── patterns ──


def test_patterns_of_your_own():
    own = np.where(RNG.random((5, 20)) < 0.5, -1, 1)
    data = ll.data.memories(own, corrupted=0.2)
    assert data.train.x.tolist() == own.tolist() and ((data.val.x != data.val.y).sum(1) == 4).all()
    run = ll.fit(ll.models.Hopfield(20), data, rule=ll.optim.Hebb(), epochs=1, progress=False)
    assert run.evaluate("train")["recalled"] == 1
    both = ll.data.arrays(own, own, kind="signs", val=0, test=0)
    assert both.target.kind == "signs" and both.train.x.tolist() == both.train.y.tolist()
    bits = pd.DataFrame({"x": np.arange(6.0)} | {f"b{k}": np.where(np.arange(6) % (k + 2), 1, -1) for k in range(3)})
    table = ll.data.table(bits, target=["b0", "b1", "b2"], kind="signs", val=0, test=0)
    assert table.target.kind == "signs" and table.target.dim == 3 and table.train.y.shape == (6, 3)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([[0, 1], [1, 1]]), "Got 0 and 1. Pass 2 "),
        (np.array([[1.0, 0.5]]), "Got 0.5 in row 0"),
        (np.ones(4), "one pattern a row"),
        ([["a", "b"]], "must hold -1 and"),
    ],
)
def test_what_is_no_pattern_is_told(rows, message):
    with pytest.raises(UserError, match=message):
        ll.data.memories(rows)


# ── rankings ──

ITEMS = np.array([["fig", "pear", "plum"], ["plum", "fig", "pear"]])[np.arange(N) % 2]
PLACES = {"first": ITEMS[:, 0], "second": ITEMS[:, 1], "third": ITEMS[:, 2]}


def ranked(**changes):
    return ll.data.table(pd.DataFrame({"x": COLUMNS["x"]} | PLACES | changes), target=list(PLACES), kind="ranking")


def test_places_hold_items_by_name():
    data = ranked()
    assert data.target.kind == "ranking" and data.target.classes == ("fig", "pear", "plum")
    words = [data.target.decode(row) for row in data.train.y]
    assert words == ITEMS[data.train.rows.numpy()].tolist()
    run = ll.fit(ll.models.Linear(1, 3), data, epochs=1, progress=False)
    assert run.predict(data.test.x).mode.shape == (len(data.test), 3)


def test_rankings_that_are_none():
    second = PLACES["second"].copy()
    second[7] = "plum"
    with pytest.raises(DataError, match="every item once in each row. Got plum, plum, pear in row 7"):
        ranked(second=second)
    with pytest.raises(DataError, match="a ranking of 3 columns must have 3 items.*Got 4"):
        ranked(third=np.where(np.arange(N) == 3, "kiwi", PLACES["third"]))
    with pytest.raises(DataError, match="a column for each place"):
        ll.data.table(pd.DataFrame({"x": COLUMNS["x"]} | PLACES), target="first", kind="ranking")
