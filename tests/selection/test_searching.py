"""Search: the same for a seed, as populations, with rungs and folds, stored, shared; no finished trial is ever lost."""

import json
import os
import sys
import time

import pytest
import torch

import leadline as ll
from leadline.errors import RunError, UserError
from leadline.selection.searching import METHODS
from leadline.selection.space import Space

DATA = ll.data.moons(num=120)
MODEL = ll.models.MLP(2, (8,), 1)
SETTINGS = {"epochs": 3, "threads": 1, "progress": False}
SPACE = {"lr": "log:1e-3:1e-1", "weight_decay": "uniform:0:0.1"}


def search(**more):
    return ll.search(MODEL, DATA, **{"space": SPACE, "trials": 6, "together": 3, **SETTINGS, **more})


@pytest.mark.parametrize("method", METHODS)
def test_a_seed_decides_whatever_the_method(method):
    first, again = (search(method=method, trials=12, together=6, epochs=2) for _ in range(2))
    assert [trial.values for trial in first.trials] == [trial.values for trial in again.trials]
    assert first.score == again.score and len(first.trials) == 12
    other = search(method=method, search_seed=1, trials=1, epochs=1)
    assert other.trials[0].values != first.trials[0].values


def test_a_trial_is_the_run_that_it_would_be_alone():
    found = search(space={**SPACE, "hidden": [(4,), (8, 8)], "optimizer": ["sgd", "adamw"]})
    assert {trial.values["hidden"] for trial in found.trials} == {(4,), (8, 8)}
    for trial in found.trials[:3]:
        options = dict(trial.values)
        torch.manual_seed(0)
        model = ll.models.MLP(2, options.pop("hidden"), 1)
        run = ll.fit(model, DATA, **options, **SETTINGS)
        assert run.evaluate("val")["accuracy"] == pytest.approx(trial.score, abs=0.06)
    assert found.run.evaluate("val")["accuracy"] == pytest.approx(found.score)
    assert found.score == max(trial.score for trial in found.trials)


def test_a_batch_is_one_population(monkeypatch):
    from leadline import population

    sizes = []
    together = population._fit_together
    monkeypatch.setattr(population, "_fit_together", lambda g, *more: (sizes.append(len(g)), together(g, *more)))
    search()
    assert sizes == [3, 3]


def test_rungs_end_the_poor_early():
    found = search(method="hyperband", trials=9, epochs=9)
    states = [trial.state for trial in found.trials]
    assert states.count("stopped") == 8 and states.count("finished") == 1
    assert sorted(trial.epochs for trial in found.trials) == [1] * 6 + [3] * 2 + [9]
    stopped = [trial.score for trial in found.trials if trial.epochs == 1]
    assert max(stopped) <= max(trial.score for trial in found.trials if trial.epochs == 3) + 0.3
    with pytest.raises(UserError, match="decides how many epochs"):
        search(method="bohb", space={"epochs": "int:1:3"})


def test_folds_judge_by_their_mean_and_end_in_an_ensemble():
    found = search(folds=3, trials=3)
    values = found.scores.scores.values_of("accuracy")
    assert found.score == pytest.approx(sum(values) / 3) and len(values) == 3
    assert "accuracy" in found.scores.ensemble


def test_what_diverges_is_told_and_does_not_win():
    found = ll.search(
        ll.models.MLP(10, (8,), 1), ll.data.diabetes(), {"lr": [1e-2, 1e6]}, trials=6, method="random",
        optimizer="sgd", schedule="constant", warmup=0.0, **SETTINGS,
    )  # fmt: skip
    assert found.best == {"lr": 1e-2}
    assert {trial.state for trial in found.trials if trial.values["lr"] == 1e6} == {"diverged"}


def test_what_it_says_and_draws():
    found = search(space={**SPACE, "batch": "logint:8:64", "hidden": "choice:4:8"}, trials=12)
    told = json.loads(json.dumps(found.to_dict()))
    assert len(told["trials"]) == 12 and told["best"]["lr"] == found.best["lr"]
    assert sum(found.importances.values()) == pytest.approx(1.0)
    assert len(found.plot().axes) == 2 + 4
    assert "12 trials" in repr(found)


def test_few_trials_of_a_range_stand_on_an_axis_of_numbers():
    figure = search(space={"lr": "log:1e-3:1e-1", "batch": "choice:8:16"}, trials=4, epochs=1).plot()
    history, slices = figure.axes[0], {ax.get_xlabel(): ax for ax in figure.axes}
    assert all(float(tick).is_integer() for tick in history.get_xticks())
    assert slices["lr"].get_xscale() == "log"
    assert [tick.get_text() for tick in slices["batch"].get_xticklabels()] == ["8", "16"]


@pytest.mark.parametrize("name", ["trials.jsonl", "trials.db"])
def test_a_storage_goes_on(tmp_path, name):
    storage = tmp_path / "deep" / name
    half = search(method="random", trials=3, storage=storage)
    whole = search(method="random", trials=6, storage=storage)
    assert [t.values for t in whole.trials[:3]] == [t.values for t in half.trials]
    assert [t.values for t in whole.trials] == [t.values for t in search(method="random").trials]
    again = search(method="random", trials=6, storage=storage)
    assert len(again.trials) == 6 and again.run.evaluate("val")["accuracy"] == pytest.approx(again.score)
    with pytest.raises(RunError, match="another space"):
        search(space={"lr": "log:1e-3:1"}, storage=storage)
    with pytest.raises(RunError, match="another settings"):
        search(storage=storage, epochs=4)


def test_a_storage_of_before_a_setting_existed_goes_on(tmp_path):
    storage = tmp_path / "trials.jsonl"
    search(method="random", trials=2, storage=storage)
    text = storage.read_text()
    assert text.count('"epoch_steps":null,') == 1
    storage.write_text(text.replace('"epoch_steps":null,', ""))
    assert len(search(method="random", trials=3, storage=storage).trials) == 3
    with pytest.raises(RunError, match="another settings"):
        search(method="random", trials=3, storage=storage, epoch_steps=1)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"space": {"lrr": "log:1e-3:1"}}, "Did you mean lr"),
        ({"space": {"hiden": [4, 8]}}, "Did you mean hidden"),
        ({"method": "tpee"}, "Did you mean tpe"),
        ({"trials": 0}, "trials must be a whole number"),
        ({"together": 0}, "together must be"),
        ({"folds": 1}, "folds must be"),
        ({"lr": 0.1}, "lr must be searched or given"),
        ({"epohcs": 3}, "Did you mean epochs"),
        ({"storage": "."}, "storage must be a file"),
    ],
)
def test_mistakes(more, said):
    with pytest.raises(UserError, match=said):
        search(**more)


def test_rows_to_validate_on_are_needed():
    with pytest.raises(UserError, match="rows to validate on"):
        ll.search(MODEL, ll.data.moons(num=60, val=0.0), SPACE, trials=2, **SETTINGS)


def test_without_optuna_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "leadline.selection.study", raising=False)
    with pytest.raises(UserError, match="pip install optuna"):
        search()


def take_part(storage, trials):
    (storage.parent / f"ready-{os.getpid()}").touch()
    while not (storage.parent / "go").exists():
        time.sleep(0.01)
    options = {"method": "random", "storage": storage, "epochs": 30, "threads": 1, "progress": False}
    space = {"lr": "log:1e-3:1e-1"}
    ll.search(ll.models.MLP(2, (8,), 1), ll.data.moons(num=120), space, trials=trials, together=2, **options)


def states(storage):
    import optuna

    if not storage.exists() or not storage.stat().st_size:
        return []
    backend = optuna.storages.journal.JournalFileBackend(str(storage))
    try:
        study = optuna.load_study(study_name="leadline", storage=optuna.storages.JournalStorage(backend))
    except KeyError:
        return []
    return [(trial.number, trial.state.name, trial.value, trial.user_attrs.get("by")) for trial in study.trials]


def wait_for(check, seconds=60):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_killed_and_resumed_no_finished_trial_is_lost_and_two_processes_share(tmp_path, forked):
    storage, go = tmp_path / "trials.jsonl", tmp_path / "go"
    go.touch()
    process = forked(take_part, storage, 40)
    wait_for(lambda: sum(state == "COMPLETE" for _, state, *_ in states(storage)) >= 2)
    process.kill()
    process.join()
    go.unlink()
    before = states(storage)
    finished = {number: value for number, state, value, _ in before if state == "COMPLETE"}
    left = [number for number, state, *_ in before if state == "RUNNING"]
    total = len(finished) + 8
    both = [forked(take_part, storage, total) for _ in range(2)]
    wait_for(lambda: len(list(tmp_path.glob("ready-*"))) == 3)
    go.touch()
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, 0]
    after = states(storage)
    assert {number: value for number, state, value, _ in after if number in finished} == finished
    assert sum(state == "COMPLETE" for _, state, *_ in after) == total
    assert all(state == "FAIL" for number, state, *_ in after if number in left)
    assert len({by for number, state, _, by in after if state == "COMPLETE" and number not in finished}) == 2


def test_of_two_that_revive_a_trial_at_once_one_is_too_late_and_goes_on(tmp_path, monkeypatch):
    import optuna

    from leadline.selection import study

    one, other = (study.Study(Space(SPACE), "random", 0, True, tmp_path / "trials.jsonl", {}) for _ in range(2))
    one.ask(1, 2)
    one.me = "of another life"
    monkeypatch.setattr(study, "_lives", lambda *_: False)
    tell = other._study.tell

    def late(number, **options):
        assert one.revive() == 1  # between what the other has read and what it writes
        tell(number, **options)
        raise optuna.exceptions.UpdateFinishedTrialError

    monkeypatch.setattr(other._study, "tell", late)
    assert other.revive() == 0
    assert [trial.state.name for trial in other.trials] == ["FAIL", "WAITING"]  # queued again once
