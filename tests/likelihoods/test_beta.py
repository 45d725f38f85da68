import math

import pytest
import torch

from leadline.data.target import Target
from leadline.errors import DataError, UserError
from leadline.likelihoods import Beta, likelihood_for


def test_a_proportion_picks_it():
    assert isinstance(likelihood_for(Target("proportion", shift=(0.3,), scale=(0.1,))), Beta)


def test_mean_and_variance():
    prediction = Beta("fixed", sigma=0.5).prediction(torch.tensor([[math.log(3.0)]]))
    assert float(prediction.mean) == pytest.approx(0.75, abs=1e-4)
    assert float(prediction.std) == pytest.approx(math.sqrt(0.75 * 0.25 / 5), rel=1e-3)
    assert float(prediction.mode) == pytest.approx((3 - 1) / (4 - 2), abs=1e-3)


def test_exact_zero_and_one_count_as_the_edge():
    likelihood = Beta("fixed", edge=0.01)
    output = torch.randn(2, 1)
    ends = likelihood.loss(output, torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(ends, likelihood.loss(output, torch.tensor([0.01, 0.99])))
    torch.testing.assert_close(likelihood.prediction(output).log_prob(torch.tensor([0.0, 1.0])), -ends)
    inside = torch.tensor([0.011, 0.989])
    assert not torch.equal(ends, likelihood.loss(output, inside))
    likelihood.check(torch.tensor([0.0, 1.0]))


def test_intervals_stay_within_nothing_and_all():
    low, high = Beta("fixed", sigma=2.0).prediction(torch.tensor([[-9.0], [0.0], [9.0]])).interval(0.99)
    assert bool(((low >= 0) & (high <= 1) & (low <= high)).all())


def test_what_is_no_proportion_is_refused():
    with pytest.raises(DataError, match="y must be between 0 and 1. Got 1 outside, the first 1.5 in row 1"):
        Beta().check(torch.tensor([0.5, 1.5]))


@pytest.mark.parametrize("options", [{"edge": 0.0}, {"edge": 0.5}, {"sigma": 0.0}, {"variance": "none"}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(UserError):
        Beta(**options)
