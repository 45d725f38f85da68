"""Ctrl-C and SIGTERM: the first asks the loop to end between two steps, the second ends the process at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Protocol


class Stoppable(Protocol):
    """What ends at its next good moment once it is asked to."""

    stop_asked: bool


class Interrupts:
    """Inside this context, a first signal makes `loop` stop cleanly. Outside the main thread it does nothing."""

    def __init__(self, loop: Stoppable):
        self.loop = loop

    def __enter__(self) -> None:
        self.before = {}
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self._heard) for number in (signal.SIGINT, signal.SIGTERM)}

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.loop.stop_asked = True
        for known in self.before:
            signal.signal(known, signal.SIG_DFL)
        if signal.SIGINT in self.before:
            signal.signal(signal.SIGINT, signal.default_int_handler)
