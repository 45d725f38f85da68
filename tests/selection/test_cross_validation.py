"""Cross-validation is ten fits, its pooled metrics are those of all rows, and the ensemble is the mean prediction."""

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score

import leadline as ll
from leadline.errors import UserError

SETTINGS = {"epochs": 8, "lr": 0.01, "threads": 1, "progress": False}


@pytest.fixture(scope="module")
def diabetes():
    data = ll.data.diabetes()
    return data, ll.cross_validate(ll.models.MLP(10, (16,), 1), data, 5, **SETTINGS)


@pytest.fixture(scope="module")
def wine():
    data = ll.data.wine()
    return data, ll.cross_validate(ll.models.MLP(13, (16,), 3), data, 4, **SETTINGS)


@pytest.mark.parametrize("name", ["diabetes", "wine"])
def test_the_scores_are_those_of_single_fits(name, request):
    data, scores = request.getfixturevalue(name)
    for k, fold in enumerate(ll.data.folds(data, scores.num)):
        torch.manual_seed(0)
        model = type(scores.population[k].model)(**scores.population[k].model.config)
        run = ll.fit(model, fold, seed=0, **SETTINGS)
        for metric, value in run.evaluate("test").items():
            assert scores.scores.evaluations[k][metric] == pytest.approx(value, rel=1e-4, abs=1e-4)


def test_pooled_metrics_are_of_all_rows_in_one_unit(diabetes):
    data, scores = diabetes
    rows = scores.out_of_fold()
    assert len(rows["row"]) == len(data.train) + len(data.val) == len(set(rows["row"].tolist()))
    assert scores.pooled["r2"] == pytest.approx(r2_score(rows["y"], rows["predicted"]), abs=1e-5)
    assert scores.pooled["rmse"] == pytest.approx(np.sqrt(np.mean((rows["y"] - rows["predicted"]) ** 2)), rel=1e-5)


def test_pooled_accuracy_and_its_rows(wine):
    _, scores = wine
    rows = scores.out_of_fold()
    assert scores.pooled["accuracy"] == pytest.approx(np.mean(rows["y"] == rows["predicted"]))
    assert scores.pooled.count == len(rows["y"])


def test_the_ensemble_is_the_mean_prediction(wine, diabetes):
    data, scores = wine
    x, y = data.test.x, data.test.y
    chances = torch.stack([run.predict(x).probabilities for run in scores.population]).mean(0)
    assert scores.ensemble["accuracy"] == pytest.approx(float((chances.argmax(1) == y).double().mean()))
    assert scores.ensemble["nll"] == pytest.approx(-float(chances[torch.arange(len(y)), y].log().mean()), rel=1e-5)
    data, scores = diabetes
    mean = torch.stack([run.predict(data.test.x).mean for run in scores.population]).mean(0)
    assert scores.ensemble["r2"] == pytest.approx(r2_score(data.test.y, mean), abs=1e-5)


def test_the_interval_allows_for_shared_rows(diabetes):
    _, scores = diabetes
    values = scores.scores.values_of("r2")
    half = 2.776 * np.std(values, ddof=1) * np.sqrt(1 / 5 + 1 / 4)
    low, high = scores.interval("r2")
    assert (high - low) / 2 == pytest.approx(half, rel=0.01) and scores["r2"] == pytest.approx(np.mean(values))
    assert scores.overlap == pytest.approx(0.25, abs=0.01)


def test_it_is_one_computation_for_all_folds(wine, monkeypatch):
    from leadline import population

    sizes = []
    together = population._fit_together
    monkeypatch.setattr(
        population, "_fit_together", lambda group, *more: (sizes.append(len(group)), together(group, *more))
    )
    ll.cross_validate(ll.models.MLP(13, (4,), 3), wine[0], 4, epochs=1, progress=False)
    assert sizes == [4]


def test_repeats_cut_anew(wine):
    scores = ll.cross_validate(ll.models.MLP(13, (4,), 3), wine[0], 3, repeats=2, **{**SETTINGS, "epochs": 2})
    assert len(scores.population) == 6 and scores.population[3].settings.seed == 1
    first, again = (scores.population[k].data.test.rows.tolist() for k in (0, 3))
    assert first != again and scores.pooled.count == len(wine[0].train) + len(wine[0].val)


def test_what_it_says_and_draws(diabetes):
    _, scores = diabetes
    told = json.loads(json.dumps(scores.to_dict()))
    assert told["folds"] == 5 and len(told["each"]) == 5 and told["mean"]["r2"] == scores["r2"]
    figure = scores.plot()
    assert len(figure.axes) == 2
    assert "5 folds" in repr(scores)


def test_without_validation_or_test_rows():
    data = ll.data.wine(val=0.0, test=0.0)
    scores = ll.cross_validate(ll.models.MLP(13, (4,), 3), data, 3, **{**SETTINGS, "epochs": 1})
    assert scores.ensemble is None and not len(scores.population[0].data.val)
    assert scores.plot().axes


def test_two_models_are_compared_pair_by_pair(wine):
    data, scores = wine
    poor = ll.cross_validate(ll.models.MLP(13, (1,), 3), data, 4, **{**SETTINGS, "lr": 1e-6})
    found = ll.compare(poor, scores)
    assert found.mean == pytest.approx(scores["accuracy"] - poor["accuracy"])
    assert found.mean > 0.2 and found.p_t < 0.05 and found.verdict == "the second is better in accuracy"
    assert found.p_sign == found.p_permutation == 0.125
    assert ll.compare(scores, scores).verdict.startswith("no difference")
    assert ll.compare(scores, poor, "nll").verdict == "the first is better in nll"
    assert found.plot().axes and json.dumps(found.to_dict())


def test_populations_are_compared_over_seeds(wine):
    data = wine[0]
    fitted = [ll.fit_many(ll.models.MLP(13, (w,), 3), data, ll.members(seed=range(3)), **SETTINGS) for w in (1, 16)]
    found = ll.compare(*fitted)
    differences = found.second - found.first
    t = differences.mean() / (differences.std(ddof=1) / np.sqrt(3))
    assert found.t == pytest.approx(t)


def test_mistakes(wine):
    data, scores = wine
    other = ll.cross_validate(ll.models.MLP(13, (4,), 3), data, 4, split_seed=1, **{**SETTINGS, "epochs": 1})
    with pytest.raises(UserError, match="the same rows"):
        ll.compare(scores, other)
    with pytest.raises(UserError, match="of one kind"):
        ll.compare(scores, scores.population)
    with pytest.raises(UserError, match="two cross-validations"):
        ll.compare(scores, data)
    with pytest.raises(UserError, match="metric of both"):
        ll.compare(scores, scores, "acuracy")
    with pytest.raises(UserError, match="folds of your own"):
        ll.cross_validate(ll.models.MLP(13, (4,), 3), data, ll.data.folds(data, 3)[:1])
    with pytest.raises(UserError, match="setting must be known"):
        ll.cross_validate(ll.models.MLP(13, (4,), 3), data, 3, epoch=3)
