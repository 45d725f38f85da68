"""A value that is not finite never reaches the weights, and the message says where it came from."""

import math

import pytest
import torch
from engine_runs import moons, same, state_of
from torch import nn

import leadline as ll
from leadline.engine.events import RunEnded, StepsDone
from leadline.engine.feed import epoch_order
from leadline.errors import DivergedError


class Breaks(nn.Module):
    """Passes its input on, but for one row of the training split, whose value becomes `value`: forward or back.

    The row is known by its first number; it stays harmless for the first `calls` times that it is seen in training.
    """

    def __init__(self, row: float, value: float, backward: bool, calls: int):
        super().__init__()
        self.row, self.value, self.backward = row, value, backward
        self.register_buffer("left", torch.tensor(calls))

    def forward(self, x):
        mask = x[:, :1] == self.row
        if not self.training or not bool(mask.any()):
            return x
        if int(self.left) > 0:
            self.left -= 1
            return x
        return _Break.apply(x, mask, self.value, self.backward)


class _Break(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask, value, backward):
        ctx.save_for_backward(mask)
        ctx.value, ctx.backward_too = value, backward
        return x.clone() if backward else torch.where(mask, value, x)

    @staticmethod
    def backward(ctx, grad):
        [mask] = ctx.saved_tensors
        return (torch.where(mask, ctx.value, grad) if ctx.backward_too else grad), None, None, None


def network(data, value, backward, calls):
    torch.manual_seed(0)
    first = nn.Linear(2, 2)
    row = float(data.train.x[5, 0])
    breaks = Breaks(row, value, backward, calls)
    # forward, the fault sits before the first map; back, it must meet parameters on its way
    if backward:
        return nn.Sequential(_Remember(first), _Inside(breaks), nn.Linear(2, 1))
    return nn.Sequential(breaks, first, nn.Linear(2, 1))


class _Remember(nn.Module):
    """Applies a map and carries the input's first number along, so that a row is known behind it."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return torch.cat([x[:, :1], self.inner(x)], 1)


class _Inside(nn.Module):
    def __init__(self, breaks):
        super().__init__()
        self.breaks = breaks

    def forward(self, x):
        return self.breaks(x)[:, 1:]


class Positions:
    """A listener that keeps the state of a model after each step."""

    def __init__(self, model):
        self.model, self.states, self.reason = model, {0: state_of(model)}, None

    def __call__(self, event):
        if isinstance(event, StepsDone):
            self.states[event.step] = state_of(self.model)
        elif isinstance(event, RunEnded):
            self.reason = event.reason


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("calls", [0, 1, 3])
def test_the_weights_are_those_before_the_step(calls, value, backward, optimizer):
    data = moons()
    model = network(data, value, backward, calls)
    positions = Positions(model)
    with pytest.raises(DivergedError) as caught:
        ll.fit(
            model,
            data,
            epochs=6,
            batch=8,
            seed=3,
            lr=0.01,
            optimizer=optimizer,
            progress=False,
            listeners=[positions],
        )
    steps_per_epoch = -(-len(data.train) // 8)
    place = epoch_order(3, calls, len(data.train)).tolist().index(5)
    broken = calls * steps_per_epoch + place // 8
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    assert all(bool(p.isfinite().all()) for p in parameters.values())
    before = {name: positions.states[broken][name] for name in parameters}
    assert same(parameters, before)
    assert positions.reason == "diverged"
    message = str(caught.value)
    assert f"step {broken}" in message
    assert "(Breaks)" in message
    if backward:
        assert "0.inner.weight" in message
    else:
        assert f"rows {int(data.train.rows[5])}." in message


def test_what_the_folder_keeps_is_finite(tmp_path):
    data = moons()
    model = network(data, math.nan, False, 2)
    with pytest.raises(DivergedError):
        ll.fit(model, data, epochs=6, batch=8, folder=tmp_path / "run", progress=False)
    again = network(data, math.nan, False, 2)
    run = ll.load(tmp_path / "run", model=again)
    assert run.reason == "diverged"
    assert all(bool(p.isfinite().all()) for p in run.model.parameters())
    assert any("finite" in finding.what for finding in run.findings)


def test_a_parameter_of_the_likelihood_is_watched_too():
    """A slope of the learned deviation that is not finite stops the run before it moves."""
    data = ll.data.line(num=60)
    torch.manual_seed(0)
    model = ll.models.Linear(1, 1)
    likelihood = ll.likelihoods.Normal(variance="learned", shift=data.target.shift, scale=data.target.scale)
    calls = [0]

    def poison(gradient):
        calls[0] += 1
        return gradient * math.nan if calls[0] >= 5 else gradient

    likelihood.rho.register_hook(poison)
    with pytest.raises(DivergedError):
        ll.fit(model, data, likelihood=likelihood, epochs=5, batch=8, optimizer="sgd", lr=0.01, progress=False)
    assert bool(likelihood.rho.isfinite().all())
    assert all(bool(p.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_an_absurd_learning_rate_diverges(optimizer):
    torch.manual_seed(0)
    data = ll.data.line(num=60)
    model = ll.models.MLP(1, (8,), 1, activation="relu", p_drop=0.0)
    with pytest.raises(DivergedError, match="learning rate|Lower"):
        ll.fit(model, data, epochs=20, lr=1e20, optimizer=optimizer, progress=False)
    assert all(bool(p.isfinite().all()) for p in model.parameters())


def test_a_loss_that_runs_away_is_diverged_though_finite():
    torch.manual_seed(0)
    data = ll.data.line(num=60)
    with pytest.raises(DivergedError, match="loss must not diverge.*Lower the learning rate"):
        ll.fit(
            ll.models.Linear(1, 1),
            data,
            likelihood=ll.likelihoods.Normal(variance="fixed"),
            epochs=50,
            lr=3.0,
            optimizer="sgd",
            momentum=0.0,
            schedule="constant",
            warmup=0.0,
            progress=False,
        )
