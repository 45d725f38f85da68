"""The loss as a landscape over the weights: on a plane, along a line, with the way that a run took.

    L(s, t) = mean loss of the rows at weights φ + s·u + t·v                                            (1)
    random      u, v normal draws; each filter (row of a weight) is scaled to the length of the         (2)
                network's own; biases and norms stay (Li et al., 2018)
    pca         u, v the two directions that hold most of the path                                      (3)
    parameters  u, v two single weights; the axes show their values                                     (4)

φ are the weights of the module as it is given, and the module keeps them. The loss is the likelihood's, without
penalties; the likelihood's own parameters stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import ShapeError
from leadline.lens.at_rest import at_rest
from leadline.lens.directions import UNITS, axes, axis, plane_directions, random_direction, trail_of, vector
from leadline.lens.landscape import Landscape
from leadline.lens.path import Path, flat
from leadline.lens.regions import check_window
from leadline.lens.style import HALF, HUES, INK, PATH, SEQUENTIAL, blank, colour_bar, label, percent, short, styled
from leadline.lens.view import View
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: of several paths: light ones and warm ones, which are seen on viridis
PATHS = (PATH, HUES[4], "#ff9f1c", "#f4f4f4", HUES[5], HUES[3])


@dataclass(frozen=True, eq=False)
class Surface(View):
    """Loss over two coordinates.

    Args:
        first, second: coordinates of the grid; `names` of the two.
        loss: (second, first).
        here: the module's own coordinates and `loss_here`.
        path: coordinates of a run's steps, (steps, 2); none without a path, or with several.
        paths: of several runs, by name.
        held: the part of the path's squared length that lies in the plane, from 0 to 1.
    """

    first: np.ndarray
    second: np.ndarray
    names: tuple[str, str]
    loss: np.ndarray
    here: tuple[float, float]
    loss_here: float
    path: np.ndarray
    held: float | None
    paths: dict[str, np.ndarray] = field(default_factory=dict)

    @styled
    def plot(self) -> Figure:
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator, MaxNLocator

        figure = blank(6.0, 4.9)
        ax = figure.subplots()
        loss = np.where(np.isfinite(self.loss), self.loss, np.nan)
        low, high = float(np.nanmin(loss)), float(np.nanmax(loss))
        logarithmic = low > 0 and high / low >= 30
        colours: dict[str, Any] = {"norm": LogNorm(low, high)} if logarithmic else {}
        mesh = ax.pcolormesh(
            self.first, self.second, loss, shading="gouraud", cmap=SEQUENTIAL, rasterized=True, **colours
        )
        if high > low:
            round_numbers = LogLocator(subs=(1, 2, 5)) if logarithmic else MaxNLocator(12)
            at = [level for level in round_numbers.tick_values(low, high) if low < level < high]
            lines = ax.contour(self.first, self.second, loss, at, colors="white", linewidths=0.7, alpha=0.75)
            ax.clabel(lines, fmt=short, fontsize=7)
        if len(self.path):
            ax.plot(*self.path.T, color="white", lw=2.8, alpha=0.9, zorder=3)
            ax.plot(*self.path.T, color=PATH, lw=1.5, zorder=3, label="path of the run")
            ax.plot(*self.path[0], "o", ms=6, color=PATH, mec="white", zorder=4, label="start")
        for hue, (name, steps) in zip(PATHS * 3, self.paths.items()):
            ax.plot(*steps.T, color="white", lw=2.6, alpha=0.8, zorder=3)
            ax.plot(*steps.T, ".-", ms=4, color=hue, lw=1.4, zorder=3, label=name)
            ax.plot(*steps[-1], "o", ms=6, color=hue, mec="white", zorder=4)
        ax.plot(
            *self.here, "*", ms=13, color="white", mec=INK, mew=0.9, zorder=5,
            label=f"weights shown, loss {short(self.loss_here)}",
        )  # fmt: skip
        bar = colour_bar(ax, mesh, "mean loss of a row")
        if logarithmic:
            bar.ax.yaxis.set_major_formatter(lambda value, _: short(value))
            bar.ax.yaxis.set_minor_formatter(lambda value, _: "")
        ax.grid(False)
        part = 1.0 if self.held is None else self.held
        held = f": {percent(part)} of the path lies in this plane" if part < 0.9999 else ""
        label(ax, f"Loss surface{held}", *self.names, legend=3)
        ax.set(xlim=(self.first[0], self.first[-1]), ylim=(self.second[0], self.second[-1]))
        return figure


@dataclass(frozen=True, eq=False)
class Slice(View):
    """Loss along a line through the weights: `at` its coordinate, `here` the module's own, `there` another module's."""

    at: np.ndarray
    name: str
    loss: np.ndarray
    here: float
    there: float | None

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF * 1.25, 3.2)
        ax = figure.subplots()
        ax.plot(self.at, self.loss, color=HUES[0])
        marks = [(self.here, "weights shown", INK)]
        marks += [(self.there, "other weights", PATH)] if self.there is not None else []
        for at, name, colour in marks:
            height = float(np.interp(at, self.at, self.loss))
            ax.plot(at, height, "o", ms=5.5, color=colour, label=f"{name}, loss {short(height)}")
        finite = self.loss[np.isfinite(self.loss)]
        if len(finite) and finite.min() > 0 and finite.max() / finite.min() >= 100:
            ax.set_yscale("log")
        label(ax, "Loss along a line", self.name, "mean loss of a row", legend=2)
        return figure


def loss_surface(
    model: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    directions: str | tuple[Any, Any] = "random",
    parameters: tuple[str, str] | None = None,
    path: Path | Tensor | Mapping[str, Path | Tensor] | None = None,
    window: Any = None,
    span: float = 1.0,
    num: int = 41,
    split: str = "train",
    most: int = 2000,
    seed: int = 0,
    normalise: str = "filter",
) -> Surface:
    """The loss on a plane through the weights of `model`.

    Args:
        data: Data, a Split, or a pair (x, y) of the network's own inputs.
        likelihood: a family, or a function of (output, y) that gives a loss a row; None takes the target's. Pass a
            run's own, which may have learned.
        directions: "random" (2), "pca" of the path (3), or two flat vectors.
        parameters: names of two single weights (4), such as ("map.weight[0, 0]", "map.bias[0]").
        path: what a `Path` kept, drawn on the surface; several of them by name, to compare the ways of their runs.
        window: ((least, largest), (least, largest)) of the two coordinates; by default `span` to each side of the
            weights, wide enough to show the path.
        num: grid points a side.  most: rows of the split, evenly spread.  seed: of random directions.
        normalise: random directions as long as the network's filters ("filter"), or of length 1 ("none").

    >>> import leadline as ll
    >>> model, data = ll.models.Linear(2, 1), ll.data.moons(num=60)
    >>> view = loss_surface(model, data, parameters=("map.weight[0, 0]", "map.bias[0]"))
    >>> view.loss.shape
    (41, 41)
    """
    num, span = whole("num", num, 2, usual=41), real("span", span, 0, above=True, usual=1.0)
    with at_rest(model):
        landscape = Landscape(model, data, likelihood, split, most)
        trails = {"": path} if not isinstance(path, Mapping) else dict(path)
        each = [trail_of(one, landscape.centre) for one in trails.values()]
        trail = torch.cat(each) if each else trail_of(None, landscape.centre)
        if parameters is not None:
            (u, v), names = axes(model, parameters), (parameters[0], parameters[1])
            here = (float(u @ landscape.centre), float(v @ landscape.centre))
        else:
            u, v, names = plane_directions(model, directions, trail, landscape.centre, seed, normalise)
            here = (0.0, 0.0)
        basis = torch.stack([u, v])
        moved = (trail - landscape.centre).double()
        places = torch.linalg.lstsq(basis.double().T, moved.T).solution.T + torch.tensor(here, dtype=torch.float64)
        total = float(moved.square().sum())
        away = float((moved - (places - torch.tensor(here)) @ basis.double()).square().sum())
        (left, right), (bottom, top) = _window(window, places.numpy(), here, span)
        first, second = np.linspace(left, right, num), np.linspace(bottom, top, num)
        loss = [[landscape.moved((s - here[0]) * u + (t - here[1]) * v) for s in first] for t in second]
        loss_here = landscape.moved(torch.zeros_like(u))
    held = max(0.0, 1 - away / total) if total > 0 else None
    single, several = places.numpy(), dict[str, np.ndarray]()
    if isinstance(path, Mapping):
        ends = np.cumsum([len(one) for one in each])[:-1]
        single, several = np.zeros((0, 2)), dict(zip(trails, (part.copy() for part in np.split(single, ends))))
    return Surface(first, second, names, np.array(loss), here, loss_here, single, held, several)


def loss_slice(
    model: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    parameter: str | None = None,
    direction: Any = "random",
    to: nn.Module | None = None,
    span: float = 1.0,
    num: int = 101,
    split: str = "train",
    most: int = 2000,
    seed: int = 0,
    normalise: str = "filter",
) -> Slice:
    """The loss along a line: over one parameter, in a direction, or from `model` (0) to another of its kind (1).

    >>> import leadline as ll
    >>> a, b, data = ll.models.Linear(2, 1), ll.models.Linear(2, 1), ll.data.moons(num=60)
    >>> view = loss_slice(a, data, to=b, num=5)
    >>> view.at.tolist()
    [-0.25, 0.125, 0.5, 0.875, 1.25]
    """
    num, span = whole("num", num, 2, usual=101), real("span", span, 0, above=True, usual=1.0)
    with at_rest(model):
        landscape = Landscape(model, data, likelihood, split, most)
        here, there = 0.0, None
        if to is not None:
            other = flat(to).to(landscape.centre)
            if other.shape != landscape.centre.shape:
                raise ShapeError(
                    "both models must have the same parameters",
                    got=f"{len(landscape.centre):,} and {len(other):,} of them",
                    do="Compare models of one architecture",
                )
            u, name, there = other - landscape.centre, "way from the first model (0) to the second (1)", 1.0
        elif parameter is not None:
            u, name = axis(model, parameter), parameter
            here = float(u @ landscape.centre)
        elif isinstance(direction, str):
            u, name = random_direction(model, seed, normalise), f"random direction {UNITS[normalise]}"
        else:
            u, name = vector(direction, landscape.centre), "given direction (its own lengths)"
        at = here + np.linspace(-span, span, num) if there is None else np.linspace(-0.25, 1.25, num)
        loss = np.array([landscape.moved((s - here) * u) for s in at])
    return Slice(at, name, loss, here, there)


def _window(window: Any, places: np.ndarray, here: tuple[float, float], span: float) -> Any:
    if window is not None:
        return check_window(window)
    ends = []
    for k in (0, 1):
        column = np.append(places[:, k], here[k])
        low, high = float(column.min()), float(column.max())
        margin = 0.15 * (high - low) if high > low else span
        ends.append((low - margin, high + margin))
    return tuple(ends)
