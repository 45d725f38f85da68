"""Classes by least squares: rows of 0 and 1, sums of 1, and no word of probability."""

import pytest
import torch
from sklearn.linear_model import LinearRegression

import leadline as ll
from leadline.data.data import Batch
from leadline.data.target import Target
from leadline.errors import DataError, UserError
from leadline.likelihoods import OneHot, likelihood_for
from leadline.models import Linear
from leadline.optim import LeastSquares
from leadline.testing import check_likelihood


@pytest.mark.parametrize("classes", [2, 5])
def test_it_keeps_the_contract(classes):
    torch.manual_seed(0)
    check_likelihood(OneHot(classes), torch.randn(12, classes), torch.arange(12) % classes)


def test_the_loss_is_the_squared_distance_written_out():
    output, y = torch.tensor([[0.2, 1.5, -1.0], [0.0, 0.0, 1.0]]), torch.tensor([1, 2])
    wanted = [0.2**2 + 0.5**2 + 1.0**2, 0.0]
    assert OneHot(3).loss(output, y).tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("steps", [1, 3])
def test_least_squares_fits_the_rows_of_0_and_1_and_its_outputs_sum_to_1(steps):
    torch.manual_seed(1)
    x, y = torch.randn(90, 4).double(), torch.arange(90) % 3
    x[:, 0] += 2 * y
    model, rule = Linear(4, 3).double(), LeastSquares()
    rule.steps_per_epoch = steps
    rule.bind(model, OneHot(3), steps)
    for k, part in enumerate(Batch(x, y).split(90 // steps)):
        rule.step(part, k)
    wanted = LinearRegression().fit(x.numpy(), torch.eye(3)[y].numpy())
    torch.testing.assert_close(model(x), torch.tensor(wanted.predict(x.numpy())), atol=1e-6, rtol=0)
    elsewhere = 100 * torch.randn(50, 4).double()
    torch.testing.assert_close(model(elsewhere).sum(1), torch.ones(50).double(), atol=1e-10, rtol=0)
    assert bool(model(elsewhere).max() > 1) and bool(model(elsewhere).min() < 0)


@pytest.mark.parametrize("source", ["wine", "breast_cancer"])
def test_fit_evaluate_predict_and_load(source, tmp_path):
    data = ll.data.load(source)
    likelihood = likelihood_for(data.target, "OneHot")
    model = Linear(data.dim_input, likelihood.dim_output)
    ll.fit(model, data, likelihood=likelihood, rule=LeastSquares(), epochs=1, progress=False, folder=tmp_path / "run")
    run = ll.load(tmp_path / "run")
    assert run.evaluate("test")["accuracy"] > 0.9
    prediction = run.predict(data.test.x)
    assert float((prediction.mode == data.test.y).float().mean()) == pytest.approx(run.evaluate("test")["accuracy"])
    with pytest.raises(UserError, match="only a likelihood has a density"):
        prediction.log_prob(data.test.y)


def test_it_is_for_classes():
    assert likelihood_for(Target("binary", classes=("n", "y")), "onehot").num_classes == 2
    with pytest.raises(UserError, match="likelihood OneHot must fit the target"):
        likelihood_for(Target("real"), "OneHot")
    with pytest.raises(DataError, match="class codes must lie in 0 … 2"):
        OneHot(3).check(torch.tensor([0, 3]))
    with pytest.raises(UserError, match="num_classes"):
        OneHot(1)
