"""Dates in digits: written as a table has them, whatever their order, marks and hours."""

from __future__ import annotations

from datetime import datetime, timedelta

import pandas as pd
import pytest

import leadline as ll
from leadline.data.cells import Text, table_of
from leadline.data.series_rows import Roles, series_of
from leadline.data.stamps import look_of, stamp, timed_periods

FIRST = datetime(2024, 1, 1)


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p", "%-m/%-d/%Y, %-I:%M:%S %p",
        "%Y/%m/%d %H:%M:%S.000", "%Y-%m-%d %H:%M:%S+01:00", "%d-%m-%Y %-H:%M", "%d/%m/%Y %-I%p", "%-d/%m/%Y %H:%M",
        "%Y-%m-%d %H:%M UTC", "%Y-%m-%dT%H:%M-0330", "%d-%b-%Y %H:%M", "%B %-d, %Y %-I:%M %p", "%Y%m%d %H:%M:%S",
        "%d-%b-%Y %H:%M+01:00",
    ],
)  # fmt: skip
def test_hours_go_on_as_they_are_written(form):
    words = [(FIRST + timedelta(hours=6 * k)).strftime(form) for k in range(62)]
    rows = table_of({"at": words[:60], "v": [float(k % 5) for k in range(60)]})
    (one,), clock, _ = series_of(rows, Roles("v", "at"))
    assert clock.step() == "6 hours"
    assert clock.written(one.moments) == words[:60]
    assert clock.written(clock.later(float(one.moments[-1]), 2)) == words[60:]


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%-m/%-d/%Y", "%Y/%m/%d", "%Y-%m-%d 00:00:00", "%Y-%m-%dT00:00+01:00"])
def test_days_go_on_as_they_are_written(form):
    words = [(FIRST + timedelta(days=k)).strftime(form) for k in range(62)]
    data = ll.data.series({"day": words[:60], "v": [float(k % 7) for k in range(60)]}, "v", time="day", horizon=2)
    clock = ll.data.Windows(**data.inputs.config).clock  # as a run is loaded again
    assert clock.unit == "day" and clock.season == 7
    assert clock.written(clock.later(float(data.test.time[-1]), 4)) == words[58:]
    plain = [str(FIRST + timedelta(days=k))[:10] for k in range(60)]
    said = ll.data.series({"day": plain, "v": [float(k % 7) for k in range(60)]}, "v", time="day", horizon=2)
    assert data.fingerprint == said.fingerprint  # a look is no part of what training sees


def test_hours_of_a_zone_that_changes_are_written_in_utc_and_say_so():
    words = [str(at) for at in pd.date_range("2024-03-30", periods=60, freq="h", tz="Europe/Berlin")]
    (one,), clock, _ = series_of(table_of({"at": words, "v": [float(k % 5) for k in range(60)]}), Roles("v", "at"))
    assert clock.written(one.moments[:1]) == ["2024-03-29 23:00:00+00:00"]


@pytest.mark.parametrize(
    ("words", "order", "look"),
    [
        (["1/2/2024", "10/12/2024"], "mdy", "{m}/{d}/{y}"),
        (["11/12/2024", "10/12/2024"], "mdy", "{m:02}/{d:02}/{y}"),
        (["1.12.2024", None, "11.12.2024"], "dmy", "{d}.{m}.{y}"),
        (["2024-01-01 9:00 a.m.", "2024-01-01 12:00 p.m."], "ymd", "{y}-{m:02}-{d:02} {I}:{M:02} {pd}"),
        (["2024-01-01", "2024/01/02"], "ymd", ""),  # not alike
        (["2024-01-01", "2024-01-01 12:00"], "ymd", ""),
        (["2024-01-01 10:00 AM", "2024-01-01 13:00"], "ymd", ""),
    ],
)
def test_a_look_holds_for_all_dates(words, order, look):
    assert look_of(Text(words), order) == look


@pytest.mark.parametrize("zones", [("+02:00", "+02:00"), ("+01:00", "+02:00"), ("", ""), ("Z", "Z")])
def test_days_by_name_that_begin_at_midnight_are_days_in_every_zone(zones):
    days, look = timed_periods(Text([f"{k}-Jan-1970 00:00{zone}" for k, zone in enumerate(zones, 1)]))
    assert days.tolist() == [0.0, 1.0]
    assert stamp(2.0, look).startswith("3-Jan-1970")


@pytest.mark.parametrize("word", ["31-Foo-2024 10:00", "31-Dec-2024 25:00", "31-Dec-2024 10", "at 10:00", ""])
def test_what_is_no_day_with_a_time(word):
    assert timed_periods(Text(["31-Dec-2024 10:00", word])) is None and timed_periods(Text([word])) is None


def test_noon_and_midnight_of_half_days():
    noon = stamp(0.5, "{I}:{M:02} {P}"), stamp(0.0, "{I:02}:{M:02}{p}"), stamp(13 / 24, "{I}{Pd}")
    assert noon == ("12:00 PM", "12:00am", "1P.M.")
