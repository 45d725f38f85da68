"""Update rules written out: from a list of weights and a gradient to the next list.

    averaged      m <- β m + (1-β) g,                         φ <- φ - η m                              (1)
    look-ahead    m <- β m + (1-β) g[φ - r m],                φ <- φ - η m     r = η (printed), η β     (2)
    sign          φ <- φ - η g / √(g² + ε)                                                              (3)
    adam          m, v <- averages of g, g²;                  φ <- φ - η m̃ / √(ṽ + ε)                   (4)
    yogi          v <- v - (1-γ) sign(v - g²) g²;             φ <- φ - η m̃ / (√ṽ + ε)                   (5)
    sam           φ <- φ - η b,   b <- β b + g[φ + ρ g / |g|]                                           (6)
    swats         Adam until its projected rate is settled, then SGD with that rate                     (7)
    entropy       x <- x - η (g[x] - γ (φ - x)),  μ <- (1-a) μ + a x;   φ <- φ - r (φ - μ)              (8)
    svrg          φ <- φ - η (g_B[φ] - g_B[φ̄] + ḡ)                                                      (9)

`g` is a function from weights to their gradient. A rule is a function (φ, memory) -> φ that changes the memory, a
dictionary that starts empty.

Notation   m̃ = m / (1 - βᵗ),  ṽ = v / (1 - γᵗ),  t counts from 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Vector = Sequence[float]
Slope = Callable[[Vector], Vector]
Memory = dict[str, Any]


def averaged(phi: Vector, g: Slope, memory: Memory, lr: float, beta: float) -> list[float]:
    """Eq. 1.

    >>> averaged([1.0], lambda phi: [2.0], {}, lr=0.5, beta=0.5)
    [0.5]
    """
    memory["m"] = _mixed(memory, "m", g(phi), beta)
    return [p - lr * m for p, m in zip(phi, memory["m"], strict=True)]


def look_ahead(phi: Vector, g: Slope, memory: Memory, lr: float, beta: float, printed: bool) -> list[float]:
    """Eq. 2.

    >>> memory = {"m": [1.0]}
    >>> look_ahead([1.0], lambda phi: list(phi), memory, lr=0.5, beta=0.5, printed=True)
    [0.625]
    """
    reach = lr if printed else lr * beta
    ahead = [p - reach * m for p, m in zip(phi, memory.get("m", [0.0] * len(phi)), strict=True)]
    memory["m"] = _mixed(memory, "m", g(ahead), beta)
    return [p - lr * m for p, m in zip(phi, memory["m"], strict=True)]


def sign(phi: Vector, g: Slope, memory: Memory, lr: float, eps: float) -> list[float]:
    """Eq. 3.

    >>> sign([1.0, 1.0, 1.0], lambda phi: [5.0, -0.1, 0.0], {}, lr=0.25, eps=1e-30)
    [0.75, 1.25, 1.0]
    """
    return [p - lr * d / math.sqrt(d * d + eps) for p, d in zip(phi, g(phi), strict=True)]


def adam(
    phi: Vector, g: Slope, memory: Memory, lr: float, beta: float, gamma: float, eps: float, corrected: bool = True
) -> list[float]:
    """Eq. 4.

    >>> [round(p, 6) for p in adam([1.0], lambda phi: [3.0], {}, lr=0.5, beta=0.9, gamma=0.999, eps=1e-8)]
    [0.5]
    """
    slope = g(phi)
    t = memory["t"] = memory.get("t", 0) + 1
    memory["m"] = _mixed(memory, "m", slope, beta)
    memory["v"] = _mixed(memory, "v", [d * d for d in slope], gamma)
    a, b = (1 - beta**t, 1 - gamma**t) if corrected else (1.0, 1.0)
    pairs = zip(phi, memory["m"], memory["v"], strict=True)
    return [p - lr * (m / a) / math.sqrt(v / b + eps) for p, m, v in pairs]


def adam_by_example(
    phi: Vector, gs: Sequence[Slope], memory: Memory, lr: float, beta: float, gamma: float, eps: float
) -> list[float]:
    """Eq. 4 with v from Σ g_i² and m from Σ g_i, `gs` the gradients of single examples.

    >>> twice = adam_by_example([1.0], [lambda phi: [3.0]] * 4, {}, lr=0.5, beta=0.9, gamma=0.999, eps=1e-12)
    >>> [round(p, 6) for p in twice]  # four that agree: √4 times as far as Adam
    [0.0]
    """
    slopes = [g(phi) for g in gs]
    t = memory["t"] = memory.get("t", 0) + 1
    memory["m"] = _mixed(memory, "m", [sum(column) for column in zip(*slopes, strict=True)], beta)
    memory["v"] = _mixed(memory, "v", [sum(d * d for d in column) for column in zip(*slopes, strict=True)], gamma)
    pairs = zip(phi, memory["m"], memory["v"], strict=True)
    return [p - lr * (m / (1 - beta**t)) / math.sqrt(v / (1 - gamma**t) + eps) for p, m, v in pairs]


def yogi(phi: Vector, g: Slope, memory: Memory, lr: float, beta: float, gamma: float, eps: float) -> list[float]:
    """Eq. 5.

    >>> [round(p, 4) for p in yogi([1.0], lambda phi: [1.0], {}, lr=0.5, beta=0.9, gamma=0.999, eps=1e-3)]
    [0.5005]
    """
    slope = g(phi)
    t = memory["t"] = memory.get("t", 0) + 1
    memory["m"] = _mixed(memory, "m", slope, beta)
    before = memory.get("v", [0.0] * len(phi))
    memory["v"] = [v - (1 - gamma) * _sign(v - d * d) * d * d for v, d in zip(before, slope, strict=True)]
    pairs = zip(phi, memory["m"], memory["v"], strict=True)
    return [p - lr * (m / (1 - beta**t)) / (math.sqrt(v / (1 - gamma**t)) + eps) for p, m, v in pairs]


def sharpness_aware(phi: Vector, g: Slope, memory: Memory, lr: float, beta: float, rho: float) -> list[float]:
    """Eq. 6.

    >>> [round(p, 6) for p in sharpness_aware([1.0], lambda phi: list(phi), {}, lr=0.5, beta=0.0, rho=0.2)]
    [0.4]
    """
    slope = g(phi)
    norm = math.sqrt(sum(d * d for d in slope))
    worse = g([p + rho * d / norm for p, d in zip(phi, slope, strict=True)])
    memory["b"] = [beta * b + d for b, d in zip(memory.get("b", [0.0] * len(phi)), worse, strict=True)]
    return [p - lr * b for p, b in zip(phi, memory["b"], strict=True)]


def swats(
    phi: Vector, g: Slope, memory: Memory, lr: float, beta: float, gamma: float, eps: float, tolerance: float
) -> list[float]:
    """Eq. 7; once it has switched, memory["rate"] is SGD's.

    >>> memory = {}
    >>> [round(p, 6) for p in swats([1.0], lambda phi: [3.0], memory, 0.5, 0.9, 0.999, 1e-8, 1e-4)], "rate" in memory
    ([0.5], False)
    """
    slope = g(phi)
    t = memory["t"] = memory.get("t", 0) + 1
    if "rate" in memory:
        memory["b"] = [beta * b + d for b, d in zip(memory.get("b", [0.0] * len(phi)), slope, strict=True)]
        return [p - (1 - beta) * memory["rate"] * b for p, b in zip(phi, memory["b"], strict=True)]
    memory["m"] = _mixed(memory, "m", slope, beta)
    memory["v"] = _mixed(memory, "v", [d * d for d in slope], gamma)
    pairs = zip(memory["m"], memory["v"], strict=True)
    move = [-lr * (m / (1 - beta**t)) / (math.sqrt(v / (1 - gamma**t)) + eps) for m, v in pairs]
    along = -sum(a * b for a, b in zip(move, slope, strict=True))
    if along != 0:
        projected = sum(a * a for a in move) / along
        memory["average"] = gamma * memory.get("average", 0.0) + (1 - gamma) * projected
        estimate = memory["average"] / (1 - gamma**t)
        if t > 1 and estimate > 0 and abs(estimate - projected) < tolerance * estimate:
            memory["rate"] = estimate
    return [p + a for p, a in zip(phi, move, strict=True)]


def entropy(
    phi: Vector, g: Slope, memory: Memory, lr: float, inner: int, gamma: float, share: float, outer: float
) -> list[float]:
    """Eq. 8, without the walk's noise.

    >>> entropy([1.0], lambda phi: list(phi), {}, lr=0.5, inner=1, gamma=0.0, share=0.5, outer=1.0)
    [0.75]
    """
    x, mean = list(phi), list(phi)
    for _ in range(inner):
        x = [a - lr * (d - gamma * (p - a)) for a, d, p in zip(x, g(x), phi, strict=True)]
        mean = [(1 - share) * m + share * a for m, a in zip(mean, x, strict=True)]
    return [p - outer * (p - m) for p, m in zip(phi, mean, strict=True)]


def svrg(phi: Vector, g: Slope, anchor: Vector, mean: Vector, lr: float) -> list[float]:
    """Eq. 9, `g` of one batch and `mean` that of all rows at the anchor.

    >>> svrg([2.0], lambda phi: [10 * phi[0]], anchor=[1.0], mean=[6.0], lr=0.125)
    [0.0]
    """
    return [p - lr * (a - b + c) for p, a, b, c in zip(phi, g(phi), g(anchor), mean, strict=True)]


def _mixed(memory: Memory, name: str, new: Vector, keep: float) -> list[float]:
    before = memory.get(name, [0.0] * len(new))
    return [keep * a + (1 - keep) * b for a, b in zip(before, new, strict=True)]


def _sign(value: float) -> float:
    return float((value > 0) - (value < 0))
