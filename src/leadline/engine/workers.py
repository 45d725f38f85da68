"""Members of a population dealt to processes, one a core.

    worker k of W:  members k, k + W, k + 2W, …       a `Together` of their own, on one thread

A small network keeps Python as busy as the arithmetic, and threads of one process wait for each other's Python. Workers
are forked: they begin with all that this process has, compiled steps too. What an epoch brought comes back through a
pipe, and at the end the weights, bit for bit. Deleting this file loses speed only.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from leadline.engine.device import cores
from leadline.engine.events import EpochDone, Event, StepsDone
from leadline.engine.member import Member, named
from leadline.engine.plan import Plan
from leadline.engine.together import Together
from leadline.errors import UserError

#: seconds on one thread from which workers pay: to fork takes some hundredths of one, and each warms up on its own
WORTH_SECONDS = 0.5
_LOOK_SECONDS = 0.1  # between two messages of a worker, and between two looks at whether to stop
_ENDS = ("best_score", "best_epoch", "stale", "first_loss", "ended")  # what becomes of a member besides its history


def most_workers(members: int, threads: int | None) -> int:
    """How many workers there may be; 1 where this process cannot be forked and go on.

    Args:
        threads: that were asked for, at most so many workers.
    """
    # with a GPU autograd has threads, which a child lacks; one process of many has its share of the cores already
    safe = sys.platform == "linux" and not torch.accelerator.is_available() and not multiprocessing.parent_process()
    return min(members, cores(), threads or members) if safe else 1


class Workers:
    """Args:
    whole: all members; its listeners hear of them as if it trained them itself, and who asks it to stop is heard.
    count: of workers, at least 2.
    """

    def __init__(self, whole: Together, count: int, compiled: bool):
        self.whole = whole
        self.parts = [_part(whole, slice(k, None, count), compiled) for k in range(count)]
        if compiled:
            for part in self.parts:
                part.seconds(1)  # compiles: once for all parts, since their shapes are the same

    def fit(self) -> None:
        """As `Together.fit`."""
        workers: list[_Worker] = []
        try:
            try:
                for part, seed in zip(self.parts, torch.randint(2**62, (len(self.parts),)).tolist(), strict=True):
                    workers.append(_Worker.begin(part, seed))
            except OSError:  # there is no room for another process
                _end(workers)
                return self.whole.fit()
            self.parts.clear()  # the workers hold them now
            self.whole.chunks.clear()
            self.whole.began()
            self._follow(workers)
        finally:
            _end(workers)
        self.whole.over()

    def _follow(self, workers: list[_Worker]) -> None:
        epoch, asked = 0, False
        while running := {worker.line: worker for worker in workers if not worker.over}:
            for line in wait(list(running), _LOOK_SECONDS):
                running[line].hear()  # type: ignore[index]
            if self.whole.stop_asked and not asked:
                asked = True
                for worker in running.values():
                    with suppress(OSError):  # it has just ended
                        worker.line.send("stop")
            while any(worker.told for worker in workers) and all(worker.told or worker.over for worker in workers):
                self._close([worker for worker in workers if worker.told], epoch)
                epoch += 1

    def _close(self, workers: list[_Worker], epoch: int) -> None:
        """What all workers have told of an epoch goes to the members and to those who listen."""
        whole = self.whole
        for worker in workers:
            told = worker.told.popleft()
            for member, record in zip(worker.members, told.records, strict=True):
                if record is not None:
                    member.history.append(record)
            for done, losses in told.steps:
                whole.done += done - worker.done
                worker.done = done
                whole.say(StepsDone(epoch, whole.done, torch.from_numpy(losses)))
        if whole.listeners:
            whole.announce(epoch + 1)


def _part(whole: Together, own: slice, compiled: bool) -> Together:
    """Some of the members. Chunks are as large in every part, and rows stay where they lie: one compiled step fits."""
    members, plan = whole.members[own], Plan(whole.members[own], whole.device)
    plan.x, plan.y, plan.weight = whole.plan.x, whole.plan.y, whole.plan.weight
    plan.shift_x, plan.shift_y = (shift[own].contiguous() for shift in (whole.plan.shift_x, whole.plan.shift_y))
    most = len(whole.members[:: own.step])
    return Together(members, whole.device, compiled, plan=plan, most=most)


@dataclass
class _Epoch:
    """Args:
    records: of each member; None where it is over.
    steps: of each chunk: those done so far, and the losses of these.
    """

    records: list[dict[str, Any] | None]
    steps: list[tuple[int, np.ndarray]]


# ── in this process ──


@dataclass(eq=False)
class _Worker:
    """Args:
    told: epochs that not all workers have reached yet.
    done: steps that were announced.
    """

    pid: int
    line: Connection
    members: Sequence[Member]
    told: deque[_Epoch] = field(default_factory=deque)
    done: int = 0
    over: bool = False

    @classmethod
    def begin(cls, part: Together, seed: int) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        try:
            _flush()  # or both processes would write what waits
            with warnings.catch_warnings():
                for kind in (DeprecationWarning, RuntimeWarning):  # of threads, such as a notebook or JAX has
                    warnings.simplefilter("ignore", kind)
                pid = os.fork()
            if not pid:
                _live(part, theirs, ours, seed)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(pid, ours, part.members)

    def hear(self) -> None:
        """Take one message."""
        try:
            kind, told = self.line.recv()
            weights = self.line.recv_bytes() if kind == "over" else b""
        except (EOFError, OSError):
            raise self._lost() from None
        if kind == "epochs":
            self.told.extend(told)
        elif kind == "failed":
            raise _rebuilt(*told)
        else:
            for member, ends in zip(self.members, told, strict=True):
                for name, value in zip(_ENDS, ends, strict=True):
                    setattr(member, name, value)
            _put(self.members, weights)
            self.over = True

    def _lost(self) -> UserError:
        how = "one that ended early"
        with suppress(ChildProcessError):
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            how = f"one that was ended by {signal.Signals(-code).name}" if code < 0 else how
        self.pid = 0
        return UserError(
            "worker processes must live until their members are trained",
            got=how,
            do="Memory may be short: pass threads=1 to train in one process",
        )


def _end(workers: list[_Worker]) -> None:
    """Nothing is left of them; those that are not over are ended."""
    for worker in workers:
        worker.line.close()
        if worker.pid:
            with suppress(ProcessLookupError, ChildProcessError):
                if not worker.over:
                    os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)
    workers.clear()


# ── in a worker ──


def _live(part: Together, line: Connection, other: Connection, seed: int) -> NoReturn:
    """All that a worker does. Nothing that waits for the end of the first process, such as `atexit`, happens here."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):  # meant for the first process, which says what to do
            signal.signal(number, signal.SIG_IGN)
        other.close()
        gc.freeze()  # to look through what was there before would copy it
        torch.set_num_threads(1)  # those of OpenMP did not come along
        torch.manual_seed(seed)  # for layers with noise of torch's own, which differs from worker to worker
        threading.Thread(target=_listen, args=(part, line), daemon=True).start()
        try:
            teller = _Teller(part, line)
            part.listeners = [teller]
            part.fit()
            teller.tell()
            _flush()  # while someone waits for this process
        except BaseException as error:
            error.add_note(f"\nIn a worker process:\n\n{traceback.format_exc()}")
            line.send(("failed", _sendable(error)))
        else:
            line.send(("over", [[getattr(member, name) for name in _ENDS] for member in part.members]))
            line.send_bytes(_bytes(part.members).numpy().data)
    finally:
        os._exit(0)


def _listen(part: Together, line: Connection) -> None:
    """A thread that waits for a word to stop; where the first process is gone, this one goes too."""
    try:
        while line.recv() == "stop":
            part.stop_asked = True
    finally:
        os._exit(1)


class _Teller:
    """Collects what epochs brought, and sends it a few times a second."""

    def __init__(self, part: Together, line: Connection):
        self.part, self.line, self.sent = part, line, time.monotonic()
        self.epochs: list[_Epoch] = []
        self.steps: list[tuple[int, np.ndarray]] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepsDone):
            self.steps.append((event.step, event.losses.double().numpy()))
        elif isinstance(event, EpochDone):
            histories = [member.history for member in self.part.members]
            records = [history[-1] if len(history) == event.epoch else None for history in histories]
            self.epochs.append(_Epoch(records, self.steps))
            self.steps = []
            if time.monotonic() - self.sent > _LOOK_SECONDS:
                self.tell()

    def tell(self) -> None:
        self.line.send(("epochs", self.epochs))
        self.epochs, self.sent = [], time.monotonic()


# ── what goes through the pipe ──


def _tensors(members: Sequence[Member]) -> list[Tensor]:
    """All that training may change."""
    found = []
    for member in members:
        own, saved = named(member.rule.objective), member.rule.objective.state_dict()
        found += [tensor.detach() for name, tensor in own.items() if name in saved]
    return found


def _raw(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def _bytes(members: Sequence[Member]) -> Tensor:
    return torch.cat([_raw(tensor) for tensor in _tensors(members)])


def _put(members: Sequence[Member], weights: bytes) -> None:
    """The other way round."""
    whole, at = torch.frombuffer(bytearray(weights), dtype=torch.uint8), 0
    for tensor in _tensors(members):
        new = torch.empty(tensor.shape, dtype=tensor.dtype)
        raw = _raw(new)
        raw.copy_(whole[at : at + len(raw)])
        at += len(raw)
        tensor.copy_(new)


def _sendable(error: BaseException) -> tuple[type[BaseException], tuple[Any, ...], dict[str, Any]]:
    """What `_rebuilt` makes the error from; one that does not survive the way is told in words."""
    more = {name: value for name, value in vars(error).items() if isinstance(value, (str, list))}
    with suppress(Exception):
        told = type(error), tuple(error.__reduce__()[1]), more  # an OSError keeps its file there alone
        plain = all(isinstance(part, (str, int, float, bytes, type(None))) for part in told[1])
        if plain and str(_rebuilt(*ForkingPickler.loads(ForkingPickler.dumps(told)))) == str(error):
            return told
    return RuntimeError, (f"{type(error).__name__}: {error}",), {"__notes__": more["__notes__"]}


def _rebuilt(kind: type[BaseException], args: tuple[Any, ...], more: dict[str, Any]) -> BaseException:
    """Without `__init__`, which may ask for other arguments than those that an error keeps."""
    error = kind.__new__(kind, *args)
    vars(error).update(more)
    return error


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # there may be none, or a closed one
            stream.flush()
