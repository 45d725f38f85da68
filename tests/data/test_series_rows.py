"""Times of a series in whatever holds them: dates already, days of a zone, an index of pandas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import leadline as ll
from leadline.data.cells import table_of
from leadline.data.series_moments import days_of_zones, moments_of
from leadline.data.table import read_rows
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
        assert moments_of(days_of_zones(table_of(rows)), "day").values[:2].tolist() == [18262.0, 18293.0]
        assert table_of(rows).columns["day"][0] != np.datetime64("2020-01-01")  # an instant, for a table without steps


@pytest.mark.parametrize(
    ("zone", "coming"),
    [
        ("Europe/Berlin", ("2024-03-31 01:00:00+01:00", "2024-03-31 03:00:00+02:00")),  # the clocks go forward
        ("America/New_York", ("2024-03-30 20:00:00-04:00", "2024-03-30 21:00:00-04:00")),
        ("UTC", ("2024-03-31 00:00:00+00:00", "2024-03-31 01:00:00+00:00")),
    ],
)
@pytest.mark.parametrize("ending", ["parquet", "polars", "pandas"])
def test_hours_of_a_zone_are_forecast_in_that_zone(tmp_path, zone, coming, ending):
    hours = pd.date_range(end="2024-03-30 23:00", periods=80, freq="h", tz="UTC").tz_convert(zone)
    frame = pd.DataFrame({"at": hours, "v": [float(k % 4) for k in range(80)]})
    rows: Any = pl.from_pandas(frame) if ending == "polars" else frame
    if ending == "parquet":
        rows = tmp_path / "hours.parquet"
        pl.from_pandas(frame).write_parquet(rows)
    data = ll.data.series(rows, "v", time="at", horizon=2)
    run = ll.fit(ll.models.build("Linear", data, 2), data, epochs=1, progress=False, folder=tmp_path / "run")
    assert forecast(run, read_rows(rows) if ending == "parquet" else rows).moments == coming
    again = ll.data.Windows(**data.inputs.config)  # as a run is loaded again
    assert again.clock == data.inputs.clock


def test_days_of_a_zone_in_parquet_are_days_whether_its_clocks_change_or_not(tmp_path):
    days = pd.date_range("2024-01-01", periods=120, freq="D", tz="Europe/Berlin")
    table = pl.from_pandas(pd.DataFrame({"day": days, "due": days, "v": [float(k % 7) for k in range(120)]}))
    table.write_parquet(tmp_path / "days.parquet")
    said = {"day": [str(day)[:10] for day in days], "due": [str(day)[:10] for day in days], "v": table["v"].to_list()}
    read = [
        ll.data.series(rows, "v", time="day", known=["due"], horizon=2)
        for rows in (tmp_path / "days.parquet", table, said)
    ]
    assert all(torch.equal(data.train.x, read[-1].train.x) for data in read)
    assert {data.inputs.clock.written(data.train.time[:1].numpy())[0] for data in read} == {"2024-01-14"}


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
