"""Metrics against scikit-learn and by hand; intervals against their formula and by simulation."""

import gc
import math
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, mean_squared_error, r2_score
from torch import nn

import leadline as ll
from leadline.data.data import Batch
from leadline.engine.evaluation import assess, evaluate, outputs, wilson
from leadline.engine.events import EpochDone, StepsDone
from leadline.likelihoods import Categorical, Normal


@pytest.mark.parametrize("weighted", [False, True])
def test_regression_equals_scikit_learn(weighted):
    generator = torch.Generator().manual_seed(0)
    y = 5 + 2 * torch.randn(57, dtype=torch.float64, generator=generator)
    output = torch.randn(57, 1, dtype=torch.float64, generator=generator)
    weight = torch.rand(57, dtype=torch.float64, generator=generator) if weighted else None
    likelihood = Normal(variance="fixed", shift=(5.0,), scale=(2.0,)).double()
    found = evaluate(likelihood, output, y, weight)
    mean = (5 + 2 * output[:, 0]).numpy()
    by = {"sample_weight": None if weight is None else weight.numpy()}
    assert found["rmse"] == pytest.approx(math.sqrt(mean_squared_error(y, mean, **by)), rel=1e-10)
    assert found["mae"] == pytest.approx(mean_absolute_error(y, mean, **by), rel=1e-10)
    assert found["r2"] == pytest.approx(r2_score(y, mean, **by), rel=1e-9)
    for name, value in found.items():
        low, high = found.interval(name)
        assert low <= value <= high


@pytest.mark.parametrize("weighted", [False, True])
def test_classification_equals_scikit_learn(weighted):
    generator = torch.Generator().manual_seed(1)
    y = torch.randint(0, 4, (80,), generator=generator)
    output = torch.randn(80, 4, dtype=torch.float64, generator=generator)
    weight = torch.rand(80, dtype=torch.float64, generator=generator) if weighted else None
    found = evaluate(Categorical(4), output, y, weight)
    by = {"sample_weight": None if weight is None else weight.numpy()}
    assert found["accuracy"] == pytest.approx(accuracy_score(y, output.argmax(1), **by), rel=1e-10)
    assert found["nll"] == pytest.approx(log_loss(y, output.softmax(1), **by), rel=1e-10)
    assert found.count == 80


def test_equal_weights_change_nothing():
    y, output = torch.randint(0, 3, (40,)), torch.randn(40, 3)
    plain, weighted = (evaluate(Categorical(3), output, y, w) for w in (None, torch.full((40,), 2.5)))
    for name in plain:
        assert plain[name] == pytest.approx(weighted[name])
        assert plain.interval(name) == pytest.approx(weighted.interval(name))


def test_unequal_weights_widen_the_interval():
    y, output = torch.arange(60) % 3, torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    weight = torch.ones(60)
    weight[0] = 30.0
    width = lambda e: e.interval("nll")[1] - e.interval("nll")[0]  # noqa: E731
    assert width(evaluate(Categorical(3), output, y, weight)) > width(evaluate(Categorical(3), output, y))


@given(st.floats(0, 1), st.integers(1, 10_000))
def test_wilson_stays_inside_and_holds_the_share(share, count):
    low, high = wilson(share, count)
    assert 0 <= low <= share + 1e-9 and share - 1e-9 <= high <= 1


def test_wilson_solves_its_equation():
    """Its ends are where the share is 1.96 deviations of the end away."""
    for share, count in ((0.3, 20), (0.9, 50), (0.5, 7)):
        for end in wilson(share, count):
            assert abs(share - end) == pytest.approx(1.96 * math.sqrt(end * (1 - end) / count), rel=1e-9)


def test_accuracy_interval_covers():
    """Of 500 samples of 40 rows, about 95 % of the intervals hold the true accuracy."""
    rng = np.random.default_rng(0)
    hits = [wilson(rng.binomial(40, 0.85) / 40, 40) for _ in range(500)]
    assert 0.92 < sum(low <= 0.85 <= high for low, high in hits) / 500 < 0.98


def test_outputs_in_parts_are_those_of_the_whole():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    x = torch.randn(23, 3)
    torch.testing.assert_close(outputs(model, x, batch=5), outputs(model, x))


def test_outputs_leave_modes_and_state():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    model.train()
    model[1].eval()
    modes = [module.training for module in model.modules()]
    state = {name: t.clone() for name, t in model.state_dict().items()}
    out = outputs(model, torch.randn(9, 3))
    assert not out.requires_grad
    assert modes == [module.training for module in model.modules()]
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())


def test_modes_come_back_after_an_error():
    model = nn.Sequential(nn.Linear(3, 4)).train()
    with pytest.raises(RuntimeError):
        outputs(model, torch.randn(2, 5))
    assert model.training and model[0].training


@pytest.mark.parametrize("weighted", [False, True])
def test_epoch_loss_is_the_sample_weighted_mean(weighted):
    """39 rows in batches of 16: the last batch of 7 counts for 7."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 2, generator=generator), torch.arange(60) % 2
    weight = torch.rand(60, generator=generator) + 0.5 if weighted else None
    data = ll.data.arrays(x, y, kind="binary", weight=weight)
    model = ll.models.Linear(2, 1)
    steps, epochs = [], []

    def listen(event):
        if isinstance(event, StepsDone):
            steps.extend(event.losses.tolist())
        elif isinstance(event, EpochDone):
            epochs.append(event.metrics["train"]["loss"])

    ll.fit(model, data, epochs=1, batch=16, progress=False, listeners=[listen])
    count = len(data.train)
    sizes = [16] * (count // 16) + ([count % 16] if count % 16 else [])
    assert len(set(sizes)) == 2
    if weight is None:
        expected = sum(s * v for s, v in zip(sizes, steps, strict=True)) / count
        assert epochs[0] == pytest.approx(expected, rel=1e-6)
    else:
        assert min(steps) <= epochs[0] <= max(steps)


def test_weighted_epoch_loss_weighs_rows_alike():
    """Without learning, an epoch's training loss is the weighted mean over all rows, however they are batched."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 2, generator=generator), torch.arange(60) % 2
    data = ll.data.arrays(x, y, kind="binary", weight=torch.rand(60, generator=generator) ** 3 + 0.01)
    plain = {"likelihood": ll.likelihoods.Bernoulli(), "progress": False}
    run = ll.fit(ll.models.Linear(2, 1), data, epochs=1, batch=16, lr=1e-12, optimizer="sgd", **plain)
    assert run.history[0]["train"]["loss"] == pytest.approx(run.evaluate("train")["nll"], rel=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [[30], [1] * 30, [7, 7, 7, 7, 2], [1, 20, 9]])
def test_batches_are_assessed_as_the_whole(sizes, weighted):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(30, 3, generator=generator), torch.arange(30) % 4
    weight = torch.rand(30, generator=generator) if weighted else None
    model, likelihood = nn.Linear(3, 4), Categorical(4)
    parts = [x.split(sizes), y.split(sizes), [None] * len(sizes) if weight is None else weight.split(sizes)]
    found = assess(model, likelihood, (Batch(*row) for row in zip(*parts, strict=True)))
    whole = evaluate(likelihood, model(x).detach(), y, weight)
    assert dict(found) == pytest.approx(dict(whole), rel=1e-5) and found.count == 30
    assert found.interval("accuracy") == pytest.approx(whole.interval("accuracy"), rel=1e-5)


def test_nothing_of_a_batch_is_kept_between_the_answers_of_others():
    """Small tensors of every batch, left between large ones that come and go, had let a process grow without end."""
    found, alive = [], []

    class Watched(Categorical):
        def measures(self, params, y):
            gc.collect()
            alive.append(sum(part() is not None for part in found))
            measures = super().measures(params, y)
            found.extend(weakref.ref(part) for part in measures.values())
            return measures

    assess(nn.Linear(3, 4), Watched(4), (Batch(torch.randn(2, 3), torch.tensor([0, 1]), None) for _ in range(9)))
    assert alive[0] == 0 and max(alive) <= alive[1]  # no more than those of the first batch
