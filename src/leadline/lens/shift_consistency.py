"""Shift consistency: does a classifier keep its answer when its input moves a little? (Zhang, 2019)

    consistency = share of rows and of pairs of different shifts whose answers agree        (1)

Strides and pools read some positions and skip others, so that a shift by one may change an answer; pools that blur
before they skip keep it more often.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from leadline.errors import ShapeError
from leadline.lens.at_rest import at_rest
from leadline.lens.equivariance import TRANSFORMS
from leadline.lens.place import seen
from leadline.lens.style import HUES, blank, colour_bar, label, percent, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class ShiftConsistency(View):
    """Whether answers stay when the input moves a little.

    Args:
        consistency: eq. 1, over all rows and all pairs of different shifts.
        shifts: along each axis, from −reach to reach.
        agreement: share of rows whose answer at a shift is that of the input itself, by shift along each axis.
        rows: how many.
    """

    consistency: float
    shifts: np.ndarray
    agreement: np.ndarray
    rows: int

    @styled
    def plot(self) -> Figure:
        figure = blank(4.9, 3.9)
        ax = figure.subplots()
        title = f"Shift consistency {percent(self.consistency)}, {self.rows} rows"
        if self.agreement.ndim == 1:
            ax.plot(self.shifts, 100 * self.agreement, "o-", ms=3.5, color=HUES[0])
            ax.set_ylim(top=102)
            label(ax, title, "shift", "answers that stay, %")
            return figure
        low = min(0.99, float(self.agreement.min()))
        ends = (self.shifts[0] - 0.5, self.shifts[-1] + 0.5, self.shifts[-1] + 0.5, self.shifts[0] - 0.5)
        mesh = ax.imshow(100 * self.agreement, cmap="viridis", vmin=100 * low, vmax=100, extent=ends)
        ax.set(xticks=self.shifts, yticks=self.shifts)
        ax.grid(False)
        label(ax, title, "columns to the right", "rows down")
        colour_bar(ax, mesh, "answers that stay, %")
        return figure


def shift_consistency(
    model: nn.Module, x: Any, reach: int = 3, *, wrap: bool = True, split: str = "test", num: int = 256
) -> ShiftConsistency:
    """How often a classifier keeps its answer when rows move by up to `reach` positions. It is left as it was.

    Args:
        x: Data, or rows as the network reads them, (B, C, Y, X) or (B, C, T).
        reach: the largest shift along each axis, at least 1.
        wrap: what leaves on one side comes in on the other; else zeros come in.
        num: rows at most.

    >>> circular = nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular")
    >>> net = nn.Sequential(circular, nn.AdaptiveMaxPool2d(1), nn.Flatten())
    >>> shift_consistency(net, torch.randn(20, 1, 8, 8), 1).consistency
    1.0
    """
    reach = whole("reach", reach, 1, usual=3)
    model, rows = seen(model, x, split=split, num=whole("num", num, 1, usual=256))
    axes = rows.dim() - 2
    if axes not in (1, 2):
        raise ShapeError("rows must be pictures or signals", got=f"shape {tuple(rows.shape)}", do="Pass (B, C, Y, X)")
    make, _ = TRANSFORMS["translate" if wrap else "shift"]
    steps = range(-reach, reach + 1)
    answers = []
    with at_rest(model):
        for shift in product(steps, repeat=axes):
            out = model(make(tuple(float(n) for n in shift))(rows, [1.0] * axes))
            if out.dim() > 2:
                raise ShapeError(
                    "the model must give one answer a row",
                    got=f"output of shape {tuple(out.shape)}",
                    do="Look at a model of pixels with equivariance",
                )
            out = out[:, None] if out.dim() == 1 else out
            answers.append((out[:, 0] > 0).long() if out.shape[1] == 1 else out.argmax(1))
    codes = torch.stack(answers).cpu()  # (shifts, B)
    S = len(codes)  # noqa: N806
    counts = F.one_hot(codes, int(codes.max()) + 1).sum(0).double()  # (B, classes)
    pairs = (counts * (counts - 1)).sum(1) / (S * (S - 1))  # eq. 1
    stay = (codes == codes[S // 2]).double().mean(1).reshape((len(steps),) * axes)
    return ShiftConsistency(float(pairs.mean()), np.array(steps), stay.numpy(), len(rows))
