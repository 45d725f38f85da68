"""Times that name a period or a day by words: read, and written as they were."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.data.cells import Text
from leadline.data.periods import _DIGITS, _MARKED, _NAMED, period, periods_of

EPOCH = date(1970, 1, 1)


@given(st.sampled_from((*_MARKED, *_NAMED, *_DIGITS)), st.dates(date(1700, 1, 1), date(2199, 12, 31)))
def test_every_form_is_read_as_it_is_written(form, day):
    if "{g}" in form:
        day -= timedelta(0 if "{u}" in form else day.weekday())
    elif "{d" not in form:
        day = day.replace(day=1, month=day.month if "{q}" not in form else (day.month - 1) // 3 * 3 + 1)
    days, read = periods_of(Text([period(day, form)]))
    assert EPOCH + timedelta(int(days[0])) == day
    assert period(day, read) == period(day, form)


@pytest.mark.parametrize(
    ("words", "form", "first"),
    [
        (["1991 Jul", "1991 Aug"], "{y} {b}", date(1991, 7, 1)),
        (["May 2020", "June 2020"], "{B} {y}", date(2020, 5, 1)),
        (["JAN-1-1995", "feb-1-1995"], "{b}-{d}-{y}", date(1995, 1, 1)),
        (["09-Sep-2001", "10-Sep-2001"], "{d:02}-{b}-{y}", date(2001, 9, 9)),
        (["9 September 2001", "10 September 2001"], "{d} {B} {y}", date(2001, 9, 9)),
        (["JAN 2024", "FEB 2024"], "{bu} {y}", date(2024, 1, 1)),
        (["2024q1", "2024q2"], "{y}q{q}", date(2024, 1, 1)),
        (["2024-W05", "2024-W06"], "{g}-W{w:02}", date(2024, 1, 29)),
        (["2024-W05-3", "2024-W05-4"], "{g}-W{w:02}-{u}", date(2024, 1, 31)),
        (["2020-W53", "2021-W01"], "{g}-W{w:02}", date(2020, 12, 28)),
        (["12/2023", "01/2024"], "{m:02}/{y}", date(2023, 12, 1)),
        (["2023-9", "2023-10"], "{y}-{m}", date(2023, 9, 1)),
    ],
)
def test_months_quarters_and_weeks_by_name(words, form, first):
    days, read = periods_of(Text(words))
    assert read == form and EPOCH + timedelta(int(days[0])) == first and days[1] > days[0]


@pytest.mark.parametrize(
    "words",
    [
        ["31 Feb 2020"],
        ["Jan 2020", "Foo 2020"],
        ["Jan 20"],
        ["Jan 2020", None],
        ["Jan 1500"],
        ["2024-W54"],
        ["2024Q5"],
        ["13/2024"],
    ],
)
def test_what_is_no_such_time(words):
    assert periods_of(Text(words)) is None
