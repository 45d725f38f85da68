"""What a batch sees: its own loss surface, and where its step leads on the surface of all rows.

    L_b(φ) = mean loss of the rows of b,     Δ_b = -α ∇L_b(φ)                                 (1)
    uphill: L(φ + Δ_b) > L(φ)                                                                (2)

The cloud of all Δ_b is centred on the step of gradient descent where batches are drawn evenly. Steps may go uphill on
the loss of all rows, though each goes downhill on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.func import grad

from leadline.lens.style import FULL, HUES, INK, PATH, blank, heat, label, percent, styled
from leadline.lens.view import View
from leadline.lens.weight_loss import WeightLoss, grid_of, two_weights, window_of
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class BatchLosses(View):
    """Surfaces of batches, over two weights.

    Args:
        first, second, names: coordinates of the grid.
        whole: loss of all rows, (second, first).  parts: of the batches that are shown, (shown, second, first).
        here: the model's weights.  full: the step of all rows.
        updates: steps of the batches, (num, 2), those that are shown first.
        change: of the loss of all rows by each step, (num,).
        size: rows a batch.  rate: α.
    """

    first: np.ndarray
    second: np.ndarray
    names: tuple[str, ...]
    whole: np.ndarray
    parts: np.ndarray
    here: np.ndarray
    full: np.ndarray
    updates: np.ndarray
    change: np.ndarray
    size: int
    rate: float

    @property
    def uphill(self) -> float:
        """Part of the steps that raise the loss of all rows (2)."""
        return float((self.change > 0).mean())

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 2.9 * (1 + (len(self.parts) > 1)) + 0.6)
        columns = max(2, -(-(1 + len(self.parts)) // 2))
        axes = figure.subplots(-(-(1 + len(self.parts)) // columns), columns, squeeze=False, sharex=True, sharey=True)
        for ax in axes.flat[1 + len(self.parts) :]:
            ax.set_visible(False)
        for k, ax in enumerate(axes.flat[: 1 + len(self.parts)]):
            values = self.whole if k == 0 else self.parts[k - 1]
            heat(ax, self.first, self.second, values, "mean loss of a row")
            ax.contour(self.first, self.second, values, 10, colors="white", linewidths=0.5, alpha=0.5)
            if k == 0:
                ends = self.here + self.updates
                down = self.change <= 0
                for chosen, hue, name in ((down, HUES[4], "step of a batch"), (~down, HUES[1], "one that goes uphill")):
                    if chosen.any():
                        ax.plot(*ends[chosen].T, "o", ms=3, color=hue, mec="none", alpha=0.8, label=name)
            step = self.full if k == 0 else self.updates[k - 1]
            ax.annotate("", self.here + step, self.here, arrowprops={"arrowstyle": "->", "color": PATH, "lw": 2})
            ax.plot(*self.here, "o", ms=6, color="white", mec=INK)
            own = "" if k == 0 or self.change[k - 1] <= 0 else "; uphill for all rows"
            title = f"All rows: {percent(self.uphill)} of the steps go uphill" if k == 0 else f"Batch {k}{own}"
            label(ax, title, "", "", legend=2 if k == 0 else 0)
            ax.set(xlim=(self.first[0], self.first[-1]), ylim=(self.second[0], self.second[-1]))
        for ax in axes[-1]:
            ax.set_xlabel(self.names[0])
        for ax in axes[:, 0]:
            ax.set_ylabel(self.names[1])
        return figure


def batch_losses(
    model: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    size: int = 3,
    rate: float = 1.0,
    window: Any = None,
    num_batches: int = 200,
    shown: int = 3,
    num: int = 61,
    split: str = "train",
    seed: int = 0,
) -> BatchLosses:
    """Loss surfaces of batches of a model of two weights, and the cloud of their steps from where it is.

    Args:
        data, likelihood, split: as for `loss_surface`.
        size: rows a batch, at least 1.  rate: α of (1), above 0.
        window: ((least, largest), (least, largest)) of the two weights.
        num_batches, shown: batches in the cloud, and those with a surface of their own.
        num: grid points a side.  seed: of the batches.

    >>> import leadline as ll
    >>> view = batch_losses(ll.models.Linear(1, 1), ll.data.line(num=40), num=5)
    >>> view.parts.shape, view.updates.shape
    ((3, 5, 5), (200, 2))
    """
    loss = WeightLoss(model, data, likelihood, split)
    two_weights(loss, "batch_losses")
    rate, total = real("rate", rate, 0, above=True, usual=1.0), len(loss.y)
    size, count = whole("size", size, 1, total), whole("num_batches", num_batches)
    g = torch.Generator().manual_seed(whole("seed", seed, 0))
    batches = [torch.randperm(total, generator=g)[:size] for _ in range(count)]
    losses = [loss.of_batch(rows) for rows in batches]
    updates = torch.stack([-rate * grad(one)(loss.centre) for one in losses])  # eq. 1
    change = loss.losses(loss.centre + updates) - loss(loss.centre)
    ends = window_of(window, loss.centre)
    first, second, points = grid_of(ends, whole("num", num, 2))
    each = torch.func.vmap(loss.each, chunk_size=4096)(points)  # (places, rows)
    weight = loss.weight
    part = lambda rows: ((each[:, rows] * weight[rows]).sum(1) / weight[rows].sum()).view(num, num).numpy()  # noqa: E731
    parts = np.stack([part(rows) for rows in batches[: whole("shown", shown)]])
    return BatchLosses(
        first.numpy(), second.numpy(), loss.names, part(torch.arange(total)), parts, loss.centre.numpy(),
        (-rate * grad(loss)(loss.centre)).numpy(), updates.numpy(), change.numpy(), size, float(rate),
    )  # fmt: skip
