"""Learning-rate schedules: the factor on the highest rate, as a pure function of how much of the run is done.

    warm-up    t / w                            while t < w                    (1)
    constant   1                                                               (2)
    cosine     ½ (1 + cos π u)                  u = (t - w) / (1 - w)          (3)
    linear     1 - u                                                           (4)
    step       1/10 for every third of u; step(E, f): f for every E epochs     (5)
    restarts   restarts(n, g): n cosines, each g times as long as the last     (6)
    cyclic     cyclic(n, l): down to l and up again, n valleys, ends in one    (7)
    inverse    inverse(s, p): (1 + k / s)^-p after k steps                     (8)
    one_cycle  one_cycle(r): 1/25 up to 1 in r of the run, then to 1/250000    (9)

Numbers in brackets may be left out: step alone is the rule of thirds, the others are restarts(4, 1), cyclic(4, 0.1),
inverse(100, 1) and one_cycle(0.3). With p in (½, 1] eq. 8 meets the conditions of Robbins and Monro, Σ η = ∞ and
Σ η² < ∞, under which noisy gradients of a convex loss end at its minimum, however long that takes; at p = ½ the second
sum just diverges. Eq. 9 is its own warm-up, so the settings' is not added.

Notation   t -> done, the part of the run behind us, in [0, 1);  w -> warmup;  steps of eq. 5 and 8 count from the
           end of warm-up
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from leadline.errors import UserError
from leadline.names import bracketed, lookup
from leadline.settings import numbered

_LEAST, _END = 1 / 25, 1 / 250_000  # of eq. 9


@dataclass(frozen=True)
class _Run:
    """How many steps it has after warm-up, and how many an epoch, where they are known."""

    span: float
    per_epoch: int | None


def _step(k: float, run: _Run, epochs: float | None = None, factor: float = 0.1) -> float:
    if epochs is None:
        return 0.1 ** math.floor(3 * (k / run.span))
    if run.per_epoch is None:
        raise UserError(
            "step with numbers counts epochs, and must be told their steps",
            got="per_epoch=None",
            do="Pass per_epoch to leadline.optim.schedules.schedule",
        )
    return factor ** math.floor(k / (epochs * run.per_epoch))


def _restarts(k: float, run: _Run, cycles: float, growth: float) -> float:
    lengths = [growth**n for n in range(int(cycles))]
    at = k / run.span * sum(lengths)
    for length in lengths[:-1]:
        if at < length:
            return _cosine(at / length)
        at -= length
    return _cosine(at / lengths[-1])


def _cyclic(k: float, run: _Run, valleys: float, lowest: float) -> float:
    return lowest + (1 - lowest) * abs(1 - 2 * (((valleys - 0.5) * k / run.span) % 1.0))


def _one_cycle(k: float, run: _Run, rise: float) -> float:
    top, last = rise * run.span - 1, run.span - 1  # its top and its end are steps, as in torch's OneCycleLR
    if k <= top:
        return _LEAST + (1 - _LEAST) * _cosine(1 - (k / top if top > 0 else 1.0))
    return _END + (1 - _END) * _cosine((k - top) / (last - top) if last > top else 1.0)


def _cosine(u: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * u))


#: name -> factor of (steps since warm-up, run, numbers in brackets)
SCHEDULES: dict[str, Callable[..., float]] = {
    "constant": lambda k, run: 1.0,
    "cosine": lambda k, run: _cosine(k / run.span),
    "linear": lambda k, run: 1 - k / run.span,
    "step": _step,
    "restarts": _restarts,
    "cyclic": _cyclic,
    "inverse": lambda k, run, steps, power: (1 + k / steps) ** -power,
    "one_cycle": _one_cycle,
}
#: those that rise by themselves
OWN_WARMUP = ("one_cycle",)


def schedule(name: str, warmup: float, total: int, per_epoch: int | None = None) -> Callable[[int], float]:
    """The factor for each step of a run of `total` steps.

    Args:
        per_epoch: steps an epoch, for schedules that count epochs.

    >>> factor = schedule("linear", warmup=0.0, total=4)
    >>> [factor(step) for step in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    >>> factor = schedule("step(2, 0.5)", warmup=0.0, total=12, per_epoch=2)
    >>> [factor(step) for step in (0, 3, 4, 8)]
    [1.0, 1.0, 0.5, 0.25]
    """
    shape = lookup(bracketed(name, "schedule")[0], SCHEDULES, "schedule")
    word, numbers = numbered("schedule", name.lower())
    rising = 0.0 if word in OWN_WARMUP else warmup * total
    run = _Run(total - rising, per_epoch)
    shape(0, run, *numbers)  # what cannot be computed shows before the run

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / (rising + 1)  # eq. 1; the first step already moves
        return shape(step - rising, run, *numbers)

    return factor
