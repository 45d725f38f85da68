import pytest
import torch

from leadline.errors import UserError
from leadline.likelihoods import Bernoulli


def test_probabilities_are_those_of_the_logit():
    prediction = Bernoulli().prediction(torch.tensor([[0.0], [2.0], [-2.0]]))
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(3))
    torch.testing.assert_close(prediction.mean, torch.tensor([0.0, 2.0, -2.0]).sigmoid())
    assert prediction.mode.tolist() == [0, 1, 0]


def test_quantiles_step_from_no_to_yes_at_the_probability_of_no():
    prediction = Bernoulli().prediction(torch.logit(torch.tensor([[0.3]])))  # no has 0.7
    assert [prediction.quantile(q).item() for q in (0.1, 0.69, 0.71, 0.99)] == [0, 0, 1, 1]


def test_accuracy_counts_rows():
    measures = Bernoulli().measures(torch.tensor([[3.0], [-3.0], [1.0]]), torch.tensor([1, 1, 0]))
    assert measures["accuracy"].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("level", [0.0, 1.0, 90])
def test_a_level_is_a_probability(level):
    with pytest.raises(UserError, match=r"level must lie between 0 and 1.*Write 90 % as level=0.9"):
        Bernoulli().prediction(torch.zeros(2, 1)).interval(level)


def test_at_least_one_sample_is_asked_for():
    with pytest.raises(UserError, match="count must be at least 1. Got count=0"):
        Bernoulli().prediction(torch.zeros(2, 1)).sample(0)
