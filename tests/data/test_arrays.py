"""Arrays: types follow from what is given, and shapes that would broadcast are sent back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from leadline.data import arrays, inputs_from
from leadline.data.inputs import Identity, Rescale, Standardize
from leadline.errors import UserError

RNG = np.random.default_rng(0)
X = RNG.normal(3, 5, size=(60, 3))
Y = X.sum(1)
CODES = RNG.permutation(np.arange(60) % 3)


@pytest.mark.parametrize(
    "convert", [lambda a: a, torch.from_numpy, lambda a: a.tolist()], ids=["numpy", "torch", "list"]
)
def test_numpy_torch_and_lists_are_one(convert):
    data = arrays(convert(X), convert(Y))
    assert data.fingerprint == arrays(X, Y).fingerprint
    assert data.target.kind == "real" and data.train.x.dtype == data.train.y.dtype == torch.float32
    encoded = data.inputs.encode(data.train.x)
    assert encoded.mean(0).abs().max() < 1e-5 and (encoded.std(0, unbiased=False) - 1).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("y", "kind", "classes"),
    [
        (CODES, "classes", ("0", "1", "2")),
        (np.array(["a", "b", "c"])[CODES], "classes", ("a", "b", "c")),
        (Y > 0, "binary", ("false", "true")),
        (torch.from_numpy(CODES > 0), "binary", ("false", "true")),
        (CODES.astype(float), "real", ()),
        (np.arange(60), "real", ()),
    ],
)
def test_what_y_is_follows_from_its_type(y, kind, classes):
    data = arrays(X, y)
    assert (data.target.kind, data.target.classes) == (kind, classes)
    assert data.train.y.dtype == (torch.int64 if classes else torch.float32)


def test_kind_overrides():
    assert arrays(X, CODES, kind="real").target.kind == "real"
    assert arrays(X, CODES.astype(float), kind="classes").target.classes == ("0", "1", "2")


def test_rows_stay_together():
    data = arrays(X, Y)
    for _, split in data.splits():
        assert torch.equal(split.y, torch.from_numpy(Y).float()[split.rows])
        assert torch.equal(split.x, torch.from_numpy(X).float()[split.rows])


def test_figures_are_those_of_the_training_rows():
    data = arrays(X, Y)
    assert data.target.shift[0] == pytest.approx(Y[data.train.rows].mean(), rel=1e-9)
    assert data.inputs.shift[0] == pytest.approx(X[data.train.rows, 0].mean(), rel=1e-5)


def test_several_outputs():
    data = arrays(X, np.stack([Y, 100 * Y], 1))
    assert data.target.dim == 2 and data.train.y.shape == (39, 2)
    assert data.target.scale[1] == pytest.approx(100 * data.target.scale[0])


def test_shapes_of_x():
    assert arrays(X[:, 0], Y).train.x.shape == (39, 1)
    images = RNG.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8)
    data = arrays(images, CODES)
    assert isinstance(data.inputs, Rescale) and data.train.x.shape == (39, 1, 8, 8)
    encoded = data.inputs.encode(data.train.x)
    assert abs(float(encoded.mean())) < 1e-4 and float(encoded.std()) == pytest.approx(1, abs=1e-3)
    assert inputs_from("Rescale", data.inputs.config).config == data.inputs.config


def test_scaling_may_be_left_to_the_user():
    assert isinstance(arrays(X, Y, scale=False).inputs, Identity)
    assert isinstance(arrays(X, Y, names=("a", "b", "c")).inputs, Standardize)
    assert arrays(X, Y, names=("a", "b", "c")).inputs.names == ("a", "b", "c")


def test_large_numbers_keep_their_differences():
    stamps = 1.7e9 + np.arange(60.0)
    data = arrays(np.c_[stamps, X], Y)
    assert len(data.inputs.encode(data.train.x)[:, 0].unique()) == 39
    assert data.inputs.encode(data.inputs.read(np.c_[stamps, X])).dtype == torch.float32


def test_frames_keep_words_dates_and_gaps():
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["colour"] = ["r", "g", None] * 20
    frame["when"] = pd.date_range("2020-01-01", periods=60)
    data = arrays(frame, pd.Series(Y, name="price"))
    assert data.target.name == "price" and [c.kind for c in data.inputs.columns[3:]] == ["category", "date"]
    assert data.fingerprint == arrays(pl.from_pandas(frame), pl.Series("price", Y)).fingerprint
    records = arrays(frame.to_dict("records"), Y, groups=np.arange(60) // 6, weight=np.ones(60))
    assert records.target.name == "y" and records.train.weight is not None
    assert not set((records.train.rows // 6).tolist()) & set((records.test.rows // 6).tolist())
    assert arrays(frame.rename(columns={"a": "y"}), Y).target.name == "y_"
    assert arrays(frame, CODES.astype(float)).target.kind == "real"
    assert len(arrays(frame, Y, test_data=(frame[:4], Y[:4])).test) == 4


def test_groups_time_weight_and_test_data():
    data = arrays(X, Y, groups=[f"g{i // 5}" for i in range(60)])
    assert not set((data.train.rows // 5).tolist()) & set((data.test.rows // 5).tolist())
    assert arrays(X, Y, time=np.arange(60)[::-1]).test.rows.max() < 12
    assert arrays(X, Y, time=np.datetime64("2020-01-01") + np.arange(60)).test.rows.min() >= 48
    assert torch.equal(arrays(X, Y, weight=np.arange(60)).train.weight, arrays(X, Y).train.rows.float())
    data = arrays(X, CODES, test_data=(X[:5], CODES[:5]))
    assert len(data.test) == 5 and len(data.train) + len(data.val) == 60 and data.test.y.tolist() == CODES[:5].tolist()
    data = arrays(X, np.stack([Y, Y], 1), test_data=(X[:5], np.stack([Y, Y], 1)[:5]))
    assert data.test.y.shape == (5, 2)


def spoiled(values, value):
    values = values.copy()
    values[4] = value
    return values


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (X, Y[:, None], {}, r"y of shape \(60, 1\) for 60 rows.*y.squeeze\(1\)"),
        (X, np.eye(3)[CODES], {}, r"y.argmax\(1\)"),
        (X, Y[:50], {}, "60 rows of x and 50 of y"),
        (spoiled(X, [1, np.nan, 2]), Y, {"names": ("a", "b", "c")}, "nan in row 4, column b"),
        (spoiled(X, [1, np.inf, 2]), Y, {}, "inf in row 4, column 1"),
        (X, spoiled(Y, np.nan), {}, "y must have a value in every row. Got nan in row 4"),
        (X, spoiled(Y, np.inf), {}, "Got inf in row 4"),
        (X, np.ones(60), {}, "at least two values. Got 1 in all 60 rows"),
        (X[:2], Y[:2], {}, "at least 3 rows"),
        ([["a", 1]] * 5, Y[:5], {}, "x must hold numbers.*data frame"),
        ([[1], [1, 2], [3]], Y[:3], {}, "rows of equal length"),
        (5, Y, {}, "one row per example"),
        (np.zeros((60, 0)), Y, {}, "x must have a column"),
        (X, Y, {"names": ("a",)}, "1 name for x"),
        (X, Y, {"weight": -np.ones(60)}, "weight must be at least 0.*-1 in row 0"),
        (X, Y, {"weight": np.ones(3)}, "one value for each row"),
        (X, Y, {"time": ["a"] * 60}, "time must be numbers or dates"),
        (X, Y, {"test_data": (X[:5, :2], Y[:5])}, r"\(2,\) and \(3,\)"),
        (X, CODES, {"test_data": (X[:2], np.array([0, 9]))}, "Got '9'"),
        (pd.DataFrame(X), Y[:5], {}, "5 values for 60 rows"),
        (pd.DataFrame(X), Y[:, None], {}, "beside a data frame"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(x, y, options, message):
    with pytest.raises(UserError, match=message):
        arrays(x, y, **options)
