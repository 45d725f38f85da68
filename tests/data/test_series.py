"""Series to windows: what lies where, what is refused and how it is told, and that nothing leaks from the future."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leadline as ll
from leadline.data.cells import table_of
from leadline.data.clock import Clock
from leadline.data.series_rows import Series
from leadline.data.series_season import drifts, season_of, swings
from leadline.data.series_windows import Figures
from leadline.errors import DataError, UserError

H, W = 3, 6


def _months(count: int) -> list[str]:
    return [f"{2000 + k // 12}-{k % 12 + 1:02d}-01" for k in range(count)]


def _noise(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=count)


def _table(count: int = 90, **columns) -> dict:
    return {"step": list(range(count)), "v": _noise(count).tolist(), **columns}


def _made(table: dict | str | None = None, **options):
    return ll.data.series(
        table or _table(),
        "v",
        **{"time": "step", "horizon": H, "window": W, "season": 2, "level": "fixed", "unit": "fixed", **options},
    )


def test_a_window_is_followed_by_its_values():
    table = _table()
    data = _made(table)
    v, mean, deviation = np.array(table["v"]), data.inputs.figures[0].shift, data.inputs.figures[0].scale
    assert (mean, deviation) == pytest.approx((v[:59].mean(), v[:59].std()), rel=1e-9)  # 65 % of 90 steps
    for split, first in ((data.train, W - 1), (data.val, None), (data.test, None)):
        origins = split.time.long().numpy()
        if first is not None:
            assert origins[0] == first
        for row in (0, len(split) // 2, len(split) - 1):
            o = origins[row]
            np.testing.assert_allclose(
                split.x[row, :, 0], (v[o - W + 1 : o + 1] - mean) / deviation, rtol=1e-4, atol=1e-5
            )
            np.testing.assert_allclose(split.y[row], v[o + 1 : o + 1 + H], rtol=1e-5)
    assert bool((data.train.x[..., -1] == 1).all())


def test_parts_follow_each_other_and_no_value_is_asked_in_two():
    data = _made()
    asked = [{int(o) + h for o in split.time for h in range(1, H + 1)} for split in (data.train, data.val, data.test)]
    assert max(asked[0]) < min(asked[1]) and max(asked[1]) < min(asked[2])
    assert max(asked[2]) == 89
    assert len(asked[0] | asked[1] | asked[2]) == 90 - W


@settings(max_examples=15, deadline=None)
@given(st.integers(59, 89), st.floats(-50, 50))  # 59 steps train
def test_nothing_leaks_from_the_future(place, value):
    before, table = _made(), _table()
    table["v"][place] = value
    after = _made(table)
    assert torch.equal(before.train.x, after.train.x) and torch.equal(before.train.y, after.train.y)
    assert before.target == after.target and before.inputs.config == after.inputs.config
    for name in ("val", "test"):
        seen = before[name].time < place
        assert torch.equal(before[name].x[seen], after[name].x[seen])
        whole = before[name].time + H < place
        assert torch.equal(before[name].y[whole], after[name].y[whole])


def test_nothing_leaks_through_season_level_and_columns():
    rng = np.random.default_rng(1)
    table = {"day": _months(120), "v": np.sin(np.arange(120)).tolist(), "a": rng.normal(size=120).tolist()}
    table["k"] = ["x" if k % 3 else "y" for k in range(120)]
    kept = {"time": "day", "horizon": 4, "known": ["k"]}
    before = ll.data.series(table, "v", **kept)
    for name, low in (("v", 1e3), ("a", -1e3)):
        table[name] = [*table[name][:100], *(low * k for k in range(20))]
    table["k"] = [*table["k"][:100], *["z"] * 20]
    after = ll.data.series(table, "v", **kept)
    assert before.inputs.config == after.inputs.config
    assert torch.equal(before.train.x, after.train.x) and torch.equal(before.train.y, after.train.y)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.01, 1e4), st.floats(-1e4, 1e4), st.integers(-5000, 5000))
def test_clock_and_unit_do_not_matter_to_what_is_read(scale, shift, first):
    table = _table()
    other = {"step": [first + k for k in range(90)], "v": [scale * v + shift for v in table["v"]]}
    one, two = _made(table), _made(other)
    rounding = 2**-21 * (1 + abs(shift) / scale)  # of values that are kept in float32
    torch.testing.assert_close(one.train.x, two.train.x, atol=1e-4 + rounding, rtol=0)
    unit = lambda data: (data.train.y - torch.tensor(data.target.shift)) / torch.tensor(data.target.scale)  # noqa: E731
    torch.testing.assert_close(unit(one), unit(two), atol=1e-4 + rounding, rtol=0)


def test_a_short_series_is_padded_behind_its_steps():
    table = {"g": ["long"] * 60 + ["short"] * 60, "step": [*range(60), *range(60)], "v": _noise(120).tolist()}
    short = {name: cells[:60] + cells[110:] for name, cells in table.items()}
    short["step"] = [*range(60), *range(10)]
    data = _made(short, group="g", window=20)
    assert data.inputs.figures[1].name == "short"
    rows = data.train.x[data.train.group == 1]
    there = rows[..., -1]
    assert 0 < int(there.sum(1).max()) < 20
    assert bool((there.sort(1, descending=True).values == there).all())
    assert bool((rows[there == 0] == 0).all())


def test_several_series_have_units_of_their_own():
    v = _noise(60)
    table = {"g": ["a"] * 60 + ["b"] * 60, "step": [*range(60)] * 2, "v": [*v, *(1000 + 50 * v)]}
    data = _made(table, group="g")
    for split in (data.train, data.test):
        a, b = (split.group == k for k in (0, 1))
        torch.testing.assert_close(split.x[a], split.x[b], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(split.y[a], split.y[b], atol=1e-4, rtol=1e-4)
    counts = {**table, "v": [*np.arange(60) % 5, *(np.arange(60) % 7 * 10)]}
    counted = _made(counts, group="g", kind="count")
    assert "level" in counted.inputs.channels and float(counted.train.y.max()) == 60
    assert counted.target.kind == "several" and counted.target.columns[0].kind == "count"


def test_what_is_known_ahead_follows_the_window():
    table = _table(promotion=[float(k) for k in range(90)], other=_noise(90, 2).tolist())
    data = _made(table, known=["promotion"])
    assert data.inputs.channels == ("v", "other", "promotion", "ahead", "there")
    row = data.train.x[0]
    assert row.shape == (W + H, 5)
    assert row[:, 3].tolist() == [0.0] * W + [1.0] * H
    assert bool((row[W:, :2] == 0).all())
    assert bool((row[1:, 2] > row[:-1, 2]).all())
    with pytest.raises(DataError, match=r"promotion must be known 3 steps ahead. Got 0 rows after the last v"):
        data.inputs.read(table)
    ahead = {name: [*cells, *([None] * H if name == "v" else range(90, 90 + H))] for name, cells in table.items()}
    x = data.inputs.read(ahead)
    assert x.shape == (1, W + H, 5) and float(x[0, W - 1, 0]) != 0
    assert _made(ahead, known=["promotion"]).fingerprint == data.fingerprint


def test_static_columns_are_the_same_at_all_steps():
    table = {"g": ["a"] * 40 + ["b"] * 40, "step": [*range(40)] * 2, "v": _noise(80).tolist()}
    table["area"] = [3.0] * 40 + [5.0] * 40
    data = _made(table, group="g", static=["area", "g"])
    assert data.inputs.channels == ("v", "area", "g=a", "g=b", "there")
    table["area"][3] = 4.0
    with pytest.raises(DataError, match="static column must be the same at all steps.*area, which changes in row 3"):
        _made(table, group="g", static=["area"])


def test_the_level_moves_with_a_trend():
    steps = np.arange(120.0)
    v = 2 * steps + np.tile([0.0, 5.0, 1.0, -6.0], 30)
    data = ll.data.series({"v": v.tolist()}, "v", horizon=4, season=4)
    assert data.inputs.moving
    x = data.inputs.encode(data.test.x)
    torch.testing.assert_close(x[0], x[4], atol=1e-4, rtol=1e-4)  # a season later the window looks the same
    torch.testing.assert_close(data.test.y[0], data.test.y[4], atol=1e-3, rtol=1e-4)
    level = data.inputs.level(data.test.x)
    shift, scale, _ = data.inputs.units(None, len(data.test))
    o = int(data.test.time[0])
    measured = data.inputs.as_measured(data.test.y.double(), data.test.x, shift, scale)
    np.testing.assert_allclose(measured[0], v[o + 1 : o + 5], rtol=1e-5)
    assert level.shape == (len(data.test), 1)
    assert not drifts([_noise(200)], 4, 4)


@pytest.mark.parametrize("level", ["fixed", "moving"])
def test_a_moving_unit_makes_swings_of_any_size_look_alike(level):
    v = _noise(120)
    data = ll.data.series({"v": v.tolist()}, "v", horizon=3, window=8, season=2, level=level, unit="moving")
    shift, scale = data.inputs.figures[0].shift, data.inputs.figures[0].scale
    z, o = (v - shift) / scale, int(data.test.time[5])
    past = z[o - 7 : o + 1]
    unit = np.sqrt((np.square(past - past.mean()).sum() + 4) / 12)
    centre = past[-2:].mean() if level == "moving" else 0.0
    read = data.inputs.encode(data.test.x)[5]
    np.testing.assert_allclose(read[:, 0], (past - centre) / unit, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(read[:, data.inputs.channels.index("unit")], np.log(unit), rtol=1e-6)
    np.testing.assert_allclose(data.test.y[5], scale * (z[o + 1 : o + 4] - centre) / unit, rtol=1e-6, atol=1e-6)
    shifts, scales, _ = data.inputs.units(None, len(data.test))
    measured = data.inputs.as_measured(data.test.y.double(), data.test.x, shifts, scales)
    np.testing.assert_allclose(measured[5], v[o + 1 : o + 4], rtol=1e-6)
    again = data.inputs.as_asked((measured - shift) / scale, data.test.x, None)
    torch.testing.assert_close(again, data.test.y.double(), rtol=1e-6, atol=1e-6)


def test_a_unit_moves_where_swings_grow():
    v, grown = _noise(200), _noise(200) * np.linspace(1, 9, 200)
    assert not swings([v], 1, 3, 20, False) and swings([grown], 1, 3, 20, False)
    assert ll.data.series({"v": grown.tolist()}, "v", horizon=3, window=20).inputs.own_unit
    with pytest.raises(UserError, match="a moving unit needs a real target"):
        ll.data.series({"v": [*range(90)]}, "v", horizon=3, kind="count", unit="moving")


def test_a_season_is_found_in_the_calendar_or_in_the_series():
    wave = np.sin(np.arange(150) * 2 * np.pi / 11) + 0.05 * _noise(150)
    assert ll.data.series({"v": wave.tolist()}, "v", horizon=3).inputs.season == 11
    assert ll.data.series({"t": _months(150), "v": wave.tolist()}, "v", time="t", horizon=3).inputs.season == 12
    assert season_of([_noise(300)], 60) == 1
    assert season_of([np.cumsum(_noise(300))], 2) == 1


def test_a_season_of_the_series_must_tell_more_than_the_last_value():
    walk = np.cumsum(_noise(150, seed=4))
    assert season_of([walk[:97]], 48) > 1
    data = ll.data.series({"v": walk.tolist()}, "v", horizon=3)
    assert data.inputs.season == 1 and "no season" in data.account.notes


@pytest.mark.parametrize(("days", "year"), [(7, 52), (14, 26), (3, 121)])
def test_a_year_of_weeks_is_a_season_where_it_tells_more_than_the_last_value(days, year):
    count = 6 * year
    times = [str(np.datetime64("2010-01-04") + days * k) for k in range(count)]
    wave, walk = np.sin(np.arange(count) * 2 * np.pi / year), np.cumsum(_noise(count))
    for values, season in ((10 * wave + _noise(count), year), (walk, 1)):
        data = ll.data.series({"t": times, "v": values.tolist()}, "v", time="t", horizon=4)
        assert data.inputs.season == season


def test_joined_rows_have_no_season_of_the_calendar():
    days = np.arange("2024-01-01", "2024-09-01", dtype="datetime64[D]")
    values = np.sin(np.arange(len(days)) * 2 * np.pi / 5) + 0.05 * _noise(len(days))
    kept = np.is_busday(days)
    whole = {"t": [str(day) for day in days], "v": values.tolist()}
    weeks = {"t": [str(day) for day in days[kept]], "v": values[: kept.sum()].tolist()}
    for table, season in ((whole, 7), (weeks, 5)):
        assert ll.data.series(table, "v", time="t", horizon=3, gaps="join").inputs.season == season


@pytest.mark.parametrize("form", ["{0}-{1:02d}", "{0}M{1:02d}", "{0}/{1:02d}", "{0}{1:02d}"])
def test_months_are_read_as_their_first_day(form):
    months = [form.format(1990 + k // 12, k % 12 + 1) for k in range(90)]
    data = ll.data.series({"t": months, "v": _noise(90).tolist()}, "v", time="t", horizon=3)
    clock = data.inputs.clock
    assert (clock.unit, clock.size, data.inputs.season) == ("month", 1, 12)
    assert clock.written(clock.later(float(data.test.time[-1]), 4)[-1:]) == [form.format(1997, 7)]


@pytest.mark.parametrize("form", ["{2:02}/{1:02}/{0}", "{1:02}/{2:02}/{0}"])
def test_days_and_months_are_told_apart_by_training(form):
    first = [form.format(2010 + k // 12, k % 12 + 1, 1) for k in range(60)]
    data = _made({"step": first, "v": _noise(60).tolist()})
    assert data.inputs.clock.unit == "month"
    assert any("first" in note for note in data.account.notes)

    every = np.arange("2024-01-01", "2024-03-31", dtype="datetime64[D]").tolist()
    data = _made({"step": [form.format(day.year, day.month, day.day) for day in every], "v": _noise(90).tolist()})
    kept = ll.data.Windows(**data.inputs.config)  # as a run is loaded again
    for days in (range(1, 12), range(5, 6)):
        rows = {"step": [form.format(2024, 4, day) for day in days], "v": [1.0] * len(days)}
        last = kept.last(table_of(rows))[1][0].one.moments[-1:]
        assert kept.clock.written(last) == [form.format(2024, 4, days[-1])]


def test_training_decides_what_a_comma_means():
    commas = [f"{1 + value / 9:.3f}".replace(".", ",") for value in _noise(90)]
    data = _made({"step": list(range(90)), "v": commas, "more": ["0,5", *commas[1:]]}, val=0.2)
    kept = ll.data.Windows(**data.inputs.config)
    rows = {"step": list(range(90, 100)), "v": ["1,234"] * 10, "more": ["1"] * 10}
    assert kept.last(table_of(rows))[1][0].one.values.tolist() == [1.234] * 10


@pytest.mark.parametrize(
    ("digits", "said"),
    [(3, "v: 14,126 is read as 14126; if a decimal sign is meant"), (2, "decimals are written with a")],
)
def test_what_a_comma_is_taken_for_is_told(tmp_path, digits, said):
    written = "".join(f"{k};{14.126 + k:.{digits}f}\n".replace(".", ",") for k in range(90))
    (tmp_path / "s.csv").write_text("t;v\n" + written)
    data = ll.data.load(tmp_path / "s.csv", target="v", time="t", horizon=3)
    assert any(note.startswith(said) for note in data.account.notes)
    assert not any("comma" in note or "decimal" in note for note in _made(_table()).account.notes)


@pytest.mark.parametrize("form", ["{0}Q{1}", "{0}-Q{1}", "{0} Q{1}", "{0}q{1}", "Q{1} {0}"])
def test_quarters_are_read_as_their_first_day(form):
    quarters = [form.format(1983 + k // 4, k % 4 + 1) for k in range(60)]
    data = ll.data.series({"t": quarters, "v": _noise(60).tolist()}, "v", time="t", horizon=3)
    assert (data.inputs.clock.unit, data.inputs.clock.size, data.inputs.season) == ("month", 3, 4)


def test_days_of_eight_digits_are_dates_and_other_numbers_are_not():
    days = np.arange("2003-01-15", "2003-06-15", dtype="datetime64[D]")
    for cells in ([int(str(day).replace("-", "")) for day in days], [str(day).replace("-", "") for day in days]):
        data = ll.data.series({"t": cells, "v": _noise(len(days)).tolist()}, "v", time="t", horizon=3)
        assert data.inputs.clock == Clock("day", form="{y}{m:02}{d:02}") and data.inputs.season == 7
        assert data.inputs.config["clock"]["form"] == "{y}{m:02}{d:02}"
    plain = ll.data.series({"t": _months(90), "v": _noise(90).tolist()}, "v", time="t", horizon=3)
    assert "form" not in plain.inputs.config["clock"]  # which is part of what tells data apart, as ever
    numbers = {"t": list(range(200301, 200391)), "v": _noise(90).tolist()}
    assert not ll.data.series(numbers, "v", time="t", horizon=3).inputs.clock.dated


def test_numbers_that_look_like_dates_are_told():
    days = [str(day)[2:].replace("-", "") for day in np.arange("1980-01-02", "1980-04-02", dtype="datetime64[D]")]
    with pytest.raises(DataError, match="look like dates.*800401 as 1980-04-01"):
        ll.data.series({"t": days, "v": _noise(91).tolist()}, "v", time="t", horizon=3)
    fine = ll.data.series(
        {"t": [str(k) for k in range(800102, 800202)], "v": _noise(100).tolist()}, "v", time="t", horizon=3
    )
    assert fine.inputs.clock == Clock("number")


def test_rows_are_sorted_and_times_may_be_dates():
    order = np.random.default_rng(3).permutation(90)
    table = _table()
    mixed = {name: [cells[k] for k in order] for name, cells in table.items()}
    one, two = _made(table), _made(mixed)
    assert torch.equal(one.train.x, two.train.x) and torch.equal(one.test.y, two.test.y)
    assert "the rows are sorted by step" in two.account.notes


def test_gaps_are_filled_without_looking_ahead_and_never_asked():
    table = {name: cells[:20] + cells[22:] for name, cells in _table().items()}
    with pytest.raises(DataError, match=r"2 missing steps of 1 between 19 in row 19 and 22 in row 20.*gaps=\"fill\""):
        _made(table)
    filled = _made(table, gaps="fill")
    v = np.array(_table()["v"])
    v[20:22] = v[19]
    shift, scale = filled.inputs.figures[0].shift, filled.inputs.figures[0].scale
    rows = {int(o): k for k, o in enumerate(filled.train.time)}
    assert not set(rows) & {17, 18, 19, 20} and 21 in rows and 16 in rows
    np.testing.assert_allclose(filled.train.x[rows[21], :, 0], (v[16:22] - shift) / scale, rtol=1e-4, atol=1e-5)
    joined = _made(table, gaps="join")
    assert len(joined.train) + len(joined.val) + len(joined.test) > len(filled.train)


def test_a_series_whose_name_has_a_space_in_some_rows_keeps_all_of_them(tmp_path):
    rows = [(shop, k, (k * k) % 11 + k / 9) for shop in "AB" for k in range(80)]
    for name, end in (("plain", ""), ("spaces", " ")):
        lines = (f"{shop}{end if k >= 40 else ''},{k},{v}" for shop, k, v in rows)
        (tmp_path / f"{name}.csv").write_text("\n".join(["shop,step,v", *lines]) + "\n")
    one, two = (_made(str(tmp_path / f"{name}.csv"), group="shop") for name in ("plain", "spaces"))
    assert torch.equal(one.train.x, two.train.x) and torch.equal(one.test.y, two.test.y) and len(one.test)
    assert [figures.name for figures in two.inputs.figures] == ["A", "B"]


def test_dates_that_are_written_in_two_ways_are_told_with_one_of_each():
    days = [f"2023-01-{k % 28 + 1:02d}" for k in range(90)]
    with pytest.raises(DataError, match=r"Got '01\.03\.2023' in row 2, beside '2023-01-01' in row 0\. Write dates"):
        _made({**_table(), "step": ["01.03.2023" if k == 2 else day for k, day in enumerate(days)]})
    with pytest.raises(DataError, match=r"Got '01/02/23' in row 0\. Write dates .* with all digits of the year"):
        _made({**_table(), "step": [f"01/{k % 28 + 2:02d}/23" for k in range(90)]})
    with pytest.raises(DataError, match=r"Got an empty cell in row 2\. Fill it in"):
        _made({**_table(), "step": ["" if k == 2 else day for k, day in enumerate(days)]})


def test_a_column_of_numbers_that_holds_a_word_is_left_out_with_that_word():
    words = ["err" if k == 7 else str(k) for k in range(90)]
    account = _made(_table(cost=words, size=[str(k) for k in range(90)])).account
    assert "cost: left out, for 'err' in row 7 is no number" in account.columns
    assert "size: number, read up to the moment of the forecast" in account.columns


def test_missing_values_of_the_target_are_gaps():
    table = _table()
    table["v"][30] = None
    with pytest.raises(DataError, match="must have a value at every step. Got none in row 30"):
        _made(table)
    assert _made(table, gaps="fill").account.notes[0].startswith("1 missing step filled with")


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"step": [0, *range(89)]}, {}, r"one row for each step. Got 0 in row 0 and in row 1.*group="),
        (
            {"step": [k // 4 for k in range(90)], "Quarter": [k % 4 for k in range(90)]},
            {},
            "if Quarter says when in the",
        ),
        ({"step": [*range(40), 39.5, *range(41, 90)]}, {}, "must be whole steps apart. Got 39.5 in row 40, where a st"),
        ({"v": ["cat"] * 90}, {}, "v, the target of a series, must hold finite numbers. Got 'cat' in row 0"),
        ({"v": [*map(str, range(89)), "x"]}, {}, "must hold finite numbers. Got 'x' in row 89"),
        ({"v": [4.0] * 90}, {}, "must have at least two values. Got 4 in all 90 rows"),
        (
            {"v": [4.0] * 70 + [5.0] * 20},
            {},
            "must vary in the training part.*1 series with one and the same value in the training",
        ),
        ({}, {"horizon": 90}, "longer than the horizon of 90 steps. Got 90 values"),
        ({"step": [0], "v": [1.0]}, {"horizon": 1}, "horizon of 1 step. Got 1 value in data frame. Add earlier values"),
        ({"v": [None] * 90}, {}, "v, the target, must have values. Got none in 90 rows of data frame"),
        ({}, {"horizon": 40}, "must vary in the training part, and that must be longer than the horizon of 40 steps"),
        ({}, {"season": 7}, "a window must hold a season. Got window=6, season=7"),
        ({}, {"time": "when"}, "time must name a column.*Got time 'when'"),
        ({}, {"known": ["v"]}, "a column must have one role. Got 'v' as target and known"),
        ({}, {"kind": "count"}, "must be whole and at least 0 to be a count target"),
        ({}, {"kind": "count", "level": "moving"}, "a moving level needs a real target"),
        ({}, {"gaps": "leave"}, "gaps must be error, fill or join"),
        ({}, {"val": 0.6, "test": 0.5}, "fractions that leave time to train on"),
        ({"step": ["2024-01-01", "", *["2024-01-02"] * 88]}, {}, "Got an empty cell in row 1. Fill it in"),
        ({"step": ["soon"] * 90}, {}, "the time, must be a date or a number in every row. Got 'soon' in row 0"),
        ({"step": [*map(str, range(89)), "soon"]}, {}, "a date or a number in every row. Got 'soon' in row 89"),
    ],
)
def test_what_is_wrong_is_named(change, options, message):
    with pytest.raises(UserError, match=message):
        _made({**_table(), **change}, **options)


@pytest.mark.parametrize(
    ("zones", "told"),
    [
        (("", "+01:00"), "a zone in every row or in none. Got '2024-10-26 00:00' in row 0 and '2024-10-27 03"),
        (("Z", "-00:00"), None),
        (("+02:00", "+03:00"), "02:00.02:00' in row 26 and '2024-10-27 03:00.03:00' in row 27, the same moment"),
        (("+02:00", "+01:00"), "Got 1 missing step of 1 hour between"),
    ],
)
def test_times_of_several_zones_are_moments_and_some_without_one_are_refused(zones, told):
    hours = [f"2024-10-{26 + k // 24} {k % 24:02}:00" for k in range(90)]
    table = {"step": [hour + zones[k > 26] for k, hour in enumerate(hours)], "v": _noise(90).tolist()}
    if told is None:
        assert _made(table).inputs.clock.step() == "1 hour"
        return
    with pytest.raises(DataError, match=told):
        _made(table)


@pytest.mark.parametrize(
    ("first", "look", "told"),
    [
        (["2024-10-25"], "%Y-%m-%d", "Got '2024-10-26 00:00' in row 1 and '2024-10-27 03:00.01:00' in row 28"),
        (["25-10-2024"], "%d-%m-%Y", "Got '26-10-2024 00:00' in row 1 and '27-10-2024 03:00.01:00' in row 28"),
        ([], "%d %b %Y", "Got '26 Oct 2024 00:00' in row 0 and '27 Oct 2024 03:00.01:00' in row 27"),
    ],
)
def test_times_without_a_zone_are_found_beside_days_and_named_months(first, look, told):
    days = [date(2024, 10, 26 + k // 24).strftime(look) for k in range(90)]
    hours = [f"{day} {k % 24:02}:00" + "+01:00" * (k > 26) for k, day in enumerate(days)]
    with pytest.raises(DataError, match=told):
        _made({"step": [*first, *hours], "v": _noise(len(first) + 90).tolist()})


def test_an_hour_that_comes_twice_where_clocks_go_back_asks_for_zones():
    hours = [f"2024-10-{26 + k // 24} {k % 24:02}:00" for k in range(90)]
    for twice, told in ((26, True), (30, False)):
        table = {"step": [*hours[: twice + 1], *hours[twice:]], "v": _noise(91).tolist()}
        with pytest.raises(DataError, match="one row for each step") as error:
            _made(table)
        assert ("if the clocks went back there, write times in UTC" in str(error.value)) == told


def test_rows_without_a_target_are_told():
    v = _noise(90).tolist()
    table = _table(v=[None, None, *v[2:50], None, *v[51:87], None, None, None])
    lines = "\n".join(_made(table, gaps="join").account.notes)
    for told in ("2 rows without v before the first value: left out", "1 row without v between values: left out"):
        assert told in lines
    assert "3 rows without v after the last value: steps to come" in lines
    assert "between values" not in str(_made(table, gaps="fill").account)


def test_a_date_that_is_not_named_as_the_time_is_told():
    table = {"day": [str(day) for day in np.arange("2024-01-01", "2024-03-31", dtype="datetime64[D]")], **_table()}
    told = "day: left out; rows are taken as they stand, unless this date is named as their time"
    assert told in ll.data.series({"day": table["day"], "v": table["v"]}, "v", horizon=3).account.columns
    assert any(line.startswith("day: left out, a date") for line in _made(table).account.columns)
    two = {"g": ["a", "b"] * 90, "day": [day for day in table["day"] for _ in "ab"], "v": [*table["v"], *table["v"]]}
    assert len(ll.data.series(two, "v", horizon=3, group="g").train)


def test_rows_that_a_date_puts_in_another_order_are_not_taken_as_they_stand():
    days = [str(day) for day in np.arange("2024-01-01", "2024-03-31", dtype="datetime64[D]")]
    table = {"day": days[::-1], "v": _table()["v"]}
    message = (
        r"must stand in the order of time. Got day '2024-03-30' in row 0 and '2024-03-29' in row 1. Pass time='day'"
    )
    with pytest.raises(DataError, match=message):
        ll.data.series(table, "v", horizon=3)
    assert ll.data.series(table, "v", horizon=3, time="day").inputs.season == 7
    assert ll.data.series(table, "v", horizon=3, drop=["day"]).inputs.roles.time is None
    table["day"] = [f"{1990 + k // 12}-{k % 12 + 1:02}" for k in range(89, -1, -1)]
    with pytest.raises(DataError, match=r"Got day '1997-06' in row 0 and '1997-05' in row 1. Pass time='day'"):
        ll.data.series(table, "v", horizon=3)
    assert "day: left out" in str(ll.data.series({**table, "day": table["day"][::-1]}, "v", horizon=3).account)


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "none.csv").write_text("t,v\n")
    with pytest.raises(DataError, match="none.csv must have rows"):
        ll.data.load(tmp_path / "none.csv", target="v", time="t", horizon=2)


def test_series_that_cannot_be_learned_from_are_refused_by_name():
    table = {"g": ["a"] * 60 + ["b"] * 60 + ["c"] * 2, "step": [*range(60), *range(60), 58, 59]}
    table["v"] = [*_noise(60), *[1.0] * 60, 3.0, 4.0]
    data = _made(table, group="g")
    assert [own.name for own in data.inputs.figures] == ["a"]
    assert "g b: one and the same value in the training part" in str(data.account) and data.account.used == 60


def test_a_recipe_makes_the_same_data_again(tmp_path):
    path = tmp_path / "sales.csv"
    rows = zip(_months(120), _noise(120))
    path.write_text("date,v,w\n" + "".join(f"{day},{v},{v + 1}\n" for day, v in rows))
    data = ll.data.load(path, target="v", time="date", horizon=6)
    assert data.name == "sales" and data.inputs.cycles == ("year",)
    assert ll.data.load(data.recipe).fingerprint == data.fingerprint
    again = ll.data.inputs_from("Windows", data.inputs.config)
    assert again.config == data.inputs.config
    table = {"date": _months(120), "v": _noise(120).tolist(), "w": (_noise(120) + 1).tolist()}
    torch.testing.assert_close(again.read(table), data.inputs.read(table))


def test_windows_are_taken_further_apart_when_asked():
    data = _made(every=4)
    assert data.train.time.diff().unique().tolist() == [4]
    assert int(data.test.time[-1]) == 89 - H


def test_folds_of_overlapping_windows_are_refused():
    with pytest.raises(UserError, match="folds must be of rows that do not overlap"):
        ll.data.folds(_made(), 3)


def test_the_level_is_the_mean_of_the_last_season_that_was_seen():
    trend = np.arange(90.0) + _noise(90)
    table = {"g": ["long"] * 60 + ["new"] * 7, "step": [*range(60), *range(53, 60)], "v": [*trend[:60], *trend[:7]]}
    table["known"] = [float(k) for k in range(67)]
    data = _made({**table, "v": [*trend[:60], *trend[53:60]]}, group="g", known=["known"], level="moving", window=W)
    x = data.train.x
    there = x[..., -1].sum(1).long() - H  # steps behind the origin; those ahead are there too
    expected = [x[n, m - 2 : m, 0].double().mean() for n, m in enumerate(there.tolist()) if m > 1]
    torch.testing.assert_close(data.inputs.level(x)[there > 1, 0], torch.stack(expected))
    assert float(data.inputs.level(x).abs().min()) > 0


def test_a_network_is_told_how_many_channels_a_window_has():
    data = _made(_table(other=_noise(90, 2).tolist()))
    model = ll.models.build("Recurrent", data, H, dim=4)
    assert model.channels == 2 == len(data.inputs.channels) - 1  # the last one says which steps are there
    seen = model.eval()(data.train.x[:4])
    moved = data.train.x[:4].clone()
    moved[..., 1] += 1
    assert not torch.allclose(seen, model(moved))


def test_what_a_series_without_a_season_strays_is_not_known():
    values = np.array([1.0, 2.0, 4.0])
    one = Series("a", np.arange(3), np.arange(3.0), values, np.zeros((3, 0)), np.zeros(3, dtype=bool))
    assert Figures.of(one, 3, 3).error == 0 and Figures.of(one, 3, 2).error == 3 and Figures.of(one, 3, 1).error == 1.5


def test_the_training_part_ends_before_the_first_step_behind_it():
    data = _made()
    later = data.inputs.until
    assert later is not None and float(data.train.time.max()) + H < later <= float(data.val.time.min()) + 1


def test_a_series_of_short_runs_between_gaps_says_how_far_it_can_be_forecast():
    steps = [step for step in range(120) if step % 4 != 2]
    table = {"step": steps, "v": _noise(len(steps)).tolist()}
    assert len(_made(table, gaps="fill", horizon=3).train)
    with pytest.raises(
        DataError, match=r"must have 4 values in a row.*Got at most 3 between.*Forecast at most 3, pass"
    ):
        _made(table, gaps="fill", horizon=4)
    assert len(_made(table, gaps="join", horizon=4).train)


@pytest.mark.parametrize("wrong, told", [("soon", "'soon' in row 3"), (float("inf"), "in row 3")])
def test_a_cell_that_is_no_number_is_named_when_a_table_is_read(wrong, told):
    table = _table(other=_noise(90, 2).tolist())
    data = _made(table)
    table["other"] = [*table["other"][:3], wrong, *table["other"][4:]]
    with pytest.raises(DataError, match=f"column other must hold finite numbers. Got .*{told}"):
        data.inputs.read(table)


def test_joined_rows_leave_out_what_is_missing_up_to_the_last_value():
    table = _table(20)
    values = list(table["v"])
    table["v"] = [*values[:17], None, values[18], None]
    with pytest.raises(DataError, match="must have a value at every step"):
        _made(table, horizon=1)
    joined = _made(table, horizon=1, gaps="join")
    (laid,) = joined.inputs.laid(table_of(table))
    assert len(laid.one) == 18 and not laid.one.made.any()
    np.testing.assert_allclose(laid.one.values, [*values[:17], values[18]])
