"""Clocks that wait until the device is done: of a call, of steps of a plain loop, of the epochs of a fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from leadline.engine.events import EpochDone


def now() -> float:
    """The time at which all that was asked of a GPU is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def seconds(run: Callable[[], object]) -> float:
    """Of one call."""
    start = now()
    run()
    return now() - start


def plain_rate(
    net: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor], rows: int, steps: int
) -> float:
    """Rows a second of a plain loop in bf16: the best of three times `steps` steps, after a fifth of them to warm up.

    Args:
        net: whose device the loop runs on.
        loss: of one batch, which lies there.
        rows: of that batch.
    """
    device = next(net.parameters()).device.type

    def run(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16):
                found = loss()
            found.backward()
            optimizer.step()

    run(max(2, steps // 5))
    return steps * rows / min(seconds(lambda: run(steps)) for _ in range(3))


class Epochs:
    """Listens to a fit, from when it is made: when each epoch ended, and with what metrics."""

    def __init__(self) -> None:
        self.start, self.ends, self.metrics = now(), [], []  # type: float, list[float], list[dict[str, Any]]

    def __call__(self, event: Any) -> None:
        if isinstance(event, EpochDone):
            self.ends.append(now())
            self.metrics.append(dict(event.metrics))

    def rate(self, rows: int) -> float:
        """Of epochs of so many rows, from the end of the second on: first steps, in which code is compiled, are out."""
        return (len(self.ends) - 2) * rows / (self.ends[-1] - self.ends[1])

    def marks(self) -> list[tuple[float, float]]:
        """Seconds, and the part of the validation rows that is right, by epoch."""
        return [(end - self.start, m["val"]["accuracy"]) for end, m in zip(self.ends, self.metrics, strict=True)]


def to_goal(marks: list[tuple[float, float]], goal: float) -> dict[str, Any]:
    """What `Epochs.marks` say of a share that was to be reached."""
    reached = [spent for spent, share in marks if share >= goal]
    return {
        "seconds_to_goal": reached[0] if reached else None,
        "seconds": marks[-1][0],
        "accuracy": marks[-1][1],
        "by_epoch": [(round(spent, 2), round(share, 4)) for spent, share in marks],
    }
