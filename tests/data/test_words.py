"""Words: each reader takes what it says it takes and nothing else."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.data.words import date_style, days, flag_pair, natural, number, number_style


@given(st.floats(allow_nan=False))
def test_a_number_that_python_writes_reads_back(value):
    assert number(repr(value)) == value


@given(st.integers(-(10**12), 10**12), st.sampled_from([",", "'", " ", "\u00a0"]))
def test_thousands_are_grouped_in_any_usual_way(value, group):
    assert number(f"{value:,}".replace(",", group)) == value


@pytest.mark.parametrize(
    ("word", "style", "value"),
    [
        ("1.234.567,8", "comma", 1234567.8),
        ("3,5", "comma", 3.5),
        ("$1,000.50", "point", 1000.5),
        ("-$7", "point", -7),
        ("7 €", "point", 7),
        ("12%", "point", 12),
        ("-inf", "point", -math.inf),
        (".5", "point", 0.5),
    ],
)
def test_numbers_as_people_write_them(word, style, value):
    assert number(word, style) == value


@pytest.mark.parametrize(
    "word", ["", "abc", "1_000", "0,125", "1,23", "12,34,567", "1.2.3", "0x10", "1 2", "5 kg", "--5"]
)
def test_what_is_not_a_number_with_a_decimal_point(word):
    assert number(word) is None


def test_a_column_has_one_style_and_one_unit():
    assert number_style(["0,125", "1,250"]) == "comma"
    assert number_style(["1,250", "2,000"]) == "point"
    assert number_style(["5 %", "7"]) is None
    assert number_style(["1,5", "1.5"]) is None


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)))
def test_days_agree_with_the_calendar(moment):
    truth = (moment - datetime(1970, 1, 1)) / timedelta(days=1)
    assert days(moment.isoformat()) == pytest.approx(truth, abs=1e-6)
    assert days(moment.strftime("%d.%m.%Y"), "dmy") == math.floor(truth)


def test_zones_are_taken_off_and_impossible_dates_refused():
    assert days("2024-01-01T01:00+01:00") == days("2024-01-01T00:00Z") == days("2024-01-01")
    assert days("2023-02-29") is None and days("2024-13-01") is None and days("24-01-01") is None


@pytest.mark.parametrize(
    ("word", "hour"), [("12:00 AM", 0), ("12:30 pm", 12.5), ("6 PM", 18), ("11:00 a.m.", 11), ("1:00PM Z", 13)]
)
def test_half_days_are_read(word, hour):
    assert days(f"1970-01-02 {word}") == pytest.approx(1 + hour / 24)


@pytest.mark.parametrize("word", ["13:00 PM", "0:30 AM", "12", "12:00 XM"])
def test_what_is_no_time_of_day(word):
    assert days(f"1970-01-02 {word}") is None


def test_the_order_of_day_and_month_is_found():
    assert date_style(["13/01/2024", "01/02/2024"]) == "dmy"
    assert date_style(["01/13/2024", "01/02/2024"]) == "mdy"
    assert date_style(["2024/01/13"]) == "ymd"
    assert date_style(["13/13/2024"]) is None


def test_flags_are_pairs():
    assert (
        flag_pair(["Yes", "NO"]) and flag_pair(["t"]) and not flag_pair(["yes", "false"]) and not flag_pair(["maybe"])
    )


def test_natural_order():
    assert sorted(["b", "10", "9", "-1", "a"], key=natural) == ["-1", "9", "10", "a", "b"]
