"""Random patterns, stored clean and asked for damaged."""

import pytest
import torch

from leadline.data import load, patterns
from leadline.errors import UserError


def test_damage_is_exact_and_the_patterns_are_the_same():
    data = patterns(12, 50, corrupted=0.2, seed=3)
    assert torch.equal(data.train.x, data.train.y) and set(data.train.y.unique().tolist()) == {-1.0, 1.0}
    for split in (data.val, data.test):
        assert torch.equal(split.y, data.train.y)
        assert ((split.x != split.y).sum(1) == 10).all()
    assert not torch.equal(data.val.x, data.test.x)
    assert data.target.kind == "signs" and data.target.dim == 50


def test_the_recipe_draws_them_again():
    data = patterns(num=5, dim=20, corrupted=0.3, mean=0.5, seed=7)
    assert load(data.recipe).fingerprint == data.fingerprint != patterns(5, 20, seed=7).fingerprint


def test_the_mean_is_that_asked_for_and_no_damage_moves_nothing():
    assert float(patterns(200, 100, mean=0.6).train.y.mean()) == pytest.approx(0.6, abs=0.03)
    clean = patterns(4, 30, corrupted=0.0)
    assert torch.equal(clean.test.x, clean.test.y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num": 0}, "num must be"),
        ({"dim": 0}, "dim must be"),
        ({"corrupted": 10}, "from 0 to 1"),
        ({"mean": 1.0}, "mean must lie between"),
        ({"seed": -1}, "seed must be"),
        ({"noise": 0.1}, "option of patterns"),
    ],
)
def test_bad_settings_are_explained(options, words):
    with pytest.raises(UserError, match=words):
        patterns(**options)
