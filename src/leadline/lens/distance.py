"""How far apart two networks are as functions, whatever their weights.

    d(x) = |f(x) - g(x)|                             Euclidean length over the outputs        (1)
    mean d,   root mean square of d,   largest d     over rows, or over a window              (2)

A window of one or two inputs is a grid, of more a Sobol sequence; the largest d is that of these points, a lower bound
of the supremum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.data import Data, Split
from leadline.engine.evaluation import outputs
from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.rows import fit_to, rows_of
from leadline.lens.style import DASHED, FULL, HALF, HUES, INK, SOFT, blank, heat, label, short, styled
from leadline.lens.view import View
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Distance(View):
    """How far two networks are apart.

    Args:
        mean, rms, sup: eq. 2.  at: the input of the largest distance.
        x: the inputs, flat, (n, D); `first` and `second` the outputs (n, K); `each` the distance (n,).
        grid: points a side, where the inputs are a grid; none otherwise.
    """

    mean: float
    rms: float
    sup: float
    at: np.ndarray
    x: np.ndarray
    first: np.ndarray
    second: np.ndarray
    each: np.ndarray
    grid: tuple[int, ...]

    @styled
    def plot(self) -> Figure:
        words = f"mean {short(self.mean)}, rms {short(self.rms)}, largest {short(self.sup)}"
        if len(self.grid) == 1:
            figure = blank(FULL * 0.7, 4.6)
            top, low = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
            for values, name, style, colour in (
                (self.first, "first", "-", HUES[0]),
                (self.second, "second", DASHED, HUES[1]),
            ):
                for k in range(values.shape[1]):
                    top.plot(self.x[:, 0], values[:, k], color=colour, ls=style, label=name if k == 0 else None)
            low.fill_between(self.x[:, 0], self.each, color=SOFT, alpha=0.3, lw=0)
            low.plot(self.at[0], self.sup, "o", ms=4.5, color=INK, clip_on=False)
            label(top, f"Two networks: {words}", "", "output", 2)
            label(low, "", "x", "distance")
            low.set(xlim=(self.x[0, 0], self.x[-1, 0]), ylim=(0, 1.15 * self.sup or 1))
            return figure
        if len(self.grid) == 2:
            figure = blank(6.0, 4.9)
            ax = figure.subplots()
            shape = self.grid[::-1]
            x, y = (self.x[:, k].reshape(shape) for k in (0, 1))
            heat(ax, x, y, self.each.reshape(shape), "distance of the outputs", vmin=0)
            ax.plot(*self.at, "o", ms=6, color="white", mec=INK, clip_on=False, label="largest")
            label(ax, f"Two networks: {words}", "x₁", "x₂", 1)
            return figure
        figure = blank(HALF * 1.3, 3.3)
        ax = figure.subplots()
        ax.hist(self.each, int(np.clip(2 * len(self.each) ** 0.4, 5, 60)), color=HUES[0], alpha=0.8, rwidth=0.94)
        for value, name, style in ((self.mean, "mean", "-"), (self.rms, "rms", DASHED), (self.sup, "largest", ":")):
            ax.axvline(value, color=INK, lw=1.1, ls=style, label=f"{name} {short(value)}")
        label(ax, "Distance of two networks", "distance of the outputs", "points", 3)
        return figure


def distance(
    first: nn.Module, second: nn.Module, over: Any = (-1.0, 1.0), *, split: str = "train", num: int = 0, seed: int = 0
) -> Distance:
    """How far `first` and `second` are apart.

    Args:
        over: Data (its `split`), a tensor of network inputs, (least, largest) for one input, or one such pair for each
            of several.
        num: points a side of a grid (by default 1001 for one input, 101 for two), or in all of a sequence (4096).
        seed: of the sequence.

    >>> a, b = nn.Linear(1, 1), nn.Linear(1, 1)
    >>> _ = [nn.init.zeros_(p) for p in (*a.parameters(), *b.parameters())], nn.init.ones_(b.weight)
    >>> round(distance(a, b).mean, 3)  # the mean of |x| from -1 to 1
    0.5
    """
    x, grid = _points(over, split, num, seed)
    answers = []
    for model in (first, second):
        with at_rest(model):
            answers.append(outputs(model, fit_to(model, x)).flatten(1).double().cpu())
    a, b = answers
    if a.shape != b.shape:
        raise ShapeError(
            "both networks must have as many outputs",
            got=f"{a.shape[1]} and {b.shape[1]}",
            do="Compare networks that answer the same question",
        )
    each = (a - b).norm(dim=1).numpy()
    points, place = x.flatten(1).double().cpu().numpy(), int(each.argmax())
    weight = np.ones(grid or len(each))
    for axis in range(len(grid)):  # the ends of an interval count half: the trapezoid rule
        weight[(slice(None),) * axis + ([0, -1],)] /= 2
    weight = weight.ravel()
    mean, rms = float(np.average(each, weights=weight)), float(np.sqrt(np.average(each**2, weights=weight)))
    return Distance(mean, rms, float(each.max()), points[place].copy(), points, a.numpy(), b.numpy(), each, grid)


def _points(over: Any, split: str, num: int, seed: int) -> tuple[Tensor, tuple[int, ...]]:
    num = whole("num", num, 0, usual=0)
    if isinstance(over, (Data, Split)):
        rows = rows_of(over, split)
        return rows.inputs.encode(rows.raw), ()
    if isinstance(over, Tensor):
        if not over.ndim or not len(over):
            raise UserError("over must hold at least one input", got="none", do="Pass a tensor (n, …)")
        return (over[:, None] if over.ndim == 1 else over), ()
    try:
        ends = np.array(over, dtype=np.float64)
        ends = ends[None] if ends.ndim == 1 else ends
        fits = ends.ndim == 2 and ends.shape[1] == 2 and bool((ends[:, 0] < ends[:, 1]).all())
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise UserError(
            "over must be data, a tensor of inputs, or a window of ascending pairs",
            got=given("over", over),
            do="Write over=(-1, 1), or ((-1, 1), (-1, 1)) for two inputs",
        )
    if len(ends) <= 2:
        count = num or (1001 if len(ends) == 1 else 101)
        sides = [np.linspace(low, high, count) for low, high in ends.tolist()]
        points = np.stack(np.meshgrid(*sides), -1).reshape(-1, len(ends))
        return torch.tensor(points), (count,) * len(ends)
    drawn = torch.quasirandom.SobolEngine(len(ends), scramble=True, seed=seed).draw(num or 4096, dtype=torch.float64)
    low, high = torch.tensor(ends).T
    return low + (high - low) * drawn, ()
