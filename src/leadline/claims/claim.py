"""A claim of the literature as an experiment: what is said, what was measured, and whether it holds.

    holds   ⇔   low ≤ measured ≤ high      for every check                (1)

A claim has two settings: quick takes seconds and runs in the tests, full is for figures. Its verdict may be that it
does not hold; the verdict on record is that of the last look, and a run that differs from it is news.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from leadline.lens.view import View

HOLDS, FAILS = "holds", "does not hold"


@dataclass(frozen=True)
class Check:
    """One number and the band that it must lie in.

    Args:
        what: the number, in words.
        low, high: the band, ends included.

    >>> Check("linear regions", 9, low=9, high=9).holds, Check("error", float("nan"), high=1.0).holds
    (True, False)
    """

    what: str
    measured: float
    low: float = -math.inf
    high: float = math.inf

    @property
    def holds(self) -> bool:
        return bool(self.low <= self.measured <= self.high)  # eq. 1; false for nan

    @property
    def expected(self) -> str:
        """The band as people write it."""
        if self.low == self.high:
            return _figure(self.low)
        if math.isinf(self.low):
            return f"at most {_figure(self.high)}"
        if math.isinf(self.high):
            return f"at least {_figure(self.low)}"
        return f"{_figure(self.low)} to {_figure(self.high)}"

    def to_dict(self) -> dict[str, Any]:
        return {"what": self.what, "expected": self.expected, "measured": float(self.measured), "holds": self.holds}


@dataclass(frozen=True)
class Evidence:
    """What an experiment brings back: its checks, and a view of its numbers."""

    checks: tuple[Check, ...]
    view: View


@dataclass(frozen=True)
class Claim:
    """Args:
    name: what it is called on the command line.
    statement: what is claimed, in one sentence.
    source: who says so, and where.
    experiment: a function of `full` that measures it.
    on_record: the verdict when it was last looked at.
    misprint: what a source prints wrongly here, where one does.
    """

    name: str
    statement: str
    source: str
    experiment: Callable[[bool], Evidence]
    on_record: str = HOLDS
    misprint: str = ""

    def run(self, full: bool = False) -> Outcome:
        """On one thread: small products on a busy machine are several times as slow on two."""
        start, threads = time.perf_counter(), torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            evidence = self.experiment(full)
        finally:
            torch.set_num_threads(threads)
        return Outcome(self, evidence, full, time.perf_counter() - start)


@dataclass(frozen=True)
class Outcome:
    """A claim that was run."""

    claim: Claim
    evidence: Evidence
    full: bool
    seconds: float

    @property
    def verdict(self) -> str:
        return HOLDS if all(check.holds for check in self.evidence.checks) else FAILS

    @property
    def news(self) -> bool:
        """Whether the verdict differs from the one on record."""
        return self.verdict != self.claim.on_record

    def to_dict(self) -> dict[str, Any]:
        return {
            "claim": self.claim.name,
            "statement": self.claim.statement,
            "source": self.claim.source,
            "setting": "full" if self.full else "quick",
            "checks": [check.to_dict() for check in self.evidence.checks],
            "verdict": self.verdict,
            "on_record": self.claim.on_record,
            "seconds": self.seconds,
        }


CLAIMS: dict[str, Claim] = {}


def claim(
    name: str, statement: str, source: str, on_record: str = HOLDS, misprint: str = ""
) -> Callable[[Callable[[bool], Evidence]], Callable[[bool], Evidence]]:
    """Enter the decorated experiment in the ledger."""

    def enter(experiment: Callable[[bool], Evidence]) -> Callable[[bool], Evidence]:
        if name in CLAIMS:
            raise ValueError(f"two claims are called {name}")
        CLAIMS[name] = Claim(name, statement, source, experiment, on_record, misprint)
        return experiment

    return enter


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.5g}"
