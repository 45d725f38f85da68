"""First weights: which variance keeps signal and gradient alive, and what a ReLU leaves of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves, Points
from leadline.lens import Depth, depth
from leadline.lens.style import DASHED, FULL, HUES, INK, blank, label, styled
from leadline.lens.view import View
from leadline.models import MLP
from leadline.reference.first_weights import backward_moments, forward_moments, relative_spread, variance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VARIANCES = (0.001, 0.01, 0.02, 0.1, 1.0)
_NARROWING = (400, 200, 100, 50, 25)


@dataclass(frozen=True)
class Through(View):
    """Args:
    forward, backward: second moments by name, over the layers; `theory` the same two as the recursion has them.
    """

    title: str
    forward: dict[str, Points]
    backward: dict[str, Points]
    theory: tuple[dict[str, Points], dict[str, Points]]

    @styled
    def plot(self) -> Figure:
        from matplotlib.ticker import LogLocator

        figure = blank(FULL, 4.0)
        for axes, words, lines, theory in zip(
            figure.subplots(1, 2),
            (f"{self.title}: forward", "backward"),
            (self.forward, self.backward),
            self.theory,
            strict=True,
        ):
            for hue, (name, (x, y)) in zip(HUES, lines.items()):
                axes.plot(x, y, "o-", ms=2.5, lw=1.3, color=hue, label=name)
            for k, (x, y) in enumerate(theory.values()):
                axes.plot(x, y, lw=1, ls=DASHED, color=INK, label="theory" if k == 0 else None)
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter("")
            axes.xaxis.get_major_locator().set_params(integer=True)
            low, high = axes.get_ylim()
            if high < 1000 * low:
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_major_formatter("{x:g}")
            label(axes, words, "layer", "mean square", legend=3)
        return figure


@claim(
    "stable-variance",
    "Signal and gradient of a deep ReLU network keep their size only where the weights have the variance 2/D",
    "He et al. 2015; Understanding Deep Learning, section 7.3.3 and figure 7.4",
)
def stable_variance(full: bool) -> Evidence:
    layers, width, draws = 50, 100, 100 if full else 10
    found = {v: _sounded((width,) * (layers + 1), f"normal({v})", draws) for v in _VARIANCES}
    steps = layers - 1
    factors = {v: (_growth(view.forward), 1 / _growth(view.backward)) for v, view in found.items()}
    # from draw to draw the last moment strays by this part of its mean; a 49th of its logarithm is left in the factor
    noise = 4 * relative_spread((width,) * steps) / math.sqrt(draws) / steps
    apart = [max(abs(math.log(factor / (width * v / 2))) for factor in factors[v]) for v in _VARIANCES]
    least = steps * (math.log10(2) - noise / math.log(10))  # 0.01 halves it with every layer
    moved = {v: max(abs(math.log10(f)) * steps for f in factors[v]) for v in _VARIANCES}
    xs = tuple(float(k) for k in range(1, layers + 1))
    view = Through(
        f"{layers} ReLU layers of {width}",
        {f"σ² = {v:g}": (xs, tuple(one.forward.tolist())) for v, one in found.items()},
        {f"σ² = {v:g}": (xs, tuple(one.backward.tolist())) for v, one in found.items()},
        _theory(found, (width,) * (layers + 1), {v: (v,) * layers for v in _VARIANCES}),
    )
    return Evidence(
        (
            Check("distance of the factor a layer from Dσ²/2, as a logarithm, the worst", max(apart), high=noise),
            Check("powers of ten that 0.02 = 2/D moves in 49 layers", moved[0.02], high=noise * steps / math.log(10)),
            Check(
                "powers of ten that any other variance moves", min(m for v, m in moved.items() if v != 0.02), low=least
            ),
            Check("powers of ten from the smallest to the largest", _decades(found.values()), low=130),
        ),
        view,
    )


@claim(
    "relu-halves-moment",
    "A ReLU leaves half of the second moment of a symmetric variable; of a normal one's variance it leaves 1/2 - 1/2π",
    "Understanding Deep Learning, section 7.3.1 and problem 7.15",
    misprint="equation 7.17 and problem 7.15 say that the variance halves: for a normal variable 0.341 of it is left.",
)
def relu_halves_moment(full: bool) -> Evidence:
    count = 4_000_000 if full else 400_000
    g = torch.Generator().manual_seed(0)
    z = torch.randn(count, generator=g, dtype=torch.float64)
    u = 2 * torch.rand(count, generator=g, dtype=torch.float64) - 1
    laws = {"normal": z, "uniform": u, "two points": u.sign(), "cubed": z**3}
    halves = {name: _left(values)[0] for name, values in laws.items()}
    normal = _left(z)[1]
    shifts = torch.linspace(-2, 2, 17).tolist()
    measured = [_left(z + shift) for shift in shifts]
    expected = [_left_of_normal(shift) for shift in shifts]
    xs = tuple(shifts)
    view = Curves(
        "What a ReLU leaves of a normal variable", "its mean, in deviations", "part that is left",
        {"second moment": (xs, tuple(m for m, _ in measured)), "variance": (xs, tuple(v for _, v in measured))},
        {
            "its closed form": (xs, tuple(m for m, _ in expected)),
            "that of the variance": (xs, tuple(v for _, v in expected)),
        },
        marks={"mean 0": 0.0},
    )  # fmt: skip
    # max(z, 0)² has a relative variance of 5; four standard errors. z³ is the longest tail: E z¹² / (E z⁶)² = 46.2
    noise = 4 * math.sqrt(5 / count)
    tail = 4 * math.sqrt(46.2 / count)
    return Evidence(
        (
            *(
                Check(f"part of the second moment left, {name}", half, 0.5 - margin, 0.5 + margin)
                for (name, half), margin in zip(halves.items(), (noise, noise, noise, tail), strict=True)
            ),
            Check("part of the variance left, normal", normal, 0.34085 - noise, 0.34085 + noise),
        ),
        view,
    )


@claim(
    "not-both-ways",
    "Where layers are not square no variance keeps both signal and gradient; 4/(D + D') lies between",
    "Understanding Deep Learning, section 7.3.3",
    misprint="equation 7.20 prints 1/(D + D'); the mean width put into 2/D gives 4/(D + D').",
)
def not_both_ways(full: bool) -> Evidence:
    draws = 400 if full else 60
    widths = (_NARROWING[0], *_NARROWING)
    names = ("he", "he_out", "he_mean")
    found = {name: _sounded(widths, name, draws) for name in names}
    variances = {name: [variance(name, a, b) for a, b in pairwise(widths)] for name in names}
    xs = tuple(float(k) for k in range(1, len(widths)))
    view = Through(
        f"widths {' – '.join(map(str, _NARROWING))}",
        {name: (xs, tuple(one.forward.tolist())) for name, one in found.items()},
        {name: (xs, tuple(one.backward.tolist())) for name, one in found.items()},
        _theory(found, widths, variances),
    )
    forward = {name: _growth(one.forward) for name, one in found.items()}
    backward = {name: 1 / _growth(one.backward) for name, one in found.items()}
    noise = 4 * relative_spread(_NARROWING[:-1]) / math.sqrt(draws) / (len(_NARROWING) - 1)
    # a layer that halves the width: he keeps the signal and halves the gradient, he_out keeps the gradient …
    expected = {"he": (1.0, 0.5), "he_out": (2.0, 1.0), "he_mean": (4 / 3, 2 / 3)}
    checks = []
    for name, (ahead, back) in expected.items():
        for way, value, law in (("signal", forward[name], ahead), ("gradient", backward[name], back)):
            low, high = law * math.exp(-noise), law * math.exp(noise)
            checks.append(Check(f"factor a layer, {way}, {name}", value, low, high))
    return Evidence(tuple(checks), view)


def _sounded(widths: Sequence[int], init: str, draws: int) -> Depth:
    """Signal and gradient of a ReLU network, averaged over draws; the loss is a random sum of the last layer."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(4, widths[0], generator=g)
    y = torch.randn(4, widths[-1], generator=g)
    with torch.random.fork_rng():
        net = MLP(widths[0], widths[1:-1], widths[-1], activation="relu", p_drop=0)
    return depth(net, (x, y), lambda out, y: (out * y).sum(1), init=init, draws=draws)


def _growth(moments: np.ndarray) -> float:
    """Factor a layer, from the first to the last."""
    return float(moments[-1] / moments[0]) ** (1 / (len(moments) - 1))


def _decades(views: Iterable[Depth]) -> float:
    sizes = [float(m) for view in views for m in (view.forward.min(), view.forward.max())]
    return math.log10(max(sizes) / min(sizes))


def _theory(found: dict, widths: Sequence[int], variances: dict) -> tuple[dict[str, Points], dict[str, Points]]:
    xs = tuple(float(k) for k in range(1, len(widths)))
    ahead = {str(k): (xs, tuple(forward_moments(widths, variances[k], one.input))) for k, one in found.items()}
    back = {
        str(k): (xs, tuple(backward_moments(widths, variances[k], float(one.backward[-1])))) for k, one in found.items()
    }
    return ahead, back


def _left(z: torch.Tensor) -> tuple[float, float]:
    """Parts of second moment and variance that a ReLU leaves."""
    h = z.clamp(min=0)
    return float(h.square().mean() / z.square().mean()), float(h.var() / z.var())


def _left_of_normal(mean: float) -> tuple[float, float]:
    """The same of a normal variable of deviation 1, in closed form."""
    below = math.erfc(-mean / math.sqrt(2)) / 2  # Φ(mean)
    density = math.exp(-mean * mean / 2) / math.sqrt(2 * math.pi)
    moment = (mean * mean + 1) * below + mean * density
    return moment / (mean * mean + 1), moment - (mean * below + density) ** 2
