"""Outcomes: numbers or classes, by the rule on the page, or as named."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from leadline.data.cells import cells_of
from leadline.data.outcome import looks_like_classes, read_known, read_outcome, with_figures
from leadline.errors import DataError


def settle(values, kind=None):
    outcome = read_outcome("y", cells_of(values, "y"))
    rows = np.flatnonzero(~outcome.missing)
    return outcome.settle(rows, kind, lambda row: f"row {row}")


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([0, 1, 2] * 4, True),
        ([1, 2, 3, 4, 5] * 2, True),
        ([3, 7] * 2, True),
        ([10, 20, 30] * 20, True),
        ([10, 20, 30] * 5, False),
        ([0, 1, 2], False),
        (list(range(21)) * 50, False),
        ([0.5, 1.5] * 20, False),
    ],
)
def test_the_rule_for_whole_numbers(values, classes):
    assert looks_like_classes(np.array(values, dtype=float)) == classes


def test_classes_are_in_natural_order():
    y, target = settle(["10", "9", "2", "9"] * 20)
    assert target.kind == "classes" and target.classes == ("2", "9", "10") and y[:4].tolist() == [2, 1, 0, 1]
    y, target = settle(["yes", "no", None, "yes"])
    assert target.kind == "binary" and target.classes == ("no", "yes") and y.tolist() == [1, 0, 1]
    assert settle([True, False])[1].classes == ("false", "true")


def test_numbers_written_as_people_write_them():
    y, target = settle(["1,250 €", "2,000 €", "1,000.50 €"])
    assert target.kind == "real" and y.tolist() == [1250, 2000, 1000.5] and y.dtype == torch.float32


def test_a_named_kind_overrides():
    assert settle([0, 1, 0, 1], "real")[0].dtype == torch.float32
    assert settle([0, 1, 0, 1], "count")[1].kind == "count"
    y, target = settle([2.5, 3.5, 2.5], "classes")
    assert target.classes == ("2.5", "3.5") and y.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([1.5, 1.5, 1.5], None, "at least two values. Got 1.5 in all 3 rows"),
        (["a", "a"], None, "at least two values. Got 'a' in all 2 rows"),
        ([0.5, -1.0, -2.0], "positive", r"more than 0 .*Got -1 in row 1 \(2 such rows\)"),
        ([1, 2.5], "count", "whole and at least 0"),
        ([0.2, 1.5], "proportion", "between 0 and 1"),
        (["a", "b", "c"], "binary", "two values to be binary. Got 3: a, b, c"),
        (["a", "b"], "real", "must hold numbers to be a real target"),
        ([1.0, np.inf, 0.3], None, "finite. Got inf in row 1"),
        ([1.0, 2.0], "reel", "Did you mean real"),
        ([f"w{i}" for i in range(200)], None, "200 levels in 200 rows"),
        (np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"), None, "Got dates"),
    ],
)
def test_targets_that_cannot_be_learned(values, kind, message):
    with pytest.raises(DataError, match=message):
        settle(values, kind)


def test_a_settled_target_reads_other_rows():
    _, target = settle(["a", "b"] * 3)
    at = "row {}".format
    assert read_known(cells_of(["b", None, "a"], "y"), target, at).tolist() == [1, -1, 0]
    with pytest.raises(DataError, match="Got 'c'"):
        read_known(cells_of(["c"], "y"), target, at)
    _, target = settle([0.5, 1.5, 2.5])
    assert read_known(cells_of([0.5, 7], "y"), target, at).tolist() == [0.5, 7]
    with pytest.raises(DataError, match="'x' in row 0"):
        read_known(cells_of(["x"], "y"), target, at)


@pytest.mark.parametrize("value", ["1e300", "inf", -1e300, np.inf])
def test_a_settled_target_refuses_what_single_precision_cannot_hold(value):
    _, target = settle([0.1, 2.5, -0.3])
    others = ["0.5", "0.7"] if isinstance(value, str) else [0.5, 0.7]
    with pytest.raises(DataError, match=r"y must hold finite numbers\. Got .* in row 2\. Correct it"):
        read_known(cells_of([*others, value], "y"), target, lambda row: f"row {row}")


def test_figures_are_of_the_rows_given_and_keep_the_kind():
    _, target = settle([0.5, 1.5, 2.5], "positive")
    measured = with_figures(target, np.array([1.0, 3.0]))
    assert measured.kind == "positive" and measured.shift == (2.0,) and measured.scale == (1.0,)
