"""What a report says of forecasts is what the shell says of them, not what the network alone would say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.forecast import scores
from leadline.report import figures, results
from leadline.report.facts import Facts
from leadline.report.forecasts import Forecasts, Headline, _worst, by_step, worst_forecasts
from leadline.report.numbers import LEVELS, coverage
from leadline.report.page import page
from leadline.report.words import number, percent


@pytest.fixture
def run():
    rng = np.random.default_rng(0)
    values = np.tile([0.0, 5.0, 1.0, -6.0], 60) + rng.normal(size=240) * np.linspace(1, 4, 240)  # noise that grows
    data = ll.data.series({"v": values.tolist()}, "v", horizon=4, season=4, window=8, unit="fixed")
    return ll.fit(ll.models.build("Linear", data, 4), data, epochs=20, lr=0.03, progress=False)


def _facts(run) -> Facts:
    data = run.need_data()
    outputs = {name: run.outputs(name) for name, _ in data.splits()}
    return Facts("t", {}, [], None, {"test": run.evaluate("test")}, data, run.likelihood, outputs)


@pytest.mark.parametrize("split", ["val", "test"])
def test_coverage_is_that_of_the_table(run, split):
    answers = Forecasts.of(_facts(run), split)
    held, alone = coverage(answers).mean(1), coverage(answers.network).mean(1)
    for level in (0.5, 0.9):
        assert held[LEVELS.index(level)] == pytest.approx(scores(run, split, level).model.coverage, abs=1e-9)
    assert abs(held - alone).max() > 0.03  # else this would show nothing


def test_the_figure_draws_forecasts_beside_the_network(run, monkeypatch):
    drawn = {}

    def kept(observed, rows, names, colour):
        drawn.update(observed=observed, rows=rows, names=names)

    monkeypatch.setattr(figures, "coverage_curve", kept)
    results.results(_facts(run), "test", lambda name, figure, caption, full=False: caption)
    told = scores(run, "test")
    assert drawn["names"] == ["forecasts", "network"] and drawn["rows"] == told.apart
    assert drawn["observed"][LEVELS.index(0.9), 0] == pytest.approx(told.model.coverage, abs=1e-9)


def _page(run):
    facts = replace(_facts(run), evaluations={name: run.evaluate(name) for name in ("train", "val", "test")})
    return page(facts)


def test_the_top_of_the_page_is_of_the_forecasts(run):
    html, told = _page(run).html, scores(run, "test")
    top = html[: html.index('id="metrics"')]
    assert f'<div class="value">{number(told.model.crps)}</div>' in top
    assert f"{number(told.naive.crps)} with the value 4 steps before" in top
    assert f"are off by {number(told.model.mae)} on average" in top
    better = told.model.crps < told.naive.crps
    assert ("lower than that of the value 4 steps before" in top) is better
    assert "r2" not in top


def test_a_forecast_that_is_no_better_is_told_so(run):
    facts = _facts(run)
    model, naive = facts.judged
    vars(facts)["judged"] = naive, model
    assert "the value 4 steps before is as good a forecast, or better." in Headline.of(facts, "test").sentence


def test_the_table_has_the_scores_of_the_shell(run):
    html, told = _page(run).html, scores(run, "test")
    part = html[html.index("<h3>Beside the value 4 steps before</h3>") :]
    for score in (told.model, told.naive):
        assert all(number(value) in part for value in (score.crps, score.mae, score.mase))
        assert percent(score.coverage) in part


def test_metrics_of_single_steps_are_left_to_the_figure(run):
    html = _page(run).html
    metrics = html[html.index('id="metrics"') : html.index('id="results"')]
    assert "rmse_1" in run.evaluate("test") and "rmse_1" not in metrics and "of the network alone" in metrics


def test_pictures_of_a_page_on_series(run):
    assert set(_page(run).figures) == {"forecasts", "coverage", "steps", "worst"}
    values = np.sin(np.arange(120.0)).tolist()
    data = ll.data.series({"v": values}, "v", horizon=1, season=4, window=8)
    single = ll.fit(ll.models.build("Linear", data, 1), data, epochs=1, progress=False, likelihood="Normal", lr=1e-3)
    assert "steps" not in _page(single).figures


@pytest.mark.parametrize("kind", ["count", "positive"])
def test_a_page_on_several_steps_of_counts(kind):
    """Each step ahead has a family of its own, and all of them are one forecast."""
    values = np.random.default_rng(0).poisson(4, 120) + (kind == "positive") * 0.5
    data = ll.data.series({"v": values.tolist()}, "v", kind=kind, horizon=3, season=4, window=8)
    made = ll.models.build("Linear", data, 3)
    several = ll.fit(made, data, epochs=1, progress=False, lr=1e-3)
    assert type(several.likelihood).__name__ == "Joint"
    assert set(_page(several).figures) == {"forecasts", "coverage", "steps", "worst"}


def test_the_errors_of_a_step_are_means_over_its_windows(run):
    model, naive = _facts(run).judged
    figure = by_step(model, naive, run.inputs, "test")
    left, right = figure.axes
    for ax, name in ((left, "away"), (right, "held")):
        lines = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
        np.testing.assert_allclose(lines["forecast"], getattr(model, name).numpy().mean(0))
        np.testing.assert_allclose(lines["the value 4 steps before"], getattr(naive, name).numpy().mean(0))
    assert float(model.away.mean()) == pytest.approx(scores(run, "test").model.mae)


def test_the_worst_forecast_is_drawn_first(run):
    facts = _facts(run)
    first = worst_forecasts(facts, "test").axes[0]
    past = first.get_lines()[0]
    assert all(tick == round(tick) for tick in first.get_xticks())  # steps
    worst = int(facts.judged[0].crps.mean(1).argmax())
    np.testing.assert_allclose(past.get_ydata(), _read(run)[worst], rtol=1e-5, atol=1e-5)


def test_a_forecast_follows_what_was_read_in_the_unit_of_the_table(run, monkeypatch):
    """What comes after window 2 stands at the end of window 6, four steps later."""
    monkeypatch.setattr("leadline.report.forecasts._worst", lambda *_: torch.tensor([2]))
    past, _, came, _ = worst_forecasts(_facts(run), "test").axes[0].get_lines()
    assert past.get_xdata().tolist() == [*range(-7, 1)] and came.get_xdata().tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(past.get_ydata(), _read(run)[2], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(came.get_ydata(), _read(run)[6][4:], rtol=1e-4, atol=1e-4)


def _read(run) -> np.ndarray:
    """The windows of the test split in the unit of the table, (N, 8)."""
    own = run.data.inputs.figures[0]
    return own.shift + own.scale * run.data.test.x[..., 0].double().numpy()


def test_worst_windows_overlap_only_in_other_series():
    loss, group = torch.tensor([9.0, 8.0, 7.0, 6.0, 5.0, 4.0]), torch.tensor([0, 1, 0, 1, 0, 1])
    assert _worst(loss, None, 3).tolist() == [0, 3]
    assert _worst(loss, group, 2).tolist() == [0, 1, 4, 5]
