import museum
import pytest
import torch

from leadline.data.data import Data, Split
from leadline.data.target import Target
from leadline.doctor.splits import check_splits


def shared(data):
    return [f for f in check_splits(data) if f.code == "shared-rows"]


def halves(rows, target, train, test):
    return Data(rows.take(train), rows.take(torch.arange(0)), rows.take(test), target)


def test_rows_are_named_by_their_number_in_the_source():
    data = museum.blobs(n=200)
    (finding,) = shared(data.with_(test=data.train.take(torch.tensor([5, 6, 7]))))
    assert finding.evidence.startswith("3 of 3 rows (100 %)")
    assert ", ".join(map(str, data.train.rows[5:8].tolist())) in finding.evidence


def test_the_same_x_with_another_y_is_no_copy():
    rows = Split(torch.randn(100, 3), torch.randn(100))
    data = Data(rows, rows.take(torch.arange(0)), Split(rows.x, torch.randn(100)), Target("real"))
    assert shared(data) == []


def test_what_repeats_inside_train_may_repeat_outside():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(300, 4, generator=g).repeat(2, 1)  # each row twice, then split at random
    rows = Split(x, x.sum(1))
    order = torch.randperm(600, generator=g)
    assert shared(halves(rows, Target("real"), order[:450], order[450:])) == []


def test_twins_that_only_stand_across_the_border_are_a_leak():
    x = torch.randn(300, 4).repeat(2, 1)
    rows = Split(x, x.sum(1))
    assert shared(halves(rows, Target("real"), torch.arange(300), torch.arange(300, 400)))


def test_a_truth_table_may_stand_in_every_split():
    x = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 7)
    rows = Split(x, (x.sum(1) % 2).long())
    assert shared(Data(rows, rows, rows, Target("binary"))) == []


def test_long_binary_rows_are_no_truth_table():
    x = (torch.rand(200, 60) < 0.5).float()
    rows = Split(x, x[:, 0].long())
    assert shared(Data(rows, rows, rows, Target("binary")))


def test_minus_zero_is_zero_and_nan_is_nan():
    x = torch.randn(100, 2)
    x[:, 0], x[::2, 1] = 0.0, torch.nan
    rows, y = torch.arange(20), torch.arange(100.0)
    copy = Split(x[rows] * torch.tensor([-1.0, 1.0]), y[rows])
    assert shared(Data(Split(x, y), Split(x[:0], y[:0]), copy, Target("real")))


@pytest.mark.parametrize(("copies", "count"), [(2, 100), (20, 4000)])
def test_a_stray_twin_or_two_moves_no_result(copies, count):
    rows = Split(torch.randn(4000, 4), torch.randn(4000))
    fresh = Split(torch.randn(count, 4), torch.randn(count))
    few = Split(torch.cat([fresh.x[copies:], rows.x[:copies]]), torch.cat([fresh.y[copies:], rows.y[:copies]]))
    assert shared(Data(rows, few, few, Target("real"))) == []
