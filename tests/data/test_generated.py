"""What every generator promises, checked on all of them; and the messages they share."""

import inspect
import json
import math
import re

import pytest
import torch

from leadline.data import SOURCES, chance, curves, labels, measurements, plane
from leadline.data.data import Data
from leadline.data.inputs import Identity
from leadline.errors import UserError

MODULES = (plane, labels, chance, curves, measurements)
GENERATORS = {
    name: function
    for module in MODULES
    for name, function in vars(module).items()
    if inspect.isfunction(function) and hasattr(function, "__wrapped__")
}
all_generators = pytest.mark.parametrize("name", GENERATORS)


def test_every_generator_is_found():
    assert len(GENERATORS) == 32


@all_generators
def test_rows_are_split_finite_and_of_the_kind_they_claim(name):
    data = GENERATORS[name]()
    options = data.recipe["options"]
    num = options.get("num", 12)
    assert isinstance(data, Data) and data.name == name and data.account.read == num
    rows = torch.cat([data[split].rows for split in ("train", "val", "test")])
    assert torch.equal(rows.sort().values, torch.arange(num))
    # largest remainder: at most a row from the fraction, and a row more where classes are spread evenly
    slack = 1 + len(data.target.classes)
    assert abs(len(data.val) - options["val"] * num) <= slack
    assert abs(len(data.test) - options["test"] * num) <= slack
    for _, split in data.splits():
        assert split.x.dtype == torch.float32 and split.x.dim() == 2 and split.x.isfinite().all()
        check_kind(data.target, split.y)
    assert len(data.inputs.names) == data.train.x.shape[1]


def check_kind(target, y):
    if target.discrete:
        num_classes = len(target.classes)
        assert y.dtype == torch.int64 and y.dim() == 1
        assert y.min() >= 0 and y.max() < num_classes
        assert num_classes == 2 or (target.kind == "classes" and num_classes > 1)
        return
    assert y.dtype == torch.float32 and y.isfinite().all()
    assert y.shape[1:] == (() if target.dim == 1 else (target.dim,))
    if target.kind == "positive":
        assert (y > 0).all()
    elif target.kind == "count":
        assert (y >= 0).all() and torch.equal(y, y.round())
    elif target.kind == "proportion":
        assert (y > 0).all() and (y < 1).all()
    elif target.kind == "angle":
        assert (y.abs() <= math.pi + 1e-6).all()
    else:
        assert target.kind == "real"


@all_generators
def test_every_class_is_in_every_default_split(name):
    data = GENERATORS[name]()
    for _, split in data.splits():
        assert not data.target.discrete or len(split.y.unique()) == len(data.target.classes)


@all_generators
def test_classes_are_spread_over_the_splits_in_proportion(name):
    data = GENERATORS[name]()
    if data.target.discrete:
        counts = {
            split: data[split].y.bincount(minlength=len(data.target.classes)) for split in ("train", "val", "test")
        }
        whole = sum(counts.values())
        for split in ("val", "test"):
            assert ((counts[split] - data.recipe["options"][split] * whole).abs() <= 1).all()


@all_generators
def test_inputs_and_real_targets_are_of_unit_scale_to_a_network(name):
    data = GENERATORS[name]()
    x = data.inputs.encode(data.train.x)
    if isinstance(data.inputs, Identity):
        assert (x.mean(0).abs() < 1).all() and (x.std(0) > 0.3).all() and (x.std(0) < 2).all()
    else:
        assert (x.mean(0).abs() < 1e-3).all() and ((x.std(0, unbiased=False) - 1).abs() < 1e-3).all()
    if data.target.kind == "real":
        y = data.train.y.reshape(len(data.train), -1)
        z = (y - torch.tensor(data.target.shift)) / torch.tensor(data.target.scale)
        assert (z.mean(0).abs() < 1e-3).all() and ((z.std(0, unbiased=False) - 1).abs() < 1e-3).all()


@all_generators
def test_the_seed_decides_every_bit(name):
    make = GENERATORS[name]
    assert make(seed=3).fingerprint == make(seed=3).fingerprint
    assert make(seed=3).fingerprint != make(seed=4).fingerprint
    rows = [make(seed=seed, val=0.2, test=0.2).test.rows for seed in (3, 4)]
    assert not torch.equal(*rows)


@all_generators
def test_the_recipe_rebuilds_the_same_data(name):
    make = GENERATORS[name]
    data = make(seed=5, val=0.25, test=0.25)
    recipe = json.loads(json.dumps(data.recipe))
    assert recipe["source"] == name
    assert set(recipe["options"]) == set(inspect.signature(make).parameters)
    assert make(**recipe["options"]).fingerprint == data.fingerprint


@all_generators
def test_global_random_state_is_left_alone(name):
    before = torch.get_rng_state()
    GENERATORS[name]()
    assert torch.equal(before, torch.get_rng_state())


@all_generators
def test_settings_that_make_no_sense_are_refused_in_words(name):
    make = GENERATORS[name]
    known = inspect.signature(make).parameters
    if "num" in known:
        with pytest.raises(UserError, match=r"num must be at least 4\. Got num=3"):
            make(num=3)
    if "noise" in known:
        with pytest.raises(UserError, match=r"noise must be at least 0\. Got noise=-0\.1"):
            make(noise=-0.1)
        with pytest.raises(UserError, match="noise must be a finite number"):
            make(noise=float("nan"))
    with pytest.raises(UserError, match="seed must be at least 0"):
        make(seed=-1)
    with pytest.raises(UserError, match="val and test must be fractions"):
        make(val=0.6, test=0.5)
    with pytest.raises(UserError, match="val and test must be fractions"):
        make(val=-0.1)


@all_generators
def test_every_generator_states_its_law(name):
    assert any(sign in GENERATORS[name].__doc__ for sign in "=~∝")


def test_a_setting_may_be_named_only_as_it_is_spelled():
    with pytest.raises(UserError, match="an option of sine must be one of its arguments. Got nois. Did you mean noise"):
        curves.sine(nois=0.1)
    with pytest.raises(UserError, match="sine takes its options by name. Got 1 without a name"):
        curves.sine(0.1)


@pytest.mark.parametrize("name", SOURCES)
def test_every_option_of_every_source_says_what_it_means(name):
    told = inspect.getdoc(SOURCES[name])
    for option in inspect.signature(SOURCES[name]).parameters:
        assert re.search(rf"^ +(\w+, )*{option}(, \w+)*: \w", told, re.M), option


def test_the_signature_says_that_data_come_back():
    assert inspect.signature(curves.sine).return_annotation == "Data"
