"""How far a step may go, and how fast it arrives: curvature, rates, and the minima that descent finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.lens import hessian, lipschitz
from leadline.lens.at_rest import at_rest
from leadline.lens.landscape import Landscape
from leadline.models import MLP

Gradient = Callable[[Tensor], Tensor]

_NOTES = "Lecture notes on gradient-based learning"
_UDL = "Understanding Deep Learning"


def half_square(output: Tensor, y: Tensor) -> Tensor:
    return (output[:, 0] - y).square() / 2


@claim(
    "step-bound",
    "Gradient descent with a step below 2/L settles, beyond 2/L it runs away: on a bowl, and at a network's minimum",
    f"{_NOTES}, sufficient decrease",
)
def step_bound(full: bool) -> Evidence:
    curves = torch.tensor([10.0, 3.0, 0.1], dtype=torch.float64)
    model, x, y = _settled(6 if full else 3)
    view = hessian(model, (x, y), likelihood=half_square)
    g = torch.Generator().manual_seed(0)
    with at_rest(model):
        landscape = Landscape(model, (x, y), half_square, "train", 1000)
        away = landscape.centre + 1e-5 * torch.randn(len(landscape.centre), generator=g, dtype=torch.float64)
        cases: dict[str, tuple[Gradient, Tensor, float]] = {
            "bowl": (lambda w: curves * w, torch.ones(3, dtype=torch.float64), 10.0),
            "network": (landscape.gradient, away, float(view.largest[0])),
        }
        shares = tuple(0.94 + 0.02 * k for k in range(7))
        growth = {name: tuple(_growth(f, w, 2 * s / top) for s in shares) for name, (f, w, top) in cases.items()}
        stable = {name: _stable(*case) for name, case in cases.items()}
    picture = Curves(
        "Gradient descent near a minimum", "step, as a part of 2/L", "gradient after 150 steps, over the first",
        {name: (shares, found) for name, found in growth.items()}, marks={"2/L": 1.0}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            # half a percent too long a step lengthens the gradient 4-fold in 150 steps
            Check("largest stable step over 2/L, a bowl", stable["bowl"], 0.995, 1.005),
            Check("largest stable step over 2/L, a network", stable["network"], 0.995, 1.005),
            Check("length of the gradient at the network's minimum", view.gradient, high=1e-8),
            Check("smallest eigenvalue there, over the largest", float(view.smallest[0] / view.largest[0]), low=-1e-9),
        ),
        picture,
    )


def _growth(gradient: Gradient, w: Tensor, step: float) -> float:
    """Length of the gradient after 150 steps over that at the start, from 1e-12 to 1e12."""
    first = float(gradient(w).norm())
    for _ in range(150):
        g = gradient(w)
        if not float(g.norm()) < 1e12 * first:
            return 1e12
        w = w - step * g
    return min(1e12, max(float(gradient(w).norm()) / first, 1e-12))


def _stable(gradient: Gradient, start: Tensor, top: float) -> float:
    """The largest step that does not lengthen the gradient, over 2 / top, by bisection."""
    low, high = 0.9, 1.1
    for _ in range(7):
        middle = (low + high) / 2
        low, high = (middle, high) if _growth(gradient, start, middle * 2 / top) <= 1 else (low, middle)
    return (low + high) / 2


def _settled(units: int) -> tuple[nn.Module, Tensor, Tensor]:
    """A small network at a minimum of its loss, by Newton steps with as much damping as they need."""
    g = torch.Generator().manual_seed(0)
    x = torch.linspace(-1, 1, 25, dtype=torch.float64)[:, None]
    y = (3 * x[:, 0]).sin() + 0.3 * torch.randn(25, generator=g, dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MLP(1, (units,), 1, activation="tanh", p_drop=0.0).double()
    with at_rest(model):
        landscape = Landscape(model, (x, y), half_square, "train", 1000)
        w, damping = landscape.centre, 1e-2
        for _ in range(400):
            g_w, product, eye = landscape.gradient(w), landscape.curvature(w), torch.eye(len(w), dtype=torch.float64)
            if float(g_w.norm()) < 1e-10:
                break
            h = torch.stack([product(axis) for axis in eye])
            shift = (damping + max(0.0, -float(torch.linalg.eigvalsh(h)[0]))) * eye
            new = w - torch.linalg.solve(h + shift, g_w)
            better = float(landscape.loss(new)) < float(landscape.loss(w))
            w, damping = (new, damping / 3) if better else (w, damping * 4)
    torch.nn.utils.vector_to_parameters(w, model.parameters())
    return model, x, y


@claim(
    "descent-rate",
    "With a step of 1/L each step lowers the loss by |g|²/2L; under a Polyak-Łojasiewicz constant μ the distance from "
    "the least loss shrinks at least like (1 - μ/L)^T",
    f"{_NOTES}, lemmas on gradient descent",
    misprint="slides on deep learning basics print a rate of 1/t and call it linear; a linear rate is geometric",
)
def descent_rate(full: bool) -> Evidence:
    steps = 2000 if full else 400
    g = torch.Generator().manual_seed(0)
    a = torch.randn(60, 12, generator=g, dtype=torch.float64) * torch.logspace(0, -1.2, 12, dtype=torch.float64)
    a = torch.cat([a, a[:, :3] + a[:, 3:6]], dim=1)  # three columns too many: flat directions, and still μ > 0
    y = torch.randn(60, generator=g, dtype=torch.float64)
    axes = torch.linalg.eigvalsh(a.T @ a / 60)
    top, least = float(axes[-1]), float(axes[axes > 1e-10][0])
    best = float(_squares(a, y, torch.linalg.lstsq(a, y[:, None], driver="gelsd").solution[:, 0]))
    squares, shortfall = _descend(lambda w: _squares(a, y, w), lambda w: a.T @ (a @ w - y) / 60, 15, top, steps)
    excess = [max(loss - best, 0.0) for loss in squares]
    bound = [excess[0] * (1 - least / top) ** t for t in range(steps + 1)]
    within = max(e / b for e, b in zip(excess, bound, strict=True) if b > 1e-13)
    label = (y > 0).double()
    smooth = float(torch.linalg.eigvalsh(a.T @ a / 60)[-1]) / 4  # p (1 - p) <= 1/4
    logistic = lambda w: F.binary_cross_entropy_with_logits(a @ w, label)  # noqa: E731
    slope = lambda w: a.T @ (torch.sigmoid(a @ w) - label) / 60  # noqa: E731
    losses, short = _descend(logistic, slope, 15, smooth, steps)
    small = 1e-2
    w, taken = torch.zeros(15, dtype=torch.float64), 0
    while float(slope(w).norm()) > small:
        w, taken = w - slope(w) / smooth, taken + 1
    allowed = 2 * smooth / small**2 * (losses[0] - min(losses))
    ts = tuple(map(float, range(0, steps + 1, 4)))
    view = Curves(
        "Least squares with flat directions, steps of 1/L", "step T", "loss above the least",
        {"measured": (ts, tuple(max(e, 1e-16) for e in excess[::4]))},
        {"(1 - μ/L)^T": (ts, tuple(max(b, 1e-16) for b in bound[::4]))}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("excess over (1 - μ/L)^T of the first, the worst step", within, high=1),
            # rounding of losses near 1
            Check("decrease below g²/2L, least squares, the worst step", shortfall, high=1e-14),
            Check("decrease below g²/2L, logistic regression, the worst step", short, high=1e-14),
            Check("steps to a gradient of 0.01, over 2L (h₀ - h*)/ε²", taken / allowed, high=1),
        ),
        view,
    )


def _squares(a: Tensor, y: Tensor, w: Tensor) -> Tensor:
    return (a @ w - y).square().mean() / 2


def _descend(
    loss: Callable[[Tensor], Tensor], gradient: Gradient, dims: int, top: float, steps: int
) -> tuple[list[float], float]:
    """Losses on the way from 0 in steps of 1/L, and by how much a step falls short of |g|²/2L at worst."""
    w = torch.zeros(dims, dtype=torch.float64)
    losses, short = [float(loss(w))], -math.inf
    for _ in range(steps):
        g = gradient(w)
        w = w - g / top
        losses.append(float(loss(w)))
        short = max(short, float(g @ g) / (2 * top) - (losses[-2] - losses[-1]))
    return losses, short


@claim(
    "heavy-ball",
    "Under a constant gradient momentum β lengthens the t-th step to (1 + β + … + β^t) η, up to η/(1 - β)",
    f"{_NOTES}, heavy ball",
    misprint="the lecture notes start the sum at 1; it starts at 0: the first step is η itself",
)
def heavy_ball(full: bool) -> Evidence:
    betas, steps, lr = (0.5, 0.9, 0.99), 2000 if full else 1000, 0.01
    moved: dict[float, list[float]] = {}
    for beta in betas:
        w = nn.Parameter(torch.zeros((), dtype=torch.float64))
        rule = torch.optim.SGD([w], lr=lr, momentum=beta)
        places = [0.0]
        for _ in range(steps):
            w.grad = torch.ones((), dtype=torch.float64)
            rule.step()
            places.append(-float(w.detach()))
        moved[beta] = [(b - a) / lr for a, b in pairwise(places)]
    laws = {beta: [(1 - beta ** (t + 1)) / (1 - beta) for t in range(steps)] for beta in betas}
    wrong = max(abs(m - e) / e for beta in betas for m, e in zip(moved[beta], laws[beta], strict=True))
    shown = tuple(map(float, range(1, 101)))
    view = Curves(
        "Momentum under a constant gradient", "step", "length of a step, over η",
        {f"β = {beta}": (shown, tuple(moved[beta][:100])) for beta in betas},
        {f"{1 / (1 - beta):g}": ((1.0, 100.0), (1 / (1 - beta),) * 2) for beta in betas}, log="y",
    )  # fmt: skip
    printed = [1, 1.9, 2.71, 3.439, 4.0951]
    return Evidence(
        (
            Check("largest relative distance from the sum", wrong, high=1e-9),
            Check(
                "first five steps of β = 0.9, distance from 1, 1.9, 2.71, 3.439, 4.0951",
                max(abs(m - p) for m, p in zip(moved[0.9], printed, strict=False)), high=1e-9,
            ),
            Check("last step of β = 0.99", moved[0.99][-1], 99.9, 100),
        ),
        view,
    )  # fmt: skip


@claim(
    "lipschitz-product",
    "A network changes no faster than the product of its maps' spectral norms; the bound is looser with each layer",
    f"{_UDL}, notes 8 and 9",
)
def lipschitz_product(full: bool) -> Evidence:
    depths, turns = (1, 2, 4, 8), 20 if full else 4
    shares: dict[str, list[float]] = {"relu": [], "tanh": []}
    lines = []
    g = torch.Generator().manual_seed(0)
    x = torch.randn(100, 10, generator=g, dtype=torch.float64)
    for activation, found in shares.items():
        for depth in depths:
            each = []
            for turn in range(turns):
                with torch.random.fork_rng():
                    torch.manual_seed(turn)
                    net = MLP(10, (32,) * depth, 3, activation=activation, p_drop=0.0).double()
                view = lipschitz(net, x, most=50)
                each.append(view.seen / view.bound)
            found.append(max(each))
    for turn in range(turns):
        with torch.random.fork_rng():
            torch.manual_seed(turn)
            line = nn.Sequential(nn.Linear(10, 3)).double()
        view = lipschitz(line, x, most=5)
        lines.append(view.seen / view.bound)
    xs = tuple(map(float, depths))
    picture = Curves(
        "Largest slope seen, over the bound", "hidden layers", "seen / bound",
        {name: (xs, tuple(found)) for name, found in shares.items()}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("slope over its bound, the worst network", max(map(max, shares.values())), high=1),
            Check("slope over its bound, one linear map", min(lines), 1 - 1e-9, 1 + 1e-9),
            Check("looseness of 8 layers over that of 1", min(f[0] / f[-1] for f in shares.values()), low=3),
        ),
        picture,
    )
