"""Batches: each example once an epoch, in an order that (seed, epoch) alone decides."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.data.data import Batch, Split
from leadline.data.inputs import Identity
from leadline.engine import feed as feed_module
from leadline.engine.feed import Feed, epoch_order
from leadline.layers import noise


def feed_of(count: int, batch: int, seed: int = 0, weighted: bool = False, keyed: bool = True) -> Feed:
    x = torch.arange(count, dtype=torch.float32)[:, None] * torch.tensor([1.0, 10.0])
    weight = torch.arange(count, dtype=torch.float32) + 1 if weighted else None
    return Feed(
        Split(x, torch.arange(count) % 3, weight), Identity(), batch, seed, torch.device("cpu"), torch.float32, keyed
    )


@given(st.integers(0, 2**40), st.integers(0, 10**6), st.integers(1, 300))
def test_order_is_a_permutation_and_a_pure_function(seed, epoch, count):
    order = epoch_order(seed, epoch, count)
    assert sorted(order.tolist()) == list(range(count))
    torch.manual_seed(epoch)
    torch.rand(7)
    assert torch.equal(order, epoch_order(seed, epoch, count))


def test_order_leaves_torch_generator_alone():
    before = torch.get_rng_state()
    epoch_order(1, 2, 100)
    assert torch.equal(torch.get_rng_state(), before)


def test_epochs_and_seeds_differ():
    orders = {tuple(epoch_order(seed, epoch, 50).tolist()) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 130), st.integers(1, 40), st.integers(1, 9), st.data())
def test_every_example_exactly_once(count, batch, together, draw):
    batch = min(batch, count)
    feed = feed_of(count, batch)
    groups = [list(call) for call in feed.calls(3, 0, together)]
    seen = [b.example for call in groups for b in call]
    assert torch.equal(torch.cat(seen), epoch_order(0, 3, count))
    sizes = [batch] * (count // batch) + [count % batch] * (count % batch > 0)
    if len(sizes) > 1 and batch > 1 and sizes[-1] == 1:  # a single row joins the batch before it
        sizes = [*sizes[:-2], batch + 1]
    assert [len(b) for call in groups for b in call] == sizes
    assert len(seen) == feed.steps

    at = 0
    for call in groups:  # groups begin at multiples of `together`; what is left over comes singly
        assert len(call) in (1, together)
        if len(call) == together:
            assert at % together == 0
        at += len(call)
    assert sum(len(call) == together for call in groups) >= feed.full // together

    starts = [0]
    for call in groups:
        starts.append(starts[-1] + len(call))
    start = draw.draw(st.sampled_from(starts))
    rest = [list(call) for call in feed.calls(3, start, together)]
    assert [len(call) for call in rest] == [len(call) for call in groups[starts.index(start) :]]
    taken_up = torch.cat([b.example for call in rest for b in call]) if rest else torch.zeros(0, dtype=torch.int64)
    left = epoch_order(0, 3, count)[start * batch :] if start < feed.steps else taken_up[:0]
    assert torch.equal(taken_up, left)


def test_windows_do_not_show(monkeypatch):
    """Gathering a few rows at a time or all at once hands out the same batches."""
    wide = [list(call) for call in feed_of(103, 4, weighted=True).calls(1, 0, 3)]
    monkeypatch.setattr(feed_module, "_WINDOW_BYTES", 1)
    narrow = [list(call) for call in feed_of(103, 4, weighted=True).calls(1, 0, 3)]
    assert [len(call) for call in wide] == [len(call) for call in narrow]
    batches = lambda calls: [batch for call in calls for batch in call]  # noqa: E731
    for a, b in zip(batches(wide), batches(narrow), strict=True):
        for one, other in zip(a.columns(), b.columns(), strict=True):
            assert torch.equal(one, other)


def test_columns_belong_to_their_rows():
    for call in feed_of(37, 5, weighted=True).calls(0, 0, 2):
        for batch in call:
            assert torch.equal(batch.x[:, 0].long(), batch.example)
            assert torch.equal(batch.y, batch.example % 3)
            assert torch.equal(batch.weight.long(), batch.example + 1)
            assert torch.equal(batch.keys, noise.example_keys(0, 0, batch.example))


def test_keys_only_where_noise_is_drawn():
    [first, *_] = feed_of(10, 5, keyed=False).calls(0, 0, 1)
    assert first[0].keys is None


def test_stacked_equals_a_list():
    x = torch.randn(12, 3)
    rows = Batch(x, torch.arange(12), None, torch.arange(12))
    [stacked], listed = rows.groups(3, 4), rows.split(4)
    assert len(stacked) == len(listed) == 3
    for a, b in zip(stacked, listed, strict=True):
        assert (
            torch.equal(a.x, b.x) and torch.equal(a.y, b.y) and a.weight is None and torch.equal(a.example, b.example)
        )
    assert stacked.columns.x.shape == (3, 4, 3)
    assert stacked.columns.x.data_ptr() == x.data_ptr()  # a view


@pytest.mark.parametrize("rows", [40, 43, 97, 101])
@pytest.mark.parametrize("together", [1, 3, 4])
def test_taken_up_anywhere_the_batches_and_groups_are_the_same(rows, together):
    feed = feed_of(rows, 8)
    whole = [batch.example.tolist() for call in feed.calls(1, 0, together) for batch in call]
    assert sorted(row for batch in whole for row in batch) == list(range(rows))
    for start in range(feed.steps):
        calls = list(feed.calls(1, start, together))
        assert [batch.example.tolist() for call in calls for batch in call] == whole[start:]
        at = start
        for call in calls:
            assert len(call) == 1 or at % together == 0
            at += len(call)


def in_parts(count: int, batch: int, most_steps: int, weighted: bool = False) -> Feed:
    feed = feed_of(count, batch, weighted=weighted)
    feed.most_steps = most_steps
    return feed


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 12))
def test_parts_follow_one_another_through_all_rows(count, batch, most_steps):
    """Epochs of few steps, joined, are the passes over the rows, joined: nothing is left out at a pass's end."""
    feed, whole = in_parts(count, batch, most_steps), feed_of(count, batch)
    if most_steps >= whole.steps:
        assert (feed.steps, feed.order(3).tolist()) == (whole.steps, whole.order(3).tolist())
        return
    num = 4 * whole.steps // most_steps + 1
    parts = [row for epoch in range(num) for row in feed.order(epoch).tolist()]
    passes = [row for number in range(len(parts) // count + 1) for row in whole.order(number).tolist()]
    assert feed.steps == most_steps
    assert parts == passes[: len(parts)]


def test_batches_of_a_part_are_full_and_start_anywhere():
    feed = in_parts(50, 8, 4)
    batches = [batch for call in feed.calls(2, 0, 1) for batch in call]
    assert [len(batch.y) for batch in batches] == feed.rows_of_batches() == [8, 8, 8, 8]
    later = [batch for call in feed.calls(2, 3, 1) for batch in call]
    assert len(later) == 1
    assert torch.equal(later[0].x, batches[3].x)
    assert float(feed.shares(2).sum()) == pytest.approx(1)


def test_shares_of_a_part_are_those_of_its_rows():
    feed = in_parts(20, 5, 2, weighted=True)
    weight = torch.arange(20, dtype=torch.float64) + 1
    first, second = weight[feed.order(1)].split(5)
    assert feed.shares(1).tolist() == pytest.approx(
        [float(w.sum() / (first.sum() + second.sum())) for w in (first, second)]
    )
