"""The listener that writes metrics and checkpoints, and brings a loop back to where it stood."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leadline.engine import checkpoint
from leadline.engine.events import EpochDone, Event, RunEnded, RunStarted, StepsDone
from leadline.engine.loop import Loop
from leadline.engine.packing import pack, unpack
from leadline.engine.record import Record
from leadline.engine.state import PLAIN, State, weights
from leadline.errors import CheckpointError, RunError

_LEAST_SECONDS = 1.0  # between checkpoints; and
_SHARE = 50  # at least this many times what the last one took, so that they cost at most 2 %


class Keeper:
    """Args:
    record: the run's folder.
    extra: more plain state to keep in each checkpoint, such as the doctor's.
    """

    def __init__(self, record: Record, extra: Callable[[], Any] = dict):
        self.record, self.extra = record, extra
        self.loop: Loop | None = None  # set once the loop exists: a keeper listens to it and reads it
        self._saved_at, self._took = time.monotonic(), 0.0
        self._line_at = time.monotonic()

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            if event.step == 0:
                self.save()
        elif isinstance(event, StepsDone):
            within = event.step % self._own_loop().train.steps  # an epoch's end is saved once it is closed
            if within and self._due():
                self._own_loop().settle()
                self.save()
        elif isinstance(event, EpochDone):
            self._write(event)
            if self._due() and event.epoch == self._own_loop().state.epoch:
                self.save()
        elif isinstance(event, RunEnded):
            self._write_time(event)
            self.save()

    def _due(self) -> bool:
        return time.monotonic() - self._saved_at > max(_LEAST_SECONDS, _SHARE * self._took)

    def _write(self, event: EpochDone) -> None:
        line = {"epoch": event.epoch, "step": event.step, "lr": event.lr, **event.metrics}
        self.record.append("metrics.jsonl", line)
        if time.monotonic() - self._line_at > _LEAST_SECONDS:
            self._write_time(event)

    def _write_time(self, event: EpochDone | RunEnded) -> None:
        now = time.monotonic()
        self.record.append("timing.jsonl", {"epoch": event.epoch, "step": event.step, "seconds": now - self._line_at})
        self._line_at = now

    def _own_loop(self) -> Loop:
        if self.loop is None:
            raise RuntimeError("a keeper must be given its loop before the loop starts")
        return self.loop

    def save(self) -> None:
        """Write a checkpoint of the loop as it stands."""
        start = time.monotonic()
        loop = self._own_loop()
        state = loop.state
        if not bool(torch.isfinite(state.epoch_losses()).all()):
            return  # the loop is about to find out
        held = {"rule": loop.rule.state(), "losses": state.epoch_losses()}
        if loop.average is not None:
            held["average"] = loop.average.state()
        tensors, skeleton = pack(held)
        groups = {"weights": weights(loop.model, loop.likelihood), "state": tensors}
        if state.best:
            groups["best"] = state.best
        plain = {**state.plain(), "run": self.record.identity, "skeleton": skeleton, "extra": self.extra()}
        self.record.sync("metrics.jsonl")
        with self.record.writing():
            checkpoint.save(self.record.checkpoints, state.step, groups, plain)
        self._saved_at = time.monotonic()
        self._took = self._saved_at - start


def restore(loop: Loop, record: Record, at_most: int | None = None) -> dict[str, Any]:
    """Put the loop where the newest checkpoint (not after step `at_most`) left it; its extra state.

    Metrics written after that checkpoint are forgotten: the loop will write them again.
    """
    tensors, plain = read_newest(record, at_most)
    for owner, module in (("model", loop.model), ("likelihood", loop.likelihood)):
        checkpoint.restore(module, checkpoint.of(owner, tensors["weights"]), owner)
    state = unpack(plain["skeleton"], tensors["state"])
    loop.rule.load_state(state["rule"])
    if loop.average is not None:
        loop.average.load_state(state["average"])
    device = loop.train.device
    loop.state = State(
        **{name: plain[name] for name in PLAIN if name in plain},
        losses=[state["losses"].to(device)] if len(state["losses"]) else [],
        best={name: tensor.to(device) for name, tensor in tensors.get("best", {}).items()},
    )
    return plain["extra"]


def read_newest(record: Record, at_most: int | None = None) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """The newest checkpoint of a run, if it is this run's and the record is whole up to it."""
    path = newest(record, at_most)
    tensors, plain = checkpoint.load(path)
    if plain.get("run", record.identity) != record.identity:
        raise CheckpointError(
            "a checkpoint must be of its folder's run",
            got=f"{path}, which another run wrote",
            do="Put the run's own checkpoints back",
        )
    lines = sum(line["step"] <= plain["step"] for line in record.lines("metrics.jsonl"))
    if lines < plain["epoch"]:
        raise RunError(
            "metrics.jsonl must have a line for every epoch of the checkpoint",
            got=f"{lines} of {plain['epoch']} in {record.folder / 'metrics.jsonl'}",
            do="Restore the file from a copy",
        )
    return tensors, plain


def newest(record: Record, at_most: int | None = None) -> Path:
    """The newest checkpoint of a run, not after step `at_most`."""
    found = checkpoint.steps(record.checkpoints)
    if at_most is not None:
        found = [path for path in found if int(path.name.removeprefix("step-")) <= at_most]
    if not found:
        raise CheckpointError(
            "a run must have a checkpoint to go on from",
            got=f"none in {record.checkpoints}",
            do="Restore the checkpoints from a copy, or train anew",
        )
    return found[-1]
