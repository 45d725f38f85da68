"""Tables from files: right types, honest accounts, and one clear message for each bad input."""

from __future__ import annotations

import json
import random

import numpy as np
import polars as pl
import pytest
import torch

from leadline.data import load, table
from leadline.data.table import read_rows
from leadline.errors import DataError, UserError


@pytest.fixture
def write(tmp_path):
    def write(content, name="file.csv"):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


def lines(header, row, count):
    """A table of `count` rows, each the text that `row` makes of its number."""
    return "\n".join([header, *(row(i) for i in range(count))]) + "\n"


def cars(count=60):
    pick = random.Random(0)
    make = lambda i: pick.choice(["Opel", "Fiat", "Kia"])  # noqa: E731
    return lines("make,age,price", lambda i: f"{make(i)},{pick.randint(1, 20)},{pick.random() * 9000:.2f}", count)


def test_a_table_is_read_split_and_accounted_for(write):
    data = table(write(cars(), "cars.csv"), target="price")
    assert [len(split) for _, split in data.splits()] == [39, 9, 12]
    assert data.name == "cars" and data.target.kind == "real" and data.train.x.shape == (39, 2)
    assert data.inputs.encode(data.train.x).shape == (39, 4) and data.dim_input == 4
    assert (data.account.read, data.account.used) == (60, 60)
    assert data.account.columns == (
        "price: real, the target",
        "make: category, 3 levels (Fiat, Kia, Opel)",
        "age: number",
    )


def test_figures_are_those_of_the_training_rows(write):
    data = table(write(cars()), target="price")
    assert data.target.shift[0] == pytest.approx(float(data.train.y.double().mean()), rel=1e-5)
    assert data.inputs.columns[1].shift == pytest.approx(float(data.train.x[:, 1].mean()))
    assert data.inputs.columns[1].shift != pytest.approx(float(data.test.x[:, 1].mean()))


def test_row_numbers_are_lines_of_the_file(write):
    content = lines("a,b", lambda i: f"{i},{i * 0.5}", 30)
    data = table(write(content), target="b")
    for _, split in data.splits():
        for row, x in zip(split.rows.tolist(), split.x[:, 0].tolist()):
            assert content.splitlines()[row - 1].startswith(f"{int(x)},")


def test_the_recipe_makes_the_same_data_again(write):
    data = table(write(cars()), target="price", drop=["age"], split_seed=3)
    recipe = json.loads(json.dumps(data.recipe))
    assert load(recipe).fingerprint == data.fingerprint
    assert table(write(cars()), target="price", split_seed=4).fingerprint != data.fingerprint


@pytest.mark.parametrize(
    ("name", "kind", "classes"),
    [("digits", "classes", 10), ("wine", "classes", 3), ("breast_cancer", "binary", 2), ("diabetes", "real", 0)],
)
def test_well_known_sets_have_the_right_types(tmp_path, name, kind, classes):
    datasets = pytest.importorskip("sklearn.datasets")
    frame = getattr(datasets, f"load_{name}")(as_frame=True).frame
    frame.to_csv(tmp_path / "index.csv")  # pandas writes an index without a name
    data = table(tmp_path / "index.csv", target="target")
    assert (data.target.kind, len(data.target.classes)) == (kind, classes)
    assert len(data.inputs.columns) == frame.shape[1] - 1
    assert {column.kind for column in data.inputs.columns} == {"number"}


def test_columns_of_every_kind(write):
    pick = random.Random(1)
    header = "id;Größe;when;flag;pct;cash;dec;miss;name;price"
    missing = ["NA", "?", "null", "-", "", "5"]
    row = lambda i: (  # noqa: E731
        f"{i};{pick.choice('abc')};{1 + i % 28:02d}.0{1 + i % 9}.2021;{pick.choice(['yes', 'No'])};{i} %;"
        f"1.{i + 100},5 €;0,{i + 10};{missing[i % 6]};n{i};{i * 0.25}"
    )
    data = table(write(lines(header, row, 60)), target="price")
    kinds = {column.name: column.kind for column in data.inputs.columns}
    assert kinds == {
        **{"Größe": "category", "when": "date", "flag": "flag", "pct": "number", "cash": "number"},
        **{"dec": "number", "miss": "number"},
    }
    account = str(data.account)
    assert "miss: number, 50 missing filled with the median 5" in account
    assert "id: left out" in account and "name: left out" in account and "written like 1.100,5 €" in account
    cash = torch.cat([split.x[:, 4] for _, split in data.splits()])
    assert cash.min() == 1100.5 and cash.max() == 1159.5


def test_what_training_reads_prediction_reads(write):
    path = write(lines("c,n,t,y", lambda i: f'{"abc"[i % 3]},"1,{i + 100}",{i + 1}/5/2024,{i * 0.5}', 30))
    data = table(path, target="y")
    raw = data.inputs.read(read_rows(path))
    for _, split in data.splits():
        assert torch.equal(raw[split.rows - 2], split.x)


def test_levels_seen_only_outside_training_are_unknown(write):
    data = table(write(lines("c,y", lambda i: f"{'x' if i else 'rare'},{i * 0.5}", 40)), target="y", split_seed=1)
    home = next(name for name, split in data.splits() if 2 in split.rows.tolist())
    levels = data.inputs.columns[0].levels
    assert ("rare" in levels) == (home == "train")
    if home != "train":
        assert -1.0 in data[home].x[:, 0].tolist()


def test_rows_without_a_target_are_refused_and_counted(write):
    data = table(write(lines("a,b", lambda i: f"{i},{'' if i in (3, 5) else i * 0.5}", 30)), target="b")
    (refusal,) = data.account.refused
    assert (refusal.count, refusal.rows, data.account.used) == (2, (5, 7), 28)


def test_missing_values_may_drop_their_rows(write):
    path = write(lines("a,b", lambda i: f"{'' if i % 5 == 0 else i},{i * 0.5}", 50))
    assert table(path, target="b").account.used == 50
    data = table(path, target="b", missing="drop")
    assert data.account.used == 40 and not any(bool(split.x.isnan().any()) for _, split in data.splits())


def test_bad_rows_are_an_error_or_refused(write):
    path = write(lines("a,b", lambda i: f"{'abc' if i in (7, 9) else i * 1.5},{i * 0.1}", 40))
    with pytest.raises(DataError, match=r"column a must hold numbers.*'abc' in line 9 \(2 such cells\)"):
        table(path, target="b")
    assert table(path, target="b", bad_rows="refuse").account.refused[0].rows == (9, 11)
    assert table(path, target="b", categories=["a"]).inputs.columns[0].kind == "category"
    path = write(lines("a,b", lambda i: "1" if i == 4 else f"{i * 1.5},{i * 0.1}", 40), "ragged.csv")
    assert table(path, target="b", bad_rows="refuse").account.refused[0].rows == (6,)


def test_classes_are_stratified(write):
    data = table(write(lines("a,b", lambda i: f"{i},{'yes' if i % 10 == 0 else 'no'}", 200)), target="b")
    assert data.target.classes == ("no", "yes")
    assert [int(split.y.sum()) for _, split in data.splits()] == [13, 3, 4]


def test_groups_time_and_weights(write):
    path = write(lines("a,g,t,w,b", lambda i: f"{i},p{i // 5},2024-01-{1 + i % 28:02d},{i % 3},{i * 0.5}", 60))
    data = table(path, target="b", group="g", weight="w")
    held = [{(row - 2) // 5 for row in split.rows.tolist()} for _, split in data.splits()]
    assert not (held[0] & held[1] or held[0] & held[2] or held[1] & held[2])
    assert torch.equal(data.train.weight, ((data.train.rows - 2) % 3).float())
    assert [column.name for column in data.inputs.columns] == ["a", "t"]
    data = table(path, target="b", time="t", drop=["g", "w"])
    day = lambda split: (split.rows - 2) % 28  # noqa: E731
    assert day(data.train).max() < day(data.val).min() and day(data.val).max() < day(data.test).min()


def test_a_second_file_is_the_test_split(write):
    first, second = write(cars(), "a.csv"), write("price,make,age\n5,Opel,3\n6,Lada,\n", "b.csv")
    data = table(first, target="price", test_path=second)
    assert len(data.train) + len(data.val) == 60 and data.test.y.tolist() == [5, 6] and data.test.x[1, 0] == -1
    assert load(data.recipe).fingerprint == data.fingerprint
    with pytest.raises(DataError, match=r"c.csv must have the column price, to compare with"):
        table(first, target="price", test_path=write("make,age\nOpel,3\n", "c.csv"))


def test_parquet_reads_as_csv_does(tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"n": rng.normal(size=50), "c": rng.choice(["u", "v"], 50), "y": rng.normal(size=50)})
    frame.write_parquet(tmp_path / "f.parquet")
    frame.write_csv(tmp_path / "f.csv")
    packed, text = table(tmp_path / "f.parquet", target="y"), table(tmp_path / "f.csv", target="y")
    assert packed.fingerprint == text.fingerprint
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(DataError, match="whole Parquet file"):
        table(tmp_path / "bad.parquet", target="y")


def test_without_polars_csv_still_reads_and_parquet_says_what_to_do(write, monkeypatch):
    path = write(cars())
    with_polars = table(path, target="price").fingerprint
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    assert table(path, target="price").fingerprint == with_polars
    with pytest.raises(DataError, match="pip install polars"):
        table(write("", "x.parquet"), target="price")


BAD = {
    "a misspelt target": (cars(), {"target": "prise"}, "Did you mean price"),
    "a header only": ("a,b\n", {}, "must have rows. Got a header and no row"),
    "one row": ("a,b\n1,2\n", {}, "at least 3 rows to train, validate and test on. Got 1"),
    "a missing target": (lines("a,b", lambda i: f"{i},", 9), {}, "must have a value in some row. Got none in 9 rows"),
    "a target of one value": (lines("a,b", lambda i: f"{i},5", 9), {}, "at least two values. Got 5 in all 9 rows"),
    "a missing column": (lines("a,c,b", lambda i: f"{i},,{i / 2}", 9), {}, r"column c .*none in 9 rows.*drop=\['c'\]"),
    "a text of 10,000 levels": (
        lines("a,b", lambda i: f"word{i},{i / 2}", 10_000),
        {},
        r"text column a .*10,000 levels in 10,000 rows.*drop=\['a'\].*categories=\['a'\]",
    ),
    "an infinite value": (
        lines("a,b", lambda i: f"{'inf' if i == 7 else i},{i / 2}", 40),
        {},
        "finite.*'inf' in line 9",
    ),
    "an infinite target": (lines("a,b", lambda i: f"{i},{'inf' if i == 7 else i / 2}", 40), {}, "Got 'inf' in line 9"),
    "a target beyond single precision": (
        lines("a,b", lambda i: f"{i},{1e300 if i == 7 else i / 2}", 40),
        {},
        r"b, the target, must be finite. Got '1e\+300' in line 9",
    ),
    "nothing but a target": (lines("b", lambda i: f"{i / 2}", 9), {}, "a column to predict b from. Got b alone"),
    "two roles": (cars(), {"target": "price", "weight": "price"}, "'price' as target and weight"),
    "a target dropped": (cars(), {"target": "price", "drop": ["price"]}, "'price' as target and drop"),
    "a text as weight": (cars(), {"target": "price", "weight": "make"}, "at least 0 in every row. Got '.*' in line 2"),
    "a text as time": (cars(), {"target": "price", "time": "make"}, "a number or a date in every row"),
    "a policy unknown": (cars(), {"target": "price", "missing": "mean"}, "missing must be fill or drop"),
    "a kind unknown": (cars(), {"target": "price", "kind": "reel"}, "Did you mean real"),
    "no line of names": ("1,2\n3,4\n5,6\n", {"target": "b"}, "without a line of names.*column_1, column_2"),
    "free text as target": (
        lines("a,b", lambda i: f"{i},word{i}", 999),
        {},
        "numbers or a few classes. Got 999 levels",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_one_clear_message_for(write, case):
    content, options, message = BAD[case]
    with pytest.raises(UserError, match=message) as caught:
        table(write(content), **{"target": "b", **options})
    assert "\n" not in str(caught.value)


def test_paths_that_are_no_table(write, tmp_path):
    path = write(cars(), "cars.csv")
    with pytest.raises(DataError, match="Did you mean cars.csv"):
        table(tmp_path / "car.csv", target="price")
    with pytest.raises(DataError, match="no folder"):
        table(tmp_path / "nowhere" / "car.csv", target="price")
    with pytest.raises(DataError, match=r"Got the folder .* such as cars.csv"):
        table(tmp_path, target="price")
    with pytest.raises(DataError, match=r"must end in \.csv"):
        table(path.rename(tmp_path / "cars.xlsx"), target="price")


def test_long_numbers_keep_groups_apart(tmp_path):
    count = 60
    frame = pl.DataFrame(
        {"patient": [2**53 + i // 3 for i in range(count)], "a": range(count), "y": [i * 0.5 for i in range(count)]}
    )
    frame.write_parquet(tmp_path / "f.parquet")
    frame.write_csv(tmp_path / "f.csv")
    packed, text = (table(tmp_path / f"f.{ending}", target="y", group="patient") for ending in ("parquet", "csv"))
    assert packed.fingerprint == text.fingerprint


def test_a_comma_table_reads_every_column_with_the_comma(write):
    data = table(write(lines("a;b;y", lambda i: f"{i % 9 + 1},{i + 100};0,{i};{i}", 60)), target="y")
    assert data.train.x[:, 0].max() < 10
    data = table(write(lines("a;b;y", lambda i: f"{i % 9 + 1},{i + 100};{i};{i}", 60)), target="y")
    assert data.train.x[:, 0].min() > 1000


def test_a_missing_value_of_a_huge_number_has_a_median_and_no_date(write):
    data = table(write(lines("a,y", lambda i: f"{'' if i % 5 == 0 else 10**17 + i},{i * 0.5}", 40)), target="y")
    assert "missing filled with the median 1e+17" in str(data.account)


def incomes(count=40, bad=None):
    return lines(
        "income,name,repaid",
        lambda i: f"{bad if bad is not None and i == 7 else 10 * 1.2**i:.6g},n{i % 3},{i % 2}",
        count,
    )


def test_the_logarithm_of_a_column_is_read_and_its_rows_stay_raw(write):
    data = table(write(incomes()), target="repaid", log=["income"])
    raw = data.train.x[:, 0]
    assert float(raw.max()) > 1000 and data.inputs.columns[0].log
    encoded = data.inputs.encode(data.train.x)[:, 0].double()
    wanted = raw.log()
    torch.testing.assert_close(encoded, (wanted - wanted.mean()) / wanted.std(unbiased=False), atol=1e-5, rtol=0)
    assert "income: number, read as its logarithm" in str(data.account)
    assert data.recipe["options"]["log"] == ["income"]
    again = load("table", **json.loads(json.dumps(data.recipe["options"])))
    assert again.fingerprint == data.fingerprint and again.inputs.columns == data.inputs.columns
    assert "log" not in table(write(incomes()), target="repaid").recipe["options"]


def test_rows_without_a_target_do_not_lose_the_logarithm(write):
    content = incomes().replace(",n0,0\n", ",n0,\n", 1)
    data = table(write(content), target="repaid", log="income")
    assert data.account.used == 39 and data.inputs.columns[0].log


@pytest.mark.parametrize("bad", [0.0, -3.0])
def test_a_value_without_a_logarithm_is_refused_by_its_line(write, bad):
    with pytest.raises(
        DataError, match=f"income must be above 0 in every row .* Got '{bad:g}' in line 9. Correct the value"
    ):
        table(write(incomes(bad=bad)), target="repaid", log=["income"])
    table(write(incomes(bad=bad)), target="repaid")


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (["incom"], "log must name a column of file.csv. Got log 'incom'. Did you mean income"),
        (["name"], "log must name columns of numbers. Got name, a category. Take it out of log"),
        (["repaid"], "a column must have one role. Got 'repaid' as target and log. Take it out of log"),
    ],
)
def test_log_names_columns_of_numbers(write, log, message):
    with pytest.raises(DataError, match=message):
        table(write(incomes()), target="repaid", log=log)
