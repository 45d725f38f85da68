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
    day = (
        day
        if "{d" in form
        else day.replace(day=1, month=day.month if "{q}" not in form else (day.month - 1) // 3 * 3 + 1)
    )
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
    ],
)
def test_names_of_months(words, form, first):
    days, read = periods_of(Text(words))
    assert read == form and EPOCH + timedelta(int(days[0])) == first and days[1] > days[0]


@pytest.mark.parametrize(
    "words", [["31 Feb 2020"], ["Jan 2020", "Foo 2020"], ["Jan 20"], ["Jan 2020", None], ["Jan 1500"]]
)
def test_what_is_no_such_time(words):
    assert periods_of(Text(words)) is None
