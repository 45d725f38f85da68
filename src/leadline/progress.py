"""What a run looks like while it runs: a live line in a terminal, a plain log elsewhere; ten looks a second at most."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from leadline.data.account import counted
from leadline.engine.events import EpochDone, Event, Listener, RunEnded, RunStarted, StepsDone
from leadline.errors import UnknownName
from leadline.names import suggest

_LIVE_SECONDS, _LOG_SECONDS = 0.1, 5.0
_LONG_SECONDS = 30.0  # without the end of an epoch: a log then tells of steps


#: how a run may be shown; "running" is auto without a last word, for a caller that tells how the run ended
STYLES = ("auto", "live", "log", "off", "running")


def progress(style: str | bool, headline: str, stream: TextIO | None = None) -> Listener | None:
    """The listener for `style`, one of `STYLES` (True is auto, False is off)."""
    stream = stream or sys.stderr
    if isinstance(style, bool):
        style = "auto" if style else "off"
    if style not in STYLES:
        raise UnknownName("progress must be a known word", got=f"progress={style!r}", do=suggest(str(style), STYLES))
    if style == "off":
        return None
    last_word = style != "running"
    if style == "live" or (style != "log" and stream.isatty()):
        try:
            return Live(headline, stream, last_word)
        except ImportError:  # rich is not there: a log says the same
            pass
    return Log(headline, stream, last_word)


class _Clock:
    """Speed and time left, from the steps of this process."""

    def __init__(self, event: RunStarted):
        self.began, self.first = time.monotonic(), event.step
        self.total = event.epochs * event.steps_per_epoch

    def speed(self, step: int) -> float:
        return (step - self.first) / max(time.monotonic() - self.began, 1e-9)

    def left(self, step: int) -> str:
        speed = self.speed(step)
        return duration((self.total - step) / speed) if speed > 0 else "?"


class Log:
    """A line every few seconds, for pipes and files, and one on how the run ended unless `last_word` is False."""

    def __init__(self, headline: str, stream: TextIO, last_word: bool = True):
        self.headline, self.stream, self.last_word = headline, stream, last_word
        self.said = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.clock, self.epochs = _Clock(event), event.epochs
            self.said = time.monotonic()
        elif isinstance(event, EpochDone) and time.monotonic() - self.said > _LOG_SECONDS:
            self._tell(f"epoch {event.epoch}/{self.epochs}  {figures(event, self.headline)}", event.step)
        elif isinstance(event, StepsDone) and time.monotonic() - self.said > _LONG_SECONDS:
            step = f"step {event.step:,}/{self.clock.total:,}"
            self._tell(f"epoch {event.epoch + 1}/{self.epochs}  {step}  loss {float(event.losses[-1]):.4f}", event.step)
        elif isinstance(event, RunEnded) and self.last_word:
            seconds = time.monotonic() - self.clock.began
            done = f"{counted(event.epoch, 'epoch')}, {counted(event.step, 'step')}"
            self._write(f"{event.reason} after {done}, {duration(seconds)}")

    def _tell(self, what: str, step: int) -> None:
        self.said = time.monotonic()
        self._write(f"{what}  {pace(self.clock.speed(step))}  {self.clock.left(step)} left")

    def _write(self, line: str) -> None:
        print(line, file=self.stream, flush=True)


class Live:
    """One line that is drawn anew: bar, epoch, loss, metric, speed, time left."""

    def __init__(self, headline: str, stream: TextIO, last_word: bool = True):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.headline, self.last_word = headline, last_word
        self.bar = Progress(
            TextColumn("{task.fields[epoch]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            TextColumn("[dim]{task.fields[speed]}"),
            console=Console(file=stream),
            auto_refresh=False,
        )
        self.looked = 0.0
        self.figures = ""

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.clock, self.epochs = _Clock(event), event.epochs
            self.bar.start()
            self.task = self.bar.add_task("", total=self.clock.total, epoch="epoch 0", figures="", speed="")
        elif isinstance(event, StepsDone):
            if time.monotonic() - self.looked > _LIVE_SECONDS:
                self._draw(event.step, event.epoch, self.figures or f"loss {float(event.losses[-1]):.4f}")
        elif isinstance(event, EpochDone):
            self.figures = figures(event, self.headline)
        elif isinstance(event, RunEnded):
            self._draw(event.step, event.epoch, f"{self.figures}  {event.reason}" if self.last_word else self.figures)
            self.bar.stop()

    def _draw(self, step: int, epoch: int, figures: str) -> None:
        self.looked = time.monotonic()
        self.bar.update(
            self.task,
            completed=step,
            epoch=f"epoch {min(epoch + 1, self.epochs)}/{self.epochs}",
            figures=figures,
            speed=f"{pace(self.clock.speed(step))}  {self.clock.left(step)} left",
            refresh=True,
        )


def pace(speed: float) -> str:
    """Steps a second; long ones with a digit that tells them from nothing.

    >>> pace(1234.5), pace(0.321)
    ('1,234 steps/s', '0.32 steps/s')
    """
    return f"{speed:,.0f} steps/s" if speed >= 10 else f"{speed:.2g} steps/s"


def figures(event: EpochDone, headline: str) -> str:
    """The epoch's loss and, where it was validated, the headline metric."""
    spread = event.metrics.get("spread", {})  # over the members of a population
    within = lambda name: f" ± {spread[name]:.4f}" if name in spread else ""  # noqa: E731
    text = f"loss {event.metrics['train']['loss']:.4f}{within('loss')}"
    if "val" in event.metrics:
        text += f"  val {headline} {event.metrics['val'][headline]:.4f}{within(headline)}"
    return text


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(5), duration(75), duration(7500)
    ('5 s', '1 min 15 s', '2 h 5 min')
    """
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
