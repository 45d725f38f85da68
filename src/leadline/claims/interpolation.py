"""Between the points: high dimensions, smooth interpolants, and what a prior does."""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline import data as sources
from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.data import Batch
from leadline.data.inputs import Identity
from leadline.lens.geometry import geometry
from leadline.likelihoods import Normal
from leadline.models import FixedJoints, smoothest
from leadline.optim.bayes import BayesianLinear
from leadline.reference import geometry as law
from leadline.verbs import fit


@claim(
    "high-dimensions",
    "In many dimensions normal draws lie in a thin shell and at right angles, a ball is all rind and no part of its "
    "cube, and all points are equally far",
    "Understanding Deep Learning, section 8.4.1, notes 8 and problems 8.6 to 8.9",
    misprint="problem 8.6 expects an angle near 0, it is near 90 degrees; section 8.4.1 has one of 10^5 points in "
    "10^35 cells, but 10,000 rows make it one in 10^36",
)
def high_dimensions(full: bool) -> Evidence:
    num = 20_000 if full else 2000
    view = geometry((10, 25, 100, 500, 1000), num=num)
    at = {dim: k for k, dim in enumerate(view.dims)}
    off = [
        abs(view.lengths[at[dim]].mean() - law.chi_mean(dim)) / (law.chi_deviation(dim) / num**0.5) for dim in view.dims
    ]
    spread = float(view.lengths[at[500]].std())
    angles = view.angles[at[1000]]
    return Evidence(
        (
            Check("mean length less that of the chi law, in standard errors, the worst", float(max(off)), high=4),
            # a deviation of n draws has a relative error of 1/√2n
            Check("deviation of the lengths, D = 500", spread, 0.707 * (1 - 4 / (2 * num) ** 0.5),
                  0.707 * (1 + 4 / (2 * num) ** 0.5)),
            Check("mean angle, D = 1000", float(angles.mean()), 90 - 4 * 1.812 / num**0.5, 90 + 4 * 1.812 / num**0.5),
            Check("deviation of the angles", float(angles.std()), 1.7, 1.92),
            Check("part of a ball in its outer 1 %, D = 500", float(view.shell[at[500]]), 0.9934, 0.9935),
            Check("volume of the ball in the unit cube, D = 10", float(view.ball[at[10]]), 0.00249, 0.002491),
            Check("nearest over farthest, D = 10", float(view.ratio[at[10]]), 0.2, 0.35),
            Check("the same, D = 1000", float(view.ratio[at[1000]]), 0.85, 1),
            Check("log10 of the cells for each of 10,000 rows of 40 inputs", law.cells_per_point(40, 10_000), 36 - 1e-9,
                  36 + 1e-9),
        ),
        view,
    )  # fmt: skip


@claim(
    "wider-is-smoother",
    "Of the networks that pass through all points the smoothest is the smoother the wider it may be; others of the "
    "same width pass through them too, and are not smooth",
    "Understanding Deep Learning, section 8.4.1, figures 8.11 and 8.12",
    misprint='the book does not say what "smoothest" means; here it is the least sum of squared changes of slope',
)
def wider_is_smoother(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    x = torch.cat([torch.linspace(0.02, 0.28, 6), torch.linspace(0.7, 0.98, 6)]).double()
    y = (2 * math.pi * x).sin() + 0.1 * torch.randn(12, generator=g).double()
    widths = (25, 50, 100, 200, 400) if full else (25, 50, 100, 200)
    models = {width: smoothest(x, y, width) for width in widths}
    others = [smoothest(x, y, 50, wiggle=0.5, seed=seed) for seed in (1, 2)]
    with torch.no_grad():
        missed = max(float((model(x[:, None])[:, 0] - y).abs().max()) for model in (*models.values(), *others))
        grid = torch.linspace(0, 1, 401, dtype=torch.float64)
        drawn = {f"{width} pieces": model(grid[:, None])[:, 0] for width, model in models.items() if width in (25, 200)}
        drawn |= {f"50 pieces, another {k + 1}": model(grid[:, None])[:, 0] for k, model in enumerate(others)}
    rough = [model.roughness for model in models.values()]
    view = Curves(
        "All pass through the twelve points", "x", "y",
        {name: (tuple(grid.tolist()), tuple(line.tolist())) for name, line in drawn.items()},
        {"points, joined": (tuple(x.tolist()), tuple(y.tolist()))},
    )  # fmt: skip
    return Evidence(
        (
            Check("largest miss of a point, any network", missed, high=1e-8),
            Check("roughness of a width over that of half of it, the largest", max(b / a for a, b in itertools.pairwise(
                rough)), high=1),
            Check("roughness of the others of 50 pieces over that of the smoothest, the least", min(
                model.roughness for model in others) / models[50].roughness, low=10),
        ),
        view,
    )  # fmt: skip


@claim(
    "prior-smooths",
    "A narrower prior of the weights makes the posterior's mean smoother; a band of two deviations holds what it says",
    "Understanding Deep Learning, section 9.3.5, equations 9.11 and 9.12, figure 9.11",
)
def prior_smooths(full: bool) -> Evidence:
    priors, trials = (0.3, 1.0, 3.0), 400 if full else 80
    data = sources.load("quasi_sine", num=15, val=0.0, test=0.0).with_(inputs=Identity())
    grid, rough, lines = torch.linspace(0, 1, 201, dtype=torch.float64), [], {}
    for prior in priors:
        model = FixedJoints(1, 14)
        run = fit(model, data, rule=BayesianLinear(prior, 0.3), epochs=1, progress=False, threads=1)
        rough.append(model.roughness)
        posterior = run.rule.posterior  # type: ignore[union-attr]
        lines[f"prior {prior:g}"] = (tuple(grid.tolist()), tuple(posterior.predict(grid[:, None])[0][:, 0].tolist()))
    g, inside = torch.Generator().manual_seed(0), 0
    for _ in range(trials):  # truths drawn from the prior itself
        model = FixedJoints(1, 5).double()
        x, w = torch.rand(11, 1, generator=g, dtype=torch.float64), torch.randn(6, generator=g, dtype=torch.float64)
        y = F.pad(model.features(x), (0, 1), value=1.0) @ w + 0.3 * torch.randn(11, generator=g, dtype=torch.float64)
        inside += _within(model, x, y)
    share = math.erf(2**0.5)
    view = Curves("Mean of the posterior", "x", "y", lines, {"rows, joined": (
        tuple(data.train.x.flatten().tolist()), tuple(data.train.y.tolist()))})  # fmt: skip
    error = (share * (1 - share) / trials) ** 0.5
    return Evidence(
        (
            Check("roughness of a prior over that of the next wider, the largest", max(
                a / b for a, b in itertools.pairwise(rough)), high=1),
            Check("part of new y within two deviations", inside / trials, share - 4 * error, 1),
        ),
        view,
    )  # fmt: skip


def _within(model: FixedJoints, x: Tensor, y: Tensor) -> bool:
    """Whether the last y lies within two deviations of what the others lead to expect."""
    rule = BayesianLinear(1.0, 0.3)
    rule.bind(model, Normal().double(), 1)
    rule.step(Batch(x[:-1], y[:-1]), 0)
    mean, deviation = rule.posterior.predict(x[-1:])
    return bool((y[-1] - mean).abs() <= 2 * deviation)
