import pytest
import torch

from leadline.errors import DataError
from leadline.likelihoods import Exponential


def test_the_best_mean_is_the_mean_of_y():
    y = torch.tensor([1.0, 2.0, 6.0])
    output = torch.tensor([[3.0]]).log().requires_grad_()
    Exponential().loss(output.expand(3, -1), y).sum().backward()
    assert float(output.grad) == pytest.approx(0.0, abs=1e-6)


def test_its_deviation_is_its_mean_and_its_mode_is_nothing():
    prediction = Exponential(scale=(4.0,)).prediction(torch.zeros(2, 1))
    assert prediction.mean.tolist() == prediction.std.tolist() == [4.0, 4.0]
    assert prediction.mode.tolist() == [0.0, 0.0]


def test_zero_is_a_waiting_time_and_less_is_not():
    Exponential().check(torch.tensor([0.0, 1.0]))
    with pytest.raises(DataError, match="y must be at least 0. Got 1 outside, the first -1 in row 0"):
        Exponential().check(torch.tensor([-1.0, 1.0]))
