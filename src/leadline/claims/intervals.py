"""What a network that predicts a distribution gets right, and what squared errors cannot."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch

from leadline import data as sources
from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.likelihoods import likelihood_for
from leadline.models import build
from leadline.run import Run
from leadline.verbs import fit


def _fitted(rows: sources.Data, family: str, epochs: int, **options: object) -> Run:
    likelihood = likelihood_for(rows.target, family, **options)
    model = build("MLP", rows.dim_input, likelihood.dim_output, hidden=(64, 64), p_drop=0.0)
    return fit(model, rows, likelihood=likelihood, epochs=epochs, batch=200, lr=1e-2, progress=False, threads=1)


@claim(
    "two-sigma-band",
    "A band of ±2σ that follows the noise holds 95 % of the rows everywhere; one constant σ holds them only on average",
    "Understanding Deep Learning, section 5.3.4 and figure 5.4; Nix and Weigend 1994",
)
def two_sigma_band(full: bool) -> Evidence:
    num, epochs = (40_000, 60) if full else (20_000, 15)
    rows = sources.load("uneven_noise", num=num, test=0.4)
    x, y = rows.test.x[:, 0], rows.test.y
    edges = torch.quantile(x, torch.linspace(0, 1, 9))
    measured, worst = {}, {}
    for name, variance in (("one σ", "learned"), ("σ of x", "input")):
        run = _fitted(rows, "Normal", epochs, variance=variance)
        found = run.predict(rows.test.x)
        inside = ((y - found.mean).abs() <= 2 * found.distribution.stddev).double()
        share = [float(inside[(x >= a) & (x <= b)].mean()) for a, b in pairwise(edges)]
        centres = tuple(((edges[:-1] + edges[1:]) / 2).tolist())
        measured[name] = (centres, tuple(share))
        worst[name] = max(abs(s - math.erf(2**0.5)) for s in share)
        worst[name + " overall"] = abs(float(inside.mean()) - math.erf(2**0.5))
    ends = (float(edges[0]), float(edges[-1]))
    view = Curves(
        "Rows within ±2σ, by place", "x", "share of test rows", measured,
        {"95.4 %": (ends, (math.erf(2**0.5),) * 2)},
    )  # fmt: skip
    return Evidence(
        (
            Check("distance of the share from 95.4 %, σ of x, all rows", worst["σ of x overall"], high=0.02),
            Check("the same in the worst eighth of x", worst["σ of x"], high=0.05),
            Check("one σ, worst eighth of x", worst["one σ"], low=0.05),
        ),
        view,
    )


@claim(
    "ninety-quantile",
    "A network fitted by the pinball loss at 0.9 has 90 % of the targets below its line",
    "Understanding Deep Learning, notes on quantiles; Koenker and Hallock 2001",
)
def ninety_quantile(full: bool) -> Evidence:
    num, epochs = (40_000, 60) if full else (20_000, 12)
    rows = sources.load("uneven_noise", num=num, test=0.4)
    levels = (0.1, 0.5, 0.9)
    run = _fitted(rows, "Quantile", epochs, levels=levels)
    found = run.predict(rows.test.x)
    below = tuple(float((rows.test.y <= found.quantile(q)).double().mean()) for q in levels)
    view = Curves(
        "Targets below the fitted quantile", "level", "share of test rows below", {"measured": (levels, below)},
        {"nominal": (levels, levels)},
    )  # fmt: skip
    return Evidence(
        tuple(Check(f"share below the {q} quantile", b, q - 0.02, q + 0.02) for q, b in zip(levels, below)), view
    )


@claim(
    "inverse-modes",
    "Where one input has two answers a mixture finds both; a single bell curve answers between them, where nothing is",
    "Understanding Deep Learning, problem 5.8 and figure 5.13; Bishop 1994",
)
def inverse_modes(full: bool) -> Evidence:
    num, epochs = (8_000, 150) if full else (3_000, 60)
    rows = sources.load("branches", num=num)
    bell = _fitted(rows, "Normal", epochs, variance="input")
    mixture = _fitted(rows, "Mixture", epochs, num_components=2)
    gain = bell.evaluate("test")["nll"] - mixture.evaluate("test")["nll"]
    at = torch.tensor([[0.0]])
    here: Any = mixture.predict(at)
    modes = sorted(float(mode) for mode in here.modes[0])
    y = torch.linspace(-6, 6, 400)
    densities = {
        name: (tuple(y.tolist()), tuple(run.predict(at.expand(len(y), 1)).log_prob(y).exp().tolist()))
        for name, run in (("mixture", mixture), ("one bell curve", bell))
    }
    view = Curves("p(y | x = 0) where y has two branches", "y", "density", densities)
    return Evidence(
        (
            Check("modes at x = 0", len(modes), 2, 2),
            Check("the lower one", modes[0], -2.5, -1.5),
            Check("the upper one", modes[-1], 2.5, 3.5),
            Check("nats a row that the mixture gains over one bell curve", gain, low=0.2),
        ),
        view,
    )


@claim(
    "mean-and-median",
    "Squared error estimates the mean of y, absolute error its median",
    "Understanding Deep Learning, notes on robust regression",
)
def mean_and_median(full: bool) -> Evidence:
    num = 20_000 if full else 4_000
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(num, 1, generator=generator)
    y = torch.empty(num).exponential_(1.0, generator=generator)  # mean 1, median log 2
    rows = sources.arrays(x, y)
    answers = {}
    for family in ("Normal", "Laplace"):
        answers[family] = float(_fitted(rows, family, 60 if full else 25).predict(x).mode.mean())
    view = Curves(
        "Fitted to skewed targets", "0: squared error, 1: absolute error", "answer",
        {"measured": ((0.0, 1.0), (answers["Normal"], answers["Laplace"]))},
        {"mean, median": ((0.0, 1.0), (float(y.mean()), float(y.median())))},
    )  # fmt: skip
    return Evidence(
        (
            Check("squared error, less the mean", answers["Normal"] - float(y.mean()), -0.05, 0.05),
            Check("absolute error, less the median", answers["Laplace"] - float(y.median()), -0.05, 0.05),
        ),
        view,
    )
