import math

import pytest
import torch

from leadline.errors import UserError
from leadline.likelihoods import Normal, StudentT


def fit_constant(likelihood, y, steps=600):
    output = torch.zeros(1, likelihood.dim_output, requires_grad=True)
    optimizer = torch.optim.Adam([output, *likelihood.parameters()], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        likelihood.loss(output.expand(len(y), -1), y).mean().backward()
        optimizer.step()
    with torch.no_grad():
        return likelihood.prediction(output)


def test_wild_values_hardly_move_it():
    torch.manual_seed(0)
    y = torch.randn(500)
    wild = torch.cat([y, torch.full((25,), 100.0)])
    assert abs(float(fit_constant(StudentT(df=2.0), wild).mode)) < 0.2
    assert float(fit_constant(Normal(), wild, 2000).mode) > 2


def test_it_learns_its_degrees_of_freedom():
    torch.manual_seed(0)
    y = torch.distributions.StudentT(3.0).sample((20000,))
    likelihood = StudentT(df=20.0)
    fit_constant(likelihood, y)
    assert float(likelihood.freedom().detach()) == pytest.approx(3.0, rel=0.15)


def test_fixed_degrees_of_freedom_stay():
    likelihood = StudentT(df=4.0, learn_df=False)
    assert float(likelihood.freedom()) == 4.0
    assert [name for name, _ in likelihood.named_parameters()] == ["rho"]


def test_learning_begins_at_df():
    assert float(StudentT(df=7.5).freedom().detach()) == pytest.approx(7.5, rel=1e-6)


def test_with_many_degrees_of_freedom_it_is_normal():
    output, y = torch.randn(50, 1), torch.randn(50)
    many = StudentT("fixed", df=1e7, learn_df=False).loss(output, y)
    torch.testing.assert_close(many, Normal("fixed").loss(output, y), rtol=1e-4, atol=1e-5)


def test_the_centre_is_there_even_without_a_mean():
    prediction = StudentT("fixed", df=1.0, learn_df=False).prediction(torch.full((2, 1), 3.0))
    assert prediction.mean.tolist() == [3.0, 3.0]
    assert not math.isfinite(float(prediction.std[0]))
    assert prediction.quantile(0.75).tolist() == pytest.approx([4.0, 4.0])


@pytest.mark.parametrize(
    ("options", "message"), [({"df": 1.0}, "df must be a number above 1"), ({"df": 0.0, "learn_df": False}, "above 0")]
)
def test_degrees_of_freedom_that_make_no_sense_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        StudentT(**options)
