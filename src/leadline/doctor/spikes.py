"""Jumps of the training loss, told from the noise of mini-batches.

    jump at t  :  min(L_t, L_{t+1}) - m  >  max(2 (M - m), |m|, 8 · 1.4826 · MAD, 0.1)        (1)
    back at u  :  L_u, L_{u-1}, L_{u-2} <= M                                                 (2)

Notation   m, M, MAD -> median, maximum and median absolute deviation of the 64 losses before t
Why        two steps in a row, because one batch may be odd (outliers, a last batch of two rows);
           twice as far from the median as anything lately, because losses of small batches have long tails;
           |m|: the loss at least doubles; 8 robust deviations: out of reach of a bell curve; 0.1 nat: less harms nobody
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leadline.data.account import counted
from leadline.doctor.finding import Finding

WINDOW, LEAST = 64, 16  # losses that a jump is measured against; with fewer than 16 nothing is said
PATIENCE = 200  # steps within which a spike comes back: beyond, the run has moved somewhere else


class Spikes:
    """Takes the losses of an epoch's steps and gives findings; `state` is plain, so that a resumed run goes on.

    >>> spikes = Spikes()
    >>> losses = [1.0, 1.1, 0.9] * 10 + [9.0, 8.0, 3.0] + [1.0, 1.1, 0.9] * 10
    >>> [finding.where for finding in spikes.feed(losses, last_step=63)]
    ['step 31']
    """

    def __init__(self):
        self.recent: list[float] = []  # up to WINDOW + 1 losses; the last has not been judged yet
        self.open: dict[str, float] | None = None

    def feed(self, losses: list[float], last_step: int) -> list[Finding]:
        """`losses` end with the one of step `last_step`."""
        line = np.array(self.recent + losses)
        if not losses or not np.isfinite(line).all():
            return []
        first = last_step - len(line) + 1  # step of line[0]
        if self.open is None and line.min() > 0 and line.max() <= 2 * line.min():  # nothing can have doubled: eq. 1
            self.recent = line[-(WINDOW + 1) :].tolist()
            return []
        findings, begin = [], max(len(self.recent) - 1, 0)
        t = begin
        while t < len(line) - 1:
            if self.open is not None:
                t, found = self._follow(self.open, line, t, first)
                findings += found
                continue
            t = self._next_jump(line, t)
            if t < len(line) - 1:
                past = line[max(0, t - WINDOW) : t]
                level, top = float(np.median(past)), float(past.max())
                self.open = {"step": first + t, "level": level, "back": top, "peak": level, "calm": 0}
        self.recent = line[-(WINDOW + 1) :].tolist()
        return findings

    def _next_jump(self, line: np.ndarray, t: int) -> int:
        """Position of the first jump at or after t, or the end."""
        t = max(t, LEAST)
        low = np.minimum(line[t:-1], line[t + 1 :])
        higher = low > line[t - 1 : -2]
        for back in (2, 3, 4):  # cheap first: a jump is above all losses before it
            higher &= low > line[t - back : -1 - back]
        for p in (np.flatnonzero(higher) + t).tolist():
            past = line[max(0, p - WINDOW) : p]
            height, top = low[p - t], past.max()
            if height <= top:
                continue
            m = np.median(past)
            mad = np.median(np.abs(past - m))
            if height - m > max(2 * (top - m), abs(m), 8 * 1.4826 * mad, 0.1):  # eq. 1
                return p
        return len(line) - 1

    def _follow(self, spike: dict[str, float], line: np.ndarray, t: int, first: int) -> tuple[int, list[Finding]]:
        for u in range(t, len(line) - 1):  # the last loss waits for the next call, so that none counts twice
            spike["peak"] = max(spike["peak"], float(line[u]))
            lasted = first + u - int(spike["step"])
            spike["calm"] = spike["calm"] + 1 if line[u] <= spike["back"] else 0
            if spike["calm"] == 3:  # eq. 2
                self.open = None
                return u, [_finding(spike, lasted - 2, returned=True)]
            if lasted >= PATIENCE:
                self.open = None
                return u, [_finding(spike, lasted, returned=False)]
        return len(line) - 1, []

    def end(self) -> list[Finding]:
        """What is still open when the run ends did not come back."""
        if not self.open:
            return []
        spike, self.open = self.open, None
        return [_finding(spike, None, returned=False)]

    def state(self) -> dict[str, Any]:
        return {"recent": list(self.recent), "open": self.open and dict(self.open)}

    def load_state(self, state: dict[str, Any]) -> None:
        self.recent, self.open = list(state["recent"]), state["open"] and dict(state["open"])


def _finding(spike: dict[str, float], lasted: int | None, *, returned: bool) -> Finding:
    where = f"step {int(spike['step'])}"
    jump = f"from {spike['level']:.3g} to {spike['peak']:.3g}"
    if returned:
        found = f"{jump}, back after {counted(lasted or 0, 'step')}"
        do = "Clip the gradient (clip=1.0), lower the learning rate or lengthen the warm-up"
        return Finding("loss-spike", "warning", "the loss jumped up and came back", where, found, do)
    found = f"{jump}, not back " + (f"after {counted(lasted, 'step')}" if lasted else "when the run ended")
    do = "Go back to a checkpoint before this step with a lower learning rate, and clip the gradient (clip=1.0)"
    return Finding("loss-jump", "warning", "the loss jumped up and stayed there", where, found, do)
