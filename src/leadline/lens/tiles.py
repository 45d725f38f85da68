"""Pictures, signals and maps over them, drawn small and without axes.

Pictures have no unit once a network has read them: each is drawn from its least to its largest value. A map over a
picture is signed (white at 0) or runs from 0 up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.lens.style import HUES, INK, LINE, SEQUENTIAL, SIGNED, SOFT, blank, colour_bar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN = 6  # rows that `explained` draws


def visible(x: np.ndarray, low: float | None = None, high: float | None = None) -> np.ndarray:
    """A picture (C, Y, X) as greys (Y, X) or colours (Y, X, 3) between 0 and 1.

    Args:
        low, high: what is drawn as 0 and 1; None is the picture's least and largest value.

    >>> visible(np.array([[[-1.0, 3.0]]])).tolist()
    [[0.0, 1.0]]
    """
    low = float(x.min()) if low is None else low
    high = float(x.max()) if high is None else high
    unit = np.clip((x - low) / (high - low if high > low else 1.0), 0, 1)
    return np.moveaxis(unit, 0, -1) if len(x) == 3 else unit.mean(0)


def bare(ax: Axes) -> None:
    """No ticks, no grid, a thin frame."""
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set(visible=True, color=LINE, linewidth=0.6)


def show(ax: Axes, x: np.ndarray, title: str = "") -> None:
    """One row as the network reads it: a picture (C, Y, X), or signals (C, T) as lines."""
    if x.ndim <= 2:
        for k, line in enumerate(np.atleast_2d(x)):
            ax.plot(line, lw=1.2, color=INK if x.ndim == 1 or len(x) == 1 else HUES[k % len(HUES)])
        ax.set(yticks=[])
    else:
        ax.imshow(visible(x), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        bare(ax)
    ax.set_title(title, fontsize=8.5, fontweight="normal", color=SOFT)


def paint(ax: Axes, values: np.ndarray, top: float, signed: bool = True, title: str = "") -> Any:
    """A map (Y, X), or (T,) as bars, from -top to top, or from 0 to top; returns what a colour bar needs."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    norm = Normalize(-top if signed else 0, top)
    cmap = SIGNED if signed else SEQUENTIAL
    ax.set_title(title, fontsize=8.5, fontweight="normal", color=SOFT)
    if values.ndim == 1:
        drawn = ScalarMappable(norm, cmap)
        ax.bar(np.arange(len(values)), values, width=1.0, color=drawn.to_rgba(values), edgecolor=SOFT, linewidth=0.3)
        ax.set(ylim=((-1.05 if signed else 0) * top, 1.05 * top), xlabel="position")
        return drawn
    bare(ax)
    return ax.imshow(values, cmap=cmap, norm=norm, interpolation="nearest")


def over(ax: Axes, x: np.ndarray, values: np.ndarray, top: float, title: str = "") -> Any:
    """A map from 0 to top over its grey picture: the more, the less of the picture shows through."""
    if values.ndim == 1:
        return paint(ax, values, top, signed=bool((values < 0).any()), title=title)
    grey = visible(x).mean(-1) if len(x) == 3 else visible(x)
    ax.imshow(0.35 + 0.65 * grey, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    ax.set_title(title, fontsize=8.5, fontweight="normal", color=SOFT)
    bare(ax)
    share = np.clip(values / top, 0, 1)
    return ax.imshow(
        values, cmap="inferno", vmin=0, vmax=top, alpha=0.85 * np.sqrt(share), interpolation="nearest",
        extent=(-0.5, x.shape[-1] - 0.5, x.shape[-2] - 0.5, -0.5),
    )  # fmt: skip


def explained(view: Any, maps: np.ndarray, draw: Callable[..., Any], unit: str, title: str) -> Figure:
    """Rows with the output that is asked about, and below each a map of where it comes from.

    Args:
        view: with the rows `x`, and `target` and `score` of each.
        maps: of each row, drawn by draw(axes, row, map, largest size of any).
        unit: of the maps.
    """
    count = min(len(view.x), _SHOWN)
    figure = blank(1.5 * count + 1.1, 3.5)
    axes = figure.subplots(2, count, squeeze=False)
    maps = maps[:count]
    for k in range(count):
        show(axes[0, k], view.x[k], f"output {view.target[k]}: {view.score[k]:.3g}")
        mesh = draw(axes[1, k], view.x[k], maps[k], largest(maps))
    colour_bar(list(axes[1]), mesh, unit)
    figure.suptitle(title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    return figure


def largest(values: np.ndarray) -> float:
    """The largest size of the finite values; 1 where all are 0.

    >>> largest(np.array([-3.0, 2.0])), largest(np.zeros(2))
    (3.0, 1.0)
    """
    return float(np.abs(values[np.isfinite(values)]).max(initial=0)) or 1.0


def layout(count: int, wide: int = 8) -> tuple[int, int]:
    """Rows and columns of a grid for that many tiles, at most `wide` columns.

    >>> layout(20), layout(6)
    ((3, 8), (1, 6))
    """
    columns = min(count, wide)
    return math.ceil(count / columns), columns
