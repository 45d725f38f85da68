"""Whole columns are read as their words are, one by one, only faster."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from leadline.data.cells import Text
from leadline.data.raw import dates_style, raw_values, read_numbers, style_of, writes_comma
from leadline.data.words import date_style, days, number_style

MOMENTS = [
    ["2024-01-31", "2023-02-28 12:30", "2024-02-29T23:59:59.25Z"],
    ["31.12.2024", "1.1.2025 10:00", "15.6.1999"],
    ["31.12.2024 9:05", "1.1.2025", "15.6.1999 23:59:60"],
    ["2024-01-01 10:00", "noon"],
    ["2024-01-01 10:00", "2024-13-01 10:00"],
    ["12/31/2024", "1/2/2025", "6/15/1999"],
    ["31/12/2024", "1/2/2025"],
    ["2024-01-01 10:00+02:00", "2024-01-01 10:00-0130", "2024-01-01T00:00"],
    ["2024-01-01", "2024-13-01"],
    ["2024-01-01", "noon"],
    ["2024-01-01 25:00"],
    ["2024-01-0112:00"],
    ["24-01-01"],
    ["2024-01.01"],
    ["2024-01-01", "2024-01-01 10:00 PM"],
]


@pytest.mark.parametrize("words", MOMENTS)
@pytest.mark.parametrize("holder", [list, pl.Series])
def test_dates_of_a_column(words, holder):
    cells = Text(holder([words[0], None, "", "NA", *words]))
    style = date_style(words)
    assert dates_style(cells) == style
    values, misfit = raw_values(cells, "date", style or "ymd")
    wanted = [days(word, style or "ymd") for word in words]
    assert misfit[4:].tolist() == [day is None for day in wanted]
    assert np.isnan(values[1:4]).all() and not misfit[1:4].any()
    assert np.array_equal(values[4:], [np.nan if day is None else day for day in wanted], equal_nan=True)


NUMBERS = [
    ["1,5", "2", "-3,25"],
    ["1,234", "5,678"],
    ["1,234", "5,67"],
    ["1.234,5", "2"],
    ["1,234.5", "2"],
    ["$5", "$6.5"],
    ["$5", "5 €"],
    ["12 %", "3,5 %"],
    ["x", "1"],
    ["1", "x"],
    ["1,5", "x"],
]


@pytest.mark.parametrize("words", NUMBERS)
@pytest.mark.parametrize("holder", [list, pl.Series])
def test_the_style_of_a_column(words, holder):
    assert style_of(Text(holder(["NA", None, *words]))) == number_style(words)


@pytest.mark.parametrize("holder", [list, pl.Series])
def test_the_decimal_sign_of_a_table(holder):
    text = lambda *words: Text(holder(words))  # noqa: E731
    assert writes_comma([text("1,234"), text("0,5")])
    assert not writes_comma([text("1,234"), text("5,678")])
    assert not writes_comma([text("0,5"), text("0.5")])
    assert not writes_comma([text("Smith, John"), np.zeros(1)])
    assert read_numbers(text("1,234"))[0].tolist() == [1234] and read_numbers(text("1,234"), comma=True)[0] == 1.234
    assert read_numbers(text("1.5"), comma=True)[0].tolist() == [1.5]
    assert read_numbers(text("1.234"), "comma")[0].tolist() == [1234]
    assert read_numbers(text("4,5", "x"))[1].tolist() == [True, True]
