"""Which rows, noise and numbers each member of a population sees in which step of an epoch.

Members whose rows differ in number go together too: a batch is as long as the longest member's, rows that a member does
not have count for nothing, and a member that has no batch left this epoch stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.engine.member import Member
from leadline.layers import noise
from leadline.optim.inline import step_numbers

_THREADS, AHEAD = 4, 2  # threads that draw orders for a GPU, and for how many epochs there is room


class Plan:
    """Which rows each member sees in which step of an epoch.

    The rows of all members lie in one tensor; members that share their data share its rows too. `shift` says where a
    member's begin.
    """

    def __init__(self, members: Sequence[Member], device: torch.device):
        self.members, self.device = members, device
        feeds = [member.train for member in members]
        self.x, self.shift_x = _joined([feed.x for feed in feeds])
        self.y, self.shift_y = _joined([feed.y for feed in feeds])
        self.keyed = any(feed.keyed for feed in feeds)
        sizes = [feed.rows_of_batches() for feed in feeds]
        self.steps = max(map(len, sizes))
        self.sizes = np.array([[*own, *[0] * (self.steps - len(own))] for own in sizes]).T  # (steps, M)
        self.padded = bool((self.sizes != self.sizes[:, :1]).any())
        weights = [feed.weight for feed in feeds]
        self.weight: Tensor | None = None
        if any(weight is not None for weight in weights):
            full = [torch.ones(len(f), device=device) if w is None else w for f, w in zip(feeds, weights, strict=True)]
            keys = [(feed.y.data_ptr(), len(feed)) for feed in feeds]
            self.weight, _ = _joined([w.to(feeds[0].x.dtype) for w in full], keys)
        batch = feeds[0].batch
        #: slots in which every member has a full batch come first
        self.full = int((self.sizes == batch).all(1).sum())
        self.starts = np.concatenate([np.zeros((1, len(feeds)), int), self.sizes.cumsum(0)[:-1]])
        self.numbers_of, self.orders = _Numbers(members), _Orders(members, device)
        #: one step of a chunk, as it is run; chunks of one shape share it
        self.one: dict[Any, Callable[..., Tensor]] = {}

    def epoch(self, epoch: int) -> PlannedEpoch:
        """Rows, noise and numbers of every step of an epoch."""
        salts = _salts(self.members, epoch) if self.keyed else np.zeros(0, np.int64)
        return PlannedEpoch(self, self.orders(epoch), salts, self.numbers_of(epoch))


class PlannedEpoch:
    """Args:
    orders: of each member's rows, (M, rows); those that a member does not have are 0.
    salts: of each member's noise.
    numbers: (steps, M, …) of the optimizer.
    """

    def __init__(self, plan: Plan, orders: Tensor, salts: np.ndarray, numbers: np.ndarray):
        self.plan, self.salts, self.numbers = plan, salts, numbers
        self.orders = orders.to(plan.device, non_blocking=True)
        self.read = torch.cuda.Event() if plan.device.type == "cuda" else None
        if self.read is not None:
            self.read.record()

    def inputs(self, own: slice, fill: Callable[[Tensor], Tensor], steps: range) -> dict[str, Tensor]:
        """What the steps read, each (steps, members, …).

        Args:
            own: which members.
            fill: from those members to all places.
        """
        plan = self.plan
        sizes, starts = plan.sizes[steps.start : steps.stop, own], plan.starts[steps.start : steps.stop, own]
        width = int(sizes.max())
        masked = bool((sizes != width).any())
        orders = self.orders[own]
        if not masked:  # all alike: one slice of the stack
            at = int(starts[0, 0])
            index = orders[:, at : at + width * len(steps)].unflatten(1, (len(steps), width)).transpose(0, 1)
        else:
            places = np.minimum(starts[..., None] + np.arange(width), orders.shape[1] - 1)
            index = orders.gather(1, self._sent(torch.from_numpy(places).transpose(0, 1).flatten(1)))
            index = index.unflatten(1, (len(steps), width)).transpose(0, 1)
        found: dict[str, Tensor] = {"index": index}
        if masked:
            there = np.arange(width) < np.maximum(sizes, 1)[..., None]  # a member at rest keeps one row, and no change
            found["valid"], found["active"] = torch.from_numpy(there).to(plan.x.dtype), torch.from_numpy(sizes > 0)
        if plan.keyed:
            salts = self._sent(torch.from_numpy(self.salts[own]))
            found["keys"] = noise.mix(noise.mix(index) ^ salts[:, None])  # as `noise.example_keys`, member by member
        found["numbers"] = torch.from_numpy(self.numbers[steps.start : steps.stop, own]).to(plan.x.dtype)
        sent = {name: self._sent(fill(column)) for name, column in found.items()}
        sent["numbers"] = sent["numbers"].transpose(1, 2)[..., None].contiguous()  # (steps, numbers, members, 1)
        return sent

    def _sent(self, column: Tensor) -> Tensor:
        """On the device; out of pinned memory, or the copy would wait for all steps before it."""
        if self.plan.device.type == "cuda" and not column.is_cuda:
            column = column.contiguous().pin_memory()
        return column.to(self.plan.device, non_blocking=True).contiguous()


class _Orders:
    """The order in which each member takes its rows, (M, rows): the very order of a single run.

    Drawing them is the host's work. For a GPU a few threads draw those of the next epoch while this one runs, by turns
    into two places that the device reads from.
    """

    def __init__(self, members: Sequence[Member], device: torch.device):
        self.members, self.cuda = members, device.type == "cuda"
        rows, ahead = max(len(member.train) for member in members), AHEAD if self.cuda else 1
        self.rooms = [torch.zeros(len(members), rows, dtype=torch.int64, pin_memory=self.cuda) for _ in range(ahead)]
        self.settled = all(member.train.steps == 1 and not member.train.replacement for member in members)
        if self.settled:  # one batch holds all rows: their order is rounding
            for row, member in zip(self.rooms[0], members, strict=True):
                row[: len(member.train)] = torch.arange(len(member.train))
        self.places = [
            [row[: len(member.train)] for row, member in zip(room, members, strict=True)] for room in self.rooms
        ]
        self.pool = ThreadPoolExecutor(_THREADS) if self.cuda and not self.settled else None
        self.coming: dict[int, list[Future[None]]] = {}

    def __call__(self, epoch: int) -> Tensor:
        room = self.rooms[0 if self.settled else epoch % len(self.rooms)]
        if self.pool is None:
            if not self.settled:
                self._draw(epoch, range(len(self.members)))
            return room
        self._begin(epoch)
        for part in self.coming.pop(epoch):
            part.result()
        return room

    def ahead(self, epoch: int) -> None:
        """Begin to draw the order of a later epoch; the device must have read the one that lies in its place."""
        if self.pool is not None:
            self._begin(epoch)

    def _begin(self, epoch: int) -> None:
        if epoch not in self.coming:
            count = len(self.members)
            parts = [range(k * count // _THREADS, (k + 1) * count // _THREADS) for k in range(_THREADS)]
            self.coming[epoch] = [self.pool.submit(self._draw, epoch, part) for part in parts]  # type: ignore[union-attr]

    def _draw(self, epoch: int, part: range) -> None:
        generator, places = torch.Generator(), self.places[epoch % len(self.rooms)]
        for m, seed in zip(part, _salts(self.members[part.start : part.stop], epoch).tolist(), strict=True):
            self.members[m].train.write_order(places[m], generator.manual_seed(seed))


def _salts(members: Sequence[Member], epoch: int) -> np.ndarray:
    """`noise.mix_int(seed, epoch)` of every member."""
    return noise.mix_ints(np.array([member.train.seed for member in members]), epoch)


class _Numbers:
    """The optimizer's numbers for every step of an epoch, (steps, M, …)."""

    def __init__(self, members: Sequence[Member]):
        groups = [member.rule.optimizer.param_groups[0] for member in members]
        self.rules = [member.rule for member in members]
        self.adam = "betas" in groups[0]
        self.betas = groups[0].get("betas", (0.0, 0.0))
        self.lr = np.array([member.settings.lr for member in members])
        self.decay = np.array([float(group["weight_decay"]) for group in groups])
        self.momentum = np.array([float(group.get("momentum", 0.0)) for group in groups])
        self.own = np.array([member.train.steps for member in members])
        self.steps = int(self.own.max())
        self.by_length = {int(n): self.rules[int(np.argmax(self.own == n))] for n in set(self.own)}

    def __call__(self, epoch: int) -> np.ndarray:
        rates, counts = np.zeros((self.steps, len(self.own))), np.ones((self.steps, len(self.own)))
        for length, rule in self.by_length.items():
            of = self.own == length
            factors = np.array([rule.rate(epoch * length + s) / rule.settings.lr for s in range(length)])
            rates[:length, of] = factors[:, None] * self.lr[of]
            counts[:length, of] = (epoch * length + np.arange(1, length + 1))[:, None]
        return step_numbers(self.adam, self.betas, rates, counts, self.decay, self.momentum)


def _joined(tensors: list[Tensor], keys: list[Any] | None = None) -> tuple[Tensor, Tensor]:
    """Distinct tensors one after the other, and where each one's rows begin; `keys` say which are the same."""
    keys = keys or [(tensor.data_ptr(), len(tensor)) for tensor in tensors]
    distinct = dict(zip(reversed(keys), reversed(tensors), strict=True))
    starts, at = {}, 0
    for key, tensor in distinct.items():
        starts[key], at = at, at + len(tensor)
    whole = next(iter(distinct.values())) if len(distinct) == 1 else torch.cat(list(distinct.values()))
    return whole, torch.tensor([starts[key] for key in keys])
