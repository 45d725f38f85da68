"""Rosenblatt's rule, row by row, whatever the batches."""

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.data.data import Batch, Stacked
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import Bernoulli
from leadline.models import Linear, Perceptron, separate
from leadline.optim import PerceptronRule
from leadline.reference.first_machines import perceptron_step

XOR = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), torch.tensor([0, 1, 1, 0])


def bound(dim, bias=True, **options):
    rule = PerceptronRule(**options)
    model = Perceptron(dim, bias=bias)
    rule.bind(model, Bernoulli(), 1)
    return rule, model


def cloud(num, dim, margin=0.3, seed=0):
    """Separable rows of whole numbers, so that every order of summation gives the same bits."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 10, (num, dim)).astype(np.float32)
    u = rng.integers(-3, 4, dim)
    along = x @ u
    keep = np.abs(along) > margin * 9
    return torch.from_numpy(x[keep]), torch.from_numpy((along[keep] > 0).astype(np.int64))


def by_twin(x, y, epochs, bias=True):
    w, b, updates, losses = [0.0] * x.shape[1], 0.0, 0, []
    for _ in range(epochs):
        for row, code in zip(x.tolist(), y.tolist(), strict=True):
            sign = 2 * code - 1
            losses.append(max(0.0, -sign * (sum(a * c for a, c in zip(w, row, strict=True)) + b)))
            w, new, mistake = perceptron_step(w, b, row, sign)
            b = new if bias else 0.0
            updates += mistake
    return w, b, updates, losses


@pytest.mark.parametrize(("num", "dim"), [(1, 1), (40, 3), (700, 12)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_rule_equals_its_twin_bit_for_bit(num, dim, bias):
    x, y = cloud(num, dim, margin=0.0)
    rule, model = bound(dim, bias)
    for epoch in range(3):
        rule.step(Batch(x, y), epoch)
    w, b, updates, _ = by_twin(x, y, 3, bias)
    assert model.weight[0].tolist() == w and rule.updates == updates
    assert (model.bias is None) if not bias else model.bias.item() == b


def test_batches_do_not_matter():
    x, y = cloud(600, 5)
    ends = []
    for size in (1, 7, 64, len(x)):
        rule, model = bound(5)
        for index, (rows, codes) in enumerate(zip(x.split(size), y.split(size), strict=True)):
            rule.step(Batch(rows, codes), index)
        ends.append((model.weight.tolist(), model.bias.tolist(), rule.updates, rule.pocket.run))
    assert all(end == ends[0] for end in ends)


def test_stacked_batches_and_their_losses():
    x, y = cloud(700, 5)
    x, y = x[:120], y[:120]
    rule, model = bound(5)
    losses = rule.steps(Stacked(Batch(x.view(4, 30, 5), y.view(4, 30))), 0)
    w, _, _, each = by_twin(x, y, 1)
    assert model.weight[0].tolist() == w
    assert losses.tolist() == pytest.approx(torch.tensor(each).view(4, 30).mean(1).tolist())


def test_labels_of_minus_and_plus_one_are_taken_as_they_are():
    x, y = cloud(200, 4)
    first, second = bound(4), bound(4)
    first[0].step(Batch(x, y), 0)
    second[0].step(Batch(x, (2 * y - 1).float()), 0)
    assert torch.equal(first[1].weight, second[1].weight)


def test_lemmas_and_bound_hold_after_every_mistake():
    data = ll.data.separable(num=400, margin=0.02, seed=1).train
    for bias in (False, True):
        found = separate(data.x, data.y, bias=bias)
        rule, _ = bound(2, bias, separation=found)
        rule.steps_per_epoch = 1
        for epoch in range(200):
            rule.step(Batch(data.x, data.y), epoch)
            if rule.finished:
                break
        t, norm2, along = rule.trace.unbind(1)
        assert rule.finished and len(t) == rule.updates <= rule.bound
        assert t.tolist() == list(range(1, rule.updates + 1))
        assert bool((along >= t * found.margin - 1e-6).all()) and bool((norm2 <= t * found.radius**2 + 1e-6).all())
        assert norm2[-1].item() == pytest.approx(rule.norm2, rel=1e-4)
        assert along[-1].item() == pytest.approx(rule.alignment, rel=1e-4)
        assert rule.radius == pytest.approx(found.radius, rel=1e-5)
        assert "separates the classes" in rule.verdict() and f"{rule.bound} were the most" in rule.verdict()


def test_it_says_that_exclusive_or_never_ends():
    x, y = XOR
    rule, model = bound(2, separation=separate(x, y))
    rule.steps_per_epoch = 1
    for epoch in range(300):
        rule.step(Batch(x, y), epoch)
        assert not rule.finished
    assert rule.updates > 300 and rule.epochs == 300 and rule.bound is None
    assert rule.verdict().startswith("no plane separates the classes, so the rule never ends")
    assert float(model.weight.detach().norm()) < 5, "it goes round in circles"
    rule, _ = bound(2)
    rule.step(Batch(x, y), 0)
    assert "ll.models.separate tells" in rule.verdict()


def test_the_pocket_keeps_the_longest_run():
    x, y = cloud(900, 5, margin=0.0, seed=2)
    y[::17] = 1 - y[::17]  # mislabelled: no plane parts these
    rule, model = bound(5)
    w, b, run, longest = [0.0] * 5, 0.0, 0, (0, None)
    for row, code in zip(x.tolist(), y.tolist(), strict=True):
        new, moved, mistake = perceptron_step(w, b, row, 2 * code - 1)
        run = 0 if mistake else run + 1
        longest = max(longest, (run, (w, b)), key=lambda pair: pair[0])
        w, b = new, moved
    rule.step(Batch(x, y), 0)
    assert model.weight[0].tolist() == w != longest[1][0]
    assert rule.pocket.run == longest[0] > 10
    rule.take_pocket()
    assert (model.weight[0].tolist(), model.bias.item()) == longest[1]


def test_the_state_goes_on_where_it_stopped():
    x, y = cloud(500, 6, margin=0.0)
    whole, model = bound(6)
    parts, half = bound(6)
    batches = [Batch(rows, codes) for rows, codes in zip(x.split(50), y.split(50), strict=True)]
    for index, batch in enumerate(batches):
        whole.step(batch, index)
    for index, batch in enumerate(batches[:4]):
        parts.step(batch, index)
    taken = PerceptronRule()
    other = Perceptron(6)
    other.load_state_dict(half.state_dict())
    taken.bind(other, Bernoulli(), 1)
    taken.load_state(parts.state())
    for index, batch in enumerate(batches[4:]):
        taken.step(batch, index + 4)
    assert torch.equal(other.weight, model.weight)
    assert (taken.updates, taken.pocket.run) == (whole.updates, whole.pocket.run)
    assert torch.equal(taken.trace.nan_to_num(), whole.trace.nan_to_num())


def test_the_trace_is_kept_up_to_its_length():
    x, y = cloud(900, 8, margin=0.0)
    rule, _ = bound(8, keep=5)
    for epoch in range(4):
        rule.step(Batch(x, y), epoch)
    assert rule.updates > 5 and len(rule.trace) == 5


def test_a_perceptron_goes_through_fit_and_back(tmp_path):
    data = ll.data.separable(num=200, margin=0.1)
    rule = PerceptronRule()
    run = ll.fit(Perceptron(2), data, rule=rule, folder=tmp_path / "run", epochs=30, progress=False)
    assert run.evaluate("train")["accuracy"] == 1.0 and rule.updates < 300
    again = ll.load(tmp_path / "run")
    assert torch.equal(again.model.weight, run.model.weight)
    assert torch.equal(again.predict(data.test.x).mode, run.predict(data.test.x).mode)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PerceptronRule().bind(Linear(2, 1), Bernoulli(), 1), "trains a Perceptron"),
        (lambda: PerceptronRule().bind(Perceptron(2, 3), Bernoulli(), 1), "two classes with one unit"),
        (lambda: PerceptronRule(separate(*XOR).__class__(True, torch.ones(5), 0.0, 0.1, 1.0, True)).bind(
            Perceptron(2), Bernoulli(), 1), "rows like the model's"),
        (lambda: bound(2)[0].take_pocket(), "none so far"),
        (lambda: bound(2)[0].step(Batch(*XOR, weight=torch.ones(4)), 0), "cannot weigh rows"),
        (lambda: bound(2)[0].step(Batch(XOR[0], XOR[1] + 1), 0), "two classes, 0 and 1"),
        (lambda: bound(2)[0].step(Batch(XOR[0], XOR[1][:, None]), 0), "one label a row"),
    ],
)  # fmt: skip
def test_bad_arguments_are_explained(call, words):
    with pytest.raises(UserError, match=words):
        call()


def test_kinds_of_errors():
    with pytest.raises(ShapeError):
        bound(2)[0].step(Batch(XOR[0], XOR[1][:, None]), 0)
    with pytest.raises(DataError):
        bound(2)[0].step(Batch(XOR[0], XOR[1] + 1), 0)
