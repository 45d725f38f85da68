"""What tells a transformer where a token stands, beside the same sums written out."""

import numpy as np
import pytest
import torch

from leadline.errors import UserError
from leadline.layers import LearnedPositions, SinusoidalPositions
from leadline.lens import position_vectors
from leadline.models import BERT, GPT, MLP, ViT
from leadline.reference.positions import sinusoids


def test_sinusoids_are_those_of_the_twin_and_their_products_are_one_number_a_distance():
    view = position_vectors(SinusoidalPositions(6), length=9)
    by_hand = np.array([sinusoids(n, 6) for n in range(9)])
    np.testing.assert_allclose(view.vectors, by_hand, atol=1e-6)
    np.testing.assert_allclose(view.along, by_hand @ by_hand[0], atol=1e-5)
    assert position_vectors(SinusoidalPositions(6)).vectors.shape == (64, 6)


def test_products_are_means_over_all_pairs_as_far_apart():
    e = torch.randn(5, 3, dtype=torch.float64)
    view = position_vectors(e)
    assert view.along[3] == pytest.approx(float((e[0] @ e[3] + e[1] @ e[4]) / 2))
    assert np.array_equal(position_vectors(e, length=4).vectors, e[:4].numpy())


def test_models_are_read_and_left_alone():
    waves = GPT(11, 8, dim=8, num_layers=1, num_heads=2, positions="sinusoidal")
    np.testing.assert_allclose(position_vectors(waves, 3).vectors[2], sinusoids(2, 8), atol=1e-6)
    layer = LearnedPositions(4, 6)
    assert np.array_equal(position_vectors(layer).vectors, layer.weight.detach().double().numpy())
    for model in (GPT.tiny(), BERT.tiny(), ViT.tiny()):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        view = position_vectors(model)
        assert view.plot() is not None and view.to_dict()["view"] == "PositionVectors"
        assert len(view.along) == len(view.vectors) > 1
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_what_has_no_places_is_refused():
    with pytest.raises(UserError, match="learned positions"):
        position_vectors(MLP.tiny())
    with pytest.raises(UserError, match="no more than the places"):
        position_vectors(torch.zeros(4, 2), length=5)
    with pytest.raises(UserError, match="two places"):
        position_vectors(torch.zeros(4, 2), length=1)
