"""Least squares: scikit-learn's numbers, whatever the size of the batches."""

import json

import pytest
import torch
from sklearn.linear_model import LinearRegression, Ridge
from torch import nn

import leadline as ll
from leadline.data.data import Batch
from leadline.engine.packing import pack, unpack
from leadline.errors import UserError
from leadline.likelihoods import Bernoulli, Normal
from leadline.models import MLP, Linear
from leadline.optim import LeastSquares
from leadline.reference import regression as twin

SIZES = torch.tensor([1.0, 30.0, 0.01, 3.0])
PLACES = torch.tensor([0.0, 1000.0, 3.0, -50.0])


def table(rows=120, outputs=1, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=g).double() * SIZES + PLACES
    y = x @ torch.randn(4, outputs, generator=g).double() + torch.randn(rows, outputs, generator=g)
    return x, y.squeeze(1) if outputs == 1 else y, torch.rand(rows, generator=g).double() + 0.1


def solve(x, y, weight=None, batch=None, ridge=0.0, model=None, likelihood=None):
    """One pass in batches of `batch` rows."""
    rule = LeastSquares(ridge)
    outputs = 1 if y.dim() == 1 else y.shape[1]
    model = model or Linear(x.shape[1], outputs).double()
    likelihood = likelihood or Normal(dim=outputs).double()
    parts = Batch(x, y, weight).split(batch or len(x))
    rule.steps_per_epoch = len(parts)
    rule.bind(model, likelihood, len(parts))
    for k, part in enumerate(parts):
        assert not rule.finished
        rule.step(part, k)
    assert rule.finished
    return model, likelihood


def weights(model):
    return torch.cat([model.map.weight.flatten(), model.map.bias]).detach()


@pytest.mark.parametrize("batch", [None, 7, 119, 1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 2.5])
def test_weights_are_those_of_scikit_learn(batch, weighted, ridge):
    x, y, weight = table()
    weight = weight if weighted else None
    reference = Ridge(alpha=ridge, solver="svd") if ridge else LinearRegression(tol=1e-14)
    reference.fit(x.numpy(), y.numpy(), weight if weight is None else weight.numpy())
    model, _ = solve(x, y, weight, batch, ridge)
    wanted = torch.cat([torch.tensor(reference.coef_), torch.tensor([reference.intercept_])])
    torch.testing.assert_close(weights(model), wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_weights_are_those_of_the_twin(ridge):
    x, y, weight = table(rows=15)
    x = (x - PLACES) / SIZES
    wanted = twin.least_squares(x.tolist(), y.tolist(), weight.tolist(), ridge)
    torch.testing.assert_close(weights(solve(x, y, weight, 4, ridge)[0]), torch.tensor(wanted, dtype=torch.float64))


def test_a_line_is_that_of_the_closed_form():
    x, y, _ = table(rows=20)
    offset, slope = twin.line(x[:, 0].tolist(), y.tolist())
    model, _ = solve(x[:, :1], y, batch=6)
    torch.testing.assert_close(weights(model), torch.tensor([slope, offset], dtype=torch.float64))


@pytest.mark.parametrize("batch", [None, 16])
def test_several_outputs_are_several_regressions(batch):
    x, y, _ = table(outputs=3)
    model, likelihood = solve(x, y, batch=batch)
    for k in range(3):
        alone, own = solve(x, y[:, k], batch=batch)
        torch.testing.assert_close(model.map.weight[k], alone.map.weight[0])
        torch.testing.assert_close(likelihood.rho[k], own.rho[0])


@pytest.mark.parametrize("batch", [None, 16])
def test_the_end_is_a_minimum_of_the_likelihood_in_weights_and_variance(batch):
    x, y, weight = table()
    x = (x - PLACES) / SIZES
    likelihood = Normal(shift=(float(y.mean()),), scale=(float(y.std()),)).double()
    model, likelihood = solve(x, y, weight, batch, likelihood=likelihood)
    loss = (likelihood.loss(model(x), y) * weight).sum() / weight.sum()
    loss.backward()
    for parameter in (*model.parameters(), *likelihood.parameters()):
        assert parameter.grad.abs().max() < 1e-9
    error = (likelihood.prediction(model(x)).mean - y).detach()
    deviation = ((error.square() * weight).sum() / weight.sum()).sqrt()
    torch.testing.assert_close(likelihood.prediction(model(x)).std[0].detach(), deviation, rtol=1e-6, atol=0)


def test_a_fixed_variance_stays_and_a_perfect_fit_has_the_least():
    x, y, _ = table()
    _, fixed = solve(x, y, likelihood=Normal("fixed", sigma=3.0).double())
    assert float(fixed.prediction(torch.zeros(1, 1)).std) == pytest.approx(3.0)
    _, perfect = solve(x, x @ torch.ones(4).double())
    assert float(perfect.prediction(torch.zeros(1, 1)).std.detach()) == pytest.approx(1e-4, rel=0.02)
    assert torch.isfinite(perfect.rho).all()


@pytest.mark.parametrize("batch", [None, 10, 7])
def test_columns_that_say_the_same_share_their_weight(batch):
    x, y, weight = table()
    x = (x - PLACES) / SIZES
    constant = torch.full((len(x), 1), 0.1, dtype=torch.float64)  # whose mean is not 0.1 to the last digit
    doubled = torch.cat([x, x[:, :1], constant], dim=1)
    model, _ = solve(doubled, y, weight, batch=batch)
    plain, _ = solve(x, y, weight)
    slopes = model.map.weight[0]
    torch.testing.assert_close(slopes[0], slopes[4])
    torch.testing.assert_close(slopes[0] + slopes[4], plain.map.weight[0, 0])
    assert abs(float(slopes[5].detach())) < 1e-12  # a constant column says nothing
    torch.testing.assert_close(model(doubled), plain(x))


@pytest.mark.parametrize("batch", [None, 2])
def test_fewer_rows_than_columns_are_met_exactly(batch):
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, 20, generator=g).double(), torch.randn(6, generator=g).double()
    model, _ = solve(x, y, batch=batch)
    torch.testing.assert_close(model(x).squeeze(1), y, rtol=1e-6, atol=1e-9)
    assert torch.isfinite(weights(model)).all()


def test_columns_that_nearly_say_the_same_keep_their_digits_in_one_batch():
    """The normal equations square the condition: here they would be singular, and the rows are not."""
    x, _, _ = table()
    x = (x - PLACES) / SIZES
    x[:, 1] = x[:, 0] + 1e-7 * x[:, 1]
    model, _ = solve(x, x @ torch.tensor([1.0, 2.0, 3.0, 4.0]).double())
    torch.testing.assert_close(model.map.weight[0], torch.tensor([1.0, 2.0, 3.0, 4.0]).double(), rtol=1e-6, atol=0)


def test_a_column_far_from_zero_loses_no_digits_in_batches():
    x, y, _ = table()
    x = (x - PLACES) / SIZES
    moved = x + 1e6
    whole, _ = solve(x, y)
    parts, _ = solve(moved, y, batch=8)
    torch.testing.assert_close(parts.map.weight, whole.map.weight, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("batch", [None, 16])
def test_rows_of_float32_and_of_size_1e4_stay_finite(batch):
    g = torch.Generator().manual_seed(0)
    x = (torch.rand(64, 3, generator=g) - 0.5).sign() * 1e4
    y = x @ torch.tensor([1.0, -2.0, 3.0]) + torch.randn(64, generator=g)
    model, likelihood = solve(x, y, batch=batch, model=Linear(3, 1), likelihood=Normal())
    torch.testing.assert_close(model.map.weight[0], torch.tensor([1.0, -2.0, 3.0]), rtol=1e-3, atol=0)
    assert torch.isfinite(likelihood.rho).all()


@pytest.mark.parametrize("batch", [None, 16])
def test_a_map_without_offset_goes_through_zero(batch):
    x, y, _ = table()
    model, _ = solve(x, y, batch=batch, model=nn.Linear(4, 1, bias=False).double())
    wanted = LinearRegression(fit_intercept=False, tol=1e-14).fit(x.numpy(), y.numpy()).coef_
    torch.testing.assert_close(model.weight[0].detach(), torch.tensor(wanted), rtol=1e-6, atol=1e-9)


def test_a_pass_that_was_interrupted_goes_on_to_the_same_bits():
    x, y, weight = table()
    parts = Batch(x, y, weight).split(16)

    def begin():
        torch.manual_seed(0)
        rule, model = LeastSquares(0.5), Linear(4, 1).double()
        rule.steps_per_epoch = len(parts)
        rule.bind(model, Normal().double(), len(parts))
        return rule, model

    rule, model = begin()
    for k, part in enumerate(parts):
        rule.step(part, k)
    first, _ = begin()
    for k in range(3):
        first.step(parts[k], k)
    tensors, skeleton = pack(first.state())
    second, resumed = begin()
    second.load_state(unpack(json.loads(json.dumps(skeleton)), tensors))
    for k in range(3, len(parts)):
        second.step(parts[k], k)
    assert torch.equal(weights(resumed), weights(model))
    assert second.finished


def test_the_config_builds_it_again():
    assert LeastSquares(**LeastSquares(ridge=0.3).config).ridge == 0.3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LeastSquares(-1.0), "ridge must be a number of at least 0. Got ridge=-1.0"),
        (lambda: LeastSquares().bind(MLP(3, (4,), 1), Normal(), 1), "one affine map. Got a MLP. Use ll.models.Linear"),
        (lambda: LeastSquares().bind(Linear(3, 1), Bernoulli(), 1), "needs a Normal likelihood .* Got Bernoulli"),
        (lambda: LeastSquares().bind(Linear(3, 2), Normal("input"), 1), r"Got Normal\(variance='input'\). Use Normal"),
    ],
)
def test_what_it_cannot_do_is_said(make, said):
    with pytest.raises(UserError, match=said):
        make()


# ── through fit ──


def curve():
    x, y, _ = table(rows=200)
    return ll.data.arrays(x.float(), y.float())


@pytest.mark.parametrize("batch", [32, 10**6])
def test_fit_ends_after_one_epoch_with_the_weights_of_all_rows(batch):
    data = curve()
    run = ll.fit(Linear(4, 1), data, rule=LeastSquares(), batch=batch, progress=False)
    assert (run.reason, len(run.history)) == ("finished", 1)
    reference = LinearRegression().fit(data.train.x.double().numpy(), data.train.y.double().numpy())
    wanted = torch.tensor(reference.predict(data.test.x.double().numpy()))
    torch.testing.assert_close(run.predict(data.test.x).mean.double(), wanted, rtol=1e-4, atol=1e-2)
    gradient = ll.fit(Linear(4, 1), data, epochs=300, lr=0.03, weight_decay=0.0, progress=False)
    assert run.evaluate("train")["nll"] <= gradient.evaluate("train")["nll"] + 1e-5


def test_a_run_folder_is_read_back(tmp_path):
    data = curve()
    run = ll.fit(Linear(4, 1), data, rule=LeastSquares(0.1), epochs=1, batch=32, folder=tmp_path / "r", progress=False)
    back = ll.load(tmp_path / "r", data=data)
    assert torch.equal(back.model.map.weight, run.model.map.weight)
    assert back.evaluate("test")["rmse"] == run.evaluate("test")["rmse"]
