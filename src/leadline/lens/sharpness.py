"""How sharp the minimum is in which a network lies: what the loss does when the weights are shaken.

    S(ρ)    = max_{|δ| <= ρ} L(φ + δ) - L(φ)                       the worst in a ball (as in SAM)                  (1)
    K       = max_{|δ_j| <= ε (|φ_j| + 1)} (L(φ + δ) - L(φ)) / (1 + L(φ))     the worst in a box (Keskar, 2017)      (2)
    N(σ)    = E[L(φ + σ u)] - L(φ)                                 u random, as long as the network's filters       (3)
    λ_max   ,  2 / λ_max                                           curvature; the largest stable step of descent    (4)

At a minimum S(ρ) ≈ ρ² λ_max / 2. The maxima are searched for by δ <- the point of the ball where the loss, straightened
at δ, is largest, from the gradient and from the sharpest direction both ways: never lower than true steps of SAM, and
still a lower bound. (1), (2) and (4) change when ReLU layers are rescaled though the function does not; (3) does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.lens.at_rest import at_rest
from leadline.lens.directions import random_direction
from leadline.lens.hessian import curvature
from leadline.lens.lanczos import lanczos
from leadline.lens.landscape import Landscape
from leadline.lens.style import DASHED, FULL, HUES, INK, SOFT, blank, label, percent, short, styled
from leadline.lens.view import View
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROUNDS = 20  # of straightening in one search
_STEPS = 40  # of Lanczos' method


@dataclass(frozen=True, eq=False)
class Sharpness(View):
    """Args:
    loss: at the weights themselves; everything below is a rise above it.
    radii, worst: eq. 1.
    keskar: eq. 2 as a part of 1 + loss, for the box of `box`.
    noise, rise, rise_error: eq. 3 at each σ, and its standard error.
    largest: λ_max; `edge` is 2 / λ_max, infinite where nothing curves upwards.
    lr: the step that was asked about; `share` is lr / edge: above 1 plain gradient descent leaves the minimum.
    """

    loss: float
    radii: np.ndarray
    worst: np.ndarray
    keskar: float
    box: float
    noise: np.ndarray
    rise: np.ndarray
    rise_error: np.ndarray
    largest: float
    lr: float | None

    @property
    def edge(self) -> float:
        return 2 / self.largest if self.largest > 0 else float("inf")

    @property
    def share(self) -> float | None:
        return None if self.lr is None else self.lr / self.edge

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL * 0.92, 3.5)
        left, right = figure.subplots(1, 2)
        left.plot(self.radii, self.worst, "o-", ms=4, color=HUES[1], label="worst found in the ball")
        if self.largest > 0:
            bowl = np.linspace(0, self.radii[-1], 101)
            left.plot(bowl, bowl**2 * self.largest / 2, color=INK, lw=1.1, ls=DASHED, label="ρ² λ/2, a bowl")
        label(
            left,
            f"Worst case: largest curvature λ = {short(self.largest)}",
            "radius ρ of the ball",
            "rise of the loss",
            2,
        )
        right.errorbar(
            np.append(0, self.noise), np.append(0, self.rise), 2 * np.append(0, self.rise_error),
            fmt="o-", ms=4, capsize=2, color=HUES[0],
            label="mean rise ± 2 standard errors",
        )  # fmt: skip
        right.axhline(0, color=SOFT, lw=0.8)
        right.set_xlim(0, None)
        label(right, "Random noise of the weights", "noise, as part of each filter's length", "rise of the loss", 1)
        told = f"Loss {short(self.loss)}; stable steps of descent up to {short(self.edge)}"
        told += "" if self.share is None else f", lr {short(self.lr or 0)} is {percent(self.share)} of that"
        figure.suptitle(told, x=0.01, ha="left", fontsize=9, color=SOFT)
        return figure


def sharpness(
    model: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    split: str = "train",
    most: int = 2000,
    radii: Sequence[float] = (0.05, 0.1, 0.2, 0.5),
    box: float = 1e-3,
    noise: Sequence[float] = (0.05, 0.1, 0.2, 0.4),
    draws: int = 20,
    lr: float | None = None,
    seed: int = 0,
) -> Sharpness:
    """The rise of the loss around the model's weights, at worst (1, 2) and on average (3), and its curvature (4).

    Args:
        data, likelihood, split, most: as for `hessian`.
        radii: of the balls (1), each above 0.
        box: ε of (2), above 0; Keskar's are 1e-3 and 5e-4.
        noise: the σ of (3), each above 0.  draws: of u, at least 2.
        lr: a step to compare with the largest stable one.
        seed: of the draws.

    >>> square = lambda output, y: (output[:, 0] - y) ** 2 / 2
    >>> net = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.ones_(net.weight)
    >>> rows = torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 3.0])  # L = ½ · 5 · (φ - 1)²
    >>> view = sharpness(net, rows, likelihood=square, radii=[0.2], lr=0.1)
    >>> round(view.largest, 4), round(float(view.worst[0]), 4), view.share
    (5.0, 0.1, 0.25)
    """
    radii = sorted(real("radius", r, 0, above=True, usual=0.05) for r in radii)
    levels = sorted(real("noise", s, 0, above=True, usual=0.1) for s in noise)
    draws, box = whole("draws", draws, 2), real("box", box, 0, above=True, usual=1e-3)
    lr = None if lr is None else real("lr", lr, 0, above=True, usual=0.003)
    with at_rest(model):
        landscape = Landscape(model, data, likelihood, split, most)
        centre, learns = landscape.centre, landscape.learns
        loss = landscape.moved(torch.zeros_like(centre))
        generator = torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1, usual=0))
        start = torch.randn(len(centre), generator=generator).to(centre) * learns
        ritz = lanczos(curvature(landscape), start, _STEPS)
        sharpest = ritz.top[0]
        starts = [landscape.gradient(centre) * learns, sharpest, -sharpest]
        worst = [_worst(landscape, [_ball(s, r) for s in starts], partial(_ball, radius=r)) for r in radii]
        sides = box * (centre.abs() + 1) * learns
        corner = _worst(landscape, [sides * s.sign() for s in starts], lambda g: sides * g.sign())
        rises = np.array(
            [[landscape.moved(s * learns * u) - loss for s in levels] for u in _shakes(model, draws, seed)]
        )
    return Sharpness(
        loss, np.array(radii), np.array(worst) - loss, (corner - loss) / (1 + loss), box, np.array(levels),
        rises.mean(0), rises.std(0, ddof=1) / draws**0.5, float(ritz.values[-1]), lr,
    )  # fmt: skip


def _shakes(model: nn.Module, draws: int, seed: int) -> list[Tensor]:
    return [random_direction(model, 1000 * seed + k) for k in range(draws)]


def _ball(direction: Tensor, radius: float) -> Tensor:
    length = direction.norm()
    return direction * (radius / length) if length > 0 else direction


def _worst(landscape: Landscape, starts: list[Tensor], furthest: Callable[[Tensor], Tensor]) -> float:
    """The largest loss met from any of the starts; on a convex loss every round rises."""
    best = landscape.moved(torch.zeros_like(landscape.centre))
    for shift in starts:
        last = float("-inf")
        for _ in range(_ROUNDS):
            now = landscape.moved(shift)
            best = max(best, now)
            if now <= last + 1e-9 * abs(now):
                break
            last, shift = now, furthest(landscape.learns * landscape.gradient(landscape.centre + shift))
    return best
