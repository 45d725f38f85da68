import pytest
import torch

from leadline.data.target import Target
from leadline.errors import DataError
from leadline.likelihoods import Exponential, Gamma, likelihood_for


def test_a_positive_target_picks_it():
    likelihood = likelihood_for(Target("positive", shift=(50.0,), scale=(9.0,)))
    assert isinstance(likelihood, Gamma)
    assert likelihood.scale == (50.0,)
    assert float(likelihood.prediction(torch.zeros(1, 1)).mean.detach()) == pytest.approx(50.0)


def test_sigma_is_the_deviation_over_the_mean():
    prediction = Gamma("fixed", sigma=0.25, scale=(8.0,)).prediction(torch.zeros(1, 1))
    assert float(prediction.mean) == pytest.approx(8.0)
    assert float(prediction.std) == pytest.approx(2.0)
    assert float(prediction.distribution.concentration) == pytest.approx(16.0)


def test_with_sigma_one_it_is_exponential():
    output, y = torch.randn(30, 1), torch.rand(30) + 0.01
    torch.testing.assert_close(Gamma("fixed", sigma=1.0).loss(output, y), Exponential().loss(output, y))


def test_the_mean_is_found_even_where_y_is_not_gamma():
    torch.manual_seed(0)
    y = torch.exp(torch.randn(4000))
    likelihood = Gamma("fixed")
    output = torch.zeros(1, 1, requires_grad=True)
    optimizer = torch.optim.Adam([output], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        likelihood.loss(output.expand(4000, -1), y).mean().backward()
        optimizer.step()
    assert float(likelihood.prediction(output.detach()).mean) == pytest.approx(float(y.mean()), rel=1e-3)


def test_a_sharp_density_loses_no_digits_in_single_precision():
    output, y = torch.tensor([[0.01, -12.0]]), torch.tensor([1.0101])
    single = Gamma("input").loss(output, y)
    double = Gamma("input").double().loss(output.double(), y.double())
    assert float(single) == pytest.approx(float(double), rel=1e-2)


def test_zero_is_refused():
    with pytest.raises(DataError, match="y must be more than 0"):
        Gamma().check(torch.tensor([1.0, 0.0]))
    Gamma().check(torch.tensor([1e-6, 3.0]))
