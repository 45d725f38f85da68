import math

import pytest
import torch

from leadline.data.target import Target
from leadline.errors import DataError, UserError
from leadline.likelihoods import LogNormal, Normal


def test_it_is_normal_for_the_logarithm():
    torch.manual_seed(0)
    output, y = torch.randn(20, 1), torch.exp(torch.randn(20))
    loss = LogNormal("fixed", sigma=0.5).loss(output, y)
    torch.testing.assert_close(loss, Normal("fixed", sigma=0.5).loss(output, y.log()) + y.log())


def test_median_mean_and_mode():
    prediction = LogNormal("fixed", sigma=0.5, scale=(3.0,)).prediction(torch.tensor([[math.log(2.0)]]))
    assert float(prediction.quantile(0.5)) == pytest.approx(6.0, rel=1e-5)
    assert float(prediction.mean) == pytest.approx(6 * math.exp(0.125), rel=1e-5)
    assert float(prediction.mode) == pytest.approx(6 * math.exp(-0.25), rel=1e-5)


def test_the_unit_is_the_mean_of_the_training_rows():
    likelihood = LogNormal.for_target(Target("positive", shift=(20000.0,), scale=(7000.0,)))
    assert float(likelihood.prediction(torch.zeros(1, 1)).quantile(0.5).detach()) == pytest.approx(20000.0, rel=1e-4)


def test_metrics_stay_finite_for_an_untrained_width():
    output = torch.tensor([[1.0, 50.0], [5.0, 1e4]])
    measures = LogNormal("input").measures(output, torch.ones(2))
    assert all(bool(value.isfinite().all()) for value in measures.values())


@pytest.mark.parametrize(
    ("y", "message"), [([1.0, 0.0, -2.0], "y must be more than 0. Got 2 outside, the first 0 in row 1")]
)
def test_what_is_not_positive_is_refused(y, message):
    with pytest.raises(DataError, match=message):
        LogNormal().check(torch.tensor(y))


def test_several_outputs_are_refused():
    with pytest.raises(UserError, match="likelihood LogNormal needs one number a row. Got y: real \\(2 values\\)"):
        LogNormal.for_target(Target("real", dim=2))
