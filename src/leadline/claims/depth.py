"""How fast the error of a network falls: with its layers at one width, and with its units in many dimensions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.models import Shallow, interpolant, narrow


@claim(
    "depth-approximates",
    "At a width of no more than inputs + 4, layers do what units do: the error falls with the square of the depth",
    "Lu et al. 2017; Understanding Deep Learning, notes on universal approximation",
)
def depth_approximates(full: bool) -> Evidence:
    depths = (4, 8, 16, 32, 64, 128) if full else (4, 8, 16, 32, 64)
    dense = torch.linspace(0, 1, 20_001, dtype=torch.float64)[:, None]
    errors, widest = [], 0
    with torch.no_grad(), torch.random.fork_rng():
        for depth in depths:
            knots = torch.linspace(0, 1, depth + 1, dtype=torch.float64)
            net = narrow(interpolant(knots, (2 * math.pi * knots).sin()), low=0.0)
            widest = max(widest, *net.hidden)
            errors.append(float((net(dense) - (2 * math.pi * dense).sin()).abs().max()))
        torch.manual_seed(0)
        shallow = Shallow(3, 40, 1).double()
        deep, x = narrow(shallow, low=-1.0), 2 * torch.rand(1000, 3, dtype=torch.float64) - 1
        apart, wide = float((deep(x) - shallow(x)).abs().max()), max(deep.hidden)
    xs = tuple(map(float, depths))
    # a chord of a curve is off by h²/8 of its largest second derivative at most, here 4π²
    bound = tuple(math.pi**2 / (2 * depth**2) for depth in depths)
    view = Curves(
        "Ever deeper, never wider", "hidden layers of 4 units", "largest error on sin 2πx",
        {"measured": (xs, tuple(errors))}, {"bound π²/2m²": (xs, bound)}, log="xy",
    )  # fmt: skip
    slope = math.log(errors[-1] / errors[1]) / math.log(depths[-1] / depths[1])
    return Evidence(
        (
            # the bound falls like m^-2, and is met where the curve is most bent, a knot apart or less
            Check("power of the depth with which the error falls", slope, -2.2, -1.8),
            Check(
                "error over its bound, the worst depth", max(e / b for e, b in zip(errors, bound, strict=True)), high=1
            ),
            Check("units a layer, one input", widest, high=1 + 4),
            Check("units a layer, three inputs", wide, high=3 + 4),
            Check("difference from a shallow network of three inputs", apart, high=1e-12),
        ),
        view,
    )


@claim(
    "barron-rate",
    "The squared error of one hidden layer falls at least like 1/units, in every number of dimensions",
    "Barron 1993; lecture notes on universal approximation",
)
def barron_rate(full: bool) -> Evidence:
    dims, units, turns = ((2, 5, 10, 20), (8, 32, 128, 512), 100) if full else ((2, 5, 10), (8, 32, 128, 512), 25)
    g = torch.Generator().manual_seed(0)
    measured, powers, within, better = {}, [], [], []
    for n in dims:
        x, other = _ball(2000, n, g), _ball(2000, n, g)
        errors = torch.empty(len(units), turns, dtype=torch.float64)
        for i, m in enumerate(units):
            for turn in range(turns):
                net = _sampled(n, m, g)
                with torch.no_grad():
                    errors[i, turn] = (net(x)[:, 0] - _bump(x)).square().mean()
        mean = errors.mean(1)
        measured[f"{n} inputs"] = (tuple(map(float, units)), tuple(mean.tolist()))
        relative = errors.std(1) / mean / turns**0.5
        steps = math.log(units[-1] / units[0])
        slope, noise = math.log(mean[-1] / mean[0]) / steps, float(relative[[0, -1]].norm()) / steps
        powers.append((slope + 1) / noise)
        # C = ∫ |ω| |f̂(ω)| dω = E |ω|, ω ~ N(0, 4 I)
        constant = 2 * 2**0.5 * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))
        within.append(float(mean[-1]) * units[-1] / (2 * constant) ** 2)
        better.append(_solved(net, x, other) / float(mean[-1]))
    xs = tuple(map(float, units))
    top = max(y[0] for _, y in measured.values())
    view = Curves(
        "Steps drawn as in Barron's proof", "hidden units", "mean squared error in the unit ball", measured,
        {"1/m": (xs, tuple(top * units[0] / m for m in units))}, log="xy",
    )  # fmt: skip
    return Evidence(
        (
            # a mean of m independent draws has the error V/m exactly; four standard errors of the turns
            Check("distance of the power from -1, in standard errors, the worst", max(map(abs, powers)), high=4),
            Check("error over Barron's bound (2C)²/m, the worst", max(within), high=1),
            Check("error with the outer weights solved for, over that as drawn", max(better), high=1),
        ),
        view,
    )


def _ball(num: int, n: int, g: torch.Generator) -> Tensor:
    """Uniform in the unit ball."""
    x = torch.randn(num, n, generator=g, dtype=torch.float64)
    return x / x.norm(dim=1, keepdim=True) * torch.rand(num, 1, generator=g, dtype=torch.float64) ** (1 / n)


def _bump(x: Tensor) -> Tensor:
    """exp(-2 |x|²) = E cos(ωᵀx), ω ~ N(0, 4 I)."""
    return (-2 * x.square().sum(1)).exp()


def _sampled(n: int, m: int, g: torch.Generator) -> Shallow:
    """A mean of m steps whose expectation is the bump.

    cos(|ω| u) - 1 = -∫_0^1 |ω| sin(|ω| t) [|u| > t] dt for |u| <= 1; by symmetry of ω both signs of u count alike, so a
    draw of ω and of t ~ U[0, 1] gives -2 |ω| sin(|ω| t) · step(ωᵀx / |ω| - t).
    """
    omega = 2 * torch.randn(m, n, generator=g, dtype=torch.float64)
    t, length = torch.rand(m, generator=g, dtype=torch.float64), omega.norm(dim=1)
    with torch.random.fork_rng(), torch.no_grad():
        net = Shallow(n, m, 1, activation="heaviside").double()
        net.inner.weight.copy_(omega / length[:, None])
        net.inner.bias.copy_(-t)
        net.outer.weight.copy_(-2 * length * (length * t).sin() / m)
        net.outer.bias.fill_(1.0)
    return net


def _solved(net: Shallow, x: Tensor, other: Tensor) -> float:
    """Mean squared error on other rows once the outer weights are those of least squares."""
    with torch.no_grad():
        left, right = (
            torch.cat([net.nonlinearity(net.inner(rows)), torch.ones(len(rows), 1).double()], 1) for rows in (x, other)
        )
    found = torch.linalg.lstsq(left, _bump(x)[:, None], driver="gelsd").solution
    return float((right @ found - _bump(other)[:, None]).square().mean())
