"""Connected components, unanimous votes, and regions grown from class probabilities."""

import pytest
import torch

from leadline.errors import ShapeError, UserError
from leadline.likelihoods.regions import components, grown, unanimous
from leadline.reference import boxes as twin


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("density", [0.2, 0.5, 0.7])
def test_components_are_those_of_a_flood(corners, density):
    mask = torch.rand(13, 17, generator=torch.Generator().manual_seed(0)) < density
    numbers, count = components(mask, corners)
    assert numbers.tolist() == twin.components(mask.tolist(), corners)
    assert count == int(numbers.max())


def test_components_of_a_volume():
    volume = torch.zeros(4, 5, 5, dtype=torch.bool)
    volume[:, 2, 2] = True  # a thread through all slices: one piece, which no slice alone tells
    volume[0, 0, 0] = volume[1, 1, 1] = True
    numbers, count = components(volume)
    assert count == 3 and len(numbers[:, 2, 2].unique()) == 1
    assert components(volume, corners=True)[1] == 1
    assert components(torch.zeros(3, 3))[1] == 0
    with pytest.raises(ShapeError, match="one mask at a time"):
        components(torch.zeros(2, 3, 4, 5))


def test_a_vote_is_unanimous():
    votes = torch.tensor([[1, 1, 0, 2], [1, 0, 0, 2], [1, 1, 0, 1]])
    assert unanimous(votes).tolist() == [1, 0, 0, 0]
    assert unanimous(votes, otherwise=255).tolist() == [1, 255, 0, 255]
    inside = votes > 0
    assert unanimous(inside, False).tolist() == inside.all(0).tolist()


def two_halves(noise=0.0, seed=0):
    """Left of the middle class 0, right of it class 1, a third that is nowhere."""
    logits = torch.zeros(3, 20, 24)
    logits[0, :, :12], logits[1, :, 12:] = 3.0, 3.0
    return (logits + noise * torch.randn(logits.shape, generator=torch.Generator().manual_seed(seed))).softmax(0)


def test_where_all_is_clear_regions_are_the_likeliest_classes():
    p = two_halves()
    assert torch.equal(grown(p), p.argmax(0))


def test_growing_favours_what_is_connected():
    """Under noise fewer pixels are wrong, and there are far fewer pieces, than if each pixel is read alone."""
    p, truth = two_halves(noise=1.5), two_halves().argmax(0)
    codes = grown(p, otherwise=0)
    assert (codes != truth).sum() < (p.argmax(0) != truth).sum() / 3
    pieces = lambda c: sum(components(c == k)[1] for k in range(3))  # noqa: E731
    assert pieces(codes) < pieces(p.argmax(0)) / 5


def test_a_class_without_evidence_is_not_added():
    p = two_halves()
    p[:, 4:6, 4:6] = torch.tensor([0.05, 0.05, 0.9])[:, None, None]
    assert 2 not in grown(p, window=1, evidence=16.0)
    assert int((grown(p, window=1, evidence=2.0) == 2).sum()) == 4
    assert set(grown(p, window=1, evidence=16.0)[4:6, 4:6].flatten().tolist()) == {255}
    assert set(grown(p, seed=0.99).flatten().tolist()) == {255}  # nothing is so sure


def test_near_ties_go_to_the_class_that_is_shown_more():
    p = torch.tensor([0.9, 0.1])[:, None, None].repeat(1, 12, 12)
    p[:, :, 9:] = torch.tensor([0.48, 0.52])[:, None, None]
    assert set(grown(p, window=1)[:, 9:].flatten().tolist()) == {0}
    assert set(grown(p, window=1, grow=1.0)[:, 9:].flatten().tolist()) == {1}


@pytest.mark.parametrize("options", [{"seed": 0.0}, {"grow": 1.5}, {"grow": 0.0}, {"window": 0}])
def test_bad_arguments_are_explained(options):
    with pytest.raises(UserError, match=next(iter(options))):
        grown(two_halves(), **options)
