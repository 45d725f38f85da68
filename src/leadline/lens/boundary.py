"""What a model answers over two features: where one class gives way to another, or a surface of predicted values.

    p(y | x_i = s, x_j = t, all others held)          two features, in their own units            (1)
    p(y | mean + s·u + t·v)                           the plane of the two largest variances       (2)

In (1) the others are held at the middle of the shown rows, or at values of the caller's; a category at its commonest
level. In (2) the plane lies in the space that the network reads, and rows are seen by their shadows on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.engine.evaluation import outputs
from leadline.errors import UserError
from leadline.lens.answers import wrapped
from leadline.lens.at_rest import at_rest
from leadline.lens.column import Column, column_of, one_of
from leadline.lens.held import Held, around
from leadline.lens.regions import check_window
from leadline.lens.rows import Rows, family_of, fit_to, rows_of
from leadline.lens.style import HUES, INK, blank, heat, label, percent, short, some, styled
from leadline.lens.view import View
from leadline.likelihoods import Likelihood, PlackettLuce
from leadline.likelihoods.plackett_luce import PlackettLucePrediction, order_of
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Boundary(View):
    """Answers on a grid over two features, with the rows.

    Args:
        first, second: coordinates of the grid; `names` of the two.
        classes: names of the classes; none for a real target.  target: the column's name.
        answer: probabilities of the classes, (second, first, C), or predicted means, (second, first).
        points: the rows' coordinates, (n, 2), their `y`, and whether the answer to the whole row is `wrong`.
        held: the other features and what they are held at.
        explained: parts of the inputs' variance along the two axes of a projection.
        kind: numbers, angles (−π to π), classes, or places: of items, each with its chance of the first place.
    """

    first: np.ndarray
    second: np.ndarray
    names: tuple[str, str]
    target: str
    classes: tuple[str, ...]
    answer: np.ndarray
    points: np.ndarray
    y: np.ndarray
    wrong: np.ndarray
    held: dict[str, float]
    explained: tuple[float, float] | None
    kind: str = "numbers"

    @styled
    def plot(self) -> Figure:
        figure = blank(6.2, 5.0)
        ax = figure.subplots()
        shown = some(np.arange(len(self.points)))
        x, y = self.points[shown].T
        if self.classes:
            self._classes(ax, x, y, shown)
            title = f"Decision boundary of {self.target}" + (": the first place" if self.kind == "places" else "")
        else:
            both = np.concatenate([self.answer.ravel(), self.y[shown]])
            span: dict[str, Any] = {"vmin": float(np.nanmin(both)), "vmax": float(np.nanmax(both))}
            angle = self.kind == "angles"
            unit = "radians" if angle else "its own unit"
            mesh = heat(ax, self.first, self.second, self.answer, f"{self.target} ({unit})", angle=angle, **span)
            if angle:
                self._directions(ax)
            elif np.ptp(self.answer) > 0:
                lines = ax.contour(self.first, self.second, self.answer, 8, colors="white", linewidths=0.7, alpha=0.8)
                ax.clabel(lines, fmt=short, fontsize=7)
            ax.scatter(
                x, y, 15, self.y[shown], cmap=mesh.cmap, norm=mesh.norm, edgecolors="white", linewidths=0.6,
                label="row, coloured by its true value",
            )  # fmt: skip
            title = f"Predicted {self.target}"
        if self.explained is not None:
            title += f" on a plane with {percent(sum(self.explained))} of the inputs' variance"
        elif self.held:
            title += f", {len(self.held)} other feature{'s' if len(self.held) > 1 else ''} held"
        label(ax, title, *self.names, legend=4)
        ax.set(xlim=(self.first[0], self.first[-1]), ylim=(self.second[0], self.second[-1]))
        return figure

    def _directions(self, ax: Any) -> None:
        """Lines of equal direction, an eighth of a turn apart; each is a zero of the distance to it, near it alone."""
        for eighth, word in zip(range(-3, 5), ("", "−π/2", "", "0", "", "π/2", "", "±π"), strict=True):
            off = wrapped(self.answer - eighth * math.pi / 4)
            near = np.ma.masked_where(np.abs(off) > math.pi / 2, off)
            if near.count() and near.min() < 0 < near.max():
                colour = INK if abs(eighth) < 2 else "white"  # the map is light around 0
                lines = ax.contour(self.first, self.second, near, [0], colors=colour, linewidths=0.9 if word else 0.5)
                for text in ax.clabel(lines, fmt={0.0: word}, fontsize=7) if word else ():
                    text.set_bbox({"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.6})
                    text.set_color(INK)

    def _classes(self, ax: Any, x: np.ndarray, y: np.ndarray, shown: np.ndarray) -> None:
        from matplotlib.colors import to_rgb

        count = len(self.classes)
        hues = np.array([to_rgb(HUES[c % len(HUES)]) for c in range(count)])
        ground = 1 - 0.5 * (1 - self.answer @ hues)  # mixed by probability, half way to white
        ends = (self.first[0], self.first[-1], self.second[0], self.second[-1])
        ax.imshow(np.clip(ground, 0, 1), origin="lower", extent=ends, aspect="auto", interpolation="bilinear")
        ax.grid(False)
        for c in range(count) if count > 2 else (0,):
            rest = np.delete(self.answer, c, axis=2).max(2)
            lead = self.answer[:, :, c] - rest
            if lead.min() < 0 < lead.max():
                ax.contour(self.first, self.second, lead, [0], colors=INK, linewidths=1.1)
        ax.plot([], [], color=INK, lw=1.1, label="boundary")
        for c in range(count):
            of = self.y[shown] == c
            if of.any():
                name = self.classes[c] if len(self.classes[c]) <= 18 else f"{self.classes[c][:17]}…"
                ax.plot(x[of], y[of], "o", ms=4, color=HUES[c % len(HUES)], mec="white", mew=0.5, label=name)
        wrong = self.wrong[shown]
        if wrong.any():
            ax.plot(x[wrong], y[wrong], "o", ms=7.5, mfc="none", mec=INK, mew=0.8, label="wrong answer")


def boundary(
    model: nn.Module,
    data: Any,
    features: Any = (0, 1),
    *,
    likelihood: Likelihood | str | None = None,
    held: str | dict[str | int, float] = "median",
    window: Any = None,
    num: int = 161,
    split: str = "train",
    output: int | str = 0,
) -> Boundary:
    """What `model` answers over two features of `data`.

    Args:
        data: Data, or with a likelihood a Split or a pair (x, y) of the network's own inputs.
        features: two names or numbers of features, or "pca" (2).
        likelihood: None takes the target's; pass a run's own, which may have learned.
        held: "median" or "mean" of the rows, or values of single features by name or number, the rest at the median.
        window: ((least, largest), (least, largest)); by default the rows and a margin.
        num: grid points a side.  output: which of several columns, by number or name.

    >>> import leadline as ll
    >>> view = boundary(ll.models.Linear(2, 1), ll.data.moons(num=60))
    >>> view.answer.shape, view.names
    ((161, 161, 2), ('x1', 'x2'))
    """
    num, rows = whole("num", num, 2, usual=161), rows_of(data, split)
    family = family_of(rows, likelihood)
    if isinstance(features, str):
        if features != "pca":
            raise UserError("features must be two features, or pca", got=given("features", features), do="Name two")
        seen: _Plane | _Pair = _Plane(model, rows)
    else:
        seen = _Pair(rows, features, held)
    bounds = around(seen.points) if window is None else check_window(window)
    first, second = (np.linspace(*ends, num) for ends in bounds)
    grid = np.stack(np.meshgrid(first, second), 2).reshape(-1, 2)
    column = column_of(output, rows, family)
    with at_rest(model):
        raw, own = outputs(model, fit_to(model, seen.inputs(torch.tensor(grid)))), outputs(model, rows.encoded(model))
        head, values, (raw, own) = one_of(family, column.place, rows.y, raw, own)
        classes, answer = _answers(head, raw, values, column)
        _, own_answer = _answers(head, own, values, column)
        circular = head.has_density and head.prediction(own[:1]).circular
    if isinstance(head, PlackettLuce):
        values, kind = order_of(values, head.form)[:, 0], "places"
    else:
        kind = "classes" if classes else "angles" if circular else "numbers"
    y = (values if values.dim() == 1 else values[:, column.place]).cpu().numpy()
    y = wrapped(y) if kind == "angles" else y
    wrong = own_answer.argmax(1) != y if classes else np.zeros(len(y), bool)
    return Boundary(
        first, second, seen.names, column.name, classes, answer.reshape(num, num, *answer.shape[1:]), seen.points, y,
        wrong, seen.held, seen.explained, kind,
    )  # fmt: skip


def _answers(family: Likelihood, output: Tensor, y: Tensor, column: Column) -> tuple[tuple[str, ...], np.ndarray]:
    """Class names and probabilities (n, C), or no names and predicted means (n,)."""
    prediction = family.prediction(output)
    if isinstance(prediction, PlackettLucePrediction):
        said = prediction.first.double().cpu().numpy()
        return column.classes or prediction.names or tuple(f"item {k}" for k in range(said.shape[1])), said
    said = (prediction.mean if family.has_density else prediction.mode).double().cpu().numpy()
    if not column.discrete:
        said = said.reshape(len(said), -1)[:, 0 if said.ndim == 1 else column.place]
        return (), wrapped(said) if prediction.circular else said
    if not family.has_density:  # it names a class and no probability
        said = np.eye(max(len(column.classes), int(y.max()) + 1))[said.astype(int)]
    probability = np.stack([1 - said, said], 1) if said.ndim == 1 else said
    return column.classes or tuple(f"class {c}" for c in range(probability.shape[1])), probability


class _Pair:
    """Two features in their own units, the others held (1)."""

    explained = None

    def __init__(self, rows: Rows, features: Any, held: Any):
        if rows.raw.ndim != 2:
            raise UserError(
                "two features can be picked from rows that are lists of features",
                got=f"rows of shape {tuple(rows.raw.shape[1:])}",
                do='Pass features="pca"',
            )
        if not isinstance(features, (list, tuple)) or len(features) != 2:
            raise UserError("features must be two features, or pca", got=given("features", features), do="Name two")
        seen = Held(rows, features, held)
        if seen.places[0] == seen.places[1]:
            raise UserError("the two features must differ", got=f"{features[0]!r} twice", do="Name two")
        self.names, self.held, self.points = (seen.names[0], seen.names[1]), seen.held, seen.points
        self.inputs = seen.inputs


class _Plane:
    """The plane of the two largest variances of what the network reads (2)."""

    held: dict[str, float] = {}  # noqa: RUF012

    def __init__(self, model: nn.Module, rows: Rows):
        x = rows.inputs.encode(rows.raw).double().cpu()
        self.shape = x.shape[1:]
        x = x.flatten(1)
        self.middle = x.mean(0)
        _, size, axes = torch.linalg.svd(x - self.middle, full_matrices=False)
        if len(size) < 2:
            raise UserError("a plane needs 2 inputs or more", got=f"{x.shape[1]}", do="Draw ll.lens.joints instead")
        self.axes = axes[:2] * torch.where(axes[:2].sum(1, keepdim=True) < 0, -1.0, 1.0)  # a sign of its own
        share = (size.square() / size.square().sum()).tolist()
        self.explained = (share[0], share[1])
        self.points = ((x - self.middle) @ self.axes.T).numpy()
        words = [f"principal axis {k + 1} of the inputs ({percent(share[k])} of variance)" for k in (0, 1)]
        self.names = (words[0], words[1])

    def inputs(self, grid: Tensor) -> Tensor:
        return (self.middle + grid @ self.axes).unflatten(1, self.shape).float()
