"""Averages of weights: what is validated, kept and handed over is the average; the run's own way stays as it was."""

import pytest
import torch
from engine_runs import BreakAt, Breaks, hashes, mlp, moons, own, same, state_of
from torch import nn

import leadline as ll
from leadline.engine import keeper
from leadline.engine.events import EpochDone, StepsDone
from leadline.errors import UserError

OPTIONS = {"batch": 16, "epochs": 6, "seed": 7, "progress": False, "with_report": False}


class Steps:
    """The weights after every step, by copies; `ends` after every epoch."""

    def __init__(self, model):
        self.model, self.steps, self.ends = model, [], []

    def __call__(self, event):
        if isinstance(event, StepsDone):
            self.steps.append([p.detach().clone() for p in self.model.parameters()])
        if isinstance(event, EpochDone):
            self.ends.append(self.steps[-1])


def trained(average, make=mlp, data=None, **options):
    model = make()
    seen = Steps(model)
    run = ll.fit(model, data or moons(), average=average, listeners=[seen], **{**OPTIONS, **options})
    return run, seen


def test_the_way_of_a_run_is_the_same_with_and_without():
    (_, plain), (_, ema), (_, swa) = (trained(average) for average in ("none", "ema(0.9)", "swa(0.5)"))
    for other in (ema, swa):
        pairs = zip(plain.steps, other.steps, strict=True)
        assert all(torch.equal(a, b) for one, two in pairs for a, b in zip(one, two, strict=True))


def no_val():
    x, y = torch.randn(40, 2, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    return ll.data.arrays(x, y, kind="binary", val=0, test=0)


def test_an_exponential_average_is_its_formula():
    run, seen = trained("ema(0.8)", data=no_val())
    average = seen.steps[0]
    for step in seen.steps[1:]:
        average = [0.8 * a + 0.2 * p for a, p in zip(average, step, strict=True)]
    for ours, theirs in zip(run.model.parameters(), average, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("average", "epochs"), [("swa(0.5)", (3, 4, 5)), ("swa(0.99)", (5,)), ("swa(0.01)", range(1, 6))]
)
def test_a_stochastic_average_is_the_mean_of_epochs_ends(average, epochs):
    run, seen = trained(average, data=no_val())
    for k, ours in enumerate(run.model.parameters()):
        mean = torch.stack([seen.ends[epoch][k] for epoch in epochs]).mean(0)
        torch.testing.assert_close(ours, mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("average", ["ema(0.9)", "swa(0.5)"])
def test_validation_and_the_best_weights_are_the_averages(average):
    run, _ = trained(average, lr=0.05)
    assert run.history[run.best_epoch - 1]["val"]["nll"] == pytest.approx(run.evaluate("val")["nll"], rel=1e-5)
    if average == "swa(0.5)":
        assert run.best_epoch >= 4  # whatever single weights scored before


def test_batch_norms_are_measured_for_the_average():
    run, _ = trained("swa(0.3)", make=lambda: mlp(norm="batch", p_drop=0.0), data=no_val(), batch=40, lr=0.05)
    norm = next(module for module in run.model.modules() if isinstance(module, nn.BatchNorm1d))
    heard = []
    norm.register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
    run.predict(no_val().train.x)
    torch.testing.assert_close(norm.running_mean, heard[0].mean(0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.running_var, heard[0].var(0), rtol=1e-4, atol=1e-5)
    assert norm.momentum == 0.1


def test_an_average_helps_where_steps_are_noisy():
    data = ll.data.line(num=120, noise=1.0, val=0, test=0)
    family = ll.likelihoods.Normal(variance="fixed")
    best = ll.models.Linear(1, 1)
    ll.fit(best, data, likelihood=family, rule="LeastSquares", epochs=1, progress=False)
    ends = {}
    for average in ("none", "ema(0.99)", "swa(0.5)"):
        torch.manual_seed(0)
        model = ll.models.Linear(1, 1)
        how = {"optimizer": "sgd", "momentum": 0.0, "lr": 0.3, "weight_decay": 0.0, "schedule": "constant"}
        ll.fit(model, data, likelihood=family, average=average, **how, **{**OPTIONS, "batch": 4, "epochs": 20})
        ends[average] = float((ll.lens.flat(model) - ll.lens.flat(best)).norm())
    assert max(ends["ema(0.99)"], ends["swa(0.5)"]) < 0.5 * ends["none"]


@pytest.mark.parametrize("average", ["ema(0.9)", "swa(0.4)"])
@pytest.mark.parametrize("step", [4, 8])
def test_a_run_goes_on_bit_for_bit(average, step, tmp_path, monkeypatch):
    monkeypatch.setattr(keeper, "_LEAST_SECONDS", -1.0)
    monkeypatch.setattr(keeper, "_SHARE", 0.0)
    options = {**OPTIONS, "epochs": 4, "average": average}
    ll.fit(own(), moons(), folder=tmp_path / "whole", **options)
    with pytest.raises(Breaks):
        ll.fit(own(), moons(), folder=tmp_path / "parts", listeners=[BreakAt(step)], **options)
    run = ll.resume(tmp_path / "parts", model=own(), progress=False, with_report=False)
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")
    assert same(state_of(ll.load(tmp_path / "whole", model=own()).model), state_of(run.model))


def test_a_rule_whose_last_weights_are_its_answer_is_not_averaged():
    with pytest.raises(UserError, match="an average needs a rule.*Newton, whose last weights"):
        ll.fit(ll.models.Linear(2, 1), moons(), rule="Newton", average="swa", progress=False)


# ── rows drawn with replacement ──


def test_rows_are_drawn_with_replacement_by_seed_and_epoch_alone():
    from leadline.engine.feed import epoch_order

    orders = [epoch_order(seed, epoch, 200, replacement=True) for seed in (0, 1) for epoch in (0, 1)]
    assert all(0.5 < len(set(order.tolist())) / 200 < 0.75 for order in orders)  # 1 - 1/e of them come at all
    assert torch.equal(orders[0], epoch_order(0, 0, 200, replacement=True))
    assert not any(torch.equal(orders[0], other) for other in orders[1:])


def test_a_run_with_replacement_sees_rows_twice_and_none_at_all():
    seen = {}
    for replacement in (False, True):
        model = mlp()
        rows = []
        model.register_forward_pre_hook(
            lambda m, x, rows=rows: rows.extend(map(tuple, x[0].tolist())) if m.training else None
        )
        ll.fit(model, moons(), replacement=replacement, **{**OPTIONS, "epochs": 1})
        seen[replacement] = rows
    assert len(seen[False]) == len(set(seen[False])) == len(seen[True]) > len(set(seen[True]))
    with pytest.raises(UserError, match="replacement must be True or False"):
        ll.settings.Settings(replacement=1)
