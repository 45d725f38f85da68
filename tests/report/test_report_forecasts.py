"""What a report says of forecasts is what the shell says of them, not what the network alone would say."""

from __future__ import annotations

import numpy as np
import pytest

import leadline as ll
from leadline.forecast import scores
from leadline.report import figures, results
from leadline.report.facts import Facts
from leadline.report.forecasts import Forecasts
from leadline.report.numbers import LEVELS, coverage


@pytest.fixture
def run():
    rng = np.random.default_rng(0)
    values = np.tile([0.0, 5.0, 1.0, -6.0], 60) + rng.normal(size=240) * np.linspace(1, 4, 240)  # noise that grows
    data = ll.data.series({"v": values.tolist()}, "v", horizon=4, season=4, window=8, unit="fixed")
    return ll.fit(ll.models.build("Linear", data, 4), data, epochs=20, lr=0.03, progress=False)


def _facts(run) -> Facts:
    data = run.need_data()
    outputs = {name: run.outputs(name) for name, _ in data.splits()}
    return Facts("t", {}, [], None, {}, data, run.likelihood, outputs)


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
