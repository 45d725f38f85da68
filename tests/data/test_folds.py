"""Folds are a partition, even by class, whole by group, in order of time, and know nothing of what they hold out."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leadline as ll
from leadline import doctor
from leadline.data import arrays, folds, load
from leadline.data.columns import TableInputs
from leadline.errors import ShapeError, UserError
from leadline.likelihoods import likelihood_for
from leadline.models import MLP

SIZES = st.integers(12, 60)


def made(n, classes, seed=0, **more):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n).astype(str) if classes else rng.normal(5, 3, n)
    return arrays(rng.normal(3, 2, (n, 2)), y, **more)


@settings(max_examples=20, deadline=None)
@given(SIZES, st.integers(2, 5), st.sampled_from([0, 2, 3]), st.integers(0, 3))
def test_every_row_is_held_out_once_and_trains_elsewhere(n, k, classes, seed):
    data = made(n, classes, seed)
    pool = sorted([*data.train.rows.tolist(), *data.val.rows.tolist()])
    parts = folds(data, k, seed=seed)
    assert sorted(row for fold in parts for row in fold.test.rows.tolist()) == pool
    sizes = [len(fold.test) for fold in parts]
    assert max(sizes) - min(sizes) <= 1
    for fold in parts:
        own = [fold[name].rows.tolist() for name in ("train", "val", "test")]
        assert sorted([*own[0], *own[1], *own[2]]) == pool
        assert torch.equal(fold.test.y, torch.cat([data.train.y, data.val.y])[[index_of(data, r) for r in own[2]]])


def index_of(data, row):
    return [*data.train.rows.tolist(), *data.val.rows.tolist()].index(row)


@settings(max_examples=15, deadline=None)
@given(SIZES, st.integers(2, 5), st.integers(2, 4), st.integers(0, 3))
def test_classes_are_even_to_within_a_row(n, k, classes, seed):
    parts = folds(made(n, classes, seed), k, seed=seed)
    counts = torch.stack([torch.bincount(fold.test.y, minlength=classes) for fold in parts])
    assert int((counts.max(0).values - counts.min(0).values).max()) <= 1


@settings(max_examples=15, deadline=None)
@given(SIZES, st.integers(2, 4), st.integers(6, 12), st.integers(0, 3))
def test_groups_are_never_cut(n, k, num_groups, seed):
    who = np.random.default_rng(seed).integers(0, num_groups, n)
    data = made(n, 0, seed, groups=who)
    pooled = torch.cat([data.train.group, data.val.group])
    if len(pooled.unique()) < k:
        return
    for fold in folds(data, k, seed=seed):
        owners = [set(fold[name].group.tolist()) for name in ("train", "val", "test")]
        assert not owners[0] & owners[1] and not owners[0] & owners[2] and not owners[1] & owners[2]
        assert owners[2]


def test_groups_of_ones_own_and_of_a_table(tmp_path):
    data = made(60, 2)
    who = [*range(0, len(data.train) + len(data.val))]
    who = [row // 6 for row in who]
    for fold in folds(data, 3, groups=who):
        assert not set(fold.train.group.tolist()) & set(fold.test.group.tolist())
    path = tmp_path / "t.csv"
    path.write_text("a,who,y\n" + "\n".join(f"{k % 7},p{k // 4},{k}.5" for k in range(60)))
    for fold in folds(load(path, target="y", group="who"), 4):
        assert not set(fold.train.group.tolist()) & set(fold.test.group.tolist())
    with pytest.raises(ShapeError, match="groups must have one value"):
        folds(data, 3, groups=[1, 2])


@settings(max_examples=15, deadline=None)
@given(st.integers(14, 60), st.integers(2, 4), st.integers(0, 3))
def test_times_go_forward(n, k, seed):
    when = np.random.default_rng(seed).integers(0, 12, n).astype(float)
    data = made(n, 0, seed, time=when)
    if len(torch.cat([data.train.time, data.val.time]).unique()) < k + 1:
        return
    parts = folds(data, k)
    last = -np.inf
    for fold in parts:
        assert fold.train.time.max() < fold.test.time.min()
        assert not len(fold.val) or fold.train.time.max() < fold.val.time.min() <= fold.val.time.max()
        assert fold.test.time.min() > last
        last = float(fold.test.time.max())


@settings(max_examples=20, deadline=None)
@given(SIZES, st.integers(2, 5), st.integers(0, 3))
def test_figures_are_those_of_the_training_rows(n, k, seed):
    for fold in folds(made(n, 0, seed), k, seed=seed):
        x = fold.inputs.encode(fold.train.x).double()
        assert x.mean(0).abs().max() < 1e-5 and (x.std(0, unbiased=False) - 1).abs().max() < 1e-4
        y = fold.train.y.double()
        assert fold.target.shift == pytest.approx((float(y.mean()),), rel=1e-6)
        assert fold.target.scale == pytest.approx((float(y.std(unbiased=False)),), rel=1e-6)


def test_what_is_held_out_changes_no_figure():
    data = made(60, 0)
    fold = folds(data, 4)[1]
    spoilt = data.with_(train=data.train.take(torch.arange(len(data.train))))
    held = set(fold.test.rows.tolist()) | set(fold.val.rows.tolist())
    for split in (spoilt.train, spoilt.val):
        mine = torch.tensor([row in held for row in split.rows.tolist()])
        split.x[mine], split.y[mine] = 1e6, -1e6
    again = folds(spoilt, 4)[1]
    assert again.inputs.config == fold.inputs.config and again.target == fold.target


def test_a_table_keeps_its_form_and_hides_what_training_never_showed(tmp_path):
    rows = [f"{'rare' if k in (3, 4) else 'ab'[k % 2]},{'' if k == 11 else k % 5},{k * 1.5}" for k in range(40)]
    path = tmp_path / "t.csv"
    path.write_text("make,size,y\n" + "\n".join(rows))
    data = load(path, target="y", test=0.0, val=0.0)
    assert isinstance(data.inputs, TableInputs) and data.inputs.columns[0].levels == ("a", "b", "rare")
    parts = folds(data, 5, groups=[(row - 2) // 5 for row in data.train.rows.tolist()])  # both rare rows in one fold
    assert {fold.dim_input for fold in parts} == {data.dim_input}
    without = [fold for fold in parts if not bool((fold.train.x[:, 0] == 2).any())]
    assert len(without) == 1 and int((without[0].test.x[:, 0] == -1).sum()) == 2
    unseen = without[0].inputs.encode(without[0].test.x)[without[0].test.x[:, 0] == -1]
    assert not unseen[:, :3].any()
    whole = [fold for fold in parts if not bool(fold.train.x[:, 1].isnan().any())]
    assert len(whole) == 1 and not whole[0].inputs.encode(whole[0].test.x)[:, -1].any()
    assert not whole[0].test.x.isnan().any()


@pytest.mark.parametrize("name", ["wine", "breast_cancer", "diabetes"])
def test_the_doctor_finds_no_leak(name):
    data = load(name)
    family = likelihood_for(data.target)
    for fold in folds(data, 10)[:2]:
        found = doctor.before(MLP(data.dim_input, (4,), family.dim_output), fold, family)
        assert not [finding.code for finding in found if finding.code == "shared-rows"]


def test_digits_keep_one_scale_for_all_pixels():
    fold = folds(load("digits"), 3)[0]
    assert len(set(fold.inputs.scale)) == 1
    assert fold.inputs.scale[0] == pytest.approx(float(fold.train.x.double().std(unbiased=False)))


def test_an_unscaled_target_and_images_stay_so():
    x = np.random.default_rng(0).normal(2, 3, (30, 1, 4, 4))
    fold = folds(arrays(x, np.arange(30) % 3), 3)[0]
    assert fold.inputs.scale == pytest.approx(float(fold.train.x.double().std(unbiased=False)))
    plain = made(30, 0)
    plain = plain.with_(target=ll.data.Target("real"))
    assert folds(plain, 3)[0].target == plain.target


@pytest.mark.parametrize(
    ("num", "said"),
    [(1, "folds must be a whole number of at least 2"), (99, "a row for each fold. Got folds=99"), ("3", "folds")],
)
def test_numbers_that_cannot_be(num, said):
    with pytest.raises(UserError, match=said):
        folds(made(30, 2), num)


def test_too_few_groups_and_moments():
    with pytest.raises(UserError, match="a group for each fold"):
        folds(made(30, 0, groups=[k % 3 for k in range(30)]), 5)
    with pytest.raises(UserError, match="a moment for each fold"):
        folds(made(30, 0, time=[k // 10 for k in range(30)]), 5)


def test_a_seed_decides():
    data = made(40, 2)
    rows = lambda seed: [fold.test.rows.tolist() for fold in folds(data, 4, seed=seed)]  # noqa: E731
    assert rows(1) == rows(1) != rows(2)


def test_folds_of_pictures_learn_their_own_colours():
    from leadline.data.scenes import scenes

    data = scenes(num=40, size=16, task="classes", num_classes=3)
    parts = folds(data, 3)
    assert len(parts) == 3 and sum(len(part.test) for part in parts) == len(data.train) + len(data.val)
    means = {part.inputs.mean for part in parts}
    assert len(means) == 3
    for part in parts:
        assert part.train.x.dtype == torch.uint8 and part.inputs.size == (16, 16)


def test_folds_of_sequences_learn_their_own_scale():
    steps = [[float(k % 7 + t) for t in range(2 + k % 3)] for k in range(40)]
    data = ll.data.sequences(steps, [k % 2 for k in range(40)], kind="classes")
    parts = folds(data, 3)
    assert len({part.inputs.shift for part in parts}) == 3
    assert {(part.inputs.length, part.train.x.shape[1]) for part in parts} == {(4, 4)}
