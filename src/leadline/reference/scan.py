"""A linear recurrence one number at a time, its derivatives by hand, and the order in which a scan joins steps.

    h_t  = a_t h_{t-1} + b_t                                                                     (1)
    s_t  = g_t + ā_{t+1} s_{t+1},   ∂b_t = s_t,   ∂a_t = s_t h̄_{t-1},   ∂h_0 = ā_1 s_1           (2)
    (a, h) then (b, k) = (b a, b h + k)              two stretches of steps as one, associative     (3)
    levels = ⌈log₂ T⌉                                each joins a stretch with that 2ˡ steps before  (4)

Notation   one channel; numbers are real or complex
"""

from __future__ import annotations

from collections.abc import Sequence

Numbers = Sequence[complex]
Stretch = tuple[complex, complex]


def by_steps(a: Numbers, b: Numbers, first: complex = 0.0) -> list[complex]:
    """Eq. 1.

    >>> by_steps([0.5, 0.5], [1.0, 1.0], 8.0)
    [5.0, 3.5]
    """
    h, out = first, []
    for a_t, b_t in zip(a, b, strict=True):
        h = a_t * h + b_t
        out.append(h)
    return out


def backward(a: Numbers, b: Numbers, first: complex, g: Numbers) -> tuple[list[complex], list[complex], complex]:
    """Eq. 2: ∂a, ∂b and ∂h_0; `g` is what comes from above at each step.

    >>> backward([0.5, 0.25], [1.0, 1.0], 8.0, [0.0, 1.0])
    ([2.0, 5.0], [0.25, 1.0], 0.125)
    """
    before = [first, *by_steps(a, b, first)[:-1]]
    d_a: list[complex] = [0.0] * len(a)
    d_b: list[complex] = [0.0] * len(a)
    later: complex = 0.0
    for t in reversed(range(len(a))):
        s = g[t] + later
        d_a[t], d_b[t] = s * before[t].conjugate(), s
        later = a[t].conjugate() * s
    return d_a, d_b, later


def joined(one: Stretch, other: Stretch) -> Stretch:
    """Eq. 3.

    >>> joined((0.5, 1.0), (0.25, 3.0))
    (0.125, 3.25)
    """
    (a, h), (b, k) = one, other
    return b * a, b * h + k


def by_levels(a: Numbers, b: Numbers, first: complex = 0.0) -> tuple[list[complex], int]:
    """Eq. 1 by eq. 3, all steps of a level at once (Hillis and Steele, 1986); and the number of levels of eq. 4.

    >>> by_levels([0.5] * 4, [1.0] * 4)
    ([1.0, 1.5, 1.75, 1.875], 2)
    """
    stretches: list[Stretch] = list(zip(a, b, strict=True))
    reach, levels = 1, 0
    while reach < len(stretches):
        stretches = [joined(stretches[t - reach], now) if t >= reach else now for t, now in enumerate(stretches)]
        reach, levels = 2 * reach, levels + 1
    return [A * first + E for A, E in stretches], levels
