import json

import museum
import pytest
import torch
from test_checkup import digest
from torch import nn

from leadline.doctor import Watch
from leadline.engine.events import EpochDone, RunEnded, RunStarted
from leadline.likelihoods import Categorical, Normal
from leadline.models.mlp import MLP


def epoch(k, losses, steps=10):
    losses = torch.as_tensor(losses)
    return EpochDone(k, k * steps, 1e-3, {"train": {"loss": float(losses.mean())}}, False, losses)


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.drop, self.head = (
            nn.Linear(5, 8),
            nn.BatchNorm1d(8),
            nn.Dropout(0.5),
            nn.Linear(8, 3),
        )

    def forward(self, x):
        return self.head(self.drop(torch.relu(self.norm(self.body(x)))))


def test_a_look_leaves_every_bit_as_it_was():
    model = Stateful().train()
    model.drop.eval()
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    watch = Watch(model, Categorical(3), torch.randn(64, 5), torch.arange(64) % 3)
    state = digest(model)
    watch(RunStarted(4, 10))
    watch(epoch(1, torch.ones(10)))
    watch(epoch(2, torch.ones(10)))
    assert digest(model) == state


def test_it_looks_after_epochs_that_are_powers_of_two(monkeypatch):
    looked = []
    watch = Watch(MLP(2, (4,), 1), Normal(), torch.randn(8, 2), torch.randn(8))
    monkeypatch.setattr(Watch, "_gradients", lambda self, seen, epoch: looked.append(epoch))
    watch(RunStarted(20, 10))
    for k in range(1, 21):
        watch(epoch(k, torch.rand(10)))
    assert looked == [1, 2, 4, 8, 16]


def test_one_look_accuses_nobody_and_each_fault_is_said_once():
    model = museum.net(5, 3, (16,))
    nn.init.constant_(model.layers[0].map.bias, -50.0)
    watch = Watch(model, Categorical(3), torch.randn(64, 5), torch.arange(64) % 3)
    watch(RunStarted(8, 10))
    watch(epoch(1, torch.ones(10)))
    assert watch.findings == []
    for k in range(2, 9):
        watch(epoch(k, torch.ones(10)))
    (finding,) = (f for f in watch.findings if f.severity == "warning")
    assert finding.code == "dead-units" and finding.where == "layers.0.activation (ReLU), epoch 2"
    assert "16 of 16 units (100 %)" in finding.evidence


def run(watch, model, epochs):
    for k in epochs:
        with torch.no_grad():
            for p in model.parameters():
                p.add_(1e-9 * k)
        losses = torch.ones(10)
        losses[3:5] = 50.0 if k == 5 else 1.0
        watch(epoch(k, losses))


@pytest.mark.parametrize("stop", [1, 3, 5, 7])
def test_a_resumed_watch_finds_what_an_uninterrupted_one_finds(stop):
    x, y = torch.randn(64, 5), torch.arange(64) % 3
    made = lambda: museum.net(5, 3, (16,) * 15, activation="sigmoid")  # noqa: E731
    model = made()
    whole = Watch(model, Categorical(3), x, y)
    whole(RunStarted(8, 10))
    run(whole, model, range(1, 9))
    model = made()
    first = Watch(model, Categorical(3), x, y)
    first(RunStarted(8, 10))
    run(first, model, range(1, stop + 1))
    first(RunEnded(stop, stop * 10, "interrupted"))
    second = Watch(model, Categorical(3), x, y)
    second.load_state(json.loads(json.dumps(first.state())))
    second(RunStarted(8, 10, step=stop * 10))
    run(second, model, range(stop + 1, 9))
    assert {f.code for f in whole.findings} >= {"vanishing-gradient", "loss-spike"}
    assert second.findings == whole.findings
    assert second.state() == whole.state()


def test_gradients_that_underflow_to_zero_vanish_too():
    model = museum.net(5, 3, (16,) * 60, activation="sigmoid")
    watch = Watch(model, Categorical(3), torch.randn(64, 5), torch.arange(64) % 3)
    for k in (1, 2):
        watch(epoch(k, torch.ones(10)))
    assert "vanishing-gradient" in {f.code for f in watch.findings}


def test_a_schedule_that_comes_to_rest_is_no_fault():
    model = museum.net(5, 3)
    watch = Watch(model, Categorical(3), torch.randn(64, 5), torch.arange(64) % 3)
    watch(RunStarted(4, 10))
    for k, loss in enumerate((1.0, 0.5, 0.2, 0.2), 1):
        watch(epoch(k, torch.full((10,), loss)))  # the weights stand still, but the loss has fallen
    assert watch.findings == []


def test_a_run_resumed_within_an_epoch_measures_the_whole_epoch():
    model = museum.net(5, 3)
    first = Watch(model, Categorical(3), torch.randn(64, 5), torch.arange(64) % 3)
    first(RunStarted(2, 10))
    with torch.no_grad():
        model.head.weight.add_(1.0)  # half an epoch's work
    second = Watch(model, Categorical(3), first.x, first.y)
    second.load_state(first.state())
    second(RunStarted(2, 10, step=5))
    assert second.state() == first.state()
