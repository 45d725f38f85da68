"""Newton's method: scikit-learn's weights, digits that double, and an end for classes that have none."""

import contextlib
import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import leadline as ll
from leadline.data.data import Batch
from leadline.engine.packing import pack, unpack
from leadline.errors import UserError
from leadline.likelihoods import Bernoulli, Categorical, Normal
from leadline.models import MLP, Linear, Shallow
from leadline.optim import Newton
from leadline.reference import regression as twin


def rows(classes=2, count=150, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=g).double()
    logits = 1.5 * x @ torch.randn(3, classes, generator=g).double() + torch.randn(classes, generator=g)
    y = torch.multinomial(logits.softmax(1), 1, generator=g).squeeze(1)
    return x, y


def start(x, likelihood, rule, batch=None, passes=60, model=None, seed=0):
    torch.manual_seed(seed)
    model = model or Linear(x.shape[1], likelihood.dim_output).double()
    rule.steps_per_epoch = -(-len(x) // (batch or len(x)))
    rule.bind(model, likelihood, passes * rule.steps_per_epoch)
    return model


def solve(x, y, likelihood, rule=None, batch=None, passes=60, weight=None, **options):
    rule = rule or Newton()
    model = start(x, likelihood, rule, batch, passes, **options)
    index = 0
    for _ in range(passes):
        for part in Batch(x, y, weight).split(batch or len(x)):
            rule.step(part, index)
            index += 1
    return model, rule


FAR = torch.tensor([[-8.0, 9.0, 7.0, 6.0]])  # weights from which Newton's full step goes too far


def family(classes, smoothing=0.0):
    return (Bernoulli(smoothing) if classes == 2 else Categorical(classes, smoothing)).double()


def logits(model, x):
    """In a form that does not see what softmax does not: the mean over the classes is off."""
    out = model(x).detach()
    return out if out.shape[1] == 1 else out - out.mean(1, keepdim=True)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("ridge", [0.0, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_end_is_that_of_scikit_learn(classes, ridge, weighted):
    x, y = rows(classes)
    weight = torch.rand(len(y), generator=torch.Generator().manual_seed(5)).double() + 0.2 if weighted else None
    model, rule = solve(x, y, family(classes), Newton(ridge), weight=weight)
    assert rule.finished
    reference = LogisticRegression(C=1 / ridge if ridge else np.inf, tol=1e-10, max_iter=5000, solver="newton-cholesky")
    reference.fit(x.numpy(), y.numpy(), None if weight is None else weight.numpy())
    wanted = torch.tensor(reference.decision_function(x.numpy())).view(len(x), -1)
    wanted = wanted if classes == 2 else wanted - wanted.mean(1, keepdim=True)
    torch.testing.assert_close(logits(model, x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("batch", [None, 37])
def test_the_end_is_a_minimum_of_the_loss(classes, smoothing, batch):
    x, y = rows(classes)
    likelihood = family(classes, smoothing)
    model, rule = solve(x, y, likelihood, Newton(ridge=0.5), batch)
    assert rule.finished
    (likelihood.loss(model(x), y).sum() + 0.25 * model.map.weight.square().sum()).backward()
    assert model.map.weight.grad.abs().max() < 1e-9
    assert model.map.bias.grad.abs().max() < 1e-9


@pytest.mark.parametrize(("classes", "ridge"), [(2, 0.0), (2, 0.5), (3, 0.0)])
def test_a_step_is_that_of_the_twin(classes, ridge):
    x, y = rows(classes, count=25)
    likelihood = family(classes)
    phi = [[0.0] * 4] * likelihood.dim_output
    for passes in (2, 3, 4):  # the last of them measures, and checks the step before it
        phi = twin.newton_step(phi, x.tolist(), y.tolist(), ridge)
        wanted = torch.tensor(phi, dtype=torch.float64)
        expected = x @ wanted[:, :3].T + wanted[:, 3]
        model, _ = solve(x, y, likelihood, Newton(ridge), passes=passes)
        torch.testing.assert_close(logits(model, x), expected - (classes > 2) * expected.mean(1, keepdim=True))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("batch", [1, 40, 149])
def test_the_size_of_the_batches_does_not_matter(classes, batch):
    x, y = rows(classes)
    whole, _ = solve(x, y, family(classes))
    parts, _ = solve(x, y, family(classes), batch=batch)
    torch.testing.assert_close(logits(parts, x), logits(whole, x), rtol=1e-6, atol=1e-6)


def test_right_digits_double():
    x, y = rows(2, count=100)
    best, _ = solve(x, y, Bernoulli().double())
    rule = Newton(tolerance=1e-30)
    model = start(x, Bernoulli().double(), rule)
    off = []
    for k in range(8):
        rule.step(Batch(x, y), k)
        off.append(float((rule.weights[:, :3] - best.map.weight).norm().detach()))
    quick = [(a, b) for a, b in pairwise(off) if 1e-7 < a < 0.1]
    assert len(quick) >= 2
    assert all(b < 10 * a * a for a, b in quick), off
    assert model.map.weight.isfinite().all()


def test_a_step_that_goes_too_far_is_halved():
    """Far from the minimum the curvature is nearly 0, and the full step lands much farther away."""
    x, y = rows(2)
    rule = Newton()
    model = start(x, Bernoulli().double(), rule)
    rule.weights[:] = FAR
    parts, values = [], []
    for k in range(60):
        rule.step(Batch(x, y), k)
        parts.append(rule.best["part"])
        values.append(rule.best["value"])
    assert min(parts) < 1
    assert all(b <= a for a, b in pairwise(values))
    best, _ = solve(x, y, Bernoulli().double())
    torch.testing.assert_close(model(x), best(x), rtol=1e-5, atol=1e-5)
    assert rule.finished


def test_the_last_pass_only_measures():
    """Whatever number of passes: the loss of the weights that are left was measured, and none measured was lower."""
    x, y = rows(2)
    for passes in range(2, 9):
        likelihood, rule = Bernoulli().double(), Newton()
        model = start(x, likelihood, rule, passes=passes)
        rule.weights[:] = FAR
        losses = [float(rule.step(Batch(x, y), k)) for k in range(passes)]
        assert float(likelihood.loss(model(x), y).mean().detach()) == pytest.approx(min(losses), rel=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_separable_classes_are_refused_unless_there_is_a_ridge_or_smoothing(classes):
    g = torch.Generator().manual_seed(0)
    y = torch.arange(90) % classes
    angle = 2 * torch.pi * y / classes
    x = torch.stack([angle.cos(), angle.sin()], 1).double() + 0.1 * torch.randn(90, 2, generator=g)
    with pytest.raises(UserError, match=r"classes must overlap.*right side of it.*Newton\(ridge=1.0\)"):
        solve(x, y, family(classes))
    for likelihood, rule in ((family(classes), Newton(ridge=0.1)), (family(classes, 0.1), Newton())):
        model, rule = solve(x, y, likelihood, rule)
        assert rule.finished
        assert model.map.weight.abs().max() < 100


def test_classes_that_touch_in_one_point_are_refused_too():
    """No plane gets every row right, yet the weights grow without end: the tie is shared half and half."""
    x = torch.tensor([[-2.0], [-1.0], [0.0], [0.0], [1.0], [2.0]]).double()
    y = torch.tensor([0, 0, 0, 1, 1, 1])
    with pytest.raises(UserError, match="classes must overlap.*keep growing"):
        solve(x, y, Bernoulli().double(), passes=100)


def test_a_class_that_never_comes_is_refused():
    x, _ = rows()
    with pytest.raises(UserError, match="classes must overlap"):
        solve(x, torch.zeros(len(x), dtype=torch.long), Bernoulli().double())


def test_one_row_on_the_wrong_side_is_enough_for_an_end():
    x = torch.tensor([[-2.0], [-1.0], [0.5], [-0.5], [1.0], [2.0]]).double()
    y = torch.tensor([0, 0, 0, 1, 1, 1])
    model, rule = solve(x, y, Bernoulli().double())
    assert rule.finished
    assert model.map.weight.abs().max() < 20


def test_columns_that_say_the_same_share_their_weight():
    x, y = rows(3)
    plain, _ = solve(x, y, family(3))
    doubled = torch.cat([x, x[:, :1], torch.ones(len(x), 1)], 1)
    model, rule = solve(doubled, y, family(3))
    assert rule.finished
    torch.testing.assert_close(logits(model, doubled), logits(plain, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("batch", [None, 40])
def test_a_column_far_from_zero_is_as_good_as_any(classes, batch):
    x, y = rows(classes)
    near, _ = solve(x, y, family(classes))
    far, rule = solve(x + 1e6, y, family(classes), batch=batch)
    assert rule.finished
    torch.testing.assert_close(slopes(far), slopes(near), rtol=1e-5, atol=1e-5)


def slopes(model):
    weight = model.map.weight.detach()
    return weight if len(weight) == 1 else weight - weight.mean(0)


@pytest.mark.parametrize("classes", [2, 3])
def test_float32_rows_of_size_1e4_stay_finite(classes):
    x, y = rows(classes)
    x = x.float() * 1e4
    model, rule = solve(
        x, y, family(classes).float(), Newton(ridge=1e-6), model=Linear(3, family(classes).dim_output), passes=100
    )
    assert rule.finished
    assert model.map.weight.isfinite().all()
    assert (model(x).argmax(1) == y).float().mean() > 0.4 if classes == 3 else True


def test_a_map_without_offset():
    x, y = rows()
    model, _ = solve(x, y, Bernoulli().double(), model=nn.Linear(3, 1, bias=False).double())
    reference = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, solver="newton-cholesky", max_iter=1000)
    wanted = torch.tensor(reference.fit(x.numpy(), y.numpy()).coef_)
    torch.testing.assert_close(model.weight.detach(), wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("stop", [1, 4, 5, 8, 13])
def test_a_run_that_was_interrupted_goes_on_to_the_same_bits(stop):
    x, y = rows(3)
    parts = Batch(x, y).split(60)
    total = 12 * len(parts)

    def begin():
        rule = Newton(ridge=0.01)
        model = start(x, family(3), rule, batch=60, passes=12)
        return rule, model

    rule, model = begin()
    for k in range(total):
        rule.step(parts[k % len(parts)], k)
    first, halfway = begin()
    for k in range(stop):
        first.step(parts[k % len(parts)], k)
    tensors, skeleton = pack(first.state())
    second, resumed = begin()
    resumed.load_state_dict(halfway.state_dict())
    second.load_state(unpack(json.loads(json.dumps(skeleton)), {name: t.clone() for name, t in tensors.items()}))
    for k in range(stop, total):
        second.step(parts[k % len(parts)], k)
    assert torch.equal(resumed.map.weight, model.map.weight)
    assert second.finished == rule.finished
    second, _ = begin()
    tensors, skeleton = pack(rule.state())
    second.load_state(unpack(skeleton, tensors))
    assert second.finished


def test_the_config_builds_it_again():
    assert Newton(**Newton(0.3, 1e-8).config).config == {"ridge": 0.3, "tolerance": 1e-8}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Newton(-1.0), "ridge must be a number of at least 0"),
        (lambda: Newton(tolerance=0.0), "tolerance must be a number above 0"),
        (lambda: Newton().bind(MLP(3, (4,), 1), Bernoulli(), 9), "one affine map. Got a MLP"),
        (lambda: Newton().bind(Linear(3, 1), Normal(), 9), "Bernoulli or Categorical .* Got Normal. Use LeastSquares"),
        (lambda: Newton().bind(Linear(3, 1), Bernoulli(), 1), "at least 2 epochs"),
        (lambda: Newton().bind(Linear(1000, 10), Categorical(10), 9), "at most 8192 weights.* Got 10010.*lbfgs"),
    ],
)
def test_what_it_cannot_do_is_said(make, said):
    with pytest.raises(UserError, match=said):
        make()


# ── through fit ──


@pytest.mark.parametrize("batch", [32, 10**6])
def test_fit_ends_by_itself_at_the_best_weights(batch):
    data = ll.data.moons(num=400)
    run = ll.fit(Linear(2, 1), data, likelihood=Bernoulli(), rule=Newton(), epochs=50, batch=batch, progress=False)
    assert run.reason == "finished"
    assert 3 < len(run.history) < 20
    x, y = data.inputs.encode(data.train.x), data.train.y
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000, solver="newton-cholesky")
    reference.fit(x.double().numpy(), y.numpy())
    torch.testing.assert_close(
        run.model.map.weight.detach().double(), torch.tensor(reference.coef_), rtol=1e-4, atol=1e-4
    )


def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path):
    data = ll.data.moons(num=300)

    def fit(folder, **options):
        torch.manual_seed(0)
        kept = {"folder": folder, "progress": False, "with_report": False, **options}
        rule = Newton(ridge=0.1)
        return ll.fit(Linear(2, 1), data, likelihood=Bernoulli(), rule=rule, epochs=12, batch=50, **kept)

    def stopper(event):
        if type(event).__name__ == "EpochDone" and event.epoch == 3:
            raise KeyboardInterrupt

    whole = fit(tmp_path / "whole")
    with contextlib.suppress(KeyboardInterrupt):
        fit(tmp_path / "part", listeners=[stopper])
    resumed = ll.resume(tmp_path / "part", data=data, rule=Newton(ridge=0.1), progress=False, with_report=False)
    assert torch.equal(resumed.model.map.weight, whole.model.map.weight)
    assert len(resumed.history) == len(whole.history)


def test_it_learns_a_plane_and_not_exclusive_or():
    g = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(400, 2, generator=g) - 1
    y = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).long()
    model, _ = solve(x.double(), y, Bernoulli().double())
    assert ((model(x.double()) > 0).squeeze(1) == y).float().mean() < 0.65
    # four regions are needed, and four hidden units make them
    torch.manual_seed(0)
    run = ll.fit(Shallow(2, 16, 1), ll.data.arrays(x, y), epochs=150, lr=0.03, progress=False)
    assert run.evaluate("test")["accuracy"] > 0.9
