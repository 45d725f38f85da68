"""How alike the vectors are that a transformer learned for its places, along the row and on the grid.

    s_{ij} = e_i · e_j / (|e_i| |e_j|),   mean over places taken off first                     (1)
    along(d) = mean over i of s_{i, i+d}                                                       (2)
    map_{dy,dx} = mean over places of s between (y, x) and (y + dy, x + dx)                    (3)

A network that reads a picture as one row is not told that places X apart lie above each other. Where it has found out,
(2) has peaks at multiples of X, and (3) a bright spot in the middle that is round.

Notation   e_i -> the learned vector of place i;  X columns of the grid
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.lens.style import INK, SOFT, blank, colour_bar, label, styled
from leadline.lens.tiles import bare
from leadline.lens.view import View
from leadline.settings import given

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class PositionSimilarity(View):
    """How alike places are.

    Args:
        grid: rows and columns of places; None where they have no grid.
        similarity: eq. 1, (T, T).
        along: eq. 2, of d = 0 … T - 1.
        around: eq. 3, (2Y - 1, 2X - 1), the middle is the place itself; empty without a grid.
    """

    grid: tuple[int, int] | None
    similarity: np.ndarray
    along: np.ndarray
    around: np.ndarray

    @property
    def near(self) -> float:
        """Mean of eq. 3 over the four neighbours of a place, less that over all others: above 0 where the grid was
        learned. Without a grid, of the neighbours in the row.
        """
        if self.grid is None:
            return float(self.along[1] - self.along[2:].mean())
        y, x = self.grid[0] - 1, self.grid[1] - 1
        far = np.abs(np.arange(-y, y + 1))[:, None] + np.abs(np.arange(-x, x + 1))
        return float(self.around[far == 1].mean() - self.around[far > 1].mean())

    @styled
    def plot(self) -> Figure:
        figure = blank(10.0 if self.grid else 5.0, 3.6)
        axes = figure.subplots(1, 2 if self.grid else 1, squeeze=False)[0]
        ax = axes[0]
        shown = len(self.along) - len(self.along) // 4  # few pairs are far apart
        ax.plot(np.arange(1, shown), self.along[1:shown], color=INK, lw=1.2)
        if self.grid:
            for row in range(self.grid[1], shown, self.grid[1]):
                ax.axvline(row, color=SOFT, lw=0.5, zorder=0)
        told = f", a line every {self.grid[1]} places: one row further" if self.grid else ""
        label(ax, f"Along the row{told}", "places apart", "cosine of learned vectors")
        if self.grid:
            y, x = self.grid[0] // 2, self.grid[1] // 2
            middle = (self.grid[0] - 1, self.grid[1] - 1)
            values = self.around[middle[0] - y : middle[0] + y + 1, middle[1] - x : middle[1] + x + 1].copy()
            values[y, x] = np.nan  # itself, which is 1
            top = float(np.nanmax(np.abs(values))) or 1.0
            mesh = axes[1].imshow(
                values,
                cmap="RdBu_r",
                vmin=-top,
                vmax=top,
                interpolation="nearest",
                extent=(-x - 0.5, x + 0.5, y + 0.5, -y - 0.5),
            )
            bare(axes[1])
            axes[1].set(xticks=[-x, 0, x], yticks=[-y, 0, y])
            label(axes[1], "On the grid, from a place in the middle", "columns apart", "rows apart")
            colour_bar(axes[1], mesh, "cosine, mean over places")
        return figure


def position_similarity(
    model: nn.Module, grid: Sequence[int] | None = None, weight: Tensor | None = None
) -> PositionSimilarity:
    """How alike the learned vectors of places are. The model is left as it was.

    Args:
        model: one with learned positions: its `position`, `place` or `positions`, or that module's weight.
        grid: rows and columns of places; None takes the model's own `grid`, where it has one. Vectors before those of
            the grid, such as a class token's, are left out.
        weight: the vectors (T, D) themselves, where the model keeps them elsewhere.

    >>> from leadline.models import ViT
    >>> position_similarity(ViT.tiny()).around.shape
    (3, 3)
    """
    found = learned_places(model) if weight is None else weight
    e = found.detach().double().cpu().reshape(-1, found.shape[-1])
    told = grid if grid is not None else getattr(model, "grid", None)
    places = None if told is None else (int(told[0]), int(told[1]))
    if places is not None:
        rows, columns = places
        if len(e) < rows * columns:
            raise UserError(
                "grid must have no more places than were learned",
                got=f"{rows} x {columns} for {len(e)} vectors",
                do="Pass grid=(rows, columns) of the pictures",
            )
        e = e[len(e) - rows * columns :]
    if len(e) < 3:
        raise UserError("there must be at least three places", got=str(len(e)), do="Take a longer row")
    e = e - e.mean(0)
    e = e / e.norm(dim=1, keepdim=True).clamp(min=1e-12)
    s = (e @ e.T).numpy()  # eq. 1
    along = np.array([np.diagonal(s, d).mean() for d in range(len(s))])  # eq. 2
    around = np.zeros((0, 0)) if places is None else _around(s, *places)
    return PositionSimilarity(places, s, along, around)


def learned_places(model: nn.Module) -> Tensor:
    """The vectors of a model's places, as it learned them.

    >>> from leadline.models import GPT
    >>> learned_places(GPT.tiny()).shape[1] == GPT.tiny().dim
    True
    """
    for name in ("position", "place", "positions"):
        held = getattr(model, name, None)
        found = held if isinstance(held, Tensor) else getattr(held, "weight", None)
        if isinstance(found, Tensor):
            return found
    raise UserError(
        "the model must have learned positions",
        got=given("model", type(model).__name__),
        do="Take ViT, ImageGPT, GPT or BERT, or pass weight=…",
    )


def _around(s: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Eq. 3."""
    pairs = s.reshape(rows, columns, rows, columns)
    total, count = np.zeros((2 * rows - 1, 2 * columns - 1)), np.zeros((2 * rows - 1, 2 * columns - 1))
    for y in range(rows):
        for x in range(columns):
            here = slice(rows - 1 - y, 2 * rows - 1 - y), slice(columns - 1 - x, 2 * columns - 1 - x)
            total[here] += pairs[y, x]
            count[here] += 1
    return total / count
