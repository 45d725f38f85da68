"""A split on the device, handed out in batches: the order is a pure function of (seed, epoch).

In-memory rows are gathered by index where they lie, a window of batches at a time; a batch is then a view into the
window. Nothing is copied per step, and no worker process stands between the data and the network.

Rows that are kept small, such as pictures of bytes, become numbers when their window is gathered. Where they and their
answers are too many for the device, both stay in the host's memory, or in a file that is mapped into it, and a thread
gathers the next windows while the device computes (`leadline.engine.prefetch`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor

from leadline.data.data import Batch, Split
from leadline.data.inputs import Inputs
from leadline.engine.evaluation import rows_together
from leadline.engine.prefetch import fits, prefetched
from leadline.layers import noise

_WINDOW_BYTES = 32 * 2**20  # large enough to hide the gather, small enough to stay near the cache

_STREAM_ROWS = 16  # of a stream that is evaluated, at least


def epoch_order(seed: int, epoch: int, count: int, replacement: bool = False) -> Tensor:
    """The order of `count` examples in an epoch; with replacement each place is drawn anew from all of them.

    >>> epoch_order(0, 3, 5).tolist() == epoch_order(0, 3, 5).tolist()
    True
    """
    generator = torch.Generator().manual_seed(noise.mix_int(seed, epoch))
    return _order(count, replacement, generator)


def stream_order(count: int, streams: int) -> Tensor:
    """Rows 0 … count - 1 in streams of consecutive ones, of nearly equal length: the first of each stream, then the
    second, and so on. Those that are longer by one come first, so that row b of a batch goes on from row b before it.

    >>> stream_order(7, 3).tolist()  # 0 1 2 | 3 4 | 5 6
    [0, 3, 5, 1, 4, 6, 2]
    """
    each, longer = divmod(count, streams)
    starts = torch.arange(streams) * each + torch.arange(streams).clamp(max=longer)
    whole = torch.arange(each)[:, None] + starts
    return torch.cat([whole.flatten(), starts[:longer] + each])


def streams_of(count: int, most: int) -> int:
    """Streams in which so many rows are evaluated: at most `most`, so long that few tokens are read without what stands
    before them.

    >>> streams_of(10_000, 64), streams_of(100, 64), streams_of(9, 64)
    (64, 6, 1)
    """
    return max(1, min(most, count // _STREAM_ROWS))


def _order(count: int, replacement: bool, generator: torch.Generator, out: Tensor | None = None) -> Tensor:
    if replacement:
        return torch.randint(count, (count,), generator=generator, out=out)
    return torch.randperm(count, generator=generator, out=out)


class Feed:
    """Args:
    split: raw rows.
    inputs: how they are read.
    batch: rows a step.
    seed: of order and noise.
    dtype: of inputs, weights and real targets.
    keyed: whether the network has layers that draw noise, so that batches carry keys.
    replacement: draw rows anew for each place; a row that comes twice in an epoch has the same noise both times.
    whole: have all rows as the network reads them at once, on the device, whatever room they take.
    carry: rows follow one another in `batch` streams, and a batch has the next row of each (`stream_order`).
    most_steps: of an epoch. Where a pass over the rows has more, epochs are parts of passes, one after the other, and
        their batches are all of full size; a row that ends one pass and begins the next in an epoch has the same noise
        both times.
    """

    def __init__(
        self,
        split: Split,
        inputs: Inputs,
        batch: int,
        seed: int,
        device: torch.device,
        dtype: torch.dtype,
        keyed: bool = True,
        replacement: bool = False,
        whole: bool = False,
        carry: bool = False,
        most_steps: int | None = None,
    ):
        self.batch, self.seed, self.keyed, self.replacement = batch, seed, keyed, replacement
        self.carry, self.most_steps = carry, most_steps
        self._drawn = -1, torch.empty(0, dtype=torch.int64)  # number and order of the pass that parts are taken of
        self.inputs, self.device, self.dtype = inputs, device, dtype
        self.late = inputs.late and not whole
        self.streams = self.late and not fits((split.x, split.y), device)
        if self.late:
            self.raw = split.x if self.streams else split.x.to(device)
        else:
            self.raw = self._numbers(inputs.encode(split.x.to(device)))
        self.y = split.y if self.streams else self._answers(split.y)
        self.weight = None if split.weight is None else split.weight.to(device, dtype)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def x(self) -> Tensor:
        """All rows as the network reads them."""
        return self.read(self.raw)

    def read(self, rows: Tensor) -> Tensor:
        """Some of `raw` as the network reads them."""
        if not self.late:
            return rows
        return self._numbers(self.inputs.encode(rows.to(self.device, non_blocking=True)))

    def _numbers(self, x: Tensor) -> Tensor:
        """Real numbers in the network's precision; whole ones are names, and stay."""
        return x.to(self.dtype) if x.is_floating_point() else x

    def answers(self, count: int, step: int = 1) -> Tensor:
        """Those of the first rows, or of one in `step` of them."""
        return self._answers(self.y[:count:step])

    def _answers(self, y: Tensor) -> Tensor:
        """On the device, in the network's precision where they are real."""
        return y.to(self.device, self.dtype if y.is_floating_point() else None, non_blocking=True)

    def first(self, count: int) -> Batch:
        """The first rows of the split as the network reads them."""
        return next(self.in_order(count, count))

    @cached_property
    def row_bytes(self) -> int:
        """Of one row as the network reads it."""
        row = self.read(self.raw[:1])
        return row.numel() * row.element_size()

    @property
    def _joined(self) -> bool:
        """Whether a single row is left over: it joins the last full batch, for one row alone has no statistics."""
        return len(self) > self.batch > 1 and len(self) % self.batch == 1 and not self.carry

    @property
    def _in_parts(self) -> bool:
        """Whether an epoch is less than a pass."""
        return self.steps < self._steps_a_pass

    @property
    def _steps_a_pass(self) -> int:
        return -(-len(self) // self.batch) - self._joined

    @property
    def full(self) -> int:
        """Batches of full size an epoch."""
        return self.steps if self._in_parts else len(self) // self.batch - self._joined

    @property
    def steps(self) -> int:
        """Batches an epoch; where it is a whole pass, the last may be smaller, or larger by one."""
        whole = self._steps_a_pass
        return whole if self.most_steps is None else min(whole, self.most_steps)

    @property
    def rows(self) -> int:
        """Rows an epoch."""
        return self.steps * self.batch if self._in_parts else len(self)

    def shares(self, epoch: int) -> Tensor:
        """What each batch of an epoch, in order, has of the weight of all; of the rows where none is given."""
        if self.weight is None:
            return self._shares_of_rows
        weight = self.weight.cpu().double()[self.order(epoch)]
        sizes = torch.stack([part.sum() for part in weight.split(self._rows(0, self.steps))])
        return sizes / sizes.sum()

    @cached_property
    def _shares_of_rows(self) -> Tensor:
        return torch.tensor(self._rows(0, self.steps), dtype=torch.float64) / self.rows

    def in_order(self, count: int | None = None, rows: int | None = None) -> Iterator[Batch]:
        """The first `count` rows, all by default, in their order, `rows` at a time: by default as many as is wise."""
        end = len(self) if count is None else min(count, len(self))
        rows = rows or self.inputs.together
        rows = rows or rows_together(self.row_bytes + self.inputs.room(tuple(self.raw.shape[1:])), self.device)
        for start in range(0, end, rows):
            stop = min(start + rows, end)
            part = None if self.weight is None else self.weight[start:stop]
            keys = None
            if self.inputs.draws:  # the same for every run, so that what they score can be compared
                keys = noise.example_keys(0, 0, torch.arange(start, stop, device=self.device))
            x, y = self.inputs.drawn(self.read(self.raw[start:stop]), self._answers(self.y[start:stop]), keys)
            yield Batch(x, y, part)

    def in_streams(self) -> Iterator[Batch]:
        """All rows, the next one of each stream at a time."""
        return (batch for [batch] in self.calls(0, 0, 1))

    def calls(self, epoch: int, start: int, together: int) -> Iterator[Sequence[Batch]]:
        """The epoch's batches from number `start` on, `together` full ones at a time, the rest one by one.

        Groups begin at multiples of `together`: an epoch that is taken up again falls into the same groups.
        """
        order = self.order(epoch)
        window = max(1, _WINDOW_BYTES // max(1, self.row_bytes * self.batch * together)) * together
        begin = -(-start // together) * together
        end = max(begin, self.full - self.full % together)
        ranges = ((start, min(begin, self.steps), 1), (begin, end, together), (end, self.steps, 1))
        spans = [
            (at, min(at + window, last), size) for first, last, size in ranges for at in range(first, last, window)
        ]
        ends = [self.rows if stop == self.steps else stop * self.batch for _, stop, _ in spans]
        parts = [order[at * self.batch : end] for (at, _, _), end in zip(spans, ends, strict=True)]
        for (at, stop, size), (index, raw, y) in zip(spans, self._gathered(order, parts), strict=True):
            rows = self._window(epoch, index, raw, y)
            if size > 1:
                yield from rows.groups(size, self.batch)
            else:
                yield from ([batch] for batch in rows.split(self._rows(at, stop)))

    def _gathered(self, order: Tensor, parts: list[Tensor]) -> Iterator[tuple[Tensor, ...]]:
        """The rows' numbers, the rows themselves and their answers, of one part of the order after another."""
        if self.streams:
            yield from prefetched((self.raw, self.y), parts, self.device)
            return
        if self.device.type == "cuda":  # out of pinned memory, or the copy would wait for all steps before it
            order = order.pin_memory()
        whole = order.to(self.device, non_blocking=True)
        first = 0 if not parts else len(order) - sum(map(len, parts))
        for part in parts:
            index = whole[first : first + len(part)]
            first += len(part)
            yield index, self.raw.index_select(0, index), self.y.index_select(0, index)  # far faster than raw[index]

    def rows_of_batches(self) -> list[int]:
        """How many rows the batches of an epoch have."""
        return self._rows(0, self.steps)

    def order(self, epoch: int) -> Tensor:
        """The order in which an epoch takes the rows."""
        if not self._in_parts:
            return self._order_of_pass(epoch)
        at, end, parts = epoch * self.rows, (epoch + 1) * self.rows, list[Tensor]()
        while at < end:
            number, place = divmod(at, len(self))
            if self._drawn[0] != number:
                self._drawn = number, self._order_of_pass(number)
            parts.append(self._drawn[1][place : place + end - at])
            at += len(parts[-1])
        return torch.cat(parts)

    def _order_of_pass(self, number: int) -> Tensor:
        if self.carry:
            return stream_order(len(self), self.batch)
        if self._steps_a_pass == 1 and self.inputs.graph is not None and not self.replacement:
            return self._as_they_are  # one step has them all: their order is rounding, and takes longer than the step
        return self.inputs.ordered(self.raw, epoch_order(self.seed, number, len(self), self.replacement))

    @cached_property
    def _as_they_are(self) -> Tensor:
        return torch.arange(len(self))

    def write_order(self, room: Tensor, generator: torch.Generator) -> None:
        """Write an epoch's order into the first places of `room`.

        Args:
            generator: seeded with `noise.mix_int(seed, epoch)`.
        """
        _order(len(self), self.replacement, generator, room[: len(self)])

    def _rows(self, first: int, stop: int) -> list[int]:
        """How many rows the batches from number `first` to `stop` have."""
        sizes = [self.batch] * (stop - first)
        if stop == self.steps:
            sizes[-1] = self.rows - (stop - 1) * self.batch
        return sizes

    def _window(self, epoch: int, index: Tensor, raw: Tensor, y: Tensor) -> Batch:
        weight = None if self.weight is None else self.weight.index_select(0, index)
        keys = noise.example_keys(self.seed, epoch, index) if self.keyed or self.inputs.draws else None
        x, y = self.inputs.drawn(self.read(raw), self._answers(y), keys)
        return Batch(x, y, weight, index, keys if self.keyed else None)
