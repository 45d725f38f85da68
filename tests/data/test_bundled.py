"""The bundled sets: the numbers that scikit-learn carries, split evenly, in units of one."""

import sys

import numpy as np
import pytest
import torch

from leadline.data import bundled
from leadline.errors import UserError

SIZES = {  # rows, columns, classes (0: a real target)
    "digits": (1797, 64, 10),
    "wine": (178, 13, 3),
    "breast_cancer": (569, 30, 2),
    "diabetes": (442, 10, 0),
    "iris": (150, 4, 3),
}
all_sets = pytest.mark.parametrize("name", SIZES)


@all_sets
def test_sizes_kinds_and_numbers(name):
    datasets = pytest.importorskip("sklearn.datasets")
    num, columns, num_classes = SIZES[name]
    data = getattr(bundled, name)()
    source = getattr(datasets, f"load_{name}")()
    rows = torch.cat([split.rows for _, split in data.splits()])
    assert torch.equal(rows.sort().values, torch.arange(num)) and data.account.read == num
    assert data.train.x.shape[1] == columns and len(data.inputs.names) == columns
    assert data.inputs.names == tuple(source.feature_names)
    assert data.target.kind == {0: "real", 2: "binary"}.get(num_classes, "classes")
    assert len(data.target.classes) == num_classes
    for _, split in data.splits():
        index = split.rows.numpy()
        np.testing.assert_array_equal(split.x.numpy(), source.data[index].astype(np.float32))
        np.testing.assert_array_equal(split.y.numpy(), source.target[index])
        assert split.x.dtype == torch.float32
        assert split.y.dtype == (torch.int64 if num_classes else torch.float32)


@all_sets
def test_splits_are_in_proportion_in_every_class(name):
    pytest.importorskip("sklearn")
    data = getattr(bundled, name)()
    num = SIZES[name][0]
    assert abs(len(data.val) - 0.15 * num) <= 2 and abs(len(data.test) - 0.2 * num) <= 2
    if data.target.discrete:
        whole = torch.cat([split.y for _, split in data.splits()]).bincount()
        assert ((data.val.y.bincount() - 0.15 * whole).abs() <= 1).all()
        assert ((data.test.y.bincount() - 0.2 * whole).abs() <= 1).all()


@all_sets
def test_a_network_reads_units_of_one(name):
    pytest.importorskip("sklearn")
    data = getattr(bundled, name)()
    x = data.inputs.encode(data.train.x)
    if name == "digits":
        assert abs(x.mean()) < 1e-4 and abs(x.std() - 1) < 1e-3
        assert len(set(data.inputs.scale)) == 1
        assert data.inputs.encode(data.test.x).abs().max() < 3
    else:
        assert (x.mean(0).abs() < 1e-3).all() and ((x.std(0, unbiased=False) - 1).abs() < 1e-3).all()


@all_sets
def test_the_recipe_rebuilds_and_the_split_seed_moves_rows(name):
    pytest.importorskip("sklearn")
    make = getattr(bundled, name)
    data = make(val=0.1, test=0.3, split_seed=2)
    assert data.recipe == {"source": name, "options": {"val": 0.1, "test": 0.3, "split_seed": 2}}
    assert make(**data.recipe["options"]).fingerprint == data.fingerprint
    assert make(val=0.1, test=0.3, split_seed=3).fingerprint != data.fingerprint


def test_class_names_are_those_of_the_source():
    pytest.importorskip("sklearn")
    assert bundled.iris().target.classes == ("setosa", "versicolor", "virginica")
    assert bundled.breast_cancer().target.classes == ("malignant", "benign")
    assert bundled.digits().target.classes == tuple("0123456789")


def test_without_scikit_learn_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UserError, match="pip install scikit-learn"):
        bundled.iris()


def test_fractions_out_of_range_are_refused():
    pytest.importorskip("sklearn")
    with pytest.raises(UserError, match="val and test must be fractions"):
        bundled.wine(val=0.5, test=0.5)
