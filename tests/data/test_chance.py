"""Pure noise is standard normal, fair, and says nothing about its target."""

import torch

from leadline.data import chance

ALL = {"val": 0.0, "test": 0.0}


def test_noise_regression_has_no_correlation():
    train = chance.noise_regression(num=10_000, **ALL).train
    assert train.x.shape == (10_000, 10) and train.y.shape == (10_000, 5)
    table = torch.corrcoef(torch.cat([train.x, train.y], dim=1).T)
    assert (table - torch.eye(15)).abs().max() < 0.05
    assert chance.noise_regression(dim_output=1, **ALL).train.y.shape == (100,)


def test_noise_binary_is_a_fair_coin():
    train = chance.noise_binary(num=10_000, dim_input=2, **ALL).train
    assert train.x.shape == (10_000, 2)
    assert abs(train.y.float().mean() - 0.5) < 0.02
    assert (train.x[train.y == 1].mean(0) - train.x[train.y == 0].mean(0)).abs().max() < 0.08
