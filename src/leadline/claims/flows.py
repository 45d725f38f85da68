"""What gradient descent follows: a flow, and the flow of a loss that shuns steep places."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor
from torch.func import grad

from leadline import data as sources
from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.inputs import Identity
from leadline.lens.critical import critical_points
from leadline.lens.implicit import descent_paths
from leadline.lens.weight_loss import WeightLoss
from leadline.models import FixedJoints, Gabor, smoothest
from leadline.optim.flow import descend, flow, modified


def _squares(output: Tensor, y: Tensor) -> Tensor:
    return (output[:, 0] - y).square()


def _order(rates: tuple[float, ...], errors: list[float]) -> float:
    """The power of the rate with which an error falls."""
    return math.log(errors[0] / errors[-1]) / math.log(rates[0] / rates[-1])


@claim(
    "modified-flow",
    "A step of descent leaves the gradient flow by the square of its length, and the flow of L + α/4 |∇L|² by the "
    "cube; minima stay where they are",
    "Understanding Deep Learning, section 9.2.1 and notes 9, equations 9.14 to 9.20; Barrett and Dherin 2021",
)
def modified_flow(full: bool) -> Evidence:
    rows = sources.load("gabor", val=0.0, test=0.0, seed=2).with_(inputs=Identity())
    loss, start = WeightLoss(Gabor(), rows, _squares), [-1.5, 9.0]
    rates = (0.8, 0.4, 0.2, 0.1, 0.05) if full else (1.0, 0.3, 0.1)
    plain, bent = [], []
    for rate in rates:
        end = descend(loss, start, rate, 1)[-1]
        plain.append(float((end - flow(loss, start, rate, 4)[-1]).norm()))
        bent.append(float((end - flow(modified(loss, rate), start, rate, 4)[-1]).norm()))
    view = critical_points(Gabor(), rows, likelihood=_squares, window=((-2, 2), (12, 20)), starts=4, num=2)
    lowest = torch.tensor(view.at[0])
    moved = float(grad(modified(loss, 5.0))(lowest).norm())
    curves = Curves(
        "One step of descent, beside two flows", "length of the step α", "distance",
        {"from the flow of L": (rates, tuple(plain)), "from the flow of L + α/4 |∇L|²": (rates, tuple(bent))}, log="xy",
    )  # fmt: skip
    return Evidence(
        (
            Check("order of the distance from the flow", _order(rates, plain), 1.8, 2.2),
            Check("order of the distance from the modified flow", _order(rates, bent), 2.7, 3.3),
            Check("gradient of the modified loss at the lowest minimum", moved, high=1e-8),
        ),
        curves,
    )


@claim(
    "modified-flow-batches",
    "The mean over the orders of an epoch of B batches follows the flow of L + α/4 |∇L|² + α/4B Σ |∇L_b - ∇L|² for a "
    "time Bα, to the cube of α; without the last term to its square. An exact fit has no such term",
    "Understanding Deep Learning, section 9.2.2, equation 9.9; Smith et al. 2021",
    misprint="the time for which the flow runs is not given in the text: it is Bα",
)
def modified_flow_batches(full: bool) -> Evidence:
    rows = sources.load("gabor", val=0.0, test=0.0, seed=2).with_(inputs=Identity())
    loss, start = WeightLoss(Gabor(), rows, _squares), [-1.5, 9.0]
    batches = [loss.of_batch(part) for part in torch.arange(27).split(9)]

    def mean(phi: Tensor) -> Tensor:
        return torch.stack([one(phi) for one in batches]).mean()

    rates = (0.4, 0.2, 0.1, 0.05) if full else (0.4, 0.1)
    without, with_term = [], []
    for rate in rates:
        ends = [descend(list(turn), start, rate, 3)[-1] for turn in itertools.permutations(batches)]
        middle = torch.stack(ends).mean(0)
        without.append(float((middle - flow(modified(mean, rate), start, 3 * rate, 4)[-1]).norm()))
        with_term.append(float((middle - flow(modified(batches, rate), start, 3 * rate, 4)[-1]).norm()))
    exact = FixedJoints(1, 40).double()
    x = torch.linspace(0.05, 0.95, 12, dtype=torch.float64)
    y = (6 * x).sin()
    exact = smoothest(x, y, 40)
    fits = WeightLoss(exact, (x[:, None], y), _squares)
    slopes = max(float(grad(fits.of_batch(part))(fits.centre).norm()) for part in torch.arange(12).split(3))
    view = Curves(
        "Mean over the orders of three batches, beside flows", "length of the step α", "distance after an epoch",
        {"without the batch term": (rates, tuple(without)), "with it": (rates, tuple(with_term))}, log="xy",
    )  # fmt: skip
    return Evidence(
        (
            Check("order without the batch term", _order(rates, without), 1.7, 2.3),
            Check("order with it", _order(rates, with_term), 2.6, 3.4),
            Check("largest gradient of a batch where all rows are fitted exactly", slopes, high=1e-8),
        ),
        view,
    )


@claim(
    "implicit-end",
    "Where many minima are equally low, steps end elsewhere than the flow; the flow of the modified loss ends where "
    "the steps do",
    "Understanding Deep Learning, section 9.2.1 and figure 9.3",
)
def implicit_end(full: bool) -> Evidence:
    # a valley of equal minima along φ1 = 0.61, steeper to the left; the loss of the figure is not given
    def loss(phi: Tensor) -> Tensor:
        return (phi[1] - 0.61).square() * (0.5 + phi[0].square()) / 2

    rate, start = 0.1, [-1.2, -1.2]
    view = descent_paths(loss, start, rate=rate, steps=300 if full else 150, num=61, fine=5 if full else 1)
    apart = float(math.dist(view.flow[-1], view.steps[-1]))
    left = float(math.dist(view.modified[-1], view.steps[-1]))
    lowest = max(abs(float(path[-1][1]) - 0.61) for path in (view.flow, view.steps, view.modified))
    return Evidence(
        (
            Check("largest distance of an end from the line of minima", lowest, high=1e-3),
            Check("distance between the ends of flow and steps", apart, low=0.01),
            Check("distance of the modified flow's end from the steps', over that", left / apart, high=0.2),
        ),
        view,
    )
