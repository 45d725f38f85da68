import numpy as np
import pytest
import torch
from continuous_cases import covariance_of, mean_vector
from scipy import stats

from leadline.data.target import Target
from leadline.errors import ShapeError, UserError
from leadline.likelihoods import MultivariateNormal, Normal

UNIT = {"shift": (10.0, -1.0, 0.0), "scale": (3.0, 0.5, 20.0)}


@pytest.mark.parametrize("covariance", ["learned", "input"])
def test_the_loss_is_that_of_scipy(covariance):
    torch.manual_seed(0)
    likelihood = MultivariateNormal(covariance, 3, **UNIT).double()
    if covariance == "learned":
        torch.nn.init.normal_(likelihood.factor, std=0.1)
    output, y = torch.randn(100, likelihood.dim_output).double(), torch.randn(100, 3).double()
    for row, loss in enumerate(likelihood.loss(output, y).tolist()):
        one = output[row : row + 1]
        law = stats.multivariate_normal(mean_vector(likelihood, one), covariance_of(likelihood, one))
        assert loss == pytest.approx(-law.logpdf(y[row].numpy()), rel=1e-6, abs=1e-6)


def test_the_covariance_of_a_prediction_is_the_one_in_the_loss():
    torch.manual_seed(0)
    likelihood = MultivariateNormal("input", 3, **UNIT).double()
    output = torch.randn(4, likelihood.dim_output).double()
    prediction = likelihood.prediction(output)
    for row in range(4):
        np.testing.assert_allclose(
            prediction.covariance[row], covariance_of(likelihood, output[row : row + 1]), rtol=1e-6
        )


def test_independent_outputs_are_those_of_normal():
    output, y = torch.randn(20, 2), torch.randn(20, 2)
    both = {"dim": 2, "shift": (1.0, 2.0), "scale": (3.0, 4.0)}
    torch.testing.assert_close(
        MultivariateNormal(**both).loss(output, y), Normal("learned", **both).loss(output, y), rtol=1e-3, atol=1e-3
    )


def test_it_learns_that_misses_go_together():
    torch.manual_seed(0)
    wanted = torch.tensor([[1.0, 0.8], [0.8, 2.0]])
    y = torch.randn(4000, 2) @ torch.linalg.cholesky(wanted).T
    likelihood = MultivariateNormal(dim=2)
    output = torch.zeros(1, 2)
    optimizer = torch.optim.LBFGS(likelihood.parameters(), max_iter=50, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = likelihood.loss(output.expand(4000, -1), y).mean()
        value.backward()
        return value

    optimizer.step(loss)
    found = likelihood.prediction(output).covariance[0].detach()
    torch.testing.assert_close(found, y.T @ y / 4000, rtol=1e-3, atol=1e-3)


def test_intervals_are_those_of_each_output():
    likelihood = MultivariateNormal("learned", 3, **UNIT)
    torch.nn.init.normal_(likelihood.factor, std=0.1, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        prediction = likelihood.prediction(torch.zeros(1, 3))
        low, high = prediction.interval(0.9)
        draws = prediction.sample(20000, seed=0)[:, 0]
    inside = ((low <= draws) & (draws <= high)).double().mean(0)
    assert inside.tolist() == pytest.approx([0.9, 0.9, 0.9], abs=0.01)


def test_one_output_is_refused():
    with pytest.raises(UserError, match="at least 2 numbers a row. Got y: real. Use Normal"):
        MultivariateNormal.for_target(Target("real"))
    with pytest.raises(UserError, match="dim must be a whole number of at least 2"):
        MultivariateNormal(dim=1)
    with pytest.raises(UserError, match="covariance must be learned or input"):
        MultivariateNormal("diagonal")
    with pytest.raises(ShapeError, match=r"y must have shape \(n, 2\)"):
        MultivariateNormal(dim=2).check(torch.zeros(5))
