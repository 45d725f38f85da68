"""Forecasts of a run: they move with clock and unit, are weighed against simpler ones by what has come, and are scored
beside the value of a season ago.
"""

from __future__ import annotations

import math
from calendar import monthrange
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import leadline as ll
from leadline.data.table import read_rows
from leadline.errors import DataError, UserError
from leadline.forecast import forecast, forecasts, scores
from leadline.likelihoods import hindsight
from leadline.likelihoods.crps import crps
from leadline.likelihoods.hindsight import Hindsight, _Told, learned, of_parts
from leadline.likelihoods.season_ago import seasonal

H, M = 4, 4


def _values(count: int = 140, trend: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    return trend * np.arange(count) + np.tile([0.0, 5.0, 1.0, -6.0], count // 4) + rng.normal(size=count)


def _data(values: np.ndarray, first: int = 0, **options):
    table = {"step": [first + k for k in range(len(values))], "v": values.tolist()}
    return table, ll.data.series(table, "v", time="step", horizon=H, season=M, window=8, **options)


def _run(data, likelihood=None, epochs: int = 20, **options):
    family = likelihood or ll.likelihoods.likelihood_for(data.target)
    model = ll.models.build("Linear", data, family.dim_output)
    return ll.fit(model, data, likelihood=family, epochs=epochs, lr=0.03, progress=False, **options)


@pytest.mark.parametrize("level", ["fixed", "moving"])
def test_forecasts_move_with_clock_and_unit(level):
    values = _values()
    table, data = _data(values, level=level)
    other, data_2 = _data(1000 + 20 * values, first=500, level=level)
    one, two = forecast(_run(data), table), forecast(_run(data_2), other)
    assert one.moments == ("140", "141", "142", "143") and two.moments == ("640", "641", "642", "643")
    for end in ("predicted", "low", "high"):
        np.testing.assert_allclose(getattr(two, end), 1000 + 20 * np.array(getattr(one, end)), rtol=2e-3, atol=0.5)
    assert all(low < mean < high for low, mean, high in zip(one.low, one.predicted, one.high))
    np.testing.assert_allclose(one.predicted, [0, 5, 1, -6], atol=1.6)


def test_a_moving_level_is_forecast_beyond_what_was_seen():
    table, data = _data(_values(trend=1.0))
    assert data.inputs.moving
    found = forecast(_run(data, epochs=40), table)
    np.testing.assert_allclose(found.predicted, np.arange(140, 144) + np.array([0, 5, 1, -6]), atol=4)


@pytest.mark.parametrize("unit", ["fixed", "moving"])
def test_windows_are_predicted_as_they_are_scored(unit):
    _, data = _data(_values(trend=0.2) * np.linspace(1, 8, 140), unit=unit)
    run = _run(data)
    scored = run.likelihood.prediction(run.outputs("test"))
    torch.testing.assert_close(run.predict(data.test.x).quantile(0.5), scored.quantile(0.5).detach())


def test_the_value_of_a_season_ago_by_hand():
    values = _values()
    _, data = _data(values)
    centre, spread = seasonal(data.inputs, data.train, data.test)
    o = int(data.test.time[0])
    np.testing.assert_allclose(centre[0], values[o - 3 : o + 1], rtol=1e-4, atol=1e-4)
    origins = data.train.time.long().numpy()
    errors = np.stack([[values[k + h] - values[k + h - 4] for h in range(1, 5)] for k in origins])
    np.testing.assert_allclose(spread[0], np.sqrt(np.square(errors).mean(0)), rtol=1e-4)


def test_a_moving_unit_is_forecast_in_the_unit_of_the_table():
    values = _values() * np.linspace(1, 8, 140)
    table, data = _data(values, unit="moving")
    run = _run(data, epochs=30)
    found, score = forecast(run, table), scores(run)
    np.testing.assert_allclose(found.predicted, 8 * np.array([0, 5, 1, -6]), atol=15)
    plain = scores(_run(_data(values, unit="fixed")[1], epochs=1))
    assert score.naive.mae == pytest.approx(plain.naive.mae, rel=1e-3)
    assert score.naive.crps == pytest.approx(plain.naive.crps, rel=0.02)


def test_forecasts_that_missed_are_widened_and_nothing_of_the_future_counts():
    values = _values()
    late = values.copy()
    late[100:] *= 6  # behind the training part of 91 steps
    table, data = _data(late, level="fixed", unit="fixed")
    run = _run(data)
    plain = run.predict(data.inputs.last(ll.data.cells.table_of(table))[0]).interval(0.9)
    found = forecast(run, table)
    wide = (np.array(found.high) - found.low) / (plain[1] - plain[0]).numpy().ravel()
    assert wide.min() > 1 and wide.max() == pytest.approx(wide.min(), rel=1e-4)
    changed = late.copy()
    changed[136:] = 1e3  # asked by the last window alone
    _, other = _data(changed, level="fixed", unit="fixed")
    law = lambda own: [run.predict(part.x) for part in (own.val, own.test)]  # noqa: E731
    before, after = (of_parts(own.inputs, law(own), [own.val, own.test], 0.9) for own in (data, other))
    assert before.f[-1] > 1.05 and (before.f * before.g.exp())[-1] > 1.15
    assert before.a is not None and after.a is not None
    torch.testing.assert_close(before.a[:-1], after.a[:-1])
    for name in ("w", "f", "g"):
        torch.testing.assert_close(getattr(before, name)[:-1], getattr(after, name)[:-1])


def test_a_moved_and_widened_law_is_scored_as_one():
    one, zero = torch.ones(1, 1).double(), torch.zeros(1, 1).double()
    law = ll.likelihoods.Normal("fixed", dim=2).prediction(torch.full((1, 2), 2.0))
    y = torch.tensor([[0.7, -2.0]])
    for a, w, centre in ((None, one, 2.0), (torch.zeros(1, 2).double(), 0.25 * one, 0.5)):
        known = Hindsight(one, w, 3 * one, zero + math.log(2), a)
        three = ll.likelihoods.Normal("fixed", sigma=3.0, dim=2).prediction(torch.full((1, 2), centre))
        six = ll.likelihoods.Normal("fixed", sigma=6.0, dim=2).prediction(torch.full((1, 2), centre))
        torch.testing.assert_close(known.crps(law, y).float(), crps(three, y))
        torch.testing.assert_close(known.moved(law, law.quantile(0.7)).float(), three.quantile(0.7))
        torch.testing.assert_close(known.end(law, law.interval(0.9)[1]).float(), six.interval(0.9)[1])


class _Still(nn.Module):
    """Says 0 of every step ahead."""

    def __init__(self):
        super().__init__()
        self.zero = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.zero * x[:, -1, 0][:, None].expand(-1, H)


def _share(errors, windows, against, stretch=()):
    """Eq. 3 of hindsight.py: the mean of 0, 0.1 … 1, each as likely as its errors."""
    chance = []
    for j in range(11):
        sums = 4 * (2 / math.pi) ** 0.5 + sum(abs(error(j / 10)) for error in errors) / H
        wide = math.prod(k ** (-j / 10 / H) for k in stretch)
        chance.append(math.exp(-against * j / 10) * sums ** -(4 + windows) * wide)
    return sum(j / 10 * p for j, p in enumerate(chance)) / sum(chance)


def _by_hand(y, m, s, b, rho, stretch, sigma, level_end):
    """Eqs. 1 to 10 of hindsight.py, a row and a value at a time: c, f k^q and r t e^g / f of each row."""
    a, c, e, q, f, r, t, g = [], [], [], [], [], [], [], [0.0]
    for o in range(len(y)):
        came = [(k, h) for k in range(o) for h in range(H) if k + h + 1 <= o]  # only what has come by then
        windows = len(came) / H

        def gone(to, of, against):
            errors = [
                lambda j, k=k, h=h: (y[k][h] - of[k][h] - j * (to[k][h] - of[k][h])) / rho[h]
                for k, h in came  # noqa: B023
            ]
            return _share(errors, windows, against)  # noqa: B023

        v = gone(b, s, 0)
        a.append([s[o][h] + v * (b[o][h] - s[o][h]) for h in range(H)])
        w = gone(m, a, 4)
        c.append([a[o][h] + w * (m[o][h] - a[o][h]) for h in range(H)])
        e.append([(y[o][h] - c[o][h]) / sigma for h in range(H)])
        told = [lambda j, k=k, h=h: e[k][h] * stretch[k] ** -j for k, h in came]
        q.append(_share(told, windows, 4, [stretch[k] for k, _ in came]))
        sizes = [abs(e[k][h]) * stretch[k] ** -q[k] for k, h in came]
        count = [0.5 ** ((o - k - h - 1) / 100) for k, h in came]  # known since the origin k + h + 1
        squares = sum(part * size**2 for part, size in zip(count, sizes))
        r.append(((4 * H + squares) / (4 * H + sum(count))) ** 0.5)
        usual = (2 / math.pi) ** 0.5
        size = sum(part * size for part, size in zip(count, sizes))
        f.append((4 * H * usual + size) / (4 * H + sum(count)) / usual)
        t.append(stats.t.ppf(0.9, 4 + sum(count) / H) / stats.norm.ppf(0.9))
        if o:
            ended = [
                abs(e[o - h][h - 1]) * sigma
                > level_end * r[o - h] * stretch[o - h] ** q[o - h] * t[o - h] * math.exp(g[o - h])
                for h in range(1, min(H, o) + 1)
            ]
            g.append(g[-1] + 0.1 * sum(miss - 0.2 for miss in ended) / H)
    f, r, t, wide = np.array(f), np.array(r), np.array(t), np.array(stretch) ** np.array(q)
    return np.array(c), (f * wide)[:, None], (r * t * np.exp(g) / f)[:, None]


def test_scores_by_hand():
    values = _values() * np.where(np.arange(140) % 40 < 20, 1.0, 1.5)
    _, data = _data(values, unit="fixed")
    family = ll.likelihoods.Normal("fixed", dim=H, sigma=2.0)
    run = ll.fit(_Still(), data, likelihood=family, epochs=1, lr=1e-9, progress=False)
    found = scores(run, "test", level=0.8)
    parts = (data.val, data.test)
    y = torch.cat([part.y for part in parts]).double()
    s, b, rho, k = (torch.cat(own) for own in zip(*(data.inputs.by_line(part.x, None) for part in parts)))
    assert k.max() > 1.2 and k.min() < 0.8  # else eq. 6 would not be asked
    rows = [own.tolist() for own in (y, torch.zeros_like(y), s, b)]
    by_hand = _by_hand(*rows, rho[0].tolist(), k[:, 0].tolist(), 2.0, 1.2815516 * 2)
    known = of_parts(data.inputs, [run.predict(part.x) for part in parts], parts, 0.8)
    for own, hand in zip((known.f, known.g.exp()), by_hand[1:]):
        np.testing.assert_allclose(own.numpy(), hand, rtol=1e-6)
    c, f, g = (own[-len(data.test) :] for own in by_hand)
    away = np.abs(data.test.y.double().numpy() - c)
    assert found.model.mae == pytest.approx(away.mean(), rel=1e-4)
    steady = np.abs(values[4:91] - values[:87]).mean()  # 65 % of 140 steps train
    assert found.model.mase == pytest.approx(found.model.mae / steady, rel=1e-3)
    assert found.model.coverage == pytest.approx((away <= 1.2815516 * 2 * f * g).mean())
    assert found.model.low < found.model.coverage < found.model.high
    as_said = stats.norm(scale=2 * f)
    pinballs = [2 * np.where(away_ > 0, q * away_, (q - 1) * away_) for q in np.arange(0.0005, 1, 0.001)
                for away_ in [data.test.y.double().numpy() - c - as_said.ppf(q)]]  # fmt: skip
    assert found.model.crps == pytest.approx(np.mean(pinballs), rel=2e-3)
    assert found.apart == (len(data.test) + H - 1) // H and found.share is not None and found.share < 0.2
    assert found.rows == len(data.test) and found.unit == "v" and found.season == M
    assert found.naive.mase == pytest.approx(1, abs=0.5) and 0.6 < found.naive.coverage < 0.95


@pytest.mark.parametrize(("ahead", "half"), [(1, 100), (25, 100), (60, 240)])
def test_errors_fade_over_a_few_horizons_where_these_are_long(ahead, half):
    """Else the width of a forecast would follow less than one window that does not overlap another."""
    y = torch.ones(400, ahead, dtype=torch.float64)
    y[:50] = 5  # in units of the spread that was said
    zero, one = torch.zeros_like(y), torch.ones_like(y)
    ends = [side * stats.norm.ppf(q) * one for q in (0.95, 0.9) for side in (-1, 1)]
    f = learned(_Told(y, zero, zero, zero, one, one, *ends), 0.8)[-1, 3]
    ages = [400 + ahead - 1 - (o + h) for o in range(400) for h in range(1, ahead + 1)]
    count, usual = 0.5 ** (np.array(ages) / half), (2 / math.pi) ** 0.5
    hand = (4 * ahead * usual + (count * y.numpy().ravel()).sum()) / (4 * ahead + count.sum()) / usual
    assert float(f) == pytest.approx(hand, rel=1e-6)


def test_a_network_that_knows_nothing_is_not_followed():
    for values in (_values(), _values(trend=0.5), np.cumsum(_values())):
        _, data = _data(values)
        run = ll.fit(_Still(), data, likelihood=ll.likelihoods.Normal(dim=H), epochs=1, lr=1e-9, progress=False)
        found = scores(run)
        assert found.model.mae < 1.02 * found.naive.mae and found.share is not None and found.share < 0.3


@pytest.mark.parametrize(("wild", "ratio"), [(1, 1.005), (2, 0.96), (4, 0.85)])
def test_a_walk_is_forecast_as_well_as_by_its_last_value(wild, ratio):
    """Better where the validation part, by which a network's spread is settled, was wilder: a storm is forgotten."""
    steps = np.random.default_rng(2).normal(size=1500)
    steps[975:1200] *= wild
    table = {"v": np.cumsum(steps).tolist()}
    data = ll.data.series(table, "v", horizon=H, season=1, window=8)
    run = _run(data, epochs=5)
    assert scores(run).model.crps < ratio * scores(run).naive.crps
    assert scores(run).model.mae < 1.005 * scores(run).naive.mae
    assert scores(run).model.coverage == pytest.approx(0.9, abs=0.03)


def test_values_that_are_nearer_than_before_are_evidence_too():
    """A trend is left where a series comes to rest, and intervals close in, however far it strayed before."""
    steps = np.random.default_rng(0).normal(size=160)
    values = np.concatenate([np.cumsum(2 + 3 * steps[:100]), np.full(60, 200.0) + 0.1 * steps[100:]])
    data = ll.data.series({"v": values.tolist()}, "v", horizon=H, season=1, window=8)
    run = ll.fit(_Still(), data, likelihood=ll.likelihoods.Normal(dim=H), epochs=1, lr=1e-9, progress=False)
    found = scores(run)
    assert found.model.mae < 1.1 * found.naive.mae and found.model.crps < 10 * found.model.mae
    assert found.followed is not None and found.followed < 0.25


def _without_stretch(data):
    """The same data, with nothing known of how far steps go in training, as in runs of before."""
    config = data.inputs.config
    config["linear"] = {name: part for name, part in config["linear"].items() if name != "step"}
    return replace(data, inputs=ll.data.Windows(**config))


def test_intervals_are_narrow_in_a_calm_that_follows_a_storm():
    rng = np.random.default_rng(0)
    storms = np.where(np.arange(3000) // 100 % 2, 4.0, 1.0)
    data = ll.data.series(
        {"v": np.cumsum(storms * rng.normal(size=3000)).tolist()}, "v", horizon=H, season=1, window=12
    )
    assert not data.inputs.own_unit
    found = {}
    for name, own in (("now", data), ("before", _without_stretch(data))):
        run = ll.fit(_Still(), own, likelihood=ll.likelihoods.Normal(dim=H), epochs=1, lr=1e-9, progress=False)
        known = of_parts(own.inputs, [run.predict(part.x) for part in (own.val, own.test)], [own.val, own.test], 0.9)
        storm = torch.from_numpy(storms)[own.test.time.long()] > 1
        wide = known.last(len(own.test)).f[:, 0]
        found[name] = float(wide[storm].mean() / wide[~storm].mean()), scores(run)
    assert found["now"][0] > 1.8 and found["before"][0] < 1.3
    now, before = (score for _, score in found.values())
    assert now.model.crps < 0.97 * before.model.crps and now.model.crps < 0.97 * now.naive.crps
    assert now.naive == before.naive and now.model.coverage == pytest.approx(0.9, abs=0.03)


def test_what_has_come_to_rest_is_forecast_so():
    """A season that has ended: the value of a season ago is followed, and there is next to nothing to fear."""
    rng = np.random.default_rng(0)
    values = 30 + np.tile([0.0, 9.0, 2.0, -9.0], 50) + 3 * rng.normal(size=200)
    values[150:] = 0
    table, data = _data(values, unit="fixed")
    wide = []
    for own in (data, _without_stretch(data)):
        found = forecast(_run(own), table)
        assert np.abs(found.predicted).max() < 3
        wide.append(np.array(found.high) - found.low)
    assert wide[0].max() < 0.5 * wide[1].min()


def test_a_storm_does_not_outweigh_what_is_told_every_day():
    n, told = 200, hindsight._SHARES
    r, d = torch.zeros(n, 1, dtype=torch.float64), torch.full((n, 1), 0.5, dtype=torch.float64)
    r[100], d[100] = 40.0, 40.0  # once, what is d away was right
    share = hindsight._share(lambda j: r - j * d, 0.0)[-1]
    assert float(share) < 0.1 < 0.9 < float((r * d).sum() / d.square().sum())
    none = hindsight._share(lambda j: r[:1] - j * d[:1], 4.0)[0]
    assert float(none) == pytest.approx(float((told * (-4 * told).exp()).sum() / (-4 * told).exp().sum()))
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(4000, 1)))
    assert float(hindsight._share(lambda j: 0.6 * d.new_ones(()) - j + 0.3 * noise, 0.0)[-1]) == pytest.approx(
        0.6, abs=0.03
    )
    k = noise.exp()
    spread = torch.from_numpy(np.random.default_rng(1).normal(size=(4000, 1)))
    for true in (0.0, 0.3, 1.0):
        found = hindsight._share(lambda j, e=spread * k**true: e * k**-j, 4.0, k)[-1]
        assert float(found) == pytest.approx(true, abs=0.05)


def test_what_was_validated_counts_where_a_table_does_not_hold_it():
    values = _values()
    table, data = _data(values)
    run = ll.fit(_Still(), data, likelihood=ll.likelihoods.Normal(dim=H), epochs=1, lr=1e-9, progress=False)
    short = {name: cells[-9:] for name, cells in table.items()}
    np.testing.assert_allclose(forecast(run, short).predicted, forecast(run, table).predicted, atol=0.2)


def test_intervals_hold_what_they_promise_where_the_swings_change():
    rng = np.random.default_rng(0)
    wild = np.where(np.arange(3000) < 2600, 2.0 + np.sin(np.arange(3000) / 100), 6.0)
    _, data = _data(np.tile([0.0, 5.0, 1.0, -6.0], 750) + wild * rng.normal(size=3000), unit="fixed")
    run = _run(data, epochs=2)
    for level in (0.5, 0.9):
        assert scores(run, level=level).model.coverage == pytest.approx(level, abs=0.03)
    plain = run.predict(data.test.x).interval(0.9)
    assert float(((plain[0] <= data.test.y) & (data.test.y <= plain[1])).double().mean()) < 0.8


def test_a_model_that_learns_beats_the_season_ago():
    _, data = _data(_values())
    found = scores(_run(data, epochs=30))
    assert found.model.crps < 0.9 * found.naive.crps and found.model.mase < found.naive.mase
    assert 0.75 < found.model.coverage <= 1


@pytest.mark.parametrize("family", ["StudentT", "Quantile", "Laplace"])
def test_families_forecast(family):
    table, data = _data(_values())
    options = {"families": (family,)} if family == "Quantile" else {}
    name = "Joint" if family == "Quantile" else family
    run = _run(data, ll.likelihoods.likelihood_for(data.target, name, **options), epochs=8)
    found, score = forecast(run, table), scores(run)
    assert len(found) == H and all(low < high for low, high in zip(found.low, found.high))
    assert math.isfinite(score.model.crps) and 0 < score.model.coverage <= 1


@pytest.mark.parametrize("family", [None, "NegativeBinomial"])
def test_counts_of_several_series_stay_counts(family):
    rng = np.random.default_rng(0)
    season = np.tile([2.0, 9.0, 4.0, 1.0], 20)
    table = {"g": ["a"] * 80 + ["b"] * 80, "v": [*rng.poisson(season), *rng.poisson(20 * season)]}
    data = ll.data.series(table, "v", group="g", horizon=2, season=4, kind="count")
    options = {} if family is None else {"families": (family,)}
    run = _run(data, ll.likelihoods.likelihood_for(data.target, "Joint", **options), epochs=30)
    found, score = forecast(run, table), scores(run)
    assert found.series == ("a", "a", "b", "b") and found.moments == ("1", "2", "1", "2")
    assert found.predicted[2] > 5 * found.predicted[0] and all(low == round(low) for low in found.low)
    assert score.unit == "v" and math.isfinite(score.model.crps)


def test_a_file_is_forecast_by_its_name(tmp_path):
    table, data = _data(_values())
    run = _run(data, epochs=1)
    path = tmp_path / "so-far.csv"
    path.write_text("step,v\n" + "".join(f"{k},{v}\n" for k, v in zip(table["step"], table["v"])))
    assert forecast(run, path).predicted == forecast(run, str(path)).predicted == forecast(run, table).predicted


def test_several_series_are_forecast_in_their_own_units():
    values = _values()
    names = ["a"] * 140 + ["b"] * 140
    table = {"g": names, "step": [*range(140)] * 2, "v": [*values, *(500 + 30 * values)]}
    data = ll.data.series(table, "v", time="step", group="g", horizon=H, season=M)
    run = _run(data)
    found = forecast(run, table)
    a, b = np.array(found.predicted).reshape(2, H)
    np.testing.assert_allclose(b, 500 + 30 * a, rtol=1e-3)
    new = {"g": ["c"] * 12, "step": list(range(12)), "v": (70 + 3 * values[:12]).tolist()}
    c = np.array(forecast(run, new).predicted)
    assert np.abs(c - 70).max() < 30 and forecast(run, new).series == ("c",) * H
    assert scores(run).unit == "deviations of each series"


def test_days_on_which_a_market_is_closed_are_not_forecast():
    days = [day for day in np.arange("2024-01-01", "2024-07-06", dtype="datetime64[D]") if np.is_busday(day)]
    table = {"day": [str(day) for day in days], "v": _values()[: len(days)].tolist()}
    data = ll.data.series(table, "v", time="day", horizon=H, gaps="join")
    assert data.inputs.clock.unit == "day" and ll.data.Windows(**data.inputs.config).clock == data.inputs.clock
    run = _run(data, epochs=1)
    assert forecast(run, table).moments == ("2024-07-08", "2024-07-09", "2024-07-10", "2024-07-11")
    told = {"day": [*table["day"], "2024-07-10"], "v": [*table["v"], None]}  # one that the table tells
    assert forecast(run, told).moments == ("2024-07-10", "2024-07-11", "2024-07-12", "2024-07-15")


def test_series_of_months_keep_their_own_days(tmp_path):
    rows = [
        (shop, f"{2001 + k // 12}-{k % 12 + 1:02}-{min(day, monthrange(2001 + k // 12, k % 12 + 1)[1])}", f"{k % 12}")
        for shop, day in (("a", 30), ("b", 28), ("c", 31))
        for k in range(1, 62)  # from February to February
        if k != 2
    ]
    path = tmp_path / "shops.csv"
    path.write_text("shop,day,v\n" + "".join(f"{','.join(row)}\n" for row in rows))
    data = ll.data.series(path, "v", time="day", group="shop", horizon=2, gaps="fill")
    _run(data, epochs=1, folder=tmp_path / "run")
    again = ll.load(tmp_path / "run")
    assert forecast(again).moments == (
        "2006-03-30", "2006-04-30", "2006-03-28", "2006-04-28", "2006-03-31", "2006-04-30"
    )  # fmt: skip
    filled = [laid.one.moments[1:2] for laid in again.inputs.laid(read_rows(path))]
    assert [again.inputs.clock.written(moments) for moments in filled] == [
        ["2001-03-30"],
        ["2001-03-28"],
        ["2001-03-31"],
    ]


def test_a_run_that_is_read_back_forecasts_the_same(tmp_path):
    table, _ = _data(_values())
    path = tmp_path / "v.csv"
    path.write_text("step,v\n" + "".join(f"{s},{v}\n" for s, v in zip(table["step"], table["v"])))
    data = ll.data.load(path, target="v", time="step", horizon=H, season=M)
    run = _run(data, epochs=3, folder=tmp_path / "run")
    again = ll.load(tmp_path / "run")
    assert forecasts(again)
    assert forecast(again).to_dict() == forecast(run).to_dict()
    assert scores(again).to_dict() == scores(run).to_dict()


def test_other_runs_do_not_forecast():
    data = ll.data.moons(num=60)
    run = ll.fit(ll.models.MLP(2, (4,), 1), data, epochs=1, progress=False)
    with pytest.raises(UserError, match="must be of series to forecast"):
        forecast(run)
    _, series = _data(_values())
    with pytest.raises(DataError, match="table in memory must be told"):
        forecast(_run(series, epochs=1))


@pytest.mark.parametrize("family", ["Poisson", "NegativeBinomial", "Exponential"])
def test_what_cannot_be_negative_is_not_forecast_below_0(family):
    """Counts in a column of real numbers: forecasts are those of the family, which knows that none is below 0."""
    counts = np.random.default_rng(0).poisson(np.tile([0.3, 4.0, 1.0, 0.2], 40)).astype(float)
    table = {"v": (counts + (family == "Exponential")).tolist()}
    data = ll.data.series(table, "v", horizon=1, season=M, window=8, level="fixed", unit="fixed")
    run = _run(data, ll.likelihoods.LIKELIHOODS[family].for_target(data.target), epochs=5)
    found = forecast(run, table)
    assert found.low[0] >= 0 and found.predicted[0] > 0
    assert found.predicted[0] == pytest.approx(float(run.predict(table).mean[0]), rel=1e-6)
    assert scores(run).followed is None
