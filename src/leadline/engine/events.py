"""What the loop says. Events are frozen; listeners read them and cannot write back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class RunStarted:
    """Before the first step of this process; `step` is above 0 when a run continues."""

    epochs: int
    steps_per_epoch: int
    step: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepsDone:
    """After one call of the rule: one step, or several where they are compiled together.

    `losses` lie on the device: reading them waits for it, so a listener reads at most a few times a second.
    """

    epoch: int
    step: int
    losses: Tensor = field(repr=False)


@dataclass(frozen=True)
class EpochDone:
    """After the last step of an epoch and, where due, its validation. Metrics are sample-weighted means.

    On a GPU, epochs that are not validated are announced a little late: when their losses have reached the host.
    """

    epoch: int
    step: int
    lr: float
    metrics: dict[str, dict[str, float]]
    improved: bool
    losses: Tensor = field(repr=False)


@dataclass(frozen=True)
class RunEnded:
    """After the last epoch: `reason` is finished, stopped early, interrupted or diverged."""

    epoch: int
    step: int
    reason: str


Event = RunStarted | StepsDone | EpochDone | RunEnded
Listener = Callable[[Event], None]
