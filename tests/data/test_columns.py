"""Columns: raw rows in, network inputs out, with the training split's figures, rebuilt from plain JSON."""

from __future__ import annotations

import datetime
import json
import math
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leadline.data import inputs_from
from leadline.data.columns import Column, TableInputs
from leadline.errors import DataError, ShapeError

NAN = math.nan

COLUMNS = (
    Column("age", "number", fill=30.0, shift=40.0, scale=10.0, gaps=True),
    Column("colour", "category", levels=("blue", "red")),
    Column("smokes", "flag", fill=1.0),
    Column("born", "date", style="ymd", shift=0.0, scale=365.0, cycles=("week",)),
)
INPUTS = TableInputs(COLUMNS)


def test_each_kind_is_encoded_as_the_page_says():
    x = torch.tensor([[60.0, 1.0, 0.0, 7.0], [NAN, -1.0, NAN, NAN]], dtype=torch.float64)
    first, second = INPUTS.encode(x)
    assert INPUTS.encoded_names() == (
        *("age", "age missing", "colour=blue", "colour=red"),
        *("smokes", "born", "born sine of week", "born cosine of week"),
    )
    assert first.tolist() == pytest.approx([2, 0, 0, 1, 0, 7 / 365, 0, 1], abs=1e-6)
    assert second.tolist() == pytest.approx([-1, 1, 0, 0, 1, 0, 0, 1], abs=1e-6)
    assert first.dtype == torch.float32 and INPUTS.dim(x) == 8


def test_a_missing_category_is_an_input_when_training_had_gaps():
    inputs = TableInputs([Column("c", "category", levels=("a",), gaps=True)])
    assert inputs.encode(torch.tensor([[0.0], [NAN], [-1.0], [5.0]])).tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]


def test_rebuilt_from_json_it_is_the_same():
    again = inputs_from("TableInputs", json.loads(json.dumps(INPUTS.config)))
    assert again.columns == INPUTS.columns
    x = torch.tensor([[60.0, 1.0, 0.0, 7.0]])
    assert torch.equal(again.encode(x), INPUTS.encode(x))


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=30))
def test_numbers_are_standardised_with_the_training_figures(values):
    column = Column.fit("n", "number", np.array(values))
    out = TableInputs([column]).encode(torch.tensor(values, dtype=torch.float64)[:, None]).double()
    assert bool(out.isfinite().all())
    if np.std(values) > 1e-6 * max(1.0, np.abs(values).max()):
        assert float(out.mean()) == pytest.approx(0, abs=1e-4)
        assert float(out.std(unbiased=False)) == pytest.approx(1, abs=1e-4)


def test_large_numbers_keep_their_differences():
    stamps = 1.7e9 + np.arange(100.0)
    out = TableInputs([Column.fit("t", "number", stamps)]).encode(torch.from_numpy(stamps)[:, None])
    assert len(out.unique()) == 100
    huge = np.array([1e300, -1e300, 3e299])
    assert bool(TableInputs([Column.fit("h", "number", huge)]).encode(torch.from_numpy(huge)[:, None]).isfinite().all())


def test_a_constant_column_is_zero():
    column = Column.fit("k", "number", np.full(7, 0.1))
    assert column.scale == 1.0
    assert TableInputs([column]).encode(torch.full((2, 1), 0.1, dtype=torch.float64)).abs().max() < 1e-6


def test_missing_values_take_the_median():
    column = Column.fit("n", "number", np.array([1.0, 2.0, 10.0, NAN]))
    assert column.gaps and column.fill == 2.0 and column.line(1) == "n: number, 1 missing filled with the median 2"
    assert not Column.fit("n", "number", np.array([1.0, 2.0])).gaps


def test_dates_cycle_only_where_they_move():
    week = np.arange(14.0)
    assert Column.fit("d", "date", week).cycles == ("week",)
    assert Column.fit("d", "date", np.arange(400.0)).cycles == ("year", "week")
    assert Column.fit("d", "date", week + np.arange(14) / 24).cycles == ("week", "day")
    assert Column.fit("d", "date", np.arange(10) * 7.0).cycles == ("year",)


ROW = {"age": 50, "colour": "red", "smokes": "yes", "born": "1970-01-08"}
RAW = [[50.0, 1.0, 1.0, 7.0]]


@pytest.mark.parametrize(
    "rows",
    [
        ROW,
        [ROW],
        {name: [value] for name, value in ROW.items()},
        pd.DataFrame([ROW]),
        pl.DataFrame([ROW]),
        [{**ROW, "price": 3, "age": "50"}],
        [{**ROW, "born": datetime.date(1970, 1, 8), "smokes": True}],
        [list(ROW.values())],
        np.array([list(ROW.values())], dtype=object),
        np.array(RAW),
        torch.tensor(RAW),
    ],
)
def test_rows_may_come_in_any_form(rows):
    assert INPUTS.read(rows).tolist() == RAW


def test_unknown_levels_and_missing_cells():
    assert INPUTS.read([{**ROW, "colour": "puce"}])[0, 1] == -1
    assert INPUTS.read([{**ROW, "age": None, "colour": "NA", "smokes": "", "born": None}]).isnan().all()
    assert INPUTS.read([]).shape == (0, 4)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{**ROW, "age": "old"}], "column age must hold numbers. Got 'old' in row 0"),
        ([{**ROW, "smokes": "perhaps"}], "column smokes must hold yes or no. Got 'perhaps' in row 0"),
        ([ROW, {**ROW, "born": "May"}], "column born must hold dates. Got 'May' in row 1"),
        ([{**ROW, "born": 5}], "column born must hold dates. Got 5 in row 0"),
        ([{**ROW, "age": math.inf}], "Got inf in row 0"),
        ([{key: value for key, value in ROW.items() if key != "age"}], "no column age. Add what is missing"),
        ([{("agee" if key == "age" else key): value for key, value in ROW.items()}], "Did you mean agee"),
        ([[1, 2]], "a row must have 4 values"),
        (np.ones((2, 3)), r"shape \(n, 4\)"),
        (np.array([[1.0, 7.0, 0.0, 0.0]]), "codes 0 … 1. Got 7 in row 0"),
        (np.array([[math.inf, 0.0, 0.0, 0.0]]), "finite. Got inf in row 0"),
    ],
)
def test_what_cannot_be_read_is_named_by_column_and_row(rows, message):
    with pytest.raises((DataError, ShapeError), match=message):
        INPUTS.read(rows)


def test_a_wrong_width_is_refused():
    with pytest.raises(ShapeError, match="a row must have 4 values"):
        INPUTS.encode(torch.zeros(2, 3))


def test_gradients_pass_through_numbers():
    x = torch.tensor([[60.0, 1.0, 0.0, 7.0]], requires_grad=True)
    INPUTS.encode(x)[0, 0].backward()
    assert x.grad[0, 0] == pytest.approx(0.1)


def test_many_rows_are_quick():
    inputs = TableInputs(
        [Column(f"n{i}", "number") for i in range(19)] + [Column("c", "category", levels=tuple("abc"))]
    )
    x = torch.zeros(100_000, 20, dtype=torch.float64)
    start = time.perf_counter()
    inputs.encode(x)
    assert time.perf_counter() - start < 2  # a tenth of that on a quiet machine; a loop over rows takes minutes


# ── logarithms ──


def test_the_logarithm_is_taken_before_the_figures_and_raw_rows_stay_raw():
    values = np.array([1.0, math.e, math.e**2, NAN])
    column = Column.fit("income", "number", values, log=True)
    assert column.log and column.fill == pytest.approx(math.e) and column.shift == pytest.approx(1.0)
    inputs = TableInputs([Column("age", "number", shift=1.0), column])
    x = torch.tensor([[3.0, math.e**3], [NAN, NAN]], dtype=torch.float64)
    out = inputs.encode(x)
    assert out[0].tolist() == pytest.approx([2.0, 2 / column.scale, 0.0], abs=1e-6)
    assert out[1].tolist() == pytest.approx([-1.0, 0.0, 1.0], abs=1e-6)
    assert x[0, 1] == math.e**3
    assert inputs.encoded_names() == ("age", "log income", "income missing")
    assert column.line(1) == "income: number, read as its logarithm, 1 missing filled with the median 2.71828"
    again = inputs_from("TableInputs", json.loads(json.dumps(inputs.config)))
    assert torch.equal(again.encode(x), out)


@given(st.lists(st.floats(1e-300, 1e300), min_size=2, max_size=20))
def test_logarithms_are_finite_and_standardised(values):
    out = TableInputs([Column.fit("n", "number", np.array(values), log=True)]).encode(
        torch.tensor(values, dtype=torch.float64)[:, None]
    )
    assert bool(out.isfinite().all())


def test_columns_of_a_run_before_logarithms_are_read_without():
    fields = {key: value for key, value in INPUTS.config["columns"][0].items() if key != "log"}
    assert not TableInputs([fields]).columns[0].log


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ([{"income": 3}, {"income": 0}], "0 in row 1"),
        ({"income": [5.0, -2.5, -1.0]}, r"-2.5 in row 1 \(2 such rows\)"),
        (torch.tensor([[1.0], [NAN], [-4.0]]), "-4 in row 2"),
    ],
)
def test_a_value_without_a_logarithm_is_refused_by_row(rows, place):
    inputs = TableInputs([Column("income", "number", log=True)])
    with pytest.raises(DataError, match=f"income must be above 0 in every row for its logarithm .* Got {place}"):
        inputs.read(rows)
