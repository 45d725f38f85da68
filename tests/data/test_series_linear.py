"""The linear forecast of series: figures by hand, a prior that holds where little was seen, nothing of the future."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.data import series_linear
from leadline.data.series_linear import NUM, Linear, figures_of, last_steps, season_ago

M, H, W = 4, 6, 10


def _windows(values: np.ndarray, num: int | None = None):
    every = torch.from_numpy(values).unfold(0, W + H, 1)[:num]
    return every[:, :W], torch.full((len(every),), W), every[:, W:]


def _fitted(values: np.ndarray, num: int | None = None, drifts: bool = False) -> Linear:
    z, count, coming = _windows(values, num)
    return Linear.of(z, count, coming, torch.ones(len(z), 1), M, drifts)


@pytest.mark.parametrize("seen", [1, 3, 4, 5, 8, 10])
def test_figures_by_hand(seen):
    z = np.random.default_rng(seen).normal(size=W)
    z[seen:] = 99.0  # padding
    row, count = torch.from_numpy(z)[None], torch.tensor([seen])
    ago, phi = season_ago(row, count, M, H)[0], figures_of(row, count, M, H)[0]
    o, level, window = seen - 1, z[max(0, seen - M) : seen].mean(), z[:seen].mean()
    for h in range(1, H + 1):
        place = o + h - M * -(-h // M) if seen >= M else o
        assert ago[h - 1] == z[place]
        earlier = [z[k] for k in range(place - M, -1, -M)] if seen >= M else []
        shape = (np.mean(earlier) - window) - (z[place] - level) if earlier else 0.0
        since = z[o] - z[o - M] if seen > M else 0.0
        way = level - z[max(0, seen - 2 * M) : seen - M].mean() if seen > M else 0.0
        np.testing.assert_allclose(phi[h - 1], [shape, since, way, window - level, -level], atol=1e-12)


@pytest.mark.parametrize(("num", "lags"), [(29, 0), (280, W - 1)])  # 29 windows are too few to tell
def test_weights_are_ridge_regression(num, lags):
    z, count, coming = _windows(_swings(400), num)
    found = _fitted(_swings(400), num)
    steps = last_steps(z, count, lags)[:, None].expand(-1, H, -1)
    phi = torch.cat([figures_of(z, count, M, H), steps], -1).numpy()
    left = (coming - season_ago(z, count, M, H)).numpy()
    prior = np.diag((2 * np.square(left).mean() * np.array([1.0] * NUM + [*range(1, lags + 1)])) ** 0.5)
    for h in range(H):
        rows, answers = np.vstack([phi[:, h] / H**0.5, prior]), np.append(left[:, h] / H**0.5, np.zeros(len(prior)))
        np.testing.assert_allclose(found.weights[h], np.linalg.lstsq(rows, answers, rcond=None)[0], atol=1e-9)
    spread = np.sqrt(np.square((coming - found(z, count, M)).numpy()).mean(0))
    np.testing.assert_allclose(found.spread, spread, rtol=1e-9)
    assert found.lags == lags


def _swings(count: int) -> np.ndarray:
    """Waves of about M steps that lose their time: an autoregression of the last two values."""
    rng, values = np.random.default_rng(0), [0.0, 1.0]
    for _ in range(count):
        values.append(1.9 * np.cos(2 * np.pi / (1.25 * M)) * values[-1] - 0.95**2 * values[-2] + rng.normal())
    return np.array(values)


def test_the_last_steps_have_a_part_where_they_tell_more():
    z, count, coming = _windows(_swings(800))
    found = _fitted(_swings(800), 400)
    plain = series_linear._fitted(series_linear._Rows(z, count, coming, coming).some(slice(400)), M, NUM, 0)
    later = slice(400 + H, None)
    errs = [float((coming[later] - b(z[later], count[later], M)).square().mean()) for b in (found, plain)]
    assert found.lags == W - 1 and errs[0] < 0.7 * errs[1]
    walk = np.random.default_rng(0).normal(size=400).cumsum()
    z, count, coming = _windows(walk)
    assert Linear.of(z, count, coming, torch.ones(len(z), 1), 1, drifts=True).lags == 0


@pytest.mark.parametrize("seen", [1, 4, W])
def test_last_steps_by_hand(seen):
    z = np.random.default_rng(seen).normal(size=W)
    steps = [z[k] - z[k - 1] for k in range(seen - 1, 0, -1)]
    z[seen:] = 99.0  # padding
    told = last_steps(torch.from_numpy(z)[None], torch.tensor([seen]), W - 1)[0]
    np.testing.assert_allclose(told, steps + [0.0] * (W - 1 - len(steps)), atol=1e-12)


def test_little_that_was_seen_leaves_the_value_of_a_season_ago():
    rng = np.random.default_rng(0)
    values = np.tile([0.0, 1.0, 2.0, -1.0], 100) + 0.2 * rng.normal(size=400)
    few, many = (np.abs(_fitted(values, num).weights).mean() for num in (3, None))
    assert few < 0.1 and many > 0.15


def test_a_mean_is_gone_back_to_where_the_level_stands_still():
    noise = np.random.default_rng(0).normal(size=400)
    fits = [_fitted(noise, drifts=drifts) for drifts in (False, True)]
    assert [len(found.weights[0]) - found.lags for found in fits] == [NUM, NUM - 1]
    z, count, coming = _windows(noise)
    errs = lambda centre: float((coming - centre).square().mean())  # noqa: E731
    assert errs(_fitted(noise)(z, count, M)) < 0.75 * errs(season_ago(z, count, M, H))


@pytest.mark.parametrize("group", [None, "g"])
def test_the_linear_forecast_is_of_the_training_part_and_in_the_unit_of_y(group):
    rng = np.random.default_rng(0)
    values = 50 + 0.4 * np.arange(200) + np.tile([0.0, 5.0, 1.0, -6.0], 50) + rng.normal(size=200)

    def made(v):
        table = {"step": [*range(200)], "v": v.tolist()}
        if group:
            table = {"g": ["a"] * 200 + ["b"] * 200, "step": [*range(200)] * 2, "v": [*v, *(1000 + 30 * v)]}
        return ll.data.series(table, "v", time="step", group=group, horizon=H, season=M)

    data = made(values)
    assert made(np.append(values[:130], rng.normal(size=70))).inputs.linear == data.inputs.linear
    _, b, spread, _ = data.inputs.by_line(data.test.x, data.test.group)
    away = (data.test.y.double() - b) / spread
    assert 0.7 < float(away.square().mean().sqrt()) < 1.4  # it goes on as in training
    again = ll.data.Windows(**data.inputs.config)
    assert again.linear == data.inputs.linear


def test_how_far_the_steps_of_a_window_go_by_hand():
    rng = np.random.default_rng(0)
    z, count = torch.from_numpy(rng.normal(size=(5, W))), torch.tensor([1, 2, 7, W, W])
    unit = torch.from_numpy(rng.uniform(0.5, 2, size=(5, 1)))
    steps = [[abs(float(z[n, t] - z[n, t - 1])) for t in range(1, count[n])] for n in range(5)]
    every = [step / float(unit[n]) for n in range(5) for step in steps[n]]
    found = Linear.of(z, count, torch.zeros(5, H).double(), unit, M, False)
    assert found.step == pytest.approx(np.mean(every))
    for n, own in enumerate(steps):
        by_hand = np.mean([found.step, *(step / float(unit[n]) for step in own)]) / found.step
        assert float(found.stretch(z, count, unit)[n]) == pytest.approx(by_hand)
    assert (replace(found, step=0.0).stretch(z, count, unit) == 1).all()


def test_counts_have_none_and_runs_of_before_stay_what_they_were():
    table = {"v": [float(k % 4) for k in range(80)]}
    assert ll.data.series(table, "v", horizon=2, kind="count").inputs.linear is None
    data = ll.data.series(table, "v", horizon=2)
    config = {name: part for name, part in data.inputs.config.items() if name != "linear"}
    before = ll.data.Windows(**config)
    assert before.linear is None and before.by_line(data.test.x, None) is None
    assert replace(data, inputs=before).fingerprint == data.fingerprint
    fields = {name: part for name, part in data.inputs.config["linear"].items() if name != "step"}
    known = ll.data.Windows(**{**config, "linear": fields}).by_line(data.test.x, None)
    assert known is not None and (known[3] == 1).all() and known[1].shape == known[3].shape
