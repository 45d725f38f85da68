"""Inside a shallow network: lines, clipped lines, weighted lines and their sum (figures 3.3 and 3.8 of Prince's book).

    z_d = β_d + Ω_d · x               pre-activations: lines, or planes over two inputs        (1)
    h_d = a[z_d]                      activations: clipped where a is ReLU                      (2)
    φ_d h_d                           weighted by the head                                      (3)
    y   = φ_0 + Σ_d φ_d h_d           the output                                                (4)

Any activation will do. Of a deeper network the last hidden layer is shown: its z are bent already where earlier layers
have their joints (figure 4.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from leadline.errors import UserError
from leadline.lens.at_rest import exactly
from leadline.lens.calls import Listening
from leadline.lens.joints import joints
from leadline.lens.regions import check_window, regions
from leadline.lens.style import DASHED, FULL, HUES, INK, SIGNED, SOFT, blank, colour_bar, label, short, styled
from leadline.lens.view import View
from leadline.settings import given, real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 5  # units up to which each has panels of its own
_STEPS = ("pre-activation z", "activation h", "weighted φ h")


@dataclass(frozen=True, eq=False)
class Panels(View):
    """The steps from input to output.

    Args:
        x: grid of the input, or of each of two inputs, (inputs, num).
        pre, active, weighted: eq. 1 to 3, (…, D); the grid's shape is (num,) or (second, first).
        output: eq. 4, of the grid's shape; `offset` is φ_0 and `head` the φ_d.
        joints: where the output's pieces meet: places for one input, segments ((x, y), (x, y)) for two; none where
            the activation is smooth.
        shallow: whether the z are lines or planes.
    """

    x: np.ndarray
    pre: np.ndarray
    active: np.ndarray
    weighted: np.ndarray
    output: np.ndarray
    head: np.ndarray
    offset: float
    joints: np.ndarray
    shallow: bool

    @styled
    def plot(self) -> Figure:
        return self._curves() if len(self.x) == 1 else self._maps()

    def _curves(self) -> Figure:
        units, x = self.pre.shape[-1], self.x[0]
        columns = units if units <= _COLUMNS else 1
        figure = blank(max(FULL * columns / _COLUMNS, 6.0), 7.8)
        grid = figure.add_gridspec(4, columns, height_ratios=[1, 1, 1, 1.5])
        for row, (values, name) in enumerate(zip((self.pre, self.active, self.weighted), _STEPS, strict=True)):
            axes: list[Any] = []
            for column in range(columns):
                axes.append(figure.add_subplot(grid[row, column], sharey=axes[0] if axes else None))
            for d in range(units):
                ax, hue = axes[d % columns], HUES[d % len(HUES)]
                ax.plot(x, values[:, d], color=hue, lw=1.6 if columns > 1 else 1.0)
                ax.set_title(self._name(row, d) if columns == units else f"{units} units")
                if row == 1 and self.shallow and columns == units:
                    for a, b in _runs(self.active[:, d] != 0):
                        ax.axvspan(x[a], x[b], color=hue, alpha=0.08, lw=0)
            for column, ax in enumerate(axes):
                ax.axhline(0, color=SOFT, lw=0.8, ls=DASHED, zorder=1)
                ax.set_xlim(x[0], x[-1])
                ax.tick_params(labelbottom=row == 2, labelleft=column == 0)
            axes[0].set_ylabel(name)
        ax = figure.add_subplot(grid[3, :])
        for place in self.joints:
            ax.axvline(
                place, color=SOFT, lw=0.8, ls=DASHED, zorder=1, label="joint" if place == self.joints[0] else None
            )
        ax.plot(x, self.output, color=INK, lw=2, label="output y")
        ax.set_xlim(x[0], x[-1])
        title = f"Sum: y = {short(self.offset)} + Σ φ h"
        label(ax, title + (f", {len(self.joints) + 1} straight pieces" if len(self.joints) else ""), "x", "output y", 2)
        return figure

    def _name(self, row: int, d: int) -> str:
        if row == 0 and self.shallow:
            slope = (self.pre[-1, d] - self.pre[0, d]) / (self.x[0][-1] - self.x[0][0])
            start = self.pre[0, d] - slope * self.x[0][0]
            return f"z{_small(d)} = {start:.2f} {'+' if slope >= 0 else '−'} {abs(slope):.2f} x".replace("-", "−")
        named = f"h{_small(d)} = a[z{_small(d)}]" if row == 1 else f"{self.head[d]:.2f} · h{_small(d)}"
        return f"z{_small(d)}" if row == 0 else named.replace("-", "−")

    def _maps(self) -> Figure:
        from matplotlib.collections import LineCollection

        units = min(self.pre.shape[-1], _COLUMNS)
        figure = blank(max(FULL * units / _COLUMNS, 5.5), 9.4)
        cells = figure.add_gridspec(4, units, height_ratios=[1, 1, 1, 1.6])
        left, right, bottom, top = self.x[0][0], self.x[0][-1], self.x[1][0], self.x[1][-1]
        for row, (values, name) in enumerate(zip((self.pre, self.active, self.weighted), _STEPS, strict=True)):
            axes = [figure.add_subplot(cells[row, d]) for d in range(units)]
            size = float(np.abs(values[..., :units]).max()) or 1.0
            for d, ax in enumerate(axes):
                mesh = ax.pcolormesh(*self.x, values[..., d], shading="gouraud", cmap=SIGNED, vmin=-size, vmax=size)
                mesh.set_rasterized(True)
                z = self.pre[..., d]
                if z.min() < 0 < z.max():
                    ax.contour(*self.x, z, [0], colors=INK, linewidths=1.1)
                ax.grid(False)
                ax.set_title(self._name(row, d) if row else f"z{_small(d)}")
                ax.set(xlim=(left, right), ylim=(bottom, top))
                ax.set_xlabel("x₁" if row == 2 else "")
                ax.tick_params(labelbottom=row == 2, labelleft=d == 0)
            axes[0].set_ylabel("x₂")
            colour_bar(axes, mesh, name)
        ax = figure.add_subplot(cells[3, :])
        size = float(np.abs(self.output).max()) or 1.0
        mesh = ax.pcolormesh(*self.x, self.output, shading="gouraud", cmap=SIGNED, vmin=-size, vmax=size)
        mesh.set_rasterized(True)
        ax.contour(*self.x, self.output, 10, colors="white", linewidths=0.7)
        if len(self.joints):
            ax.add_collection(LineCollection(list(self.joints), colors=INK, linewidths=1.1, label="joints"))
        ax.grid(False)
        colour_bar(ax, mesh, "output y")
        more = self.pre.shape[-1] - units
        title = f"Sum: y = {short(self.offset)} + Σ φ h" + (f", of these and {more} more units" if more else "")
        label(ax, title, "x₁", "x₂", 2)
        ax.set(xlim=(left, right), ylim=(bottom, top))
        return figure


def panels(model: nn.Module, window: Any = (-1.0, 1.0), output: int = 0, num: int = 401) -> Panels:
    """The inside of a network of one or two inputs.

    Args:
        window: (least, largest) for one input, ((least, largest), (least, largest)) for two.
        output: which output to take apart.
        num: grid points; for two inputs, about a quarter of it a side.

    >>> view = panels(nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1)))
    >>> view.pre.shape, bool(np.allclose(view.output, view.offset + view.weighted.sum(1)))
    ((401, 3), True)
    """
    num = whole("num", num, 8, usual=401)
    grid = _grid(window, num)
    points = np.stack(np.meshgrid(*grid), -1).reshape(-1, len(grid))
    with exactly(model) as f, Listening(lambda name: name == "linear") as heard:
        try:
            out = f(torch.tensor(points)).flatten(1)
        except RuntimeError as error:
            raise UserError(
                f"the model must take {len(grid)} input{'s' if len(grid) > 1 else ''}, as the window has",
                got=str(error).splitlines()[0],
                do="Pass window=(-1, 1) for one input, ((-1, 1), (-1, 1)) for two",
            ) from None
    calls = heard.calls
    fits = len(calls) >= 2 and torch.equal(calls[-1].out.flatten(1), out)
    if not fits or calls[-1].args[0].shape != calls[-2].out.shape:
        raise UserError(
            "the model must end in a linear map of hidden units, that come out of another linear map",
            got=f"{len(calls)} linear maps in {type(model).__name__}",
            do="Look at a network such as ll.models.MLP(1, (3,), 1)",
        )
    last = calls[-1]
    output = whole("output", output, 0, out.shape[1] - 1, usual=0)
    head, active = last.args[1][output].numpy(), last.args[0].numpy()
    bias = last.option(2, "bias")
    shape = (num,) if len(grid) == 1 else (len(grid[1]), len(grid[0]))
    pre, active, weighted = (part.reshape(*shape, -1) for part in (calls[-2].out.numpy(), active, active * head))
    offset = 0.0 if bias is None else float(bias[output])
    sum_ = out[:, output].numpy().reshape(shape)
    return Panels(
        np.stack(grid), pre, active, weighted, sum_, head, offset, _joints(model, window, output, len(grid)),
        len(calls) == 2,
    )  # fmt: skip


def _grid(window: Any, num: int) -> list[np.ndarray]:
    try:
        low, high = window
        flat = not hasattr(low, "__len__")
    except (TypeError, ValueError):
        raise UserError(
            "window must be a pair, or two", got=given("window", window), do="Write window=(-1, 1)"
        ) from None
    if not flat:
        return [np.linspace(*ends, num // 4) for ends in check_window(window)]
    low, high = real("low end of window", low), real("high end of window", high)
    if not low < high:
        raise UserError("window must ascend", got=given("window", window), do="Write window=(-1, 1)")
    return [np.linspace(low, high, num)]


def _joints(model: nn.Module, window: Any, output: int, inputs: int) -> np.ndarray:
    """Where the pieces meet; none of a network that has none."""
    try:
        if inputs == 1:
            found = joints(model, *window)
            step = np.abs(np.diff(found.slopes[:, output]))
            return found.x[step > 1e-9 * np.abs(found.slopes).max(initial=0)]
        seen = regions(model, window)
        return seen.corners[seen.edges]
    except UserError:
        return np.zeros(0)


def _runs(on: np.ndarray) -> list[tuple[int, int]]:
    """First and last place of each run of True."""
    edge = np.flatnonzero(np.diff(np.concatenate([[0], on.astype(np.int8), [0]])))
    return [(int(a), int(b) - 1) for a, b in zip(edge[::2], edge[1::2], strict=True)]


def _small(d: int) -> str:
    return str(d + 1).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
