"""The regularisation that descent brings of itself: its terms as maps, and the way that it makes steps go.

L̃(φ) = L + (α/4) |∇L|² + (α/4B) Σ_b |∇L_b - ∇L|²                        (1)   see leadline.optim.flow
flow of L        dφ/dt = -∇L                                             (2)
steps            φ <- φ - α ∇L                                           (3)
modified flow    dφ/dt = -∇(L + (α/4) |∇L|²)                             (4)   passes by the steps
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.lens.style import FULL, HUES, INK, PATH, blank, heat, label, short, styled
from leadline.lens.view import View
from leadline.lens.weight_loss import WeightLoss, at_many, grid_of, two_weights, window_of
from leadline.optim.flow import batch_term, descend, flow, gradient_term, modified
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Implicit(View):
    """The terms of (1) on a grid of two weights, (second, first) each.

    Args:
        first, second, names: coordinates of the grid.
        loss, gradient, batches, total: L, its two terms with their factors, and the sum.
        lowest: of L, and `lowest_total` of the sum: places on the grid.
        rate, num_batches: α and B; B = 1 has no third term.
    """

    first: np.ndarray
    second: np.ndarray
    names: tuple[str, ...]
    loss: np.ndarray
    gradient: np.ndarray
    batches: np.ndarray
    total: np.ndarray
    lowest: tuple[float, float]
    lowest_total: tuple[float, float]
    rate: float
    num_batches: int

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 7.2)
        axes = figure.subplots(2, 2, sharex=True, sharey=True)
        maps = (
            ("Loss L", self.loss, self.lowest),
            ("α/4 |∇L|²", self.gradient, None),
            (f"α/4B Σ |∇L_b - ∇L|², B = {self.num_batches}", self.batches, None),
            (f"Sum, α = {short(self.rate)}", self.total, self.lowest_total),
        )
        for ax, (title, values, lowest) in zip(axes.flat, maps):
            heat(ax, self.first, self.second, values, "mean loss of a row")
            ax.contour(self.first, self.second, values, 10, colors="white", linewidths=0.5, alpha=0.5)
            if lowest is not None:
                ax.plot(*lowest, "*", ms=13, color="white", mec=INK, label="lowest on the grid")
            label(ax, title, "", "", legend=1)
        for ax in axes[-1]:
            ax.set_xlabel(self.names[0])
        for ax in axes[:, 0]:
            ax.set_ylabel(self.names[1])
        return figure


def implicit(
    model: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    rate: float = 1.0,
    size: int | None = None,
    window: Any = None,
    num: int = 61,
    split: str = "train",
    seed: int = 0,
) -> Implicit:
    """The terms that steps of descent add to the loss of a model of two weights.

    Args:
        data, likelihood, split: as for `loss_surface`.
        rate: α, above 0.
        size: rows a batch, at least 1; None takes all of them.
        window: ((least, largest), (least, largest)) of the two weights.
        num: grid points a side.  seed: of the batches.

    >>> import leadline as ll
    >>> view = implicit(ll.models.Linear(1, 1), ll.data.line(num=40), rate=0.1, size=5, num=5)
    >>> view.num_batches, bool((view.total >= view.loss).all())
    (6, True)
    """
    loss = WeightLoss(model, data, likelihood, split)
    two_weights(loss, "implicit")
    rate, total = real("rate", rate, 0, above=True, usual=1.0), len(loss.y)
    size = total if size is None else whole("size", size, 1, total)
    order = torch.randperm(total, generator=torch.Generator().manual_seed(whole("seed", seed, 0)))
    batches = order.split(size)
    first, second, points = grid_of(window_of(window, loss.centre), whole("num", num, 2))
    plain, steep = loss.losses(points), rate / 4 * at_many(gradient_term(loss), points)
    apart = torch.zeros_like(plain)
    if len(batches) > 1:
        apart = rate / 4 * at_many(batch_term([loss.of_batch(rows) for rows in batches]), points)
    summed = plain + steep + apart  # eq. 1
    a, b, c, d = (values.view(num, num).numpy() for values in (plain, steep, apart, summed))
    here, there = _lowest(points, plain), _lowest(points, summed)
    return Implicit(first.numpy(), second.numpy(), loss.names, a, b, c, d, here, there, float(rate), len(batches))


def _lowest(points: Tensor, values: Tensor) -> tuple[float, float]:
    first, second = points[int(values.argmin())].tolist()
    return first, second


@dataclass(frozen=True, eq=False)
class DescentPaths(View):
    """Steps of descent beside two flows, on the loss over two weights.

    Args:
        first, second, names, surface: the loss on a grid, (second, first).
        flow, steps, modified: eq. 2, 3 and 4, (points, 2) each, over the same time.
        apart: distance of the steps' end from the end of the flow, and of the modified flow.
        rate: α.
    """

    first: np.ndarray
    second: np.ndarray
    names: tuple[str, ...]
    surface: np.ndarray
    flow: np.ndarray
    steps: np.ndarray
    modified: np.ndarray
    apart: tuple[float, float]
    rate: float

    @styled
    def plot(self) -> Figure:
        from matplotlib.patheffects import withStroke

        figure = blank(FULL * 0.72, 5.0)
        ax = figure.subplots()
        rim = [withStroke(linewidth=3.4, foreground=INK)]  # seen on any map, and in the legend
        heat(ax, self.first, self.second, self.surface, "loss")
        ax.contour(self.first, self.second, self.surface, 14, colors="white", linewidths=0.5, alpha=0.5)
        ax.plot(*self.flow.T, color="white", lw=2, path_effects=rim, label="flow of the loss")
        ax.plot(*self.modified.T, color=HUES[4], lw=2, path_effects=rim, label="flow of the modified loss")
        ax.plot(*self.steps.T, "o-", ms=3.5, lw=0.8, color=PATH, mec="white", mew=0.5,
                label=f"steps of {short(self.rate)}")  # fmt: skip
        ax.plot(*self.steps[0], "o", ms=7, color="white", mec=INK, label="start")
        ax.set(xlim=(self.first[0], self.first[-1]), ylim=(self.second[0], self.second[-1]))
        told = f"Steps end {short(self.apart[0])} from the flow, {short(self.apart[1])} from the modified one"
        label(ax, told, self.names[0], self.names[1], legend=2)
        return figure


def descent_paths(
    loss: Callable[[Tensor], Tensor] | WeightLoss,
    start: Tensor | Sequence[float] | None = None,
    *,
    rate: float,
    steps: int = 50,
    window: Any = None,
    num: int = 81,
    fine: int = 5,
) -> DescentPaths:
    """Gradient descent, the flow of the loss, and the flow of the modified loss, from one start, for one time.

    Args:
        loss: a function of a vector of two numbers, or a `WeightLoss` of a model of two weights.
        start: where to begin; None takes the weights of the `WeightLoss`.
        rate, steps: α above 0, and how many steps, at least 1.
        window: ((least, largest), (least, largest)); by default around the paths.
        num: grid points a side.  fine: steps of the flows' solver for one of descent.

    >>> view = descent_paths(lambda p: (p * torch.tensor([1.0, 9.0])).square().sum() / 2, [1.0, 1.0], rate=0.02, num=5)
    >>> view.apart[1] < view.apart[0] / 10
    True
    """
    if start is None:
        if not isinstance(loss, WeightLoss):
            raise UserError("a function needs a start", got="start=None", do="Pass start=[0.0, 0.0]")
        start = loss.centre
    alpha, count = real("rate", rate, 0, above=True, usual=0.1), whole("steps", steps)
    walked = descend(loss, start, alpha, count)
    if walked.shape[1] != 2:
        raise UserError("start must be two numbers", got=f"{walked.shape[1]}", do="Use leadline.optim.flow for more")
    plain = flow(loss, start, alpha * count, count * whole("fine", fine))
    bent = flow(modified(loss, alpha), start, alpha * count, count * fine)
    every = torch.cat([walked, plain, bent])
    if window is None:
        low, high = every.amin(0), every.amax(0)
        margin = 0.15 * (high - low).clamp(min=1e-6)
        window = tuple((float(a), float(b)) for a, b in zip(low - margin, high + margin))
    first, second, points = grid_of(window_of(window, every[0]), whole("num", num, 2))
    names = loss.names if isinstance(loss, WeightLoss) else ("φ0", "φ1")
    apart = tuple(float((walked[-1] - way[-1]).norm()) for way in (plain, bent))
    surface = at_many(loss, points).view(num, num).numpy()
    return DescentPaths(
        first.numpy(), second.numpy(), names, surface, plain.numpy(), walked.numpy(), bent.numpy(),
        (apart[0], apart[1]), float(alpha),
    )  # fmt: skip
