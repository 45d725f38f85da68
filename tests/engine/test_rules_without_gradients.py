"""Rules that end by themselves, and losses that have no density, go through the whole of a run."""

import pytest
import torch

import leadline as ll
from leadline.engine.events import EpochDone
from leadline.models import Hopfield, Perceptron, separate
from leadline.optim import Hebb, PerceptronRule


def test_a_perceptron_ends_with_its_first_epoch_without_a_mistake(tmp_path):
    data = ll.data.separable(num=300, margin=0.05)
    rule = PerceptronRule(separate(data.train.x, data.train.y))
    run = ll.fit(Perceptron(2), data, rule=rule, folder=tmp_path / "run", epochs=500, batch=16, progress=False)
    assert run.reason == "finished" and len(run.history) == rule.epochs < 500
    assert run.history[-1]["train"]["loss"] == 0.0 < run.history[0]["train"]["loss"]
    assert rule.finished and rule.verdict().startswith("the plane separates the classes")
    assert run.evaluate("train")["accuracy"] == 1.0
    assert ll.load(tmp_path / "run").reason == "finished"


def test_on_exclusive_or_it_goes_on_to_the_last_epoch():
    data = ll.data.xor(num=4, noise=0.0, val=0.0, test=0.0)
    rule = PerceptronRule()
    run = ll.fit(Perceptron(2), data, rule=rule, epochs=40, progress=False)
    assert len(run.history) == rule.epochs == 40 and not rule.finished
    assert all(line["train"]["loss"] >= 0 for line in run.history) and rule.updates >= 40


def test_hebb_is_done_after_one_pass_and_the_doctor_has_nothing_to_say():
    data = ll.data.patterns(5, 100, corrupted=0.2)
    run = ll.fit(Hopfield(100), data, rule=Hebb(), batch=2, progress=False)
    assert len(run.history) == 1 and run.reason == "finished" and run.findings == []
    assert run.evaluate("test")["recalled"] == 1.0


@pytest.mark.parametrize("likelihood", ["Margin", "Bernoulli"])
def test_an_interrupted_perceptron_goes_on_bit_for_bit(tmp_path, likelihood):
    data = ll.data.separable(num=400, margin=0.01, seed=3)
    fit = {"likelihood": likelihood, "epochs": 30, "batch": 8, "progress": False}
    whole_rule, rule = PerceptronRule(), PerceptronRule()
    whole = ll.fit(Perceptron(2), data, rule=whole_rule, folder=tmp_path / "whole", **fit)

    class Stop(Exception):
        pass

    def stop(event):
        if isinstance(event, EpochDone) and event.epoch == 2:
            raise Stop

    with pytest.raises(Stop):
        ll.fit(Perceptron(2), data, rule=PerceptronRule(), folder=tmp_path / "run", listeners=[stop], **fit)
    run = ll.resume(tmp_path / "run", rule=rule, progress=False)
    assert torch.equal(run.model.weight, whole.model.weight) and run.history == whole.history
    assert (rule.updates, rule.epochs, rule.finished) == (whole_rule.updates, whole_rule.epochs, whole_rule.finished)
    assert torch.equal(rule.trace.nan_to_num(), whole_rule.trace.nan_to_num())


def test_a_loss_without_a_density_is_validated_recorded_and_reported(tmp_path):
    data = ll.data.separable(num=200, margin=0.1)
    run = ll.fit(ll.models.Linear(2, 1), data, likelihood="Margin", folder=tmp_path / "run", epochs=5, progress=False)
    assert "nll" not in run.history[-1]["val"] and "loss" in run.history[-1]["val"]
    assert run.report is not None and "nan" not in run.report.read_text().lower().split("<svg")[0]
    assert set(ll.load(tmp_path / "run").evaluate("test")) == {"loss", "accuracy"}
    assert run.findings is not None
