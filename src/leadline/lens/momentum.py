"""Where momentum measures the gradient, and where look-ahead momentum does.

    m' = β m + (1-β) g,     φ' = φ - α m'                                                      (1)
    classic     g = ∇L(φ)             1 → 2 by the gradient, 2 → 3 by the momentum             (2)
    Nesterov    g = ∇L(φ - α m)       1 → 4 by the momentum alone, 4 → 5 by the gradient there  (3)

Notation   φ -> point 1;  α -> rate, β -> momentum. In (1) the momentum part of the step is α β m: points 4 and 2 → 3
           are drawn with it, while (3) looks ahead by α m, as printed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.func import grad

from leadline.lens.style import DASHED, HUES, INK, PATH, blank, heat, label, short, styled
from leadline.lens.view import View
from leadline.lens.weight_loss import WeightLoss, grid_of, two_weights, window_of
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class MomentumSteps(View):
    """One step of momentum beside one with look-ahead.

    Args:
        first, second, names, surface: the loss on a grid, (second, first).
        way: (steps, 2), how the weights came to point 1.
        points: (5, 2), points 1 to 5.  loss: (5,), the loss there.
    """

    first: np.ndarray
    second: np.ndarray
    names: tuple[str, ...]
    surface: np.ndarray
    way: np.ndarray
    points: np.ndarray
    loss: np.ndarray

    @styled
    def plot(self) -> Figure:
        from matplotlib.patheffects import withStroke

        figure = blank(6.2, 5.0)
        ax = figure.subplots()
        heat(ax, self.first, self.second, self.surface, "mean loss of a row")
        ax.contour(self.first, self.second, self.surface, 14, colors="white", linewidths=0.5, alpha=0.5)
        rim = [withStroke(linewidth=2.6, foreground=INK)]  # seen on any map, and in the legend
        ax.plot(*self.way.T, color="white", lw=1.4, ls=DASHED, path_effects=rim, label="way so far")
        for name, stops, hue in (("classic momentum", (0, 1, 2), HUES[1]), ("Nesterov's", (0, 3, 4), HUES[4])):
            ax.plot(*self.points[list(stops)].T, "-", color=hue, lw=2.2,
                    label=f"{name}: loss {short(self.loss[stops[-1]])}")  # fmt: skip
        ax.plot(*self.points.T, "o", ms=5, color="white", mec=INK, zorder=4)
        for k, place in enumerate(self.points):
            ax.annotate(str(k + 1), place, (6, 4), textcoords="offset points", color="white", weight="bold")
        ax.plot(*self.points[0], "o", ms=6, color=PATH, mec="white", zorder=5)
        ax.set(xlim=(self.first[0], self.first[-1]), ylim=(self.second[0], self.second[-1]))
        label(ax, "One step with momentum, with and without a look ahead", self.names[0], self.names[1], legend=3)
        return figure


def momentum_steps(
    model: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    rate: float = 1.0,
    momentum: float = 0.9,
    steps: int = 5,
    window: Any = None,
    num: int = 61,
    split: str = "train",
) -> MomentumSteps:
    """The geometry of Nesterov's momentum on the loss of a model of two weights.

    Args:
        data, likelihood, split: as for `loss_surface`.
        rate, momentum: α above 0, and β from 0 to below 1.
        steps: of classic momentum from the model's weights to point 1, at least 1.
        window: ((least, largest), (least, largest)); by default around the points.
        num: grid points a side.

    >>> import leadline as ll
    >>> view = momentum_steps(ll.models.Linear(1, 1), ll.data.line(num=40), rate=0.5, num=5)
    >>> view.points.shape
    (5, 2)
    """
    loss = WeightLoss(model, data, likelihood, split)
    two_weights(loss, "momentum_steps")
    alpha, beta = real("rate", rate, 0, above=True, usual=1.0), real("momentum", momentum, 0, 1, usual=0.9)
    slope, phi, m = grad(loss), loss.centre, torch.zeros(2, dtype=torch.float64)
    way = [phi]
    for _ in range(whole("steps", steps)):
        m = beta * m + (1 - beta) * slope(phi)
        phi = phi - alpha * m  # eq. 1
        way.append(phi)
    coasted = alpha * beta * m
    measured = phi - alpha * (1 - beta) * slope(phi)
    ahead = phi - coasted
    points = torch.stack(
        [phi, measured, measured - coasted, ahead, ahead - alpha * (1 - beta) * slope(phi - alpha * m)]
    )  # eqs. 2, 3
    trail = torch.stack(way)
    if window is None:
        every = torch.cat([trail, points])
        low, high = every.amin(0), every.amax(0)
        margin = 0.15 * (high - low).clamp(min=1e-6)
        window = tuple((float(a), float(b)) for a, b in zip(low - margin, high + margin))
    first, second, places = grid_of(window_of(window, loss.centre), whole("num", num, 2))
    surface = loss.losses(places).view(num, num)
    return MomentumSteps(
        first.numpy(), second.numpy(), loss.names, surface.numpy(), trail.numpy(), points.numpy(),
        loss.losses(points).numpy(),
    )  # fmt: skip
