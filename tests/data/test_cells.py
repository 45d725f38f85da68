"""Cells: the same table comes out of whatever holds it."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from leadline.data.cells import Table, Text, cells_of, table_of
from leadline.errors import DataError, ShapeError

COLUMNS = {
    "number": [1, None, 3],
    "word": ["x", None, "y"],
    "gappy": [True, False, None],
    "truth": [True, False, True],
    "day": [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 3)],
    "moment": [datetime.datetime(2024, 1, 1, 12), None, datetime.datetime(2024, 1, 3)],
}
ROWS = [dict(zip(COLUMNS, row)) for row in zip(*COLUMNS.values())]


def listed(table):
    return {
        name: [cells[i] for i in range(len(cells))] if isinstance(cells, Text) else cells.tolist()
        for name, cells in table.columns.items()
    }


@pytest.mark.parametrize(
    "rows",
    [COLUMNS, ROWS, pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS), pl.LazyFrame(COLUMNS), pa.table(COLUMNS)],
    ids=["dict", "dicts", "pandas", "polars", "lazy", "arrow"],
)
def test_every_holder_gives_the_same_cells(rows):
    table = table_of(rows)
    assert len(table) == 3 and table.at(2) == "row 2"
    cells = listed(table)
    assert cells["number"][::2] == [1.0, 3.0] and np.isnan(cells["number"][1])
    assert cells["word"] == ["x", None, "y"]
    assert cells["gappy"] == ["true", "false", None]
    assert cells["truth"] == [True, False, True]
    assert cells["day"] == [datetime.datetime(2024, 1, 1), None, datetime.datetime(2024, 1, 3)]
    assert cells["moment"] == [datetime.datetime(2024, 1, 1, 12), None, datetime.datetime(2024, 1, 3)]


def test_types_that_frames_have_of_their_own():
    frame = pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "c": pd.Categorical(["u", None])})
    frame["t"] = pd.to_datetime(["2024-01-01", None]).tz_localize("Europe/Berlin")
    frame["d"] = pd.to_timedelta([1, 2], unit="D")
    cells = listed(table_of(frame))
    assert cells["n"][0] == 1 and np.isnan(cells["n"][1]) and cells["c"] == ["u", None]
    assert cells["t"] == [datetime.datetime(2023, 12, 31, 23), None] and cells["d"] == [1.0, 2.0]


def test_names_that_are_numbers_and_names_that_repeat():
    assert listed(table_of(pd.DataFrame([[1, 2]]))) == {"0": [1.0], "1": [2.0]}
    with pytest.raises(DataError, match="name each column once"):
        table_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_mixed_values_become_words_and_decimals_numbers():
    assert [cells_of([1, "a", 2.5, True, None], "m")[i] for i in range(5)] == ["1", "a", "2.5", "true", None]
    assert cells_of([decimal.Decimal("1.5"), 2], "d").tolist() == [1.5, 2.0]


def test_rows_of_lists_and_one_row():
    assert listed(table_of([[1, "a"], [2, "b"]], ["p", "q"])) == {"p": [1.0, 2.0], "q": ["a", "b"]}
    assert listed(table_of({"p": 1, "q": "a"})) == {"p": [1.0], "q": ["a"]}
    assert listed(table_of(torch.tensor([[1, 2]]))) == {"x0": [1.0], "x1": [2.0]}


def test_text_from_a_list_and_from_polars_agree():
    words = [" 1", "2.5e3", "NA", None, "-", "inf", "1"]
    for text in (Text(words), Text(pl.Series(words))):
        assert np.array_equal(text.floats(), [1, 2500, np.nan, np.nan, np.nan, np.inf, 1], equal_nan=True)
        found, codes = text.distinct()
        assert [found[code] for code in codes] == words
        assert [text.take(np.array([6, 1]))[i] for i in range(2)] == ["1", "2.5e3"]
    for text in (Text(["1_000"]), Text(pl.Series(["1_000"])), Text(["1,5"]), Text(pl.Series(["1,5"]))):
        assert text.floats() is None


def test_long_whole_numbers_stay_exact_and_group_apart():
    long = [2**53 + 1, 2**53 + 2, None]
    frames = (pl.DataFrame({"n": long}), pd.DataFrame({"n": pd.array(long, dtype="Int64")}), {"n": long})
    for rows in (*frames, [{"n": value} for value in long]):
        assert listed(table_of(rows)) == {"n": ["9007199254740993", "9007199254740994", None]}
    for values in (np.array(long[:2]), torch.tensor(long[:2])):
        assert cells_of(values, "n")[0] == "9007199254740993"
    assert cells_of([2**53, 1], "n").tolist() == [2.0**53, 1.0]
    assert [cells_of([2**60 + 1, "a"], "m")[i] for i in range(2)] == [str(2**60 + 1), "a"]


def test_decimal_commas_from_a_list_and_from_polars_agree():
    words = [" 1,5", "2", "NA", None, "-3,25e2", ",5", "inf"]
    for text in (Text(words), Text(pl.Series(words))):
        assert np.array_equal(text.floats(comma=True), [1.5, 2, np.nan, np.nan, -325, 0.5, np.inf], equal_nan=True)
    for odd in ("1.5", "1,2,3", ",", "1 234,5", "1.234,5"):
        assert Text([odd]).floats(comma=True) is None and Text(pl.Series([odd])).floats(comma=True) is None


def test_words_are_counted_and_split_alike_from_a_list_and_from_polars():
    words = [" 12 kg", None, "x1", "7"]
    for text in (Text(words), Text(pl.Series(words))):
        assert text.count("[0-9]") == 2 and text.count("$") == 1
        heads, tails, others = text.split("[0-9]+")
        assert [heads[i] for i in range(4)] == ["12", None, None, "7"]
        assert [tails[i] for i in range(4)] == [" kg", None, None, ""] and sorted(others) == ["", "x1"]
        assert text.first(("12 kg", "")) == "x1"


def test_keeping_rows_keeps_their_numbers():
    table = Table({"a": Text(["x", "y", "z"]), "b": np.arange(3.0)}, np.array([2, 3, 5]), "line")
    kept = table.keep(np.array([True, False, True]))
    assert listed(kept) == {"a": ["x", "z"], "b": [0.0, 2.0]} and kept.at(1) == "line 5"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (5, "Got int"),
        ([1, 2], "list of int"),
        ({"a": [1], "b": [1, 2]}, "a with 1, b with 2"),
        ([{"a": {1}}], "a set in row 0"),
        ([[1], [1, 2]], "rows of equal length"),
    ],
)
def test_what_is_no_table_is_refused(rows, message):
    with pytest.raises((DataError, ShapeError), match=message):
        table_of(rows)
