"""Labels on a line come with the probabilities that their formulas say."""

import math

import torch

from leadline.data import labels

ALL = {"val": 0.0, "test": 0.0}


def test_binary_labels_follow_their_curve():
    train = labels.binary_1d(num=40_000, sharpness=3.0, **ALL).train
    x, y = train.x[:, 0], train.y.float()
    for centre in (0.1, 0.25, 0.5, 0.8):
        share = y[(x - centre).abs() < 0.02].mean()
        assert abs(share - torch.sigmoid(torch.tensor(3 * math.sin(2 * math.pi * centre)))) < 0.05


def test_three_classes_follow_their_softmax():
    train = labels.three_classes_1d(num=40_000, sharpness=2.0, **ALL).train
    x, y = train.x[:, 0], train.y
    for centre in (0.05, 1 / 3, 0.5, 0.7):
        score = 2 * torch.cos(2 * math.pi * (centre - torch.arange(3) / 3))
        share = y[(x - centre).abs() < 0.02].bincount(minlength=3).double()
        assert torch.allclose(share / share.sum(), score.softmax(0).double(), atol=0.06)


def test_two_gaussians_stand_where_they_should():
    assert len(labels.two_gaussians(**ALL).train) == 20
    train = labels.two_gaussians(num=20_000, **ALL).train
    x, y = train.x[:, 0], train.y
    assert y.bincount().tolist() == [10_000, 10_000]
    assert abs(x[y == 0].mean() + 1) < 0.05 and abs(x[y == 1].mean() - 1) < 0.05
    assert abs(x[y == 0].std() - 1) < 0.03 and abs(x[y == 1].std() - 1) < 0.03
