"""How much a Hopfield network remembers, and what its modern form has become."""

from __future__ import annotations

import torch

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.models.capacity import CRITICAL_LOAD, capacity
from leadline.models.modern_hopfield import ModernHopfield


@claim(
    "hopfield-flips",
    "One step flips a stored bit with probability ½(1 - erf √(n / 2s))",
    "Lecture notes on Hopfield networks, cross-talk",
)
def hopfield_flips(full: bool) -> Evidence:
    dim, trials = (2000, 3) if full else (400, 2)
    found = capacity(dim, (0.1, 0.15, 0.2, 0.3, 0.4, 0.5), trials=trials)
    loads = tuple(load.load for load in found)
    measured, expected = (tuple(getattr(load, name) for load in found) for name in ("flips", "predicted"))
    view = Curves(
        "Bits that one step flips", "patterns / units", "share of bits flipped",
        {f"n = {dim}": (loads, measured)}, {"erf curve": (loads, expected)}, log="y",
    )  # fmt: skip
    worst = max(abs(a - b) for a, b in zip(measured, expected, strict=True))
    ratio = measured[-1] / expected[-1]
    return Evidence(
        (
            Check("largest distance from the curve", worst, high=0.005),
            Check("measured over predicted at s/n = 0.5", ratio, 0.95, 1.05),
        ),
        view,
    )


@claim(
    "hopfield-capacity",
    "Memory breaks down as a whole near s/n = 0.138",
    "Amit, Gutfreund and Sompolinsky 1985; lecture notes on Hopfield networks",
)
def hopfield_capacity(full: bool) -> Evidence:
    sizes = (250, 500, 1000, 2000) if full else (400, 800)
    loads = (0.06, 0.08, 0.10, 0.12, 0.13, 0.14, 0.15, 0.16, 0.18, 0.20, 0.24)
    measured = {}
    for dim in sizes:
        found = capacity(dim, loads, trials=sizes[-1] // dim if full else 1)  # small networks scatter more
        measured[f"n = {dim}"] = (tuple(f.load for f in found), tuple(f.overlap for f in found))
    view = Curves(
        "Hebb's memory collapses", "patterns / units", "overlap with the stored pattern",
        measured, marks={f"s/n = {CRITICAL_LOAD}": CRITICAL_LOAD},
    )  # fmt: skip
    x, y = measured[f"n = {sizes[-1]}"]
    falls = next(a for a, b in zip(x, y, strict=True) if b < 0.8)
    return Evidence(
        (
            Check(f"overlap at s/n = 0.10, n = {sizes[-1]}", y[loads.index(0.10)], low=0.97),
            Check(f"overlap at s/n = 0.20, n = {sizes[-1]}", y[loads.index(0.20)], high=0.7),
            Check("first load with an overlap below 0.8", falls, 0.13, 0.165),
        ),
        view,
    )


@claim(
    "hopfield-attention",
    "One update of the continuous Hopfield network is a step of attention",
    "Ramsauer et al. 2021; lecture notes on attention",
)
def hopfield_attention(full: bool) -> Evidence:
    sizes = (4, 16, 64, 256) if full else (4, 16, 64)
    errors = []
    generator = torch.Generator().manual_seed(0)
    for dim in sizes:
        keys = torch.randn(3 * dim, dim, generator=generator, dtype=torch.float64)
        queries = torch.randn(5, dim, generator=generator, dtype=torch.float64)
        net = ModernHopfield(dim, dim, num_patterns=3 * dim, beta=dim**-0.5).double()
        net.store(keys)
        attended = torch.nn.functional.scaled_dot_product_attention(queries, keys, keys)
        with torch.no_grad():
            errors.append(float((net.update(queries) - attended).abs().max()))
    view = Curves(
        "A Hopfield update beside attention", "dimensions", "largest difference",
        {"float64": (tuple(map(float, sizes)), tuple(max(e, 1e-18) for e in errors))}, log="xy",
    )  # fmt: skip
    return Evidence((Check("largest difference", max(errors), high=1e-12),), view)
