"""Arguments of the wrong type or name: every public way to data answers in words."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from leadline import data
from leadline.data import SOURCES
from leadline.data.arguments import checked
from leadline.data.data import Data, Split
from leadline.data.target import Target
from leadline.errors import UserError

FRAME = pd.DataFrame({"a": np.arange(20) * 1.5, "b": np.arange(20) ** 0.5})
X, Y = np.arange(40.0).reshape(20, 2), np.arange(20) ** 0.5


@pytest.mark.parametrize("name", SOURCES)
def test_every_option_of_every_source_refuses_what_is_no_such_thing(name):
    for option, parameter in inspect.signature(SOURCES[name]).parameters.items():
        for wrong in ("a", None, {}, object()):
            with pytest.raises(UserError, match=f"{option} must be (a|True|text)"):
                SOURCES[name](**{option: wrong})
        if "int" in str(parameter.annotation):
            with pytest.raises(UserError, match=rf"{option} must be a whole number.*Got {option}=2.5. Round it"):
                SOURCES[name](**{option: 2.5})
            with pytest.raises(UserError, match=rf"{option}=True \(a truth value\)"):
                SOURCES[name](**{option: True})


def test_numbers_of_numpy_are_taken_and_recorded_as_plain_ones():
    made = data.moons(num=np.int64(40), noise=np.float32(0.5), seed=np.uint8(3))
    assert made.fingerprint == data.moons(num=40, noise=0.5, seed=3).fingerprint
    assert type(made.recipe["options"]["num"]) is int
    assert data.iris(split_seed=np.int64(1)).fingerprint == data.iris(split_seed=1).fingerprint


def test_a_seed_beyond_what_a_generator_takes():
    with pytest.raises(UserError, match=r"split_seed must be a whole number of at most 2\^63 - 1"):
        data.iris(split_seed=2**70)


@pytest.mark.parametrize("frame", [FRAME, pl.DataFrame(FRAME), FRAME.to_dict("list"), FRAME.to_dict("records")])
def test_a_table_may_be_a_data_frame(frame, tmp_path):
    FRAME.to_csv(tmp_path / "f.csv", index=False)
    made = data.table(frame, target="b")
    assert made.fingerprint == data.table(tmp_path / "f.csv", target="b").fingerprint
    assert made.recipe is None and "data frame: 20 rows read" in str(made.account)
    tested = data.table(tmp_path / "f.csv", target="b", test_path=frame)
    assert len(tested.test) == 20 and tested.recipe is None


TABLE = [
    ({"path": None}, "path must be a file's path or a data frame. Got path=None"),
    ({"path": 5}, "path must be a file's path or a data frame"),
    ({"target": None}, "target must be text, or a list of words. Got target=None"),
    ({"target": ["a", 3]}, r"target must be text, or a list of words. Got target=\['a', 3\]"),
    ({"target": []}, "target must be text, or a list of words"),
    ({"val": "a"}, "val must be a finite number"),
    ({"test": None}, "test must be a finite number. Got test=None. A usual value is test=0.2"),
    ({"split_seed": 1.5}, "split_seed must be a whole number"),
    ({"drop": 3}, "drop must be a list of words. Got drop=3"),
    ({"categories": None}, "categories must be a list of words"),
    ({"kind": 3}, "kind must be text"),
    ({"group": ["a"]}, "group must be text"),
    ({"test_path": 3}, "test_path must be a file's path or a data frame"),
    ({"foo": 3}, "an option of table must be one of its arguments. Got foo"),
]


@pytest.mark.parametrize(("wrong", "message"), TABLE, ids=[message[:20] for _, message in TABLE])
def test_a_table_asked_for_wrongly(wrong, message):
    with pytest.raises(UserError, match=message):
        data.table(**{"path": FRAME, "target": "b", **wrong})


def test_a_table_without_a_target():
    with pytest.raises(UserError, match="table needs target.*Name the column to predict"):
        data.table(FRAME)
    with pytest.raises(UserError, match="target once"):
        data.table(FRAME, "b", target="b")


ARRAYS = [
    ({"val": "a"}, "val must be a finite number"),
    ({"split_seed": "a"}, "split_seed must be a whole number"),
    ({"names": 3}, "names must be a list of words"),
    ({"kind": 3}, "kind must be text"),
    ({"kind": "reel"}, "Did you mean real"),
    ({"scale": "no"}, "scale must be True or False"),
    ({"weight": ["a"] * 20}, "weight must hold numbers"),
    ({"test_data": 3}, "test_data must be a list"),
    ({"test_data": (X,)}, "test_data must hold 2 things. Got 1"),
    ({"test_data": ("a", Y)}, "x of the test data must hold numbers"),
    ({"y": "b"}, "y must hold one row per example.*ll.data.table"),
    ({"x": None}, "x must hold one row per example. Got x=None"),
]


@pytest.mark.parametrize(("wrong", "message"), ARRAYS, ids=[message[:20] for _, message in ARRAYS])
def test_arrays_asked_for_wrongly(wrong, message):
    with pytest.raises(UserError, match=message):
        data.arrays(**{"x": X, "y": Y, **wrong})


@pytest.mark.parametrize("what", [None, 5, FRAME, {}, {"source": 3}, {"source": "moons", "options": [1]}, {"a": [1]}])
def test_what_cannot_be_loaded(what):
    with pytest.raises(UserError, match="must be named|a recipe must hold") as caught:
        data.load(what)
    assert "\n" not in str(caught.value)


def test_nouns_of_the_wrong_kind():
    split = data.moons(num=40).train
    for wrong in (
        lambda: Split(1, 2),
        lambda: Data(split, split, 3, Target("binary")),
        lambda: Data(split, split, split, "binary"),
        lambda: Target(3),
        lambda: Target("real").encode(3),
        lambda: Target("real").encode(["a"]),
        lambda: data.moons(num=40).with_(tain=split),
        lambda: data.inputs_from("Rescale", {"x": 1}),
        lambda: data.moons(num=40)[3],
    ):
        with pytest.raises(UserError):
            wrong()


def test_lists_are_checked_one_by_one():
    @checked
    def lengths(sizes: tuple[int, ...] = (1,), *, names: tuple[str, ...] = ()) -> tuple:
        return sizes, names

    assert lengths([1, np.int64(2)], names="one") == ((1, 2), ("one",))
    with pytest.raises(UserError, match=r"sizes\[1\] must be a whole number. Got sizes\[1\]='2' \(text\)"):
        lengths([1, "2"])
    with pytest.raises(UserError, match="sizes must be a list of whole numbers"):
        lengths("12")


def test_a_tensor_is_quoted_by_its_type():
    with pytest.raises(UserError, match=r"num as a Tensor"):
        data.moons(num=torch.zeros(100, 100))
