"""Each illegal value of a setting is refused by name."""

import dataclasses
import json
import math

import numpy as np
import pytest

from leadline.errors import UnknownName, UserError
from leadline.settings import CHOICES, Settings

WHOLE = ("epochs", "epoch_steps", "batch", "accumulate", "validate_every", "patience", "threads")


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", math.nan])
def test_whole_numbers(name, value):
    with pytest.raises(UserError, match=f"{name} must be a whole number of at least 1. Got {name}="):
        Settings(**{name: value})


@pytest.mark.parametrize("name", ["epochs", "batch", "accumulate", "validate_every"])
def test_what_may_not_be_left_out(name):
    with pytest.raises(UserError, match=name):
        Settings(**{name: None})


@pytest.mark.parametrize("name", ["patience", "threads", "clip", "epoch_steps"])
def test_what_may_be_left_out(name):
    assert getattr(Settings(**{name: None}), name) is None


@pytest.mark.parametrize("name", ["warmup", "momentum"])
@pytest.mark.parametrize("value", [-0.1, 1, 1.5, math.nan, math.inf, "0.5", None])
def test_shares(name, value):
    with pytest.raises(UserError, match=f"{name} must be a number of at least 0 and below 1"):
        Settings(**{name: value})


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, "0", None])
def test_weight_decay(value):
    with pytest.raises(UserError, match="weight_decay must be a number of at least 0"):
        Settings(weight_decay=value)


@pytest.mark.parametrize("name", ["lr", "clip"])
@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "fast"])
def test_positive_numbers(name, value):
    with pytest.raises(UserError, match=f"{name} must be a number above 0"):
        Settings(**{name: value})


@pytest.mark.parametrize("seed", [1.5, "7", None])
def test_seed_is_a_whole_number(seed):
    with pytest.raises(UserError, match="seed"):
        Settings(seed=seed)


@pytest.mark.parametrize("name", CHOICES)
def test_words(name):
    with pytest.raises(UnknownName, match=f"{name} must be a known word"):
        Settings(**{name: "zzz"})
    for word in CHOICES[name]:
        assert getattr(Settings(**{name: word}), name) == word


def test_misspelt_words_answer_with_the_closest():
    for name, wrong, right in (
        ("optimizer", "AdamX", "adam"),
        ("precision", "float", "float32"),
        ("schedule", "cosin", "cosine"),
    ):
        with pytest.raises(UnknownName, match=right):
            Settings(**{name: wrong})


def test_they_are_frozen_and_plain():
    settings = Settings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.lr = 1.0
    assert Settings.make(**json.loads(json.dumps(settings.config))) == settings
    assert settings.with_(lr=0.5).lr == 0.5 and settings.lr != 0.5


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (
            {"epochs": "3"},
            "epochs must be a whole number of at least 1. Got epochs='3' (text). Write epochs=3, without",
        ),
        ({"epochs": True}, "Got epochs=True (a truth value). A usual value is epochs=100"),
        ({"batch": 2.5}, "Got batch=2.5. Round it: batch=2"),
        ({"batch": [8]}, "Got batch=[8] (a list)"),
        ({"epochs": 0}, "Got epochs=0. Pass 1 or more"),
        ({"lr": "a"}, "lr must be a number above 0. Got lr='a' (text). A usual value is lr=0.003"),
        ({"lr": "0.1"}, "Write lr=0.1, without quotes"),
        ({"lr": True}, "Got lr=True (a truth value)"),
        ({"weight_decay": True}, "weight_decay=True (a truth value)"),
        ({"seed": "7"}, "seed must be a whole number from 0 to 2^63 - 1. Got seed='7' (text). Write seed=7"),
        ({"compile": True}, "compile must be a known word. Got compile=True (a truth value)"),
    ],
)
def test_a_wrong_type_is_named_and_never_told_to_be_raised(setting, told):
    with pytest.raises(UserError) as caught:
        Settings(**setting)
    assert told in str(caught.value)
    assert "Raise it" not in str(caught.value)


def test_numbers_of_numpy_are_numbers():
    settings = Settings(epochs=np.int64(3), lr=np.float32(0.5), seed=np.uint8(7))
    assert json.loads(json.dumps(settings.config))["epochs"] == 3
    assert (settings.lr, settings.seed) == (0.5, 7) and type(settings.epochs) is int
