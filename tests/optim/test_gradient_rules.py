"""Optimizers by name and as objects, schedules by name, as functions and as torch schedulers."""

import pytest
import torch

import leadline as ll
from leadline.engine.events import StepsDone
from leadline.errors import UnknownName
from leadline.settings import CHOICES

NAMES = [name for name in CHOICES["optimizer"] if name != "given"]


def classes():
    return ll.data.moons(num=160)


def fitted(data=None, **options):
    torch.manual_seed(0)
    data = data or classes()
    model = ll.models.Linear(data.dim_input, 1)
    return ll.fit(model, data, progress=False, **{"epochs": 10, "batch": 16, **options})


@pytest.mark.parametrize("name", NAMES)
def test_every_name_learns(name):
    torch.manual_seed(0)
    data = classes()
    model = ll.models.Linear(2, 1)
    torch.nn.init.zeros_(model.map.weight)
    torch.nn.init.zeros_(model.map.bias)
    lr = 5.0 if name == "adadelta" else 0.05  # whose steps have a size of their own: its rate is a factor, usually 1
    run = ll.fit(model, data, progress=False, epochs=10, batch=16, lr=lr, optimizer=name, weight_decay=0.0)
    assert run.history[0]["train"]["loss"] < 0.75
    assert run.history[-1]["train"]["loss"] < 0.9 * 0.6931
    assert run.reason == "finished"


@pytest.mark.parametrize(("wrong", "right"), [("adamww", "adamw"), ("nestrov", "nesterov"), ("LBFG", "lbfgs")])
def test_unknown_optimizer_answers_with_the_closest(wrong, right):
    with pytest.raises(UnknownName, match=right):
        fitted(optimizer=wrong)


def test_unknown_schedule_answers_with_the_closest():
    with pytest.raises(UnknownName, match="cosine"):
        fitted(schedule="cosin")


def test_lbfgs_fits_a_line():
    x = torch.linspace(-1, 1, 200)[:, None]
    data = ll.data.arrays(x, 3 * x[:, 0] - 1, kind="real")
    run = ll.fit(
        ll.models.Linear(1, 1),
        data,
        likelihood=ll.likelihoods.Normal(variance="fixed", shift=data.target.shift, scale=data.target.scale),
        optimizer="lbfgs",
        lr=1.0,
        batch=200,
        epochs=20,
        warmup=0.0,
        schedule="constant",
        progress=False,
    )
    assert run.evaluate("test")["rmse"] < 1e-3


def rates(**options):
    seen = []
    model = torch.nn.Sequential(torch.nn.Linear(2, 1))
    make = options.pop("make")
    optimizer, schedule = make(model)

    def listen(event):
        if isinstance(event, StepsDone):
            seen.append(optimizer.param_groups[0]["lr"])

    data = classes()
    ll.fit(model, data, optimizer=optimizer, schedule=schedule, progress=False, listeners=[listen], **options)
    return seen


def test_torch_scheduler_is_stepped_once_a_step():
    def make(model):
        optimizer = torch.optim.SGD(model.parameters(), 1.0)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    seen = rates(make=make, epochs=1, batch=26)
    assert seen == [0.5 ** ((k + 1) // 2) for k in range(4)]


def test_a_function_is_a_schedule():
    def make(model):
        return torch.optim.SGD(model.parameters(), 0.1), lambda step: 1 / (step + 1)

    assert rates(make=make, epochs=1, batch=26) == pytest.approx([0.1, 0.05, 0.1 / 3, 0.025])


def test_a_given_optimizer_moves_as_the_named_one():
    first = fitted(optimizer="sgd", lr=0.1, momentum=0.5, weight_decay=0.0, schedule="constant", warmup=0.0)
    torch.manual_seed(0)
    model = ll.models.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5, fused=True)
    second = ll.fit(
        model, classes(), optimizer=optimizer, schedule="constant", warmup=0.0, epochs=10, batch=16, progress=False
    )
    assert torch.equal(first.model.map.weight, second.model.map.weight)


def test_parameter_groups_keep_their_ratio():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD([{"params": [model.weight], "lr": 0.2}, {"params": [model.bias], "lr": 0.1}])
    ratios = []
    listen = lambda event: ratios.append(  # noqa: E731
        optimizer.param_groups[0]["lr"] / optimizer.param_groups[1]["lr"] if isinstance(event, StepsDone) else 2.0
    )
    ll.fit(model, classes(), optimizer=optimizer, epochs=2, progress=False, listeners=[listen])
    assert ratios == pytest.approx([2.0] * len(ratios))


def test_frozen_parameters_stay():
    torch.manual_seed(0)
    model = ll.models.MLP(2, (4,), 1)
    model.layers[0].map.weight.requires_grad_(False)
    before = model.layers[0].map.weight.clone()
    ll.fit(model, classes(), epochs=3, progress=False)
    assert torch.equal(model.layers[0].map.weight, before)
