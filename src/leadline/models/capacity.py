"""How much a Hopfield network holds.

    C_ti    = (1/n) Σ_{r≠t} ξ_ri Σ_{j≠i} ξ_rj ξ_tj           (1)   cross-talk, about normal with variance s/n
    stays   where ξ_ti C_ti >= -(n - 1)/n                    (2)   a stored bit is stable
    flips   = ½ (1 - erf(√(n / 2s)))                         (3)   share of bits that one step loses
    all     s <= n / (2 log₂ n)                              (4)   so few are recalled without an error, roughly

Near s/n = 0.138 the few flips of (3) set off others, and memory breaks down as a whole (Amit et al., 1985).

Notation   s -> patterns stored;  n -> units;  load -> s/n
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from leadline.errors import UserError
from leadline.layers.signs import check_signs, signs
from leadline.models.hopfield import Hopfield
from leadline.settings import real, whole

#: s/n at which Hebb's memory breaks down
CRITICAL_LOAD = 0.138


@dataclass(frozen=True)
class Load:
    """One load of a network, measured.

    Args:
        load, patterns: s/n and s.
        flips: share of stored bits that one synchronous step flips.
        predicted: eq. 3.
        overlap: mean overlap of a stored pattern with where it comes to rest.
        recalled: share of patterns that stay without an error.
    """

    load: float
    patterns: int
    flips: float
    predicted: float
    overlap: float
    recalled: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def crosstalk(patterns: Tensor) -> Tensor:
    """Eq. 1 for every stored bit, (s, n).

    >>> crosstalk(torch.ones(1, 5)).tolist()
    [[0.0, 0.0, 0.0, 0.0, 0.0]]
    """
    x = check_signs("crosstalk", patterns, torch.as_tensor(patterns).shape[-1]).double()
    s, n = x.shape
    return (x @ x.T @ x - (s + n - 1) * x) / n  # less j = i of every memory, and less the memory itself


def flip_probability(load: float) -> float:
    """Eq. 3.

    >>> round(flip_probability(0.138), 5)
    0.00355
    """
    return 0.5 * math.erfc(math.sqrt(1 / (2 * real("load", load, 0, above=True, usual=0.138))))


def capacity_without_errors(dim: int) -> float:
    """Eq. 4.

    >>> round(capacity_without_errors(1000), 1)
    50.2
    """
    return dim / (2 * math.log2(whole("dim", dim, 2, usual=1000)))


def capacity(dim: int, loads: Sequence[float] = (0.05, 0.1, 0.138, 0.2), trials: int = 1, seed: int = 0) -> list[Load]:
    """Store random patterns at each load and see what becomes of them.

    Args:
        dim: units, at least 2.
        loads: s/n, above 0 each.
        trials: networks a load.
        seed: of the patterns.

    >>> [round(load.overlap, 2) for load in capacity(400, [0.05])]
    [1.0]
    """
    dim, trials = whole("dim", dim, 2, usual=1000), whole("trials", trials)
    if not len(loads):
        raise UserError("capacity needs a load", got="none", do="Pass loads=[0.1, 0.138, 0.2]")
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1, usual=0))
    found = []
    for load in loads:
        count = max(1, round(real("load", load, 0, above=True, usual=0.138) * dim))
        sums = torch.zeros(3, dtype=torch.float64)
        for _ in range(trials):
            patterns = torch.randint(2, (count, dim), generator=generator).float() * 2 - 1
            net = Hopfield(dim)
            net.store(patterns)
            with torch.no_grad():
                flipped = (signs(net.field(patterns)) != patterns).double().mean()
            rest = net.recall(patterns).state
            right = (rest == patterns).double()
            sums += torch.stack([flipped, (2 * right - 1).mean(), right.amin(1).mean()])
        flips, overlap, recalled = (sums / trials).tolist()
        found.append(Load(count / dim, count, flips, flip_probability(count / dim), overlap, recalled))
    return found
