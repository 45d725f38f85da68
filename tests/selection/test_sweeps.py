"""Sweeps: the same for a seed, the runs that `fit` would give, and a bump that is found where it is."""

import numpy as np
import pytest

from leadline.data import mnist1d, moons
from leadline.data.resample import label_noise
from leadline.errors import UserError
from leadline.likelihoods import Categorical
from leadline.models import MLP
from leadline.population import fit_many
from leadline.selection import Sweep, by_epochs, by_rows, by_width, equal_steps, equal_travel, sweep
from leadline.selection.curves import _fewer, noisy

QUICK = {"epochs": 3, "batch": 20, "progress": False, "threads": 1, "compile": "off"}


def net(width):
    return MLP(2, (width,), 1, activation="relu", p_drop=0.0)


def made(mean, lines=("",), at=None, parameters=None):
    mean = np.atleast_2d(np.array(mean, float))
    scores = mean[..., None] + np.array([-0.01, 0.0, 0.01])
    at = np.arange(1.0, mean.shape[1] + 1) if at is None else np.array(at, float)
    parameters = np.array(parameters if parameters is not None else at * 10)
    return Sweep("width", at, tuple(lines), "error", scores / 2, scores, parameters, np.full(len(at), 25), False)


def test_a_sweep_repeats_for_its_seeds():
    first, second = (
        by_width(net, moons(num=100, val=0.0), [2, 6], noise=(0.2, 0.0), seeds=2, **QUICK) for _ in range(2)
    )
    np.testing.assert_array_equal(first.test, second.test)
    assert first.test.shape == (2, 2, 2) and first.lines == ("20 % random labels", "clean labels")
    assert first.parameters.tolist() == [9, 25] and set(first.rows) == {80}


def test_scores_are_those_of_the_runs():
    data = moons(num=100, val=0.0)
    found = sweep(net(4), data, {r: {"lr": r} for r in (0.01, 0.1)}, axis="learning rate", seeds=[3, 5], **QUICK)
    runs = fit_many(net(4), data, [{"lr": 0.1, "seed": 5}], **QUICK)
    assert found.test[0, 1, 1] == pytest.approx(1 - runs[0].evaluate("test")["accuracy"])
    losses = sweep(net(4), data, {0.1: {"lr": 0.1}}, axis="learning rate", seeds=[5], metric="nll", **QUICK)
    assert losses.train[0, 0, 0] == pytest.approx(runs[0].evaluate("train")["nll"], rel=1e-4)


def test_a_bump_is_found_where_it_is():
    bump = made([0.5, 0.3, 0.45, 0.4, 0.2]).bump()
    assert (bump.valley, bump.peak, bump.end) == (2, 3, 5)
    assert bump.rise == pytest.approx(0.15) and bump.descent == pytest.approx(-0.1)
    assert bump.rise_error == pytest.approx(2**0.5 * 0.01 / 3**0.5)
    falling = made([0.5, 0.4, 0.3]).bump()
    assert falling.rise < 0
    with pytest.raises(UserError, match="at least two points"):
        made([0.5]).bump()


def test_parameters_equal_rows_between_two_points():
    found = made([0.5, 0.3, 0.4], at=[1, 2, 3], parameters=[10, 20, 40])
    assert found.crossing == pytest.approx(2 + np.log(25 / 20) / np.log(2))
    assert made([0.5, 0.3], parameters=[30, 40]).crossing is None


def test_rows_of_one_seed_lie_in_one_another():
    data = moons(num=200, val=0.0)
    found = by_rows(net(4), data, [10, 40], noise=(0.0, 0.3), seeds=2, **QUICK)
    assert found.rows.tolist() == [10, 40] and found.test.shape == (2, 2, 2)
    few, more = (_fewer(data, count, 0.0, 1).train.rows.tolist() for count in (10, 40))
    assert few == more[:10] and len(set(more)) == 40
    with pytest.raises(UserError, match="rows must be from 1 to 160"):
        by_rows(net(4), data, [161], **QUICK)


def test_labels_are_drawn_anew_from_all_classes():
    data = mnist1d(num=1000, val=0.0)
    changed = (noisy(data, 0.5, 0).train.y != data.train.y).double().mean()
    assert 0.4 < float(changed) < 0.49  # a tenth of half of them stays by chance
    assert noisy(data, 0.0, 0) is data
    assert bool((label_noise(data, 0.5, 0).train.y != data.train.y).double().mean() == 0.5)


def test_epochs_are_scored_on_the_way():
    data = moons(num=100, val=0.0)
    found = by_epochs(net(8), data, epochs=6, every=3, seeds=2, batch=20, lr=0.02, progress=False, metric="nll")
    assert found.at.tolist() == [3, 6] and found.test.shape == (1, 2, 2)
    runs = fit_many(net(8), data, [{"seed": s} for s in range(2)], epochs=6, batch=20, lr=0.02, progress=False)
    for split, scores in (("train", found.train), ("test", found.test)):
        np.testing.assert_allclose(scores[0, -1], runs.evaluate(split).values_of("nll"), rtol=1e-4)


def test_equal_travel_and_steps():
    assert [o["lr"] * o["epochs"] for o in equal_travel([0.4, 0.1], 5)] == pytest.approx([2.0, 2.0])
    assert [o["epochs"] * 1000 // o["batch"] for o in equal_steps([10, 100, 1000], 1000, 300)] == [300, 300, 300]
    with pytest.raises(UserError, match="at least one number"):
        equal_travel([], 5)


def test_the_figure_has_both_splits_and_the_line():
    single, double = made([0.5, 0.3, 0.4]).plot(), made([[0.5, 0.3], [0.6, 0.2]], lines=("a", "b")).plot()
    texts = [t.get_text() for t in single.axes[0].get_legend().get_texts()]
    assert texts == ["parameters = rows", "train", "test"] and len(double.axes) == 2


def test_a_likelihood_without_smoothing_is_passed_on():
    data = mnist1d(num=200, val=0.0)
    template = MLP(40, (4,), 10, p_drop=0.0)
    plain = sweep(template, data, {0: {}}, axis="-", seeds=1, metric="nll", likelihood=Categorical(10), **QUICK)
    usual = sweep(template, data, {0: {}}, axis="-", seeds=1, metric="nll", **QUICK)
    assert plain.train != usual.train
