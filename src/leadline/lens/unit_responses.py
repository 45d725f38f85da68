"""What a unit of a recurrent layer responds to: where it is highest and lowest, and all of a row coloured by it.

    r_1 = (b, t) where y_{bt} is highest,   r_2 the highest that is at least `around` steps from r_1, …        (1)

and the lowest likewise. A text is read best with each token on the colour of the unit behind it: what opens a bracket,
a quotation or a line, and what closes it, may be seen at once (Karpathy et al., 2015); most units are less plain.

Notation   y what the layer gives, at row b and step t, in the order of the row
Shapes     values (B, T), nan at steps that a row does not have
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leadline.errors import UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.recurrences import readings
from leadline.lens.style import FULL, HUES, INK, SIGNED, SOFT, blank, colour_bar, label, short, styled
from leadline.lens.tiles import largest
from leadline.lens.tokens import Read, read
from leadline.lens.view import View
from leadline.names import suggest
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ALONG, _LINES = 96, 12  # letters of a line of the drawing, and lines at most


@dataclass(frozen=True)
class Stretch:
    """Args:
    row, step: where the unit is so high or so low.
    value: of the unit there.
    words: the tokens up to there and that one; () where rows are numbers.
    """

    row: int
    step: int
    value: float
    words: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(self.words)


@dataclass(frozen=True, eq=False)
class UnitResponses(View):
    """Args:
    layer: path of the layer; unit: its number there.
    values: of the unit at each step, (B, T).
    words: of each row what its tokens say; () where rows are numbers.
    x: rows of numbers, (B, T, C); () where they are tokens.
    highest, lowest: eq. 1, the most extreme first.
    around: steps by which these are apart at least.
    """

    layer: str
    unit: int
    values: np.ndarray
    words: tuple[tuple[str, ...], ...]
    x: np.ndarray
    highest: tuple[Stretch, ...]
    lowest: tuple[Stretch, ...]
    around: int

    @styled
    def plot(self, row: int = 0) -> Figure:
        """Rows with the unit's value at each step, above the stretches where it is highest and lowest.

        Args:
            row: of numbers, the one that is drawn; of texts, the first.
        """
        row = range(len(self.values))[row]
        return self._texts(row) if self.words else self._series(row)

    def _texts(self, row: int) -> Figure:
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize
        from matplotlib.patches import Rectangle

        placed = list(self._placed(row))
        lines, top = 1 - min(y for *_, y in placed), largest(self.values)
        count = max(len(self.highest), len(self.lowest)) + 1
        figure = blank(FULL, 0.6 + 0.25 * max(lines, 5) + 0.2 * count)
        ax, below = figure.subplots(2, 1, height_ratios=(0.25 * max(lines, 5), 0.2 * count))
        for word, value, x, y in placed:
            colour = colormaps[SIGNED](0.5 + value / top / 2)
            ax.add_patch(Rectangle((x, y - 0.46), len(word), 0.92, fc=colour, ec="none"))
            ink = "w" if abs(value) > 0.65 * top else INK
            ax.text(x + len(word) / 2, y, word, ha="center", va="center", fontsize=7.5, family="monospace", color=ink)
        ax.set(xlim=(-0.5, _ALONG + 0.5), ylim=(0.4 - max(lines, 5), 0.6))
        ax.set_axis_off()
        ax.set_title(f"{self.layer}, unit {self.unit}")
        colour_bar(ax, ScalarMappable(Normalize(-top, top), SIGNED), "unit")
        for left, name, found in ((0.0, "highest after", self.highest), (0.5, "lowest after", self.lowest)):
            below.text(left, 1, name, transform=below.transAxes, fontweight="bold", va="top", fontsize=8.5)
            for k, one in enumerate(found):
                text = f"{short(one.value):>8}  row {one.row}, step {one.step + 1}: {str(one)[-40:]}"
                at = 1 - (k + 1) / count
                below.text(
                    left, at, text, transform=below.transAxes, va="top", fontsize=7, family="monospace", color=SOFT
                )
        below.set_axis_off()
        return figure

    def _placed(self, row: int) -> Iterator[tuple[str, float, int, int]]:
        """Words with their values, column and line, row after row, each on a new line."""
        y = 0
        for said, values in zip(self.words[row:], self.values[row:]):
            x = 0
            for word, value in zip(said, values):
                if not np.isfinite(value):
                    continue
                if x and x + len(word) > _ALONG:
                    x, y = 0, y - 1
                if y <= -_LINES:
                    return
                yield word, float(value), x, y
                x += len(word)
            y -= 1

    def _series(self, row: int) -> Figure:
        figure = blank(FULL, 6.2)
        parts = figure.subplot_mosaic([["row", "row"], ["highest", "lowest"]])
        ax, top = parts["row"], largest(self.values)
        steps, edges = np.arange(1, self.values.shape[1] + 1), np.arange(0.5, self.values.shape[1] + 1)
        mesh = ax.pcolormesh(
            edges, [0, 1], self.values[row][None], cmap=SIGNED, vmin=-top, vmax=top, alpha=0.8,
            transform=ax.get_xaxis_transform(), rasterized=True,
        )  # fmt: skip
        for k, line in enumerate(self.x[row].T):
            ax.plot(steps, line, lw=1.3, color=INK if self.x.shape[2] == 1 else HUES[k % len(HUES)])
        ax.grid(False)
        ax.set_xlim(edges[0], edges[-1])
        ax.xaxis.get_major_locator().set_params(integer=True)
        label(ax, f"{self.layer}, unit {self.unit}, row {row}", "step", "what the network reads")
        colour_bar(ax, mesh, "unit")
        for name, found in (("highest", self.highest), ("lowest", self.lowest)):
            for k, one in enumerate(found):
                before = self.x[one.row, max(0, one.step + 1 - self.around) : one.step + 1, 0]
                width = 2.0 if k == 0 else 0.8
                parts[name].plot(np.arange(1 - len(before), 1), before, lw=width, color=HUES[k % len(HUES)])
            if found:
                values = f"{short(found[0].value)} … {short(found[-1].value)}"
                label(parts[name], f"Where it is {name}: {values}", "steps before", "what the network reads")
        return figure


def unit_responses(
    model: Any,
    rows: Any = None,
    unit: int | None = None,
    *,
    layer: str | None = None,
    top: int = 8,
    around: int = 12,
    split: str = "val",
    num: int = 32,
) -> UnitResponses:
    """Where a unit of a recurrent layer is highest and lowest. The model is left as it was.

    Args:
        model, rows, split: as of `fading`.
        unit: its number, from 0; None takes the one whose values differ most.
        layer: path of the layer; None takes the last.
        top: how many stretches of each kind.
        around: steps by which they are apart at least, and tokens that a stretch shows.
        num: rows at most.

    >>> from leadline.layers import GRU
    >>> view = unit_responses(GRU(1, 4), torch.randn(2, 30, 1), unit=2, top=1)
    >>> bool(view.highest[0].value == view.values.max())
    True
    """
    seen = read(model, rows, split, whole("num", num))
    with at_rest(seen.model):
        heard = {reading.name or type(reading.layer).__name__: reading for reading in readings(seen)}
    name = list(heard)[-1] if layer is None else layer
    if name not in heard:
        raise UserError("layer must be a recurrent layer", got=f"layer={layer!r}", do=suggest(str(layer), list(heard)))
    reading = heard[name]
    y = reading.y.masked_fill(~reading.has[..., None], torch.nan).numpy()
    if unit is None:
        unit = int(np.nanstd(y, axis=(0, 1)).argmax())
    unit = whole("unit", unit, 0, y.shape[2] - 1)
    words, x = _rows(seen, y.shape[:2], name)
    values = y[..., unit]
    top, around = whole("top", top, usual=8), whole("around", around, usual=12)
    highest, lowest = (_extremes(sign * values, values, words, top, around) for sign in (1, -1))
    return UnitResponses(name, unit, values, words, x, highest, lowest, around)


def _rows(seen: Read, shape: tuple[int, ...], name: str) -> tuple[tuple[tuple[str, ...], ...], np.ndarray]:
    """Words, or numbers (B, T, C), where they go with the layer's steps; else each step's own number."""
    num, steps = shape
    words, source = seen.words, getattr(seen.model, "len_source", None)
    if words and source is not None:  # a row is the source and, after it, what the decoder reads
        words = tuple(row[:source] if name.startswith("encoder") else row[source:] for row in words)
    if words and len(words) == num and len(words[0]) == steps:
        return words, np.zeros((0, 0, 0))
    x = seen.x.detach().double().cpu().numpy()
    x = x[..., None] if x.ndim == 2 else x
    if x.ndim == 3 and x.shape[1] != steps and x.shape[2] == steps:
        x = np.moveaxis(x, 1, 2)
    if x.shape[:2] != (num, steps):
        x = np.broadcast_to(np.arange(steps, dtype=float)[None, :, None], (num, steps, 1)).copy()
    return (), x


def _extremes(
    by: np.ndarray, values: np.ndarray, words: tuple[tuple[str, ...], ...], top: int, around: int
) -> tuple[Stretch, ...]:
    """Eq. 1, of the largest of `by`."""
    left = np.where(np.isfinite(by), by, -np.inf)
    found: list[Stretch] = []
    while len(found) < top and np.isfinite(left).any():
        row, step = (int(k) for k in np.unravel_index(left.argmax(), left.shape))
        said = words[row][max(0, step + 1 - around) : step + 1] if words else ()
        found.append(Stretch(row, step, float(values[row, step]), said))
        left[row, max(0, step - around + 1) : step + around] = -np.inf
    return tuple(found)
