"""Members of a population are the runs that they would be alone."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline import population as population_module
from leadline.engine import chunk as chunk_module
from leadline.errors import UserError

QUIET = {"progress": False, "threads": 1, "compile": "off"}


def alone(model, data, member, **settings):
    """The same member by `fit`."""
    torch.manual_seed(member.get("seed", 0))
    own = {name: value for name, value in member.items() if name not in ("data", "model")}
    built = type(model)(**{**model.config, **member.get("model", {})}) if hasattr(model, "config") else model()
    return ll.fit(built, member.get("data", data), **{**settings, **own, **QUIET})


def apart(a, b):
    """Largest difference of two runs' weights."""
    pairs = zip(a.model.state_dict().values(), b.model.state_dict().values(), strict=True)
    heads = zip(a.likelihood.state_dict().values(), b.likelihood.state_dict().values(), strict=True)
    return max(float((p.double() - q.double()).abs().max()) for p, q in (*pairs, *heads))


def compare(model, data, members, tolerance, **settings):
    together = ll.fit_many(model, data, members, **settings, **QUIET)
    for member, run in zip(members, together, strict=True):
        single = alone(model, data, member, **settings)
        assert apart(run, single) < tolerance
        assert run.best_epoch == single.best_epoch and run.reason == single.reason
        assert len(run.history) == len(single.history)
        for mine, other in zip(run.history, single.history, strict=True):
            assert mine["step"] == other["step"] and mine["lr"] == pytest.approx(other["lr"], rel=1e-9)
            assert mine["train"]["loss"] == pytest.approx(other["train"]["loss"], rel=1e-6, abs=1e-7)
            assert mine.get("val", {}) == pytest.approx(other.get("val", {}), rel=1e-5, abs=1e-6)
    return together


@pytest.fixture
def together_only(monkeypatch):
    """A population that falls back to single runs fails the test."""

    def refuse(part):
        raise AssertionError("fitted alone")

    monkeypatch.setattr(population_module._Part, "alone", refuse)


@pytest.fixture
def counted_alone(monkeypatch):
    """How many members were fitted alone."""
    seen = []
    own = population_module._Part.alone
    monkeypatch.setattr(population_module._Part, "alone", lambda part: (seen.append(part), own(part))[1])
    return seen


MEMBERS = [{"seed": s, "lr": lr} for s, lr in enumerate([1e-3, 1e-2, 3e-3])]


@pytest.mark.parametrize("optimizer", ["sgd", "nesterov", "adam", "adamw"])
@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-10), ("float32", 1e-4)])
def test_members_equal_single_runs(optimizer, precision, tolerance, together_only, monkeypatch):
    data = ll.data.mnist1d(num=400)
    model = ll.models.MLP(40, (20, 20), 10)
    members = [{**m, "weight_decay": 0.01 * k, "momentum": 0.5 + 0.1 * k} for k, m in enumerate(MEMBERS)]
    together = ll.fit_many(model, data, members, epochs=2, batch=50, optimizer=optimizer, precision=precision, **QUIET)
    monkeypatch.undo()
    for member, run in zip(members, together, strict=True):
        single = alone(model, data, member, epochs=2, batch=50, optimizer=optimizer, precision=precision)
        assert apart(run, single) < tolerance


def test_dropout_batch_norm_clipping_and_scaled_first_weights():
    data = ll.data.moons(num=130)
    model = ll.models.MLP(2, (6,), 1, norm="batch", p_drop=0.3)
    members = [{"seed": 1, "init_scale": 0.5}, {"seed": 2, "init_scale": 2.0, "init": "he"}]
    compare(model, data, members, 1e-9, epochs=3, batch=16, precision="float64", clip=0.5)


def test_a_learned_width_and_rows_with_weights():
    data = ll.data.sine(num=120)
    weight = torch.linspace(0.5, 2.0, len(data.train))
    data = data.with_(train=ll.data.data.Split(data.train.x, data.train.y, weight))
    compare(ll.models.MLP(1, (8,), 1), data, MEMBERS, 1e-9, epochs=3, batch=32, precision="float64")


def test_members_with_data_of_their_own_and_different_numbers_of_rows(together_only, monkeypatch):
    """The second has a batch less, the third one row more than a batch, which joins the last."""
    data = ll.data.sine(num=200)
    cut = lambda count: data.with_(train=data.train.take(torch.arange(count)))  # noqa: E731
    members = [{"seed": k, "data": cut(count)} for k, count in enumerate((100, 64, 97, 90))]
    model = ll.models.MLP(1, (8,), 1)
    together = ll.fit_many(model, data, members, epochs=4, batch=32, precision="float64", **QUIET)
    monkeypatch.undo()
    for member, run in zip(members, together, strict=True):
        single = alone(model, data, member, epochs=4, batch=32, precision="float64")
        assert apart(run, single) < 1e-9
        assert [r["step"] for r in run.history] == [r["step"] for r in single.history]


def test_early_ends_are_each_members_own():
    data = ll.data.moons(num=90)
    together = compare(
        ll.models.MLP(2, (8,), 1, p_drop=0),
        data,
        [{"seed": 0, "lr": 0.3, "patience": 2}, {"seed": 1, "lr": 1e-5, "patience": 50}],
        1e-8,
        epochs=8,
        precision="float64",
    )
    assert set(together.reasons) == {"finished", "stopped early"}


def test_a_member_that_diverges_harms_no_other():
    data = ll.data.sine(num=90)
    model = ll.models.MLP(1, (8,), 1, activation="relu", p_drop=0)
    members = [{"seed": 0}, {"seed": 1, "lr": 1e12}, {"seed": 2}]
    options = {"epochs": 5, "optimizer": "sgd", "lr": 1e-3, "precision": "float64"}
    together = ll.fit_many(model, data, members, **options, **QUIET)
    assert [run.reason for run in together] == ["finished", "diverged", "finished"]
    for k in (0, 2):
        assert apart(together[k], alone(model, data, members[k], **options)) < 1e-9
    assert all(bool(p.isfinite().all()) for p in together[1].model.parameters())


def test_without_validation_rows_the_newest_weights_are_kept():
    data = ll.data.moons(num=90)
    data = data.with_(val=data.val.take(torch.arange(0)))
    compare(ll.models.MLP(2, (8,), 1), data, MEMBERS, 1e-9, epochs=3, precision="float64")


def test_widths_that_differ_are_groups_of_their_own(counted_alone):
    data = ll.data.moons(num=90)
    members = ll.members(seed=range(2), model=[{"hidden": (4,)}, {"hidden": (6, 6)}])
    together = ll.fit_many(ll.models.MLP(2, (8,), 1), data, members, epochs=2, **QUIET)
    assert [run.model.hidden for run in together] == [(4,), (6, 6)] * 2
    assert not counted_alone


@pytest.mark.parametrize("settings", [{"optimizer": "rmsprop"}, {"accumulate": 2}, {"average": "ema(0.9)"}])
def test_what_cannot_be_batched_is_fitted_alone(settings, counted_alone):
    data = ll.data.moons(num=90)
    members = [{"seed": 0}, {"seed": 1}]
    compare(ll.models.MLP(2, (8,), 1), data, members, 1e-12, epochs=2, precision="float64", **settings)
    assert len(counted_alone) == 2


def test_any_module_and_any_function_is_a_template(together_only):
    data = ll.data.moons(num=90)
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1))
    runs = ll.fit_many(net, data, ll.members(seed=range(2)), epochs=1, **QUIET)
    assert not torch.equal(runs[0].model[0].weight, runs[1].model[0].weight)
    runs = ll.fit_many(lambda: nn.Linear(2, 1), data, ll.members(seed=range(2)), epochs=1, **QUIET)
    assert len(runs) == 2


def test_regularisers_may_differ_in_strength(together_only, monkeypatch):
    data = ll.data.moons(num=90)
    model = ll.models.MLP(2, (8,), 1)
    members = [{"seed": 0, "regularize": ("l2(0.01)",)}, {"seed": 0, "regularize": ("l2(0.1)",)}]
    runs = ll.fit_many(model, data, members, epochs=2, precision="float64", **QUIET)
    monkeypatch.undo()
    for member, run in zip(members, runs, strict=True):
        torch.manual_seed(0)
        single = ll.fit(ll.models.MLP(2, (8,), 1), data, epochs=2, precision="float64", **member, **QUIET)
        assert apart(run, single) < 1e-9
    assert apart(runs[0], runs[1]) > 1e-4


def test_label_noise_changes_the_share_of_labels_asked_for():
    data = ll.data.moons(num=300)
    runs = ll.fit_many(
        ll.models.MLP(2, (4,), 1), data, [{"seed": 0}, {"seed": 0, "label_noise": 0.4}], epochs=1, **QUIET
    )
    changed = (runs[0].data.train.y != runs[1].data.train.y).double().mean()
    assert float(changed) == pytest.approx(0.4, abs=0.01)
    assert torch.equal(runs[0].data.test.y, runs[1].data.test.y)


def test_steps_from_a_tape_have_the_bits_of_steps_as_written(monkeypatch):
    data = ll.data.moons(num=90)
    model = ll.models.MLP(2, (8,), 1, norm="batch")
    taped = ll.fit_many(model, data, MEMBERS, epochs=5, batch=16, **QUIET)
    monkeypatch.setattr(chunk_module, "replayable", lambda modules: False)
    written = ll.fit_many(model, data, MEMBERS, epochs=5, batch=16, **QUIET)
    assert max(apart(a, b) for a, b in zip(taped, written, strict=True)) == 0


def test_spread_tells_mean_deviation_and_interval():
    data = ll.data.moons(num=150)
    runs = ll.fit_many(ll.models.MLP(2, (8,), 1), data, ll.members(seed=range(4)), epochs=3, **QUIET)
    spread = runs.evaluate("test")
    values = [run.evaluate("test")["nll"] for run in runs]
    assert spread["nll"] == pytest.approx(np.mean(values)) and spread.std("nll") == pytest.approx(
        np.std(values, ddof=1)
    )
    low, high = spread.interval("nll")
    assert (high - low) / 2 == pytest.approx(3.182 * np.std(values, ddof=1) / math.sqrt(4), rel=1e-3)
    assert "4 runs" in repr(spread) and "4 finished" in repr(runs)
    assert runs.best("test").evaluate("test")["accuracy"] == max(spread.values_of("accuracy"))


def test_progress_shows_the_spread(capsys, monkeypatch):
    monkeypatch.setattr("leadline.progress._LOG_SECONDS", 0.0)
    data = ll.data.moons(num=90)
    settings = {"threads": 1, "compile": "off", "progress": "log"}
    ll.fit_many(ll.models.MLP(2, (8,), 1), data, ll.members(seed=range(2)), epochs=2, **settings)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("epoch 1/2  loss ") and lines[0].count(" ± ") == 2


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "at least one member"),
        ([{"sed": 1}], "Did you mean seed"),
        ([{"lr": -1.0}], "lr must be"),
        ([{"data": "cars.csv"}], "must be Data"),
    ],
)
def test_mistakes_are_named(members, words):
    with pytest.raises(UserError, match=words):
        ll.fit_many(ll.models.MLP(2, (8,), 1), ll.data.moons(num=90), members, epochs=1, **QUIET)


def test_a_function_of_its_own_options_is_needed_for_other_modules():
    with pytest.raises(UserError, match="function that makes one"):
        ll.fit_many(nn.Linear(2, 1), ll.data.moons(num=90), [{"model": {"bias": False}}], epochs=1, **QUIET)


def test_bf16_goes_through_autocast():
    data = ll.data.moons(num=90)
    runs = ll.fit_many(ll.models.MLP(2, (8,), 1), data, MEMBERS, epochs=3, precision="bf16", **QUIET)
    assert all(run.history[-1]["train"]["loss"] < 1 for run in runs)


@pytest.mark.parametrize("acting", ["weight_noise(0.1)", "mixup(0.3)"])
def test_members_of_other_lengths_do_not_share_what_a_batch_has_in_common(acting):
    long, short = ll.data.moons(num=200), ll.data.moons(num=90)
    members = [{"seed": 0, "data": long}, {"seed": 0, "data": short}, {"seed": 1, "data": short}]
    compare(ll.models.MLP(2, (8,), 1), long, members, 1e-5, epochs=3, batch=32, regularize=[acting])


def test_a_model_that_cannot_be_batched_is_fitted_one_by_one():
    data = ll.data.moons(num=90)
    model = nn.Sequential(nn.Linear(2, 4), ll.layers.ActNorm(4), nn.Linear(4, 1))  # its first batch is another
    with pytest.warns(UserWarning, match="one by one"):
        runs = ll.fit_many(model, data, MEMBERS[:2], epochs=2, **QUIET)
    assert len(runs) == 2 and all(run.history for run in runs)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (2, "members must be a list of the options of each. Got members=2"),
        ({"seed": [0, 1]}, "members must be a list of the options of each"),
        ("seed", "members must be a list of the options of each"),
        ([0, 1], "a member must be a dictionary of options. Got 0"),
    ],
)
def test_members_that_are_no_options_are_refused(members, said):
    with pytest.raises(UserError, match=said):
        ll.fit_many(ll.models.MLP(2, (4,), 1), ll.data.moons(num=60), members, epochs=1, progress=False)
