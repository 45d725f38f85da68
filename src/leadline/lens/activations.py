"""Activation functions and their slopes, side by side (figure 3.13 of Prince's book)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from leadline.errors import UserError
from leadline.layers.activation import activation
from leadline.lens.style import DASHED, FULL, HUES, SOFT, blank, label, styled
from leadline.lens.view import View
from leadline.settings import given, real

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: the panels that are drawn when none are named
GALLERY: tuple[tuple[str, ...], ...] = (
    ("sigmoid", "tanh"),
    ("leaky_relu", "prelu(0.25)"),
    ("softplus", "gelu", "silu"),
    ("elu(0.5)", "elu(1.0)"),
    ("selu",),
    ("swish(0.4)", "swish(1.0)", "swish(1.4)"),
)
_POINTS = 1001


@dataclass(frozen=True, eq=False)
class Activations(View):
    """Activations over one pre-activation.

    Args:
        panels: names, panel by panel.
        z: the pre-activation, (num,).
        values, slopes: name → a[z] and its derivative, (num, 1); two columns for one that is twice as wide.
    """

    panels: tuple[tuple[str, ...], ...]
    z: np.ndarray
    values: dict[str, np.ndarray]
    slopes: dict[str, np.ndarray]

    @styled
    def plot(self) -> Figure:
        columns = min(3, len(self.panels))
        rows = -(-len(self.panels) // columns)
        figure = blank(max(FULL * columns / 3, 4.4), 3.1 * rows)
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for ax in axes.flat[len(self.panels) :]:
            ax.set_visible(False)
        step = self.z[1] - self.z[0]
        for place, names in enumerate(self.panels):
            ax = axes.flat[place]
            for j, name in enumerate(names):
                for k in range(self.values[name].shape[1]):
                    value, slope = self.values[name][:, k].copy(), self.slopes[name][:, k].copy()
                    # between two points a function that does not jump moves no more than its slope lets it
                    steepest = np.maximum(np.abs(slope[:-1]), np.abs(slope[1:]))
                    value[:-1][np.abs(np.diff(value)) > 4 * step * steepest + 1e-3] = np.nan
                    slope[:-1][np.abs(np.diff(slope)) > 12 * step] = np.nan  # a kink of the value
                    hue = HUES[j % len(HUES)]
                    ax.plot(self.z, value, color=hue, lw=2, label=name if k == 0 else None)
                    ax.plot(self.z, slope, color=hue, lw=1, ls=DASHED)
            ax.plot([], [], color=SOFT, lw=1, ls=DASHED, label="slopes" if len(names) > 1 else "slope")
            ax.axhline(0, color=SOFT, lw=0.6, zorder=1)
            ax.axvline(0, color=SOFT, lw=0.6, zorder=1)
            many = len(self.panels) > 1
            letter = chr(ord("a") + place) if place < 26 else str(place + 1)
            label(ax, f"({letter})" if many else "Activation and its slope", "", "", 4)
            ax.set_xlim(self.z[0], self.z[-1])
            ax.set_xlabel("pre-activation z" if place + columns >= len(self.panels) else "")
            ax.tick_params(labelbottom=place + columns >= len(self.panels))
            ax.set_ylabel("a[z]" if place % columns == 0 else "")
        return figure


def activations(*names: str | Sequence[str], low: float = -4.0, high: float = 4.0) -> Activations:
    """Activations by name, a panel for each, or for each group of names; without names, the gallery of the book.

    >>> view = activations("relu", ("gelu", "swish(1.7)"))
    >>> view.panels, float(view.slopes["relu"][-1, 0])
    ((('relu',), ('gelu', 'swish(1.7)')), 1.0)
    """
    panels = tuple(tuple(group) if isinstance(group, (list, tuple)) else (group,) for group in names or GALLERY)
    if not all(panels) or not all(isinstance(name, str) for group in panels for name in group):
        raise UserError(
            "a panel must name activations", got=given("names", names), do='Write activations("relu", "gelu")'
        )
    low, high = real("low", low), real("high", high)
    if not low < high:
        raise UserError("low must be below high", got=f"low={low}, high={high}", do="Write low=-4, high=4")
    z = torch.linspace(low, high, _POINTS, dtype=torch.float64)
    values, slopes = {}, {}
    for name in dict.fromkeys(name for group in panels for name in group):
        values[name], slopes[name] = _both(activation(name), z)
    return Activations(panels, z.numpy(), values, slopes)


def _both(module: nn.Module, z: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    with torch.enable_grad():
        x = z[:, None].clone().requires_grad_()
        a = module.double()(x)
        columns = []
        for k in range(a.shape[1]):
            slope = (
                torch.autograd.grad(a[:, k].sum(), x, retain_graph=True, allow_unused=True)[0]
                if a.requires_grad
                else None
            )
            columns.append(torch.zeros_like(z) if slope is None else slope[:, 0])
    return a.detach().numpy(), torch.stack(columns, 1).numpy()
