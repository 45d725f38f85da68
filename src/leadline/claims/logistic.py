"""Logistic regression: a bowl, and two ways down."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.data import Batch
from leadline.likelihoods import Bernoulli
from leadline.models import MLP, Linear
from leadline.optim import Newton


def _points(num: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(num, 2, generator=g, dtype=torch.float64)
    chance = torch.sigmoid(x @ torch.tensor([2.0, -1.0], dtype=torch.float64) + 0.5)
    return x, (torch.rand(num, generator=g, dtype=torch.float64) < chance).long()


@claim(
    "newton-doubles",
    "Near the end Newton's method doubles its right digits with each step; gradient descent gains as many as before",
    "Slides on deep learning basics, Newton's methods",
    misprint="the slides print an error of O(1/T²) for Newton's method; it squares with each step",
)
def newton_doubles(full: bool) -> Evidence:
    x, y = _points(2000 if full else 200)
    a = torch.cat([x, torch.ones(len(x), 1, dtype=torch.float64)], dim=1)
    ways: dict[str, list[Tensor]] = {"Newton": [], "gradient descent": []}
    model, rule = Linear(2, 1).double(), Newton(tolerance=1e-30)
    rule.bind(model, Bernoulli().double(), 12)
    for k in range(12):
        ways["Newton"].append(rule.weights[0].clone())
        rule.step(Batch(x, y), k)
    # Newton's own offset is about the mean of x
    centre = torch.cat([x.mean(0), torch.ones(1, dtype=torch.float64)])
    ways["Newton"] = [torch.cat([w[:2], (w[2] - w[:2] @ centre[:2])[None]]) for w in ways["Newton"]]
    best = ways["Newton"][-1]
    p = torch.sigmoid(a @ best)
    axes = torch.linalg.eigvalsh((a * (p * (1 - p))[:, None]).T @ a)
    largest = float(torch.linalg.eigvalsh(a.T @ a)[-1]) / 4  # p (1 - p) <= 1/4
    w = torch.zeros(3, dtype=torch.float64)
    for _ in range(400):
        ways["gradient descent"].append(w)
        w = w - a.T @ (torch.sigmoid(a @ w) - y) / largest
    errors = {name: [float((w - best).norm()) for w in way] for name, way in ways.items()}
    seen = [e for e in errors["Newton"] if e > 1e-12]  # below is rounding
    orders = [math.log(c / b) / math.log(b / a) for (a, b), (_, c) in pairwise(pairwise(seen))]
    descent = errors["gradient descent"]
    factor = (descent[100] / descent[40]) ** (1 / 60)  # settled by then, and far from rounding
    view = Curves(
        "Two ways down a logistic loss", "step", "distance of the weights from the best",
        {name: (tuple(map(float, range(min(len(found), 60)))), tuple(max(e, 1e-17) for e in found[:60]))
         for name, found in errors.items()}, log="y",
    )  # fmt: skip
    wanted = 1 - float(axes[0]) / largest  # the slowest direction, with a step of 1 / largest
    return Evidence(
        (
            # an error that squares: log e_{k+1} = 2 log e_k + c, so the order goes to 2; half way to cubes or lines
            Check("order of the last step of Newton's method", orders[-1], 1.5, 2.5),
            Check("steps of Newton's method to 12 digits", len(seen), high=12),
            Check("factor by which a step of descent shrinks the error", factor, wanted - 1e-3, wanted + 1e-3),
        ),
        view,
    )


@claim(
    "convex-logistic",
    "The loss of logistic regression is convex; that of a network is not",
    "Slides on deep learning basics, gradient descent",
)
def convex_logistic(full: bool) -> Evidence:
    pairs = 2000 if full else 300
    x, y = _points(200)
    above: dict[str, list[float]] = {"logistic regression": [], "one hidden layer": []}
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        hidden = MLP(2, (8,), 1, activation="tanh", p_drop=0.0)
        for name, model in zip(above, (Linear(2, 1), hidden), strict=True):
            model.double()
            size = sum(p.numel() for p in model.parameters())
            for _ in range(pairs):
                ends = 3 * torch.randn(2, size, dtype=torch.float64)
                low, high, middle = (_loss(model, w, x, y) for w in (ends[0], ends[1], ends.mean(0)))
                above[name].append(middle - (low + high) / 2)
    xs = tuple((k + 0.5) / pairs for k in range(pairs))
    view = Curves(
        "Half way between two sets of weights", "pair, by rank", "loss there, less the mean of the two ends",
        {name: (xs, tuple(sorted(found))) for name, found in above.items()},
    )  # fmt: skip
    return Evidence(
        (
            Check("largest rise above the chord, logistic regression", max(above["logistic regression"]), high=1e-12),
            Check("the same with a hidden layer", max(above["one hidden layer"]), low=1e-3),
        ),
        view,
    )


def _loss(model: torch.nn.Module, weights: Tensor, x: Tensor, y: Tensor) -> float:
    torch.nn.utils.vector_to_parameters(weights, model.parameters())
    return float(F.binary_cross_entropy_with_logits(model(x)[:, 0], y.double()))
