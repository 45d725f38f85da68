"""Times of a series in whatever holds them: dates already, days of a zone, an index of pandas."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import leadline as ll
from leadline.data.cells import table_of
from leadline.data.series_rows import moments_of, with_dates
from leadline.forecast import forecast


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, dict], ids=["pandas", "polars", "dict"])
def test_times_may_be_dates_already(make):
    days = np.arange("2020-01-01", "2020-03-11", dtype="datetime64[D]")
    words = {"day": [str(day) for day in days], "v": [math.sin(k) for k in range(len(days))]}
    data = ll.data.series(make({**words, "day": days.astype("datetime64[us]")}), "v", horizon=3, time="day")
    said = ll.data.series(words, "v", horizon=3, time="day")
    assert torch.equal(data.train.x, said.train.x) and data.inputs.clock == said.inputs.clock


@pytest.mark.parametrize("zone", ["+01:00", "-05:00"])
def test_days_of_a_zone_are_days_and_its_hours_those_of_utc(zone):
    days = [f"2020-{month:02}-01 00:00:00{zone}" for month in range(1, 13)]
    table = table_of({"day": days, "hour": [f"2020-01-01 {k:02}:30{zone}" for k in range(12)]})
    assert moments_of(table, "day").values[:2].tolist() == [18262.0, 18293.0]
    assert moments_of(table, "hour").values[0] == pytest.approx(18262 + (0.5 - int(zone[:3])) / 24)
    frame = pd.DataFrame({"day": pd.to_datetime(days, utc=False), "v": range(12)})
    for rows in (frame, pl.from_pandas(frame)):
        assert moments_of(table_of(with_dates(rows)[0]), "day").values[:2].tolist() == [18262.0, 18293.0]
        assert table_of(rows).columns["day"][0] != np.datetime64("2020-01-01")  # an instant, for a table without steps


def test_a_frame_of_pandas_may_have_its_times_as_its_index():
    months, v = pd.date_range("2015-01-31", periods=80, freq="ME"), [math.sin(k) for k in range(80)]
    said = ll.data.series({"time": [str(day)[:10] for day in months], "v": v}, "v", horizon=3, time="time")
    for index in (months, months.rename("time"), months.tz_localize("Europe/Berlin")):
        data = ll.data.series(pd.DataFrame({"v": v}, index=index), "v", horizon=3)
        assert torch.equal(data.train.x, said.train.x) and data.inputs.clock == said.inputs.clock
    periods = pd.DataFrame({"v": v}, index=months.to_period("M"))
    run = ll.fit(
        ll.models.build("Linear", data := ll.data.series(periods, "v", horizon=3), 3), data, epochs=1, progress=False
    )
    assert forecast(run, periods).moments == ("2021-09", "2021-10", "2021-11")
