"""Rows that stay bytes until their batch is gathered, in memory or streamed: the same batches, the same run."""

import threading

import pytest
import torch

import leadline as ll
from leadline.data.data import Data, Split
from leadline.data.pictures import Pictures
from leadline.data.target import Target
from leadline.engine import feed as feed_module
from leadline.engine.feed import Feed
from leadline.engine.prefetch import fits, prefetched

CPU = torch.device("cpu")


def pictures(count=37, side=6):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count, 3, side, side), generator=generator, dtype=torch.uint8)
    y = (x.float().mean((1, 2, 3)) > 127.5).long()
    part = lambda a, b: Split(x[a:b], y[a:b])  # noqa: E731
    target = Target("binary", classes=("dark", "light"))
    return Data(part(0, 25), part(25, 31), part(31, count), target, Pictures.of(x[:25]), name="bytes")


def feed_of(data, **options):
    return Feed(data.train, data.inputs, 4, 7, CPU, torch.float32, **options)


def batches(feed, epoch=3, start=0, together=1):
    return [batch for call in feed.calls(epoch, start, together) for batch in call]


@pytest.mark.parametrize("together", [1, 2, 3])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_streamed_batches_are_those_in_memory(together, start, monkeypatch):
    data = pictures()
    lying = feed_of(data)
    monkeypatch.setattr(feed_module, "fits", lambda rows, device: False)
    monkeypatch.setattr(feed_module, "_WINDOW_BYTES", 1)
    streaming = feed_of(data)
    assert streaming.streams and not lying.streams
    for one, other in zip(batches(lying, 3, start, together), batches(streaming, 3, start, together), strict=True):
        for a, b in zip(one.columns(), other.columns(), strict=True):
            assert (a is None and b is None) or torch.equal(a, b)
    assert torch.equal(torch.cat([b.x for b in streaming.in_order(rows=5)]), lying.x)


def test_bytes_become_numbers_batch_by_batch():
    data = pictures()
    late, whole = feed_of(data), feed_of(data, whole=True)
    assert late.raw.dtype == torch.uint8 and whole.raw.dtype == torch.float32
    assert late.row_bytes == whole.row_bytes == 3 * 6 * 6 * 4
    for one, other in zip(batches(late), batches(whole), strict=True):
        assert torch.equal(one.x, other.x) and torch.equal(one.y, other.y)


def test_an_epoch_that_is_left_early_leaves_no_thread_behind(monkeypatch):
    monkeypatch.setattr(feed_module, "fits", lambda rows, device: False)
    monkeypatch.setattr(feed_module, "_WINDOW_BYTES", 1)
    calls = feed_of(pictures()).calls(0, 0, 1)
    next(calls)
    calls.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "leadline-prefetch"]


def test_what_goes_wrong_in_the_thread_is_heard():
    rows = torch.arange(3)
    with pytest.raises((IndexError, RuntimeError)):
        list(prefetched([rows], [torch.tensor([1]), torch.tensor([9])], CPU))


@pytest.mark.parametrize("task", ["next", "masked"])
def test_answers_at_every_place_stay_with_their_rows(task, monkeypatch, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat and the dog ran to the door. " * 20)
    data, ends = ll.data.text(tmp_path / "text.txt", task=task, length=12, kind="bytes", cache=False), []
    for streams in (False, True):
        asked = []
        told = lambda columns, device, lies=not streams, asked=asked: asked.append(columns) or lies  # noqa: E731
        monkeypatch.setattr(feed_module, "fits", told)
        monkeypatch.setattr(feed_module, "_WINDOW_BYTES", 1)
        torch.manual_seed(0)
        name, sizes = {"next": "GPT", "masked": "BERT"}[task], {"dim": 8, "num_layers": 1, "num_heads": 1}
        model = ll.models.build(name, data, data.target.dim, **sizes)
        run = ll.fit(model, data, epochs=2, batch=16, progress=False, threads=1, compile="off", findings=[])
        ends.append([*run.model.state_dict().values(), run.evaluate("test")["nll"]])
        feed = feed_of(data)
        assert (feed.y.data_ptr() == data.train.y.data_ptr()) and feed.streams is streams
        assert all(len(columns) == 2 and columns[1].dim() == 2 for columns in asked)
    for a, b in zip(*ends, strict=True):
        assert torch.equal(torch.as_tensor(a), torch.as_tensor(b))


def test_room_is_asked_for_rows_and_answers_together(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 1000))
    rows, answers = torch.zeros(100, 3, dtype=torch.uint8), torch.zeros(50, dtype=torch.int32)
    device = torch.device("cuda")
    assert fits([rows], device) and fits([answers, answers], device) and not fits([rows, answers, answers], device)
    assert not fits([rows, answers, answers[:1]], device) and fits([rows, answers], CPU)


def test_a_streamed_run_is_the_run_in_memory(monkeypatch):
    data, ends = pictures(), []
    for streams in (False, True):
        if streams:
            monkeypatch.setattr(feed_module, "fits", lambda rows, device: False)
        torch.manual_seed(0)
        model = ll.models.ConvNet(3, 1, widths=(4,), p_drop=0.1)
        run = ll.fit(model, data, epochs=2, batch=8, regularize=["flip", "crop(1)"], progress=False, threads=1)
        ends.append([*run.model.state_dict().values(), run.evaluate("test")["nll"]])
    for a, b in zip(*ends, strict=True):
        assert torch.equal(torch.as_tensor(a), torch.as_tensor(b))
