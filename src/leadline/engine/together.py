"""Many networks of one architecture as one computation.

Every member is the run that it would be alone: its own first weights, order of rows, noise, rate, decay, data, best
epoch and end. Only the arithmetic is shared, so results agree with single runs up to rounding.

On a CPU members are taken a few at a time, so that what they compute stays in the cache; on a GPU all at once, several
steps in one recorded graph. `plan` says which rows come when, `chunk` moves members, `scoring` validates them.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from leadline.engine.chunk import Chunk
from leadline.engine.events import EpochDone, Listener, RunEnded, RunStarted, StepsDone
from leadline.engine.loop import Arriving
from leadline.engine.member import Member
from leadline.engine.plan import Plan

_CACHE_BYTES = 8 * 2**20  # what a chunk of members may touch in a step


class Together:
    """Args:
    members: of one architecture, likelihood, optimizer, batch and number of epochs.
    compiled: take ten seconds and more to halve what a step takes.
    plan: of these members, where there is one already.
    most: members for which a chunk's size is chosen; as many as there are, unless it must suit others too.
    """

    def __init__(
        self,
        members: Sequence[Member],
        device: torch.device,
        compiled: bool = False,
        listeners: Sequence[Listener] = (),
        plan: Plan | None = None,
        most: int | None = None,
    ):
        self.members, self.device, self.listeners = list(members), device, listeners
        self.settings = members[0].settings
        self.plan = plan or Plan(self.members, device)
        most = most or len(members)
        size = most if device.type != "cpu" else _members_together(members[0])
        count = -(-most // size)
        size = -(-most // count)
        self.chunks = [Chunk(at, size, self.plan, compiled) for at in range(0, len(members), size)]
        self.done, self.stop_asked = 0, False
        self.closing: deque[tuple[Chunk, Arriving, int, np.ndarray, bool]] = deque()

    def fit(self) -> None:
        """Train all members to their ends, and put the weights of each one's best epoch into its model."""
        self.began()
        for epoch in range(self.settings.epochs):
            self.epoch(epoch)
            if self.stop_asked or all(member.ended for member in self.members):
                break
        while self.closing:
            self._close()
        for chunk in self.chunks:
            chunk.finish()
        self.over()

    def seconds(self, threads: int) -> float:
        """What a step of all members takes on so many CPU threads; the members stay as they are."""
        chunk = self.chunks[0]
        inputs = self.plan.epoch(0).inputs(chunk.own, chunk.fill, range(1))
        before, now = [t.clone() for t in chunk.held], torch.get_num_threads()
        torch.set_num_threads(threads)
        for _ in range(3):  # until it is quick
            chunk.call(inputs)
        took = []
        for _ in range(3):
            start = time.perf_counter()
            chunk.call(inputs)
            took.append(time.perf_counter() - start)
        torch.set_num_threads(now)
        for t, old in zip(chunk.held, before, strict=True):
            t.copy_(old)
        return min(took) * len(self.chunks)

    def epoch(self, epoch: int) -> None:
        """One pass of every member over its rows, and the validation of those for which it is due."""
        settings = self.settings
        last = epoch + 1 == settings.epochs
        validating = self.members[0].val is not None and ((epoch + 1) % settings.validate_every == 0 or last)
        plan = self.plan.epoch(epoch)
        for chunk in self.chunks:
            self.closing.append((chunk, Arriving(chunk.epoch(plan)), epoch, plan.numbers, validating))
        # on a GPU an epoch that is not validated is closed while the next one runs
        late = self.device.type == "cuda" and not (validating or last)
        while len(self.closing) > late:
            self._close()

    def _close(self) -> None:
        chunk, losses, epoch, numbers, validating = self.closing.popleft()
        chunk.close(losses.read(), epoch, numbers, validating)
        self.done += int((self.plan.sizes[:, chunk.own] > 0).sum())
        self.say(StepsDone(epoch, self.done, losses.read().flatten()))
        if chunk is self.chunks[-1] and self.listeners:
            self.announce(epoch + 1)

    # ── what listeners hear ──

    def began(self) -> None:
        total = sum(member.train.steps for member in self.members)
        self.say(RunStarted(self.settings.epochs, total))

    def announce(self, epoch: int) -> None:
        """Mean and spread over the members of what an epoch brought."""
        alive = [member for member in self.members if len(member.history) >= epoch]
        latest = [member.history[epoch - 1] for member in alive] or [member.history[-1] for member in self.members]
        metrics: dict[str, dict[str, float]] = {"train": {}, "spread": {}}
        for name, values in _columns([record["train"] for record in latest]).items():
            metrics["train"][name], metrics["spread"][name] = _mean(values)
        if "val" in latest[0]:
            metrics["val"] = {}
            for name, values in _columns([record["val"] for record in latest]).items():
                metrics["val"][name], metrics["spread"][name] = _mean(values)
        rate = sum(record["lr"] for record in latest) / len(latest)
        self.say(EpochDone(epoch, self.done, rate, metrics, False, torch.zeros(0)))

    def over(self) -> None:
        reason = "finished" if all(member.ended for member in self.members) else "interrupted"
        self.say(RunEnded(max(len(member.history) for member in self.members), self.done, reason))

    def say(self, event: Any) -> None:
        for listener in self.listeners:
            listener(event)


def _members_together(member: Member) -> int:
    """How many members' weights and activations fit into the cache at once."""
    widths = sum(p.shape[0] for p in member.model.parameters() if p.dim() > 1)
    weights = sum(p.numel() for p in member.model.parameters())
    touched = 4 * (4 * weights + 4 * member.train.batch * (widths + member.train.x[0].numel()))
    return max(1, _CACHE_BYTES // touched)


def _columns(records: list[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [record[name] for record in records] for name in records[0]}


def _mean(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation of those that are finite."""
    finite = np.array([value for value in values if math.isfinite(value)] or [math.nan])
    return float(finite.mean()), float(finite.std())
