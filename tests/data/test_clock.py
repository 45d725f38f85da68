"""The clock of a series: its step is found, moments go on, and the calendar repeats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.data.clock import Clock


def _days(*dates: str) -> np.ndarray:
    return np.array(dates, dtype="datetime64[s]").astype(np.int64) / 86400


@pytest.mark.parametrize(
    ("dates", "step", "season", "after"),
    [
        (["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"], "1 month", 12, ["2024-05-31", "2024-06-30"]),
        (["2024-01-15", "2024-04-15", "2024-07-15"], "3 months", 4, ["2024-10-15", "2025-01-15"]),
        (["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-05"], "1 day", 7, ["2024-01-06", "2024-01-07"]),
        (["2024-01-01", "2024-01-08", "2024-01-15"], "7 days", 52, ["2024-01-22", "2024-01-29"]),
        (
            ["2024-01-01T22:00", "2024-01-01T23:00", "2024-01-02T00:00"],
            "1 hour", 24, ["2024-01-02 01:00:00", "2024-01-02 02:00:00"],
        ),
        (["2000-01-01", "2001-01-01", "2002-01-01"], "12 months", None, ["2003-01-01", "2004-01-01"]),
        (["2023-12-30", "2024-01-30", "2024-02-29"], "1 month", 12, ["2024-03-30", "2024-04-30"]),
        (["2022-12-29", "2023-01-29", "2023-02-28"], "1 month", 12, ["2023-03-29", "2023-04-29"]),
        (["2023-05-30", "2023-08-30", "2023-11-30", "2024-02-29"], "3 months", 4, ["2024-05-30", "2024-08-30"]),
        (["2023-08-31", "2023-11-30", "2024-02-29"], "3 months", 4, ["2024-05-31", "2024-08-31"]),
        (["2023-06-30", "2023-09-30"], "3 months", 4, ["2023-12-31", "2024-03-31"]),
        (["2021-02-28", "2022-02-28", "2023-02-28"], "12 months", None, ["2024-02-29", "2025-02-28"]),
        (["2022-12-30", "2023-01-31", "2023-02-28"], "1 month", 12, ["2023-03-31", "2023-04-28"]),  # days of work
    ],
)  # fmt: skip
def test_dates_go_on_as_the_calendar_does(dates, step, season, after):
    moments = _days(*dates)
    clock = Clock.of([moments], dated=True)
    assert (clock.step(), clock.season) == (step, season)
    assert clock.written(clock.later(float(moments[-1]), 2)) == after


@pytest.mark.parametrize("zone", ["", "UTC+02:00"])
def test_parts_of_seconds_are_written(zone):
    moments = _days("2024-01-01")[0] + (0.996 + np.arange(3) * 0.004) / 86400
    clock = replace(Clock.of([moments], dated=True), zone=zone)
    coming = clock.written(clock.later(float(moments[-1]), 2))
    late = [" 02:00:01.008000+02:00", " 02:00:01.012000+02:00"] if zone else [" 00:00:01.008", " 00:00:01.012"]
    assert coming == [f"2024-01-01{time}" for time in late]


def test_series_of_months_may_have_days_of_their_own():
    first, other = (_days(*(f"2024-{month:02}-{day}" for month in range(1, 13))) for day in ("01", "15"))
    clock = Clock.of([first, other], dated=True)
    assert clock.step() == "1 month" and clock.begin(float(first[0])) == clock.begin(float(other[0]))
    coming = [clock.written(clock.later(float(own[-1]), 2)) for own in (first, other)]
    assert coming == [["2025-01-01", "2025-02-01"], ["2025-01-15", "2025-02-15"]]


@pytest.mark.parametrize("day", [15, 28, 29, 30])
def test_series_of_months_keep_their_own_days_over_february(day):
    own, other = (_days(f"2022-11-{min(of, 30)}", f"2022-12-{of}", f"2023-01-{of}") for of in (day, 31))
    clock = Clock.of([own, other], dated=True, names=["own", "other"])
    february = _days(f"2023-02-{min(day, 28)}", "2023-02-28")
    for name, moments, of, end in zip(("own", "other"), (own, other), (day, 31), february):
        for seen in (np.append(moments, end), np.array([end])):  # a table may begin with that month
            coming = clock.later(float(end), 2, clock.day_of(name, seen))
            assert clock.written(coming) == [f"2023-03-{of}", f"2023-04-{min(of, 30)}"]
    new = _days("2023-01-29", "2023-02-28")  # a series that training never saw
    assert clock.written(clock.later(float(new[1]), 1, clock.day_of("new", new))) == ["2023-03-29"]


def test_the_day_that_is_meant_is_known_before_a_short_month_came():
    clock = Clock.of([_days("2023-03-30", "2023-04-30", "2023-05-30")], dated=True)
    assert clock.written(clock.later(float(_days("2024-02-29")[0]), 2)) == ["2024-03-30", "2024-04-30"]
    assert Clock.of([_days("2023-03-15", "2023-04-15")], dated=True).day == 0


def test_numbers_have_no_calendar():
    clock = Clock.of([np.array([1700.0, 1702.0, 1704.0, 1710.0])], dated=False)
    assert (clock.step(), clock.season, clock.cycles(np.arange(9.0))) == ("2", None, ())
    assert clock.written(clock.later(1710.0, 1)) == ["1712"]
    assert Clock("number", 1.0).written(np.array([1700000000123.0, 0.1 + 0.2])) == ["1700000000123", "0.3"]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.001, 100.0), st.floats(-1e4, 1e4), st.integers(2, 60))
def test_places_count_steps_whatever_their_size(size, first, count):
    moments = first + size * np.arange(count)
    clock = Clock.of([moments], dated=False)
    places, off = clock.places(moments)
    assert places.tolist() == list(range(count))
    assert not off.any()


def test_a_moment_between_two_steps_is_seen():
    clock = Clock.of([np.array([0.0, 1.0, 2.0, 3.0])], dated=False)
    assert clock.places(np.array([0.0, 1.5, 3.0]))[1].tolist() == [False, True, False]


def test_waves_repeat_after_their_cycle():
    clock, days = Clock("day", 1 / 24), np.arange(0, 21, 1 / 24)
    assert clock.cycles(days) == ("week", "day")
    waves = clock.waves(days, ("week", "day"))
    np.testing.assert_allclose(waves[: 7 * 24], waves[7 * 24 : 14 * 24], atol=1e-9)
    np.testing.assert_allclose(np.square(waves[:, 0]) + np.square(waves[:, 1]), 1)
    months = _days(*(f"{2000 + k // 12}-{k % 12 + 1:02d}-01" for k in range(36)))
    year = Clock.of([months], dated=True).waves(months, ("year",))
    np.testing.assert_allclose(year[:12], year[12:24], atol=1e-12)
