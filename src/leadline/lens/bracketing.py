"""A line search by bracketing, step by step: the interval that holds a minimum along a line, and how it shrinks.

    a < b < c < d,   b and c at thirds of [a, d]
    L(b) > L(c):  no minimum need lie in [a, b], so a <- b;     else  d <- c                        (1)

Each step leaves two thirds of the interval. Where the loss has one minimum on it, that is what remains; where it has
several, one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import grad

from leadline.errors import UserError
from leadline.lens.directions import vector
from leadline.lens.style import FULL, HUES, INK, PATH, blank, label, short, styled
from leadline.lens.view import View
from leadline.lens.weight_loss import WeightLoss
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Bracketing(View):
    """A line search.

    Args:
        at, loss: steps along the line, and the loss there, for the drawing.
        points: (steps, 4): a, b, c, d of each step.  heights: the loss at b and c, (steps, 2).
        found: the middle of the last interval, and `loss_found` there.
    """

    at: np.ndarray
    loss: np.ndarray
    points: np.ndarray
    heights: np.ndarray
    found: float
    loss_found: float

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL * 0.7, 4.6)
        top, low = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1.4])
        top.plot(self.at, self.loss, color=HUES[0])
        top.plot(self.found, self.loss_found, "o", color=PATH, ms=6, label=f"found: step {short(self.found)}, loss "
                 f"{short(self.loss_found)}")  # fmt: skip
        top.plot(self.points[0, 1:3], self.heights[0], "s", color=INK, ms=4, label="first b and c")
        label(top, "Bracketing along a line", "", "mean loss of a row", legend=2)
        for k, (a, b, c, d) in enumerate(self.points):
            low.plot([a, d], [k + 1] * 2, color=HUES[0], lw=2.2)
            low.plot([b, c], [k + 1] * 2, "|", color=INK, ms=7)
            gone = (a, b) if self.heights[k, 0] > self.heights[k, 1] else (c, d)
            low.plot(gone, [k + 1] * 2, color=HUES[1], lw=2.2, label="dropped" if k == 0 else None)
        low.set(ylim=(len(self.points) + 0.7, 0.3))
        low.yaxis.get_major_locator().set_params(integer=True)
        label(low, "", "length of the step, in gradients", "interval", legend=2)
        return figure


def bracketing(
    model: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    direction: Any = None,
    reach: float | None = None,
    steps: int = 12,
    split: str = "train",
) -> Bracketing:
    """A bracketing line search from the weights of a small model.

    Args:
        data, likelihood, split: as for `loss_surface`.
        direction: a flat vector; None goes down the gradient.
        reach: end of the first interval, above 0, in lengths of the direction; None doubles from 1e-3 until the loss
            has risen.
        steps: of the search, at least 1.

    >>> import leadline as ll
    >>> view = bracketing(ll.models.Linear(1, 1), ll.data.line(num=40), steps=5)
    >>> widths = view.points[:, 3] - view.points[:, 0]
    >>> (widths[1:] / widths[:-1]).round(3).tolist()
    [0.667, 0.667, 0.667, 0.667]
    """
    loss = WeightLoss(model, data, likelihood, split)
    down = -grad(loss)(loss.centre)
    way = down if direction is None else vector(direction, loss.centre)
    if not bool(way.abs().sum() > 0):
        raise UserError(
            "the loss must fall in some direction", got="weights where the gradient is 0", do="Pass direction="
        )

    def height(s: float | Tensor) -> float:
        return float(loss(loss.centre + s * way))

    end = _reach(height) if reach is None else real("reach", reach, 0, above=True)
    points, heights, a, d = [], [], 0.0, float(end)
    for _ in range(whole("steps", steps)):
        b, c = a + (d - a) / 3, d - (d - a) / 3
        points.append((a, b, c, d))
        heights.append((height(b), height(c)))
        a, d = (b, d) if heights[-1][0] > heights[-1][1] else (a, c)  # eq. 1
    at = torch.linspace(0, float(end), 201, dtype=torch.float64)
    along = loss.losses(loss.centre + at[:, None] * way)
    found = (a + d) / 2
    return Bracketing(at.numpy(), along.numpy(), np.array(points), np.array(heights), found, height(found))


def _reach(height: Any) -> float:
    """The first of 1e-3, 2e-3, 4e-3 … at which the loss is higher than at half of it."""
    step = 1e-3
    for _ in range(60):
        if not height(step) < height(step / 2):
            return step
        step *= 2
    return step
