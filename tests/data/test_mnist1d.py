"""MNIST-1D: equal to the author's package, array for array, and split and corrupted as asked."""

import hashlib
import inspect
import platform
import random

import numpy as np
import pytest
import torch

from leadline.data.mnist1d import generate, mnist1d, templates
from leadline.errors import UserError

SETTINGS = [
    ({}, {}),
    (
        {"num": 400, "seed": 7, "shuffle_positions": True, "length": 30},
        {"num_samples": 400, "seed": 7, "shuffle_seq": True, "final_seq_length": 30},
    ),
    (
        # translations longer than the line, strong noise, a template stretched by its own length too
        {"num": 300, "min_padding": 5, "max_padding": 9, "length": 17, "max_translation": 60, "template_length": 20}
        | {"shear": 2.0, "scale_range": 1.5, "iid_noise": 0.3, "correlated_noise": 1.0},
        {"num_samples": 300, "padding": [5, 9], "final_seq_length": 17, "max_translation": 60, "template_len": 20}
        | {"shear_scale": 2.0, "scale_coeff": 1.5, "iid_noise_scale": 0.3, "corr_noise_scale": 1.0},
    ),
    (
        # no padding and no translation; a line shorter than the filter; more points out than in
        {"num": 100, "min_padding": 0, "max_padding": 0, "template_length": 6, "max_translation": 1, "length": 33},
        {"num_samples": 100, "padding": [0, 0], "template_len": 6, "max_translation": 1, "final_seq_length": 33},
    ),
]


def from_package(**changes):
    data = pytest.importorskip("mnist1d.data")
    args = data.get_dataset_args()
    for name, value in changes.items():
        setattr(args, name, value)
    state, numpy_state = random.getstate(), np.random.get_state()
    made = data.make_dataset(args)
    random.setstate(state)
    np.random.set_state(numpy_state)
    return np.concatenate([made["x"], made["x_test"]]), np.concatenate([made["y"], made["y_test"]]), made["t"]


@pytest.mark.parametrize(("ours", "theirs"), SETTINGS)
def test_generate_equals_the_package(ours, theirs):
    x, y, t = from_package(**theirs)
    drawn = generate(**ours)
    assert drawn.x.dtype == np.float64
    np.testing.assert_array_equal(drawn.y, y)
    if platform.machine() == "x86_64":  # elsewhere a compiler may fuse the package's multiply and add
        np.testing.assert_array_equal(drawn.x, x)
        np.testing.assert_array_equal(drawn.t, t)
    np.testing.assert_allclose(drawn.x, x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(drawn.t, t, rtol=0, atol=1e-12)


def test_templates_equal_the_package():
    np.testing.assert_array_equal(templates(), pytest.importorskip("mnist1d.data").get_templates()["x"])


def test_the_arrays_are_pinned():
    data = mnist1d(val=0.0)
    x = torch.cat([data.train.x, data.test.x]).double().numpy()
    whole = np.rint(x * 10_000).astype("<i4")  # whole numbers: no minus zero
    y = torch.cat([data.train.y, data.test.y]).numpy().astype("<i4")
    digest = hashlib.sha256(whole.tobytes() + y.tobytes()).hexdigest()
    assert digest == "8194ae42ac3ad5fa498f2a95dda37719e2ac4ce352104da9efb475c88be17d15"


def test_splits_hold_every_row_once_and_every_class_alike():
    data = mnist1d()
    assert [len(split) for _, split in data.splits()] == [3600, 400, 1000]
    rows = torch.cat([split.rows for _, split in data.splits()])
    assert torch.equal(rows.sort().values, torch.arange(5000))
    assert torch.equal(data.test.rows, torch.arange(4000, 5000))
    seen = torch.cat([data.train.y, data.val.y]).bincount()
    assert ((data.val.y.bincount() - seen / 10).abs() < 1).all()
    drawn = generate()
    for _, split in data.splits():
        assert split.x.dtype == torch.float32 and split.y.dtype == torch.int64
        assert torch.equal(split.x, torch.from_numpy(drawn.x[split.rows.numpy()]).float())
        assert torch.equal(split.y, torch.from_numpy(drawn.y[split.rows.numpy()]))


def test_seeds_do_one_thing_each():
    data, other_split, other_seed = (mnist1d(num=200, **seeds) for seeds in ({}, {"split_seed": 1}, {"seed": 1}))
    assert torch.equal(data.test.x, other_split.test.x)
    assert not torch.equal(data.val.rows, other_split.val.rows)
    assert not torch.equal(data.test.x, other_seed.test.x)


def test_label_noise_touches_that_many_training_labels_only():
    clean, noisy, other = mnist1d(), mnist1d(label_noise=0.15), mnist1d(label_noise=0.15, label_seed=1)
    changed = (clean.train.y != noisy.train.y).sum().item()
    assert 0.15 * 3600 * 0.85 < changed <= 0.15 * 3600  # a tenth of the draws hits the class that was there
    assert torch.equal(clean.val.y, noisy.val.y) and torch.equal(clean.test.y, noisy.test.y)
    assert torch.equal(clean.train.x, noisy.train.x)
    assert not torch.equal(noisy.train.y, other.train.y)
    assert "540 training labels" in str(noisy.account)
    everything = mnist1d(label_noise=1.0).train.y
    assert abs((everything == clean.train.y).float().mean().item() - 0.1) < 0.03


def test_the_recipe_rebuilds_the_same_data():
    data = mnist1d(num=200, label_noise=0.3, length=20, shuffle_positions=True)
    assert data.recipe["source"] == "mnist1d"
    assert set(data.recipe["options"]) == set(inspect.signature(mnist1d).parameters)
    assert mnist1d(**data.recipe["options"]).fingerprint == data.fingerprint


def test_both_functions_have_the_same_defaults():
    outer, inner = inspect.signature(mnist1d).parameters, inspect.signature(generate).parameters
    assert {name: outer[name].default for name in inner} == {name: inner[name].default for name in inner}


def test_the_callers_random_state_is_left_alone():
    np.random.seed(3)
    random.seed(3)
    torch.manual_seed(3)
    before = np.random.get_state()[1].copy(), random.getstate(), torch.get_rng_state()
    mnist1d(num=100, label_noise=0.5)
    assert (before[0] == np.random.get_state()[1]).all()
    assert before[1] == random.getstate()
    assert torch.equal(before[2], torch.get_rng_state())


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"num": 5}, "num must be a multiple of 10"),
        ({"num": 105}, "num=105"),
        ({"test": 1.0}, "test must be a fraction"),
        ({"val": -0.1}, "val must be a fraction"),
        ({"num": 10, "test": 0.97}, "a row must be left to train on"),
        ({"label_noise": 1.5}, "label_noise must be a fraction"),
        ({"iid_noise": -1.0}, "iid_noise must not be negative"),
        ({"correlated_noise": float("nan")}, "correlated_noise must be a finite number"),
        ({"min_padding": 9, "max_padding": 5}, "min_padding=9, max_padding=5"),
        ({"length": 1}, "length must be at least 2"),
        ({"max_translation": 0}, "max_translation must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_bad_settings_are_refused_in_words(bad, words):
    with pytest.raises(UserError, match=words):
        mnist1d(**bad)
