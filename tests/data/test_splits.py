"""Splits: a partition, near its fractions, that keeps its promise about classes, groups and time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leadline.data.splits import split_indices
from leadline.errors import DataError, ShapeError, UserError

fractions = st.tuples(st.floats(0, 0.45), st.floats(0, 0.45))
codes = st.lists(st.integers(0, 6), min_size=1, max_size=120).map(torch.tensor)


def is_partition(parts, n):
    return torch.equal(torch.cat(parts).sort().values, torch.arange(n)) and len(parts[0]) >= 1


@given(n=st.integers(1, 300), share=fractions, seed=st.integers(0, 2**31))
def test_random_is_a_partition_near_its_fractions(n, share, seed):
    val, test = share
    parts = split_indices(n, val=val, test=test, seed=seed)
    assert is_partition(parts, n)
    for rows, fraction in zip(parts, (1 - val - test, val, test)):
        assert abs(len(rows) - n * fraction) <= 2
    again = split_indices(n, val=val, test=test, seed=seed)
    assert all(torch.equal(a, b) for a, b in zip(parts, again))


@given(classes=codes, share=fractions, seed=st.integers(0, 1000))
def test_stratified_spreads_each_class_to_within_a_row(classes, share, seed):
    val, test = share
    parts = split_indices(len(classes), val=val, test=test, seed=seed, stratify=classes)
    assert is_partition(parts, len(classes))
    for label in classes.unique():
        size = int((classes == label).sum())
        counts = [int((classes[rows] == label).sum()) for rows in parts]
        assert counts[0] >= 1
        for count, fraction in zip(counts, (1 - val - test, val, test)):
            assert abs(count - size * fraction) <= 1


def test_stratified_totals_fit_too_when_every_class_is_small():
    classes = torch.arange(200).repeat_interleave(5)
    sizes = [len(rows) for rows in split_indices(1000, stratify=classes)]
    assert sizes == pytest.approx([650, 150, 200], abs=2)


def test_small_classes_train_first():
    classes = torch.tensor([0] * 20 + [1, 2, 2])
    train, _, _ = split_indices(23, stratify=classes)
    assert {0, 1, 2} == set(classes[train].tolist())


@given(groups=codes, share=fractions, seed=st.integers(0, 1000))
def test_no_group_is_shared(groups, share, seed):
    parts = split_indices(len(groups), val=share[0], test=share[1], seed=seed, groups=groups)
    assert is_partition(parts, len(groups))
    held = [set(groups[rows].tolist()) for rows in parts]
    assert not (held[0] & held[1] or held[0] & held[2] or held[1] & held[2])


def test_groups_come_near_the_fractions_and_fill_every_split():
    groups = torch.arange(1000) // 5
    sizes = [len(rows) for rows in split_indices(1000, groups=groups)]
    assert sizes == pytest.approx([650, 150, 200], abs=5)
    assert [len(rows) for rows in split_indices(3, groups=torch.tensor([4, 7, 9]))] == [1, 1, 1]


@given(time=codes, share=fractions)
def test_time_runs_forward_and_ties_stay_together(time, share):
    val, test = share
    parts = split_indices(len(time), val=val, test=test, time=time)
    assert is_partition(parts, len(time))
    latest = -1
    for rows in parts:
        if len(rows):
            assert int(time[rows].min()) > latest
            latest = int(time[rows].max())


def test_time_cuts_at_the_fractions():
    time = torch.arange(100.0).flip(0)
    train, val, test = split_indices(100, time=time)
    assert (len(train), len(val), len(test)) == (65, 15, 20)
    assert time[test].min() == 80


def test_never_positional_and_the_seed_decides():
    train, _, test = split_indices(1000)
    assert test.tolist() != list(range(800, 1000))
    assert abs(float(test.double().mean()) - 499.5) < 60
    assert not torch.equal(test, split_indices(1000, seed=1)[2])
    assert train.dtype == torch.int64


def test_torch_generator_is_left_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    split_indices(50)
    split_indices(50, stratify=torch.arange(50) % 3)
    split_indices(50, groups=torch.arange(50) % 9)
    assert torch.equal(before, torch.random.get_rng_state())


def test_every_wanted_split_has_a_row_from_three_rows_on():
    for n in range(3, 12):
        assert all(len(rows) for rows in split_indices(n))
        assert all(len(rows) for rows in split_indices(n, time=torch.arange(n)))
    assert [len(rows) for rows in split_indices(5, val=0, test=0)] == [5, 0, 0]


def test_what_cannot_be_split_is_refused_in_words():
    with pytest.raises(UserError, match=r"leave rows to train on.*val=0.5, test=0.5"):
        split_indices(10, val=0.5, test=0.5)
    with pytest.raises(DataError, match="at least one row"):
        split_indices(0)
    with pytest.raises(UserError, match="Got stratify and groups"):
        split_indices(2, stratify=torch.zeros(2), groups=torch.zeros(2))
    with pytest.raises(ShapeError, match=r"groups of shape \(3,\) for 4 rows"):
        split_indices(4, groups=torch.zeros(3))
    with pytest.raises(DataError, match="nan in row 1"):
        split_indices(2, time=torch.tensor([0.0, float("nan")]))
