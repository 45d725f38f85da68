"""Rules without gradients by their names: in Python, in a shell, and in a run's folder."""

import json
import shlex

import pytest
import torch

import leadline as ll
from leadline.cli import main
from leadline.engine.events import EpochDone
from leadline.errors import RunError, UnknownName, UserError
from leadline.models import MODELS, Hopfield, Linear, Perceptron, separate
from leadline.optim import RULES, Gradient, Hebb, Newton, PerceptronRule
from leadline.repeat import command, python

OVERLAPPING = ll.data.moons(num=120, noise=0.4)


def record(folder):
    return json.loads((folder / "run.json").read_text())


class Stop(Exception):
    pass


def stop_after(epoch):
    def listen(event):
        if isinstance(event, EpochDone) and event.epoch == epoch:
            raise Stop

    return listen


# ── in Python ──


def test_a_name_a_class_and_a_rule_do_the_same():
    weights = [
        ll.fit(Linear(2, 1), OVERLAPPING, rule=rule, epochs=20, progress=False).model.map.weight
        for rule in ("newton", Newton, Newton())
    ]
    assert torch.equal(weights[0], weights[1]) and torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("Newtn", "Did you mean Newton or GaussNewton?"),
        ("Perceptron", "Did you mean PerceptronRule?"),
        (3, "rule must be a name, a class of rules or a rule. Got rule=3"),
        (Gradient, "Leave rule out"),
        (Linear, "rule must be a name"),
    ],
)
def test_what_is_no_rule_is_refused(wish, said):
    with pytest.raises(UserError) as error:
        ll.fit(Linear(2, 1), OVERLAPPING, rule=wish, progress=False)
    assert said in str(error.value)


def test_a_rule_and_settings_of_gradient_descent_are_refused_together():
    for both in ({"optimizer": "sgd"}, {"optimizer": torch.optim.SGD([torch.zeros(1)])}, {"lr": 0.1}, {"clip": 1.0}):
        with pytest.raises(UserError, match=f"not by both. Got rule Newton and {next(iter(both))}"):
            ll.fit(Linear(2, 1), OVERLAPPING, rule="Newton", progress=False, **both)
    with pytest.raises(UserError, match="Got Perceptron, which learns by PerceptronRule, and schedule"):
        ll.fit(Perceptron(2), OVERLAPPING, schedule="linear", progress=False)


def test_a_likelihood_may_be_a_class():
    data = ll.data.line(num=60)
    run = ll.fit(Linear(1, 1), data, likelihood=ll.likelihoods.Laplace, epochs=1, progress=False)
    assert run.likelihood.config == ll.likelihoods.likelihood_for(data.target, "Laplace").config
    with pytest.raises(UserError, match="likelihood must be a name"):
        ll.fit(Linear(1, 1), data, likelihood=3, progress=False)


def test_a_model_learns_by_the_rule_that_it_is_made_for_and_says_so(capsys):
    run = ll.fit(Perceptron(2), ll.data.separable(), progress="log")
    assert isinstance(run.rule, PerceptronRule) and run.likelihood.config == {"surrogate": "perceptron"}
    assert "Perceptron learns by PerceptronRule and Margin, which it is made for; opt" in capsys.readouterr().err
    data = ll.data.patterns(5, 60, corrupted=0.1)
    run = ll.fit(Hopfield(60), data, progress=False)
    assert isinstance(run.rule, Hebb) and run.evaluate("test")["recalled"] == 1.0
    assert capsys.readouterr().err == ""


def test_gradient_descent_is_there_for_whoever_names_an_optimizer_or_has_another_target():
    run = ll.fit(Perceptron(2), ll.data.separable(), optimizer="adamw", epochs=1, progress=False)
    assert run.rule is None and type(run.likelihood).__name__ == "Bernoulli"
    wine = ll.data.load("wine")
    run = ll.fit(Perceptron(wine.dim_input, 3), wine, epochs=1, progress=False)
    assert run.rule is None and type(run.likelihood).__name__ == "Categorical"


def test_an_own_rule_is_a_known_one():
    named = {kind.__name__: kind.own_rule for kind in MODELS.values() if hasattr(kind, "own_rule")}
    assert set(named) == {"Boolean", "Perceptron", "Hopfield", "DenseMemory", "ModernHopfield"}
    assert all(rule in RULES for own in named.values() for rule in own.values())


@pytest.mark.parametrize("name", ["Hopfield", "DenseMemory", "ModernHopfield"])
def test_memories_recall_what_hebb_stored(name, tmp_path):
    data = ll.data.patterns(5, 100, corrupted=0.1)
    run = ll.fit(ll.models.build(name, 100, 100), data, folder=tmp_path / "run", with_report=False, progress=False)
    assert run.evaluate("test")["recalled"] == 1.0
    loaded = ll.load(tmp_path / "run")
    assert loaded.rule.stored == 5 and loaded.rule.finished and loaded.evaluate("test")["recalled"] == 1.0


# ── in a run's folder ──


@pytest.mark.parametrize("by", ["Newton", "PerceptronRule"])
def test_a_run_is_resumed_from_its_folder_alone_bit_for_bit(by, tmp_path):
    data = ll.data.separable(num=400, margin=0.01, seed=3)

    def begin(folder, *listeners):
        if by == "Newton":
            model, rule = Linear(2, 1), Newton(ridge=0.01, tolerance=1e-14)
        else:
            model, rule = Perceptron(2), PerceptronRule(separate(data.train.x, data.train.y), keep=50)
        with torch.no_grad():
            [p.zero_() for p in model.parameters()]
        options = {"epochs": 30, "batch": 50, "progress": False, "with_report": False}
        return ll.fit(model, data, rule=rule, folder=tmp_path / folder, listeners=listeners, **options)

    whole = begin("whole")
    with pytest.raises(Stop):
        begin("parts", stop_after(2))
    run = ll.resume(tmp_path / "parts", progress=False, with_report=False)
    assert run.history == whole.history and len(run.history) > 2
    assert run.rule is not whole.rule and run.rule.config == whole.rule.config
    for ours, theirs in zip(run.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    if by == "PerceptronRule":
        assert torch.equal(run.rule.trace, whole.rule.trace) and run.rule.bound == whole.rule.bound is not None
    seen = ll.replay(tmp_path / "parts", 0)
    moved = any(bool(change.any()) for change in seen.changes.values())
    assert not seen.gradients and moved == (by == "PerceptronRule")  # Newton moves after the last batch of a pass
    assert seen.loss == pytest.approx(ll.replay(tmp_path / "whole", 0).loss)


def test_the_pocket_is_in_the_folder_and_can_be_taken_again(tmp_path):
    run = ll.fit(Perceptron(2), OVERLAPPING, folder=tmp_path / "run", epochs=10, with_report=False, progress=False)
    kept = run.model.weight.clone()
    run.rule.take_pocket()
    assert not torch.equal(run.model.weight, kept)
    loaded = ll.load(tmp_path / "run")
    assert torch.equal(loaded.model.weight, kept)
    loaded.rule.take_pocket()
    assert torch.equal(loaded.model.weight, run.model.weight) and torch.equal(loaded.model.bias, run.model.bias)


def test_a_folder_that_has_the_name_of_the_rule_alone_asks_for_the_rule(tmp_path):
    with pytest.raises(Stop):
        ll.fit(Perceptron(2), OVERLAPPING, folder=tmp_path / "run", epochs=9, listeners=[stop_after(2)], progress=False)
    config = record(tmp_path / "run")
    config["rule"] = config["rule"]["name"]  # as runs were written before
    (tmp_path / "run" / "run.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match="needs its rule again.*pass rule="):
        ll.resume(tmp_path / "run", progress=False)


# ── in a shell ──


def test_the_shell_trains_by_a_rule_and_repeats_itself(tmp_path, capsys):
    line = "train moons --num 120 --noise 0.4 --model Linear --rule newton --ridge 2 --no-report --folder"
    assert main([*line.split(), str(tmp_path / "one")]) == 0
    config = record(tmp_path / "one")
    assert config["rule"] == {"name": "Newton", "config": {"ridge": 2.0, "tolerance": 1e-12}}
    again = command(config)
    assert "--rule Newton --ridge 2.0" in again and "--tolerance" not in again
    assert main([*shlex.split(again)[1:], "--no-report", "--folder", str(tmp_path / "two")]) == 0
    names = {"data": ll.data, "ll": ll}
    exec(python(config).replace("print(", "found = ("), names)
    weights = [ll.load(tmp_path / folder).model.map.weight for folder in ("one", "two")]
    assert torch.equal(weights[0], weights[1]) and torch.equal(weights[0], names["model"].map.weight)


def test_a_repetition_names_an_optimizer_where_the_model_has_a_rule(tmp_path, capsys):
    line = "train separable --model Perceptron --epochs 1 --no-report --folder"
    assert main([*line.split(), str(tmp_path / "rule")]) == 0
    assert "Perceptron learns by PerceptronRule and Margin, which it is made for" in capsys.readouterr().out
    assert main([*line.split(), str(tmp_path / "descent"), "--optimizer", "adamw"]) == 0
    assert "learns by" not in capsys.readouterr().out
    by_rule, descent = (record(tmp_path / folder) for folder in ("rule", "descent"))
    assert "--rule PerceptronRule" in command(by_rule) and "--likelihood Margin --surrogate" in command(by_rule)
    assert "--optimizer adamw" in command(descent) and "--rule" not in command(descent)
    assert "optimizer='adamw'" in python(descent) and "rule=ll.optim.PerceptronRule()" in python(by_rule)


def test_a_rule_that_cannot_be_spelt_has_no_command(tmp_path):
    data = ll.data.separable()
    rule = PerceptronRule(separate(data.train.x, data.train.y))
    ll.fit(Perceptron(2), data, rule=rule, folder=tmp_path / "run", progress=False, with_report=False)
    config = record(tmp_path / "run")
    assert command(config) == "" and "rule = …  # PerceptronRule" in python(config)


def test_the_shell_resumes_and_replays_a_run_by_a_rule(tmp_path, capsys):
    folder = tmp_path / "run"
    with pytest.raises(Stop):
        ll.fit(Perceptron(2), ll.data.moons(num=90), folder=folder, epochs=5, listeners=[stop_after(2)], progress=False)
    assert main(["resume", str(folder), "--no-report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["reason"] == "finished"
    assert main(["replay", str(folder), "--step", "0"]) == 0
    assert "norm of change" in capsys.readouterr().out
    assert main(["show", "run", str(folder)]) == 0
    assert "PerceptronRule" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train moons --model Linear --rule Newtn", "Did you mean Newton or GaussNewton?"),
        ("train moons --model Linear --rule Newton --lr 1", "Got rule Newton and lr"),
        ("train separable --model Perceptron --lr 1", "Perceptron, which learns by PerceptronRule, and lr"),
        ("train moons --model Linear --rule Newton --rigde 1", "Did you mean --ridge"),
        ("train moons --model Linear --rule Newton --keep 1", "Newton has --ridge, --tolerance; --keep is for --rule"),
        ("train moons --ridge 1", "Add --rule LeastSquares or Newton"),
        ("train moons --rule Hebb", "Hebb's rule needs a model of memory"),
        ("train separable --model Perceptron --keep x", "--keep must be a whole number"),
    ],
)
def test_slips_are_answered(line, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("model", ["Perceptron", "Hopfield"])
def test_a_model_without_layers_shows_its_parameters(model, capsys):
    assert main(["show", "model", model, "--dim-input", "4", "--dim-output", "4", "--json"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out.splitlines()[-1])
    assert told["weights"] == {"weight": [4, 4], "bias": [4]} and told["layers"] == [] and told["parameters"] == 20
    assert "weight" in said.err and "4×4" in said.err and "layer" not in said.err


def test_rules_are_listed(capsys):
    assert main(["list", "rules", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out.splitlines()[-1])["rules"]) == set(RULES)


def test_options_of_a_rule_are_checked():
    with pytest.raises(UnknownName, match="Did you mean ridge"):
        ll.optim.rule_from("Newton", rigde=1)
