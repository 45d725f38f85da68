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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from leadline.engine.events import Event, RunStarted, StepsDone
from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.regions import check_window
from leadline.lens.rows import loss_of, rows_of
from leadline.lens.style import HALF, HUES, INK, PATH, SEQUENTIAL, blank, colour_bar, label, percent, short, styled
from leadline.lens.view import View
from leadline.lens.weights import weight_at
from leadline.names import suggest
from leadline.settings import given, real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Path:
    """The weights that a run passes through: a listener for `fit`.

    Args:
        model: whose weights to keep.
        every: steps between two of them, at least 1.

    >>> import leadline as ll
    >>> model, data = ll.models.Linear(2, 1), ll.data.moons(num=60)
    >>> path = Path(model)
    >>> _ = ll.fit(model, data, epochs=3, progress=False, listeners=[path])
    >>> path.weights.shape[1]  # two slopes and an offset
    3
    """

    def __init__(self, model: nn.Module, every: int = 1):
        self.model, self.every = model, whole("every", every)
        self.steps, self._weights = list[int](), list[Tensor]()

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted) or (
            isinstance(event, StepsDone) and event.step >= (self.steps[-1] if self.steps else 0) + self.every
        ):
            self.steps.append(event.step)
            self._weights.append(flat(self.model).cpu())

    @property
    def weights(self) -> Tensor:
        """One row of all parameters for each kept step, (steps, P)."""
        return torch.stack(self._weights) if self._weights else torch.zeros(0, len(flat(self.model)))


def flat(model: nn.Module) -> Tensor:
    """All parameters in one row, in the module's order; a copy."""
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


@dataclass(frozen=True, eq=False)
class Surface(View):
    """Loss over two coordinates.

    Args:
        first, second: coordinates of the grid; `names` of the two.
        loss: (second, first).
        here: the module's own coordinates and `loss_here`.
        path: coordinates of a run's steps, (steps, 2); none without a path.
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
    path: Path | Tensor | None = None,
    window: Any = None,
    span: float = 1.0,
    num: int = 41,
    split: str = "train",
    most: int = 2000,
    seed: int = 0,
) -> Surface:
    """The loss on a plane through the weights of `model`.

    Args:
        data: Data, a Split, or a pair (x, y) of the network's own inputs.
        likelihood: a family, or a function of (output, y) that gives a loss a row; None takes the target's. Pass a
            run's own, which may have learned.
        directions: "random" (2), "pca" of the path (3), or two flat vectors.
        parameters: names of two single weights (4), such as ("map.weight[0, 0]", "map.bias[0]").
        path: what a `Path` kept, drawn on the surface.
        window: ((least, largest), (least, largest)) of the two coordinates; by default `span` to each side of the
            weights, wide enough to show the path.
        num: grid points a side.  most: rows of the split, evenly spread.  seed: of random directions.

    >>> import leadline as ll
    >>> model, data = ll.models.Linear(2, 1), ll.data.moons(num=60)
    >>> view = loss_surface(model, data, parameters=("map.weight[0, 0]", "map.bias[0]"))
    >>> view.loss.shape
    (41, 41)
    """
    num, span = whole("num", num, 2, usual=41), real("span", span, 0, above=True, usual=1.0)
    with at_rest(model):
        landscape = _Landscape(model, data, likelihood, split, most)
        trail = _trail(path, landscape.centre)
        if parameters is not None:
            (u, v), names = _axes(model, parameters), (parameters[0], parameters[1])
            here = (float(u @ landscape.centre), float(v @ landscape.centre))
        else:
            u, v, names = _directions(model, directions, trail, landscape.centre, seed)
            here = (0.0, 0.0)
        basis = torch.stack([u, v])
        moved = (trail - landscape.centre).double()
        places = torch.linalg.lstsq(basis.double().T, moved.T).solution.T + torch.tensor(here, dtype=torch.float64)
        total = float(moved.square().sum())
        away = float((moved - (places - torch.tensor(here)) @ basis.double()).square().sum())
        (left, right), (bottom, top) = _window(window, places.numpy(), here, span)
        first, second = np.linspace(left, right, num), np.linspace(bottom, top, num)
        loss = [[landscape.at((s - here[0]) * u + (t - here[1]) * v) for s in first] for t in second]
        loss_here = landscape.at(torch.zeros_like(u))
    held = max(0.0, 1 - away / total) if total > 0 else None
    return Surface(first, second, names, np.array(loss), here, loss_here, places.numpy(), held)


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
        landscape = _Landscape(model, data, likelihood, split, most)
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
            u, name = _axis(model, parameter), parameter
            here = float(u @ landscape.centre)
        elif isinstance(direction, str):
            u, name = _random(model, seed), "random direction (lengths of the network's own filters)"
        else:
            u, name = _vector(direction, landscape.centre), "given direction (its own lengths)"
        at = here + np.linspace(-span, span, num) if there is None else np.linspace(-0.25, 1.25, num)
        loss = np.array([landscape.at((s - here) * u) for s in at])
    return Slice(at, name, loss, here, there)


class _Landscape:
    """The loss as a function of a displacement of all weights (1)."""

    def __init__(self, model: nn.Module, data: Any, likelihood: Any, split: str, most: int):
        rows = rows_of(data, split)
        step = max(1, -(-len(rows.y) // whole("most", most)))
        self.model, self.loss = model, loss_of(rows, likelihood)
        self.x = rows.encoded(model)[::step]
        self.y = rows.y[::step].to(self.x.device)
        if self.y.is_floating_point():
            self.y = self.y.to(self.x.dtype)
        self.weight = None if rows.weight is None else rows.weight[::step].to(self.x)
        self.centre = flat(model)
        self.shapes = {name: p.shape for name, p in model.named_parameters()}

    def at(self, shift: Tensor) -> float:
        parts = (self.centre + shift.to(self.centre)).split([shape.numel() for shape in self.shapes.values()])
        state = {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}
        loss = self.loss(functional_call(self.model, state, (self.x,)), self.y).double()
        mean = loss.mean() if self.weight is None else (loss * self.weight).sum() / self.weight.sum()
        return float(mean)


def _trail(path: Path | Tensor | None, centre: Tensor) -> Tensor:
    if path is None:
        return centre.new_zeros(0, len(centre))
    weights = path.weights if isinstance(path, Path) else torch.as_tensor(path)
    if weights.ndim != 2 or weights.shape[1] != len(centre):
        raise ShapeError(
            f"a path must hold {len(centre):,} weights a step, as the model has",
            got=f"shape {tuple(weights.shape)}",
            do="Keep it with path = ll.lens.Path(model) and ll.fit(model, data, listeners=[path])",
        )
    return weights.to(centre)


def _directions(
    model: nn.Module, directions: Any, trail: Tensor, centre: Tensor, seed: int
) -> tuple[Tensor, Tensor, tuple[str, str]]:
    if isinstance(directions, str) and directions == "random":
        unit = "random direction {} (lengths of the network's own filters)"
        return _random(model, seed), _random(model, seed + 1), (unit.format(1), unit.format(2))
    if isinstance(directions, str) and directions == "pca":
        if len(trail) < 3:
            raise UserError(
                "pca needs a path of at least 3 steps", got=f"{len(trail)}", do="Pass path=, kept by ll.lens.Path"
            )
        _, size, rows = torch.linalg.svd((trail - centre).double(), full_matrices=False)
        share = (size.square() / size.square().sum()).tolist()
        names = [f"main direction {k + 1} of the path, {percent(share[k])} of it" for k in (0, 1)]
        return rows[0].to(centre), rows[1].to(centre), (names[0], names[1])
    if isinstance(directions, str) or not isinstance(directions, Sequence) or len(directions) != 2:
        words = suggest(directions, ["random", "pca"]) if isinstance(directions, str) else "Write directions='random'"
        raise UserError(
            "directions must be random, pca or two flat vectors", got=given("directions", directions), do=words
        )
    u, v = (_vector(direction, centre) for direction in directions)
    return u, v, ("first direction (its own lengths)", "second direction (its own lengths)")


def _vector(direction: Any, centre: Tensor) -> Tensor:
    vector = torch.as_tensor(direction).to(centre).flatten()
    if vector.shape != centre.shape or not bool(vector.abs().sum() > 0):
        raise ShapeError(
            f"a direction must have one number for each of the {len(centre):,} parameters, not all 0",
            got=f"{vector.numel():,} of them",
            do="Take differences of ll.lens.flat(model)",
        )
    return vector


def _random(model: nn.Module, seed: int) -> Tensor:
    """A normal draw whose filters have the lengths of the model's (2)."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for p in model.parameters():
        draw = torch.randn(p.shape, generator=generator).to(p)
        if p.ndim < 2:
            draw.zero_()
        else:
            rows, own = draw.flatten(1), p.detach().flatten(1)
            draw = (rows * (own.norm(dim=1) / rows.norm(dim=1).clamp(min=1e-12))[:, None]).view_as(p)
        parts.append(draw.flatten())
    found = torch.cat(parts)
    if not bool(found.abs().sum() > 0):
        raise UserError(
            "a model must have weights that are not 0 to have directions of their lengths",
            got=f"none in {type(model).__name__}",
            do="Pass parameters= or directions= of your own",
        )
    return found


def _axes(model: nn.Module, names: Any) -> tuple[Tensor, Tensor]:
    if isinstance(names, str) or len(names) != 2 or names[0] == names[1]:
        raise UserError("parameters must be two different ones", got=given("parameters", names), do="Name two")
    return _axis(model, names[0]), _axis(model, names[1])


def _axis(model: nn.Module, written: str) -> Tensor:
    """The unit vector of one weight, written like "map.weight[0, 1]"."""
    wanted, index = weight_at(model, written)
    parts = []
    for name, p in model.named_parameters():
        part = torch.zeros_like(p)
        if name == wanted:
            part[index] = 1
        parts.append(part.flatten())
    return torch.cat(parts)


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
