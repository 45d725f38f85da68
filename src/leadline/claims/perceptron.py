"""What the perceptron does, and what no plane can do."""

from __future__ import annotations

import torch

from leadline import data as sources
from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.models.dichotomies import estimate_share, share_separable
from leadline.models.perceptron import Perceptron
from leadline.models.separability import separate
from leadline.optim.perceptron import PerceptronRule
from leadline.verbs import fit


@claim(
    "perceptron-bound",
    "On separable data the perceptron makes at most ⌊R²/γ²⌋ mistakes, and then none",
    "Novikoff 1962; lecture notes on connectionism",
)
def perceptron_bound(full: bool) -> Evidence:
    margins, seeds = ((0.02, 0.05, 0.1, 0.2), 10) if full else ((0.05, 0.2), 4)
    bounds, updates, ended = [], [], 0
    for margin in margins:
        for seed in range(seeds):
            rows = sources.load("separable", num=200, margin=margin, seed=seed)
            separation = separate(rows.train.x, rows.train.y, bias=False)
            rule = PerceptronRule(separation)
            fit(Perceptron(2, bias=False), rows, rule=rule, epochs=5000, seed=seed, progress=False, threads=1)
            bounds.append(float(separation.bound or 0))
            updates.append(float(rule.updates))
            ended += rule.finished
    worst = max(made / most for made, most in zip(updates, bounds, strict=True))
    line = (min(bounds), max(bounds))
    view = Curves(
        "Mistakes of the perceptron", "bound ⌊R²/γ²⌋", "mistakes",
        {"runs": tuple(zip(*sorted(zip(bounds, updates, strict=True)), strict=True))},  # type: ignore[dict-item]
        {"the bound": (line, line)}, log="xy", joined=False,
    )  # fmt: skip
    return Evidence(
        (
            Check("mistakes over the bound, the worst run", worst, high=1.0),
            Check("share of runs that end", ended / len(updates), low=1.0, high=1.0),
        ),
        view,
    )


@claim(
    "perceptron-xor",
    "On XOR the perceptron never ends: every epoch has a mistake",
    "Minsky and Papert 1969; lecture notes on connectionism",
)
def perceptron_xor(full: bool) -> Evidence:
    epochs = 2000 if full else 200
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    rows = sources.load("xor", num=40)
    rule = PerceptronRule()
    model = Perceptron(2)
    run = fit(model, rows, rule=rule, epochs=epochs, progress=False, threads=1)
    losses = [line["train"]["loss"] for line in run.history]
    view = Curves(
        "The perceptron on XOR",
        "epoch",
        "mean loss",
        {"max(0, -y f)": (tuple(range(1, len(losses) + 1)), tuple(losses))},
    )
    corners = separate(x, torch.tensor([0, 1, 1, 0]))
    return Evidence(
        (
            Check("epochs made, of those allowed", len(losses) / epochs, low=1.0, high=1.0),
            Check("mistakes an epoch, on average", rule.updates / epochs, low=1.0),
            Check("planes that part the four corners", float(bool(corners.separable)), low=0, high=0),
        ),
        view,
    )


@claim(
    "separable-half",
    "Half of all labellings of s points in n dimensions are separable at s = 2n, and the step sharpens with n",
    "Cover 1965; lecture notes on connectionism",
)
def separable_half(full: bool) -> Evidence:
    dims, trials = ((5, 20, 60), 400) if full else ((5, 15), 150)
    ratios = (1.0, 1.4, 1.7, 2.0, 2.3, 2.6, 3.0)
    measured, expected = {}, {}
    for n in dims:
        points = [round(ratio * n) for ratio in ratios]
        x = tuple(s / n for s in points)
        measured[f"n = {n}, by linear programs"] = (
            x,
            tuple(estimate_share(s, n, trials=trials, seed=n) for s in points),
        )
        expected[f"n = {n}, Cover's count"] = (x, tuple(share_separable(s, n) for s in points))
    view = Curves("Labellings that a plane can make", "points / dimensions", "share separable", measured, expected)
    at_two = [shares[ratios.index(2.0)] for _, shares in measured.values()]
    error = max(
        abs(a - b)
        for one, other in zip(measured.values(), expected.values(), strict=True)
        for a, b in zip(one[1], other[1], strict=True)
    )
    noise = 4 * 0.5 / trials**0.5  # four standard errors of a share
    spread = 3 * 0.5 / (trials * len(dims)) ** 0.5
    return Evidence(
        (
            Check("share separable at s = 2n, mean over n", sum(at_two) / len(at_two), 0.5 - spread, 0.5 + spread),
            Check("largest distance from Cover's count", error, high=noise),
        ),
        view,
    )
