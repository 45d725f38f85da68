"""Which rows, noise and numbers each member of a population sees in which step of an epoch.

Members whose rows differ in number go together too: a batch is as long as the longest member's, rows that a member does
not have count for nothing, and a member that has no batch left this epoch stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.engine.member import Member
from leadline.engine.shuffled import orders
from leadline.layers import noise
from leadline.optim.inline import step_numbers

_EPOCHS, _ORDERS, _ORDER_BYTES = 8, 8192, 2**29  # drawn at once by a GPU: this is what it has room for
_SAMPLE = 1000  # rows: enough to tell one way of drawing from another


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
        #: steps; chunks of one shape share them
        self.compiled: dict[Any, Callable[..., Tensor]] = {}

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
        self.orders = orders.to(plan.device)

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
            found["valid"] = torch.from_numpy(there).to(plan.x.dtype)
            if not (sizes > 0).all():
                found["active"] = torch.from_numpy(sizes > 0)
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

    A host draws them one by one; a GPU draws those of several epochs at once.
    """

    def __init__(self, members: Sequence[Member], device: torch.device):
        self.members, self.device, self.block = members, device, -1
        self.counts = torch.tensor([len(member.train) for member in members])
        rows = int(self.counts.max())
        self.settled = all(member.train.steps == 1 and not member.train.replacement for member in members)
        self.on_device = not self.settled and self._drawn_alike()
        at_once = min(_EPOCHS, _ORDERS // len(members), _ORDER_BYTES // (8 * rows * len(members)))
        self.epochs = max(1, at_once) if self.on_device else 1
        kept = device if self.on_device else torch.device("cpu")
        self.room = torch.zeros(self.epochs, len(members), rows, dtype=torch.int64, device=kept)
        if self.settled:  # one batch holds all rows: their order is rounding
            every = torch.arange(rows).expand(len(members), rows)
            self.room[0] = torch.where(every < self.counts[:, None], every, 0)

    def __call__(self, epoch: int) -> Tensor:
        if self.settled:
            return self.room[0]
        if epoch // self.epochs != self.block:
            self.block = epoch // self.epochs
            self._draw(range(self.block * self.epochs, (self.block + 1) * self.epochs))
        return self.room[epoch % self.epochs]

    def _draw(self, epochs: range) -> None:
        if self.on_device:
            seeds = torch.from_numpy(np.concatenate([_salts(self.members, epoch) for epoch in epochs]))
            orders(seeds.to(self.device), self.counts.to(self.device), self.room.flatten(0, 1))
            return
        generator = torch.Generator()
        for room, epoch in zip(self.room, epochs, strict=True):
            for row, member, seed in zip(room, self.members, _salts(self.members, epoch).tolist(), strict=True):
                member.train.write_order(row, generator.manual_seed(seed))

    def _drawn_alike(self) -> bool:
        """Whether the GPU draws what torch draws here."""
        if self.device.type != "cuda" or any(member.train.replacement for member in self.members):
            return False
        room = torch.zeros(1, _SAMPLE, dtype=torch.int64, device=self.device)
        try:
            orders(torch.tensor([1], device=self.device), torch.tensor([_SAMPLE], device=self.device), room)
        except ImportError:
            return False
        return torch.equal(room[0].cpu(), torch.randperm(_SAMPLE, generator=torch.Generator().manual_seed(1)))


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
