"""Straight lines: the best one, the way down to it, the one that is turned around, and what a logarithm does for it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from leadline import data as sources
from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.data import Batch
from leadline.likelihoods import Bernoulli, Likelihood, Normal, OneHot
from leadline.models import Linear, inverse
from leadline.optim import LeastSquares, Newton
from leadline.optim.rule import Rule
from leadline.verbs import fit


def _solved(x: Tensor, y: Tensor, likelihood: Likelihood | None = None, rule: Rule | None = None) -> Linear:
    """The map of least squares, or what another rule ends with, in float64."""
    likelihood, rule = likelihood or Normal(), rule or LeastSquares()
    model = Linear(x.shape[1], likelihood.dim_output).double()
    rule.bind(model, likelihood.double(), 50)
    for k in range(50):
        if not rule.finished:
            rule.step(Batch(x, y), k)
    return model


@claim(
    "least-squares-best",
    "One line is best: closed form, grid and descent end there, and the normal likelihood has its maximum there for "
    "every variance",
    "Understanding Deep Learning, figure 2.2, problem 2.2 and section 5.3.1",
)
def least_squares_best(full: bool) -> Evidence:
    cells, steps = (401, 20_000) if full else (201, 4_000)
    rows = sources.load("twelve_points").train
    x, y = rows.x.double(), rows.y.double()
    line = _solved(x, y)
    slope, offset = float(line.map.weight.detach()), float(line.map.bias.detach())
    half = 1.0
    grid = torch.linspace(-half, half, cells, dtype=torch.float64)
    errors = y - (offset + grid[:, None, None]) - (slope + grid[None, :, None]) * x[:, 0]  # (offsets, slopes, rows)
    loss = errors.square().sum(-1)
    best = float(loss[cells // 2, cells // 2])
    places = set()
    for sigma in (0.05, 0.3, 2.0):
        nll = (0.5 * (errors / sigma).square() + math.log(sigma)).sum(-1)
        places.add(int(nll.argmin()))
    walker = torch.zeros(2, dtype=torch.float64)
    a = torch.cat([x, torch.ones_like(x)], dim=1)
    rate = 1 / float(torch.linalg.eigvalsh(a.T @ a)[-1])
    for _ in range(steps):
        walker = walker - rate * (a.T @ (a @ walker - y))
    away = float((walker - torch.tensor([slope, offset], dtype=torch.float64)).abs().max())
    view = Curves(
        "Lines through twelve points", "slope, less that of the best line", "sum of squares",
        {
            f"offset {name}": (tuple(grid.tolist()), tuple(loss[cells // 2 + shift].tolist()))
            for name, shift in (("of the best line", 0), ("0.25 higher", cells // 8), ("0.25 lower", -(cells // 8)))
        },
    )  # fmt: skip
    return Evidence(
        (
            Check(
                "least sum of squares of a line, less that of the closed form", float(loss.min()) - best, -1e-12, 1e-12
            ),
            Check("sum of squares of the closed form", best, 0.19 - 1e-5, 0.19 + 1e-5),  # the points are made so
            Check(
                "cell of the grid with the largest likelihood, less the middle", max(places) - cells * cells // 2, 0, 0
            ),
            Check("cells that are best for some variance", len(places), 1, 1),
            Check("distance of where descent ends", away, high=1e-6),
        ),
        view,
    )


@claim(
    "steepest-descent",
    "A step of steepest descent crosses the contours of the loss at a right angle",
    "Understanding Deep Learning, figure 2.4",
)
def steepest_descent(full: bool) -> Evidence:
    rows = sources.load("twelve_points").train
    x, y = rows.x.double()[:, 0], rows.y.double()
    starts = 100 if full else 20

    def loss(p: Tensor) -> Tensor:
        return (p[0] + p[1] * x - y).square().mean()

    best = _solved(x[:, None], y)
    centre = torch.tensor([float(best.map.bias.detach()), float(best.map.weight.detach())], dtype=torch.float64)
    cosines: dict[str, list[float]] = {"gradient": [], "towards the minimum": []}
    g = torch.Generator().manual_seed(0)
    for _ in range(starts):
        model = Linear(1, 1).double()
        with torch.no_grad():
            model.map.weight.fill_(float(2 * torch.randn(1, generator=g)))
            model.map.bias.fill_(float(2 * torch.randn(1, generator=g)))
        p = torch.tensor([model.map.bias.item(), model.map.weight.item()], dtype=torch.float64)
        (model(x[:, None])[:, 0] - y).square().mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        step = torch.tensor([model.map.bias.item(), model.map.weight.item()], dtype=torch.float64) - p
        tangent = _along(loss, p, centre)
        for name, way in (("gradient", step), ("towards the minimum", centre - p)):
            cosines[name].append(float(abs(way @ tangent) / way.norm() / tangent.norm()))
    values = torch.linalg.eigvalsh(torch.stack([torch.ones_like(x), x]) @ torch.stack([torch.ones_like(x), x]).T)
    most = float((values[1] - values[0]) / values.sum())  # sine of the largest angle between H p and p
    degrees = {n: tuple(sorted(math.degrees(math.acos(c)) for c in found)) for n, found in cosines.items()}
    xs = tuple(map(float, range(1, starts + 1)))
    view = Curves(
        "Angle between a step and the contour", "start, by angle", "degrees", {n: (xs, d) for n, d in degrees.items()}
    )
    return Evidence(
        (
            # the chord of a contour turns by the square of its length, 1e-5 of the way: 1e-10, and rounding of p
            Check("largest cosine of step and contour", max(cosines["gradient"]), high=1e-6),
            # a control: how far from square such a step may be follows from the axes of the contours
            Check("the same of a step towards the minimum", max(cosines["towards the minimum"]), most / 2, most),
        ),
        view,
    )


def _along(loss: Callable[[Tensor], Tensor], p: Tensor, centre: Tensor) -> Tensor:
    """The direction of the contour through p, from two points of it that are found by halving, without a gradient."""
    level, found = float(loss(p)), []
    for turn in (-1e-5, 1e-5):
        c, s = math.cos(turn), math.sin(turn)
        ray = torch.tensor([[c, -s], [s, c]], dtype=torch.float64) @ (p - centre)
        low, high = 0.5, 2.0  # the loss grows along every ray from its minimum
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if float(loss(centre + middle * ray)) < level else (low, middle)
        found.append(centre + low * ray)
    return found[1] - found[0]


@claim(
    "generative-line",
    "A line fitted on x and turned around is not the line fitted on y, unless all points lie on one: the slopes have "
    "the ratio r²",
    "Understanding Deep Learning, problem 2.3",
)
def generative_line(full: bool) -> Evidence:
    num = 2000 if full else 200
    g = torch.Generator().manual_seed(0)
    x = torch.randn(num, 1, generator=g, dtype=torch.float64)
    noises = (0.0, 0.25, 0.5, 1.0, 2.0)
    ratios, squares = [], []
    for noise in noises:
        y = 1 + 2 * x[:, 0] + noise * torch.randn(num, generator=g, dtype=torch.float64)
        discriminative, generative = _solved(x, y), inverse(_solved(y[:, None], x[:, 0]))
        ratios.append(float((discriminative.map.weight / generative.map.weight).detach()))
        squares.append(float(torch.corrcoef(torch.stack([x[:, 0], y]))[0, 1] ** 2))
    view = Curves(
        "Two ways to fit a line", "deviation of the noise (the line has a slope of 2)", "ratio of the slopes",
        {"fitted on y / fitted on x and turned": (noises, tuple(ratios))},
        {"r² of the points": (noises, tuple(squares))},
    )  # fmt: skip
    off = max(abs(a - b) for a, b in zip(ratios, squares, strict=True))
    # Fisher: the deviation of atanh r is 1/√(n - 3), and r² of the law is 4/(4 + noise²)
    law = math.atanh((4 / (4 + noises[-1] ** 2)) ** 0.5)
    return Evidence(
        (
            Check("largest distance of the ratio from r²", off, high=1e-12),
            Check("ratio where all points lie on a line", ratios[0], 1 - 1e-12, 1 + 1e-12),
            Check(
                f"ratio with noise of {noises[-1]:g}",
                ratios[-1],
                math.tanh(law - 4 / (num - 3) ** 0.5) ** 2,
                math.tanh(law + 4 / (num - 3) ** 0.5) ** 2,
            ),
        ),
        view,
    )


@claim(
    "classes-by-squares",
    "Least squares on labels of 0 and 1 parts two normal clouds as well as can be; its outputs sum to 1 and are no "
    "probabilities",
    "Notes after Dive into Deep Learning, section 4; Fisher 1936",
)
def classes_by_squares(full: bool) -> Evidence:
    num, dim = (100_000, 5) if full else (20_000, 5)
    g = torch.Generator().manual_seed(0)
    mix = torch.randn(dim, dim, generator=g, dtype=torch.float64)
    way = torch.randn(dim, generator=g, dtype=torch.float64)
    way /= way.norm()
    distances, accuracy, best = (0.5, 1.0, 2.0, 3.0), [], []
    for distance in distances:
        halves = []
        for _ in range(2):  # one half to fit, one to test
            y = torch.arange(num) % 2
            z = torch.randn(num, dim, generator=g, dtype=torch.float64) + (y[:, None] - 0.5) * distance * way
            halves.append((z @ mix, y))
        (x, y), (other, label) = halves
        with torch.no_grad():
            out = _solved(x, y, OneHot(2))(other)
        accuracy.append(float((out.argmax(1) == label).double().mean()))
        best.append(float(_normal_share(torch.tensor(distance / 2))))
    view = Curves(
        "Two normal clouds told apart by least squares", "distance of the means, in deviations", "accuracy",
        {"least squares": (distances, tuple(accuracy))}, {"the best that is possible": (distances, tuple(best))},
    )  # fmt: skip
    # a share of n rows; the fitted plane misses the best by less than dim/n of it (Efron 1975), far within that
    off = max(abs(a - b) / (b * (1 - b) / num) ** 0.5 for a, b in zip(accuracy, best, strict=True))
    return Evidence(
        (
            Check("distance from the best accuracy, in standard errors, the worst", off, high=4),
            Check("largest distance of a sum of outputs from 1", float((out.sum(1) - 1).abs().max()), high=1e-10),
            Check("largest output", float(out.max()), low=1 + 1e-9),
            Check("smallest output", float(out.min()), high=-1e-9),
        ),
        view,
    )


def _normal_share(z: Tensor) -> Tensor:
    """Φ(z)."""
    return 0.5 * (1 + torch.erf(z / 2**0.5))


@claim(
    "log-income",
    "A linear model of repayment does better on the logarithm of income: a rise counts by its ratio, not by its size",
    "Notes after Dive into Deep Learning, section 5",
)
def log_income(full: bool) -> Evidence:
    num = 40_000 if full else 8_000
    g = torch.Generator().manual_seed(0)
    income = (3.5 + torch.randn(2 * num, generator=g, dtype=torch.float64)).exp()  # thousands; half earn less than 33
    # a law of ratios, but no logistic one, so that neither model holds it. (Under 1 - exp(-income/30), whose log-odds
    # soon grow like income itself, the two models do equally well.)
    chance = _normal_share((income / 30).log())
    y = (torch.rand(2 * num, generator=g, dtype=torch.float64) < chance).long()
    places = torch.logspace(0, 3.05, 80, dtype=torch.float64)
    losses, curves, odds = {}, {}, {}
    for name, log in (("income", ()), ("log income", ("income",))):
        rows = sources.table(
            {"income": income.numpy(), "repaid": y.numpy()}, target="repaid", kind="binary", log=log, val=0.0, test=0.5
        )
        run = fit(Linear(1, 1), rows, likelihood=Bernoulli(), rule=Newton(), epochs=30, progress=False, threads=1)
        losses[name] = Bernoulli().loss(run.outputs("test"), rows.test.y).double()
        chances = run.predict({"income": places.tolist()}).mean
        curves[name] = (tuple(places.tolist()), tuple(chances.tolist()))
        with torch.no_grad():
            ends = torch.tensor([[5.0], [55.0], [1000.0], [1050.0]], dtype=torch.float64)
            low, high, top, more = run.model.double()(rows.inputs.encode(ends).double())[:, 0]
        odds[name] = float((high - low) / (more - top))
    law = {"the law": (tuple(places.tolist()), tuple(_normal_share((places / 30).log()).tolist()))}
    view = Curves("Repayment by income", "income, thousands a year", "probability", curves, law, log="x")
    gain = losses["income"] - losses["log income"]
    return Evidence(
        (
            Check(
                "nats a row that the logarithm gains", float(gain.mean()), low=4 * float(gain.std()) / len(gain) ** 0.5
            ),
            # log-odds are linear in what the model reads; float32 inputs leave five digits of a rise of 50
            Check("weight of 5 → 55 over 1000 → 1050, on income", odds["income"], 1 - 1e-3, 1 + 1e-3),
            Check(
                "the same on its logarithm",
                odds["log income"],
                math.log(11) / math.log(1.05) * (1 - 1e-3),
                math.log(11) / math.log(1.05) * (1 + 1e-3),
            ),
        ),
        view,
    )
