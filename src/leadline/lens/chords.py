"""Is the loss convex? Chords between pairs of weights, and the curvature at places between them.

    rise = L((1-t) φ + t φ') - (1-t) L(φ) - t L(φ'),     0 < t < 1          convex: never above 0        (1)
    λ    = smallest eigenvalue of the Hessian                                convex: never below 0        (2)

One chord below the surface, or one negative eigenvalue, proves that a loss is not convex. That none is found among many
proves nothing, but makes it likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from leadline.errors import UserError
from leadline.lens.style import DASHED, FULL, HUES, INK, SOFT, blank, label, styled
from leadline.lens.view import View
from leadline.lens.weight_loss import WeightLoss, window_of
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ALONG = 33  # places on a chord
_MOST = 200  # weights whose Hessian is built whole


@dataclass(frozen=True, eq=False)
class Chords(View):
    """Chords of a loss.

    Args:
        rise: (pairs,), the largest of (1) on each chord, descending, as a part of the largest loss at the ends.
        lowest: (pairs,), eq. 2 at the middle of each chord, ascending.
        t, along, chord: the worst chord: places on it, the loss there, and the straight line.
        convex: whether no chord and no curvature says otherwise, beyond rounding.
    """

    rise: np.ndarray
    lowest: np.ndarray
    t: np.ndarray
    along: np.ndarray
    chord: np.ndarray
    convex: bool

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL * 0.85, 3.5)
        left, right = figure.subplots(1, 2)
        left.plot(self.t, self.along, color=HUES[0], label="loss")
        left.plot(self.t, self.chord, color=INK, lw=1.1, ls=DASHED, label="chord")
        above = self.along > self.chord
        left.fill_between(self.t, self.along, self.chord, above, color=HUES[1], alpha=0.35, lw=0, label="above it")
        words = "No sign against convexity" if self.convex else "Not convex"
        label(left, f"{words}: the lowest chord", "part t of the way", "mean loss of a row", legend=3)
        rank = (np.arange(len(self.lowest)) + 0.5) / len(self.lowest)
        right.plot(rank, self.lowest, color=HUES[0])
        right.axhline(0, color=SOFT, lw=0.8)
        if np.abs(self.lowest).max() > 1e3 * (np.median(np.abs(self.lowest)) or 1e-300):
            right.set_yscale("symlog", linthresh=float(np.median(np.abs(self.lowest))) or 1e-12)
        told = f"{int((self.rise > 1e-9).sum())} of {len(self.rise)} chords lie too low"
        label(right, told, "pair, by rank", "least curvature half way")
        return figure


def chords(
    model: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    window: Any = None,
    pairs: int = 300,
    split: str = "train",
    seed: int = 0,
) -> Chords:
    """Random chords of the loss over all weights of a small model.

    Args:
        data, likelihood, split: as for `loss_surface`.
        window: one (least, largest) for each weight; by default around the model's own.
        pairs: chords, at least 1.  seed: of their ends.

    >>> import leadline as ll
    >>> chords(ll.models.Linear(1, 1), ll.data.line(num=40), pairs=20).convex
    True
    """
    loss = WeightLoss(model, data, likelihood, split)
    if len(loss.centre) > _MOST:
        raise UserError(
            f"chords needs a model of at most {_MOST} weights",
            got=f"{len(loss.centre):,} of them",
            do="Look at a smaller model, or at ll.lens.loss_slice between two",
        )
    low, high = torch.tensor(window_of(window, loss.centre), dtype=torch.float64).T
    g = torch.Generator().manual_seed(whole("seed", seed, 0))
    ends = low + (high - low) * torch.rand(2, whole("pairs", pairs), len(low), generator=g, dtype=torch.float64)
    t = torch.linspace(0, 1, _ALONG, dtype=torch.float64)
    places = ends[0][:, None] * (1 - t)[:, None] + ends[1][:, None] * t[:, None]  # (pairs, t, P)
    along = loss.losses(places.flatten(0, 1)).view(pairs, _ALONG)
    straight = along[:, :1] * (1 - t) + along[:, -1:] * t
    size = along[:, [0, -1]].abs().amax(1).clamp(min=1e-300)
    rise = ((along - straight)[:, 1:-1].amax(1)) / size  # eq. 1
    curvature = torch.linalg.eigvalsh(loss.hessians(places[:, _ALONG // 2]))  # eq. 2
    flat = bool((curvature[:, 0] >= -1e-10 * curvature.abs().amax(1).clamp(min=1e-300)).all())
    worst = int(rise.argmax())
    return Chords(
        rise.sort(descending=True).values.numpy(), curvature[:, 0].sort().values.numpy(), t.numpy(),
        along[worst].numpy(), straight[worst].numpy(), flat and bool((rise <= 1e-9).all()),
    )  # fmt: skip
