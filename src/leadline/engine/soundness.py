"""Is what goes through a model sound? One word for what is wrong with its first weights, and where.

Judged are the extremes that no learning rate mends, so that a healthy model is never accused. A model that already
answers much better than outputs of 0 has been trained: its weights are not first weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from leadline.engine.sounding import Level, Sounding

# Single precision has seven digits. Rows that differ by less of what a layer hands on are one row to the next; and of
# a few dozen networks of 3 to 50 layers all that learned had more of the gradient left than that, and none of the
# others that had less did.
FAR = 1e7
# In deep ReLU networks rows grow alike, and half of the units are then silent by the draw alone: at three quarters, and
# four deviations of a draw beyond a half, more than the draw is at fault. A layer that is all silent is named at once.
DEAD = 0.75
# Half of all activations on the flat ends: as far as learning goes, half of the layer is switched off.
SATURATED = 0.5
# Outputs thirty times as large as what the network reads: as logits they are sure beyond e^-30, as values thirty
# deviations away. He's weights give √2, torch's own less.
WILD = 30.0
# … and it is a fault where it costs: so many nats a row more than outputs of 0.
COSTS = 3.0
# Rows on which a model is better than outputs of 0 by so many nats: it has been trained.
TRAINED = 0.3
# Rows of the probe that hardly differ cannot be told apart by any model.
VARIED = 1e-3


@dataclass(frozen=True)
class Fault:
    """Args:
    kind: "dead", "saturated", "vanishing", "lost", "exploding", "wild" or "alike".
    where: path of the layer; `evidence` the numbers, in words.
    """

    kind: str
    where: str
    evidence: str


def faults(seen: Sounding) -> list[Fault]:
    """What is wrong, the cause first; none of a sound model.

    >>> level = lambda path, gradient: Level(path, path, "linear", 9, 1.0, 0.0, 1.0, gradient)
    >>> steep = Sounding([level("first", 1e-20), level("last", 1.0)], 1.0, 1.0, (1.0, 1.0), True)
    >>> faults(steep)[0].kind
    'vanishing'
    """
    levels = seen.levels
    if not levels or seen.empty - seen.loss > TRAINED:
        return []
    alike = [level for level in levels if level.alike]
    if alike:
        text = f"all {alike[0].fans[0]} units that it reads give the same value for every row, and so do its weights"
        return [Fault("alike", alike[0].path, f"{text} for them")]
    found = [*_dead(levels), *_saturated(levels)]
    if any(fault.kind == "dead" for fault in found):
        return found
    through = _through(seen)
    if through is not None:
        return [*found, through]
    return found or list(_wild(seen))


def _dead(levels: list[Level]) -> Iterator[Fault]:
    for level in levels:
        if level.dead == 1 or level.dead > max(DEAD, 0.5 + 2 / math.sqrt(max(level.width, 1))):
            count = f"{round(level.dead * level.width)} of its {level.width} units"
            yield Fault("dead", level.path, f"{count} are silent for every row")


def _saturated(levels: list[Level]) -> Iterator[Fault]:
    for level in levels:
        if level.saturated > SATURATED:
            share = f"{100 * level.saturated:.0f} %"
            yield Fault("saturated", level.path, f"{share} of its activations have a slope below 1 % of the steepest")


def _through(seen: Sounding) -> Fault | None:
    """What becomes of the signal on its way down, and of the gradient on its way back."""
    levels = [level for level in seen.levels if level.gradient > 0]  # not nan, not 0: see below
    if len(levels) > 1:
        # an exact 0 is a path that is cut, by a head of zeros or a step function, and no sign of decay
        first, last = levels[0], levels[-1]
        ratio = math.sqrt(first.gradient / last.gradient)
        words = f"its gradient is {ratio:.1g} times that of {last.path}, value for value"
        if ratio > FAR:
            return Fault("exploding", first.path, words)
        if ratio < 1 / FAR and not seen.blank:
            return Fault("vanishing", first.path, words)
    size, spread = seen.read
    varied = seen.told > VARIED * seen.input
    if varied and len(seen.levels) > 1 and not seen.blank and spread < size / FAR**2:
        part = math.sqrt(spread / size) if size else 0.0
        last = seen.levels[-1]
        return Fault("lost", last.path, f"what it reads differs from row to row by {part:.1g} of its size")
    return None


def _wild(seen: Sounding) -> Iterator[Fault]:
    last = seen.levels[-1]
    size, reads = math.sqrt(last.moment), math.sqrt(max(seen.input, 1.0))
    if size > WILD * reads and seen.loss - seen.empty > COSTS:
        words = f"outputs of size {size:.3g} from inputs of size {math.sqrt(seen.input):.2g}"
        yield Fault("wild", last.path, f"{words}, a loss of {seen.loss:.3g} where outputs of 0 have {seen.empty:.3g}")
