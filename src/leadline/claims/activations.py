"""What the shape of an activation decides."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers.activation import activation
from leadline.models import Shallow


@claim(
    "selu-variance",
    "The scaled exponential unit keeps the variance of its layers at 1; ReLU halves it with each, unless the weights "
    "are scaled for it",
    "Klambauer et al. 2017; Understanding Deep Learning, notes on activation functions",
)
def selu_variance(full: bool) -> Evidence:
    width, depth, rows = (1024, 100, 512) if full else (512, 30, 128)
    g = torch.Generator().manual_seed(0)
    begin = torch.randn(rows, width, generator=g)
    kinds = {"selu, weights of variance 1/n": ("selu", 1.0), "relu, 1/n": ("relu", 1.0), "relu, 2/n": ("relu", 2.0)}
    measured: dict[str, list[float]] = {}
    for name, (word, gain) in kinds.items():
        h, a, found = begin, activation(word), []
        for _ in range(depth):
            h = a(h @ (torch.randn(width, width, generator=g) * (gain / width) ** 0.5))
            found.append(float(h.square().mean()))
        measured[name] = found
    xs = tuple(map(float, range(1, depth + 1)))
    view = Curves(
        "Size of the activations over depth", "layer", "mean square of its activations",
        {name: (xs, tuple(found)) for name, found in measured.items()},
        {"halved with each layer": (xs, tuple(0.5**k for k in range(1, depth + 1)))}, log="y",
    )  # fmt: skip
    selu, plain, cared = measured.values()
    # relu: |h|² of a layer over that of the one before has the relative variance 5/n: E relu⁴ - (E relu²)² is 5/4 of
    # a preactivation's squared variance, over n (1/2)². Logarithms add up over layers and drift by half of that.
    spread = (4 * (5 * depth / width) ** 0.5 + 2.5 * depth / width) / math.log(2)
    return Evidence(
        (
            # theorem 1 of Klambauer et al. maps variances of 0.8 to 1.5 and means of ±0.1 into themselves
            Check("least mean square of a selu layer", min(selu), low=0.8),
            Check("largest mean square of a selu layer", max(selu), high=1.51),
            Check(
                f"log2 of the mean square after {depth} relu layers",
                math.log2(plain[-1]),
                -depth - spread,
                -depth + spread,
            ),
            Check("the same, weights of variance 2/n", math.log2(cared[-1]), -spread, spread),
        ),
        view,
    )


@claim(
    "hard-swish",
    "Hard swish is near swish, and faster",
    "Understanding Deep Learning, equation 3.12 and notes on activation functions; Howard et al. 2019",
)
def hard_swish(full: bool) -> Evidence:
    z = torch.linspace(-8, 8, 160_001, dtype=torch.float64)
    swish = nn.functional.silu(z)
    off = {"hard swish": nn.functional.hardswish(z) - swish, "relu": nn.functional.relu(z) - swish}
    few = slice(None, None, 1600)
    view = Curves(
        "Distance from swish", "z", "difference",
        {name: (tuple(z[few].tolist()), tuple(d[few].tolist())) for name, d in off.items()},
    )  # fmt: skip
    # the difference z²/6 - z (σ(z) - 1/2) is even, and is largest where the hard one ends, at |z| = 3
    largest = 3 / (1 + math.exp(3))
    checks = [
        Check(
            "largest distance of hard swish from swish",
            float(off["hard swish"].abs().max()),
            largest - 1e-9,
            largest + 1e-9,
        ),
        Check("the same over that of relu", float(off["hard swish"].abs().max() / off["relu"].abs().max()), high=1.0),
    ]
    if full:
        checks.append(
            Check("time of hard swish over that of swish", _seconds(nn.Hardswish()) / _seconds(nn.SiLU()), high=1)
        )
    return Evidence(tuple(checks), view)


def _seconds(a: nn.Module) -> float:
    """The shortest of many turns over a million numbers."""
    x, best = torch.randn(1_000_000), math.inf
    for _ in range(50):
        start = time.perf_counter()
        a(x)
        best = min(best, time.perf_counter() - start)
    return best


@claim(
    "dying-relu",
    "ReLU units that are silent on every row get no gradient and never learn; leaky and smooth ones do",
    "Understanding Deep Learning, notes on activation functions",
)
def dying_relu(full: bool) -> Evidence:
    steps = 3000 if full else 600
    names = ("relu", "leaky_relu(0.1)", "elu", "softplus")
    x = torch.linspace(-1, 1, 64)[:, None]
    y = (math.pi * x).sin()
    explained, moved, curves = {}, {}, {}
    for name in names:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            net = Shallow(1, 20, 1, activation=name)
        nn.init.uniform_(net.inner.weight, -1, 1, generator=torch.Generator().manual_seed(1))
        nn.init.constant_(net.inner.bias, -2.0)  # |θ x| < 1: every unit is below 0 on every row
        begin = net.inner.weight.detach().clone()
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (net(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        curves[name] = (tuple(map(float, range(1, steps + 1))), tuple(losses))
        explained[name] = 1 - losses[-1] / float(y.square().mean())
        moved[name] = float((net.inner.weight - begin).abs().max().detach())
    view = Curves("Units that begin silent", "step", "mean squared error", curves, log="y")
    return Evidence(
        (
            Check("largest change of a relu unit's weight", moved["relu"], 0, 0),
            # what is left is a constant, and y has mean 0
            Check("share of y² that relu explains", explained["relu"], high=1e-6),
            # "learns" as said beforehand: more than half of y² is explained
            Check("share that the worst of the others explains", min(explained[n] for n in names[1:]), low=0.5),
        ),
        view,
    )


@claim(
    "square-not-universal",
    "More units bring a network as near to a function as one likes, unless its activation is a polynomial",
    "Leshno et al. 1993; lecture notes on universal approximation",
)
def square_not_universal(full: bool) -> Evidence:
    widths = (3, 6, 12, 24, 48, 96) if full else (3, 6, 12, 24, 48)
    x = torch.linspace(-1, 1, 2001, dtype=torch.float64)[:, None]
    y = (math.pi * x).sin()
    measured = {}
    for name in ("square", "tanh", "sigmoid", "sin"):
        errors = []
        for width in widths:
            g = torch.Generator().manual_seed(width)
            slopes = 4 * torch.randn(1, width, generator=g, dtype=torch.float64)
            offsets = 4 * torch.rand(width, generator=g, dtype=torch.float64) - 2
            errors.append(_left(activation(name)(x @ slopes + offsets), y))
        measured[name] = (tuple(map(float, widths)), tuple(errors))
    best = _left(torch.cat([x, x**2], dim=1), y)  # of all parabolas: no sum of squares is anything else
    xs = tuple(map(float, widths))
    view = Curves(
        "Best sum of units with random slopes", "hidden units", "root mean squared error", measured,
        {"best parabola": (xs, (best,) * len(xs))}, log="xy",
    )  # fmt: skip
    ends = {name: errors[-1] for name, (_, errors) in measured.items()}
    worst = max(error for name, error in ends.items() if name != "square")
    return Evidence(
        (
            Check(
                f"error of {widths[-1]} squares over that of the best parabola",
                ends["square"] / best,
                1 - 1e-6,
                1 + 1e-6,
            ),
            # "as near as one likes", as said beforehand: a hundredth of what a parabola leaves
            Check(f"error of {widths[-1]} other units over it, the worst", worst / best, high=0.01),
        ),
        view,
    )


def _left(features: Tensor, y: Tensor) -> float:
    """Root mean squared error of the best affine map of features."""
    left = torch.cat([features, torch.ones_like(y)], dim=1)
    found = torch.linalg.lstsq(left, y, driver="gelsd").solution
    return float((left @ found - y).square().mean().sqrt())
