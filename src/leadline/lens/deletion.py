"""Deletion: what a network answers without one of its blocks (Veit et al., 2016).

    h_k = s_k(h_{k-1}) + f_k(h_{k-1}),     f_k = 0 for one k, all else as it was                                 (1)

No weight is changed. A residual network hardly misses most of its blocks, since half of its paths do not lead through
any one of them; a plain one has a single path. In (1) the module `branch` of a block puts out 0, where it has one; else
the block hands on its skip. What counts as a block is said in `leadline.lens.skips`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.engine.evaluation import evaluate
from leadline.lens.at_rest import at_rest
from leadline.lens.rows import Fitted, asked
from leadline.lens.skips import Blocks, blocks_of, watched
from leadline.lens.style import DASHED, FULL, HUES, SOFT, blank, label, short, styled
from leadline.lens.view import View
from leadline.likelihoods import Likelihood
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMED = 24  # blocks up to which the axis has their paths


@dataclass(frozen=True, eq=False)
class Deletion(View):
    """What a network answers without one of its blocks, or without several.

    Args:
        blocks: their paths.
        metric: its name; whole: its value with all blocks; without: with one block deleted, eq. 1, (blocks,).
        loss: mean loss with all blocks; losses: with one deleted, (blocks,).
        several: how many were deleted at random at once, and `after`, the metric then, mean over draws.
    """

    blocks: tuple[str, ...]
    metric: str
    whole: float
    without: np.ndarray
    loss: float
    losses: np.ndarray
    several: np.ndarray
    after: np.ndarray

    @styled
    def plot(self) -> Figure:
        more = len(self.several) > 0
        figure = blank(FULL if more else FULL * 0.7, 3.3)
        axes = np.atleast_1d(figure.subplots(1, 1 + more, width_ratios=[1.5, 1] if more else [1]))
        at = np.arange(1, len(self.blocks) + 1)
        axes[0].plot(at, self.without, "o", ms=4.5, color=HUES[0], label="one block deleted")
        axes[0].axhline(self.whole, color=SOFT, ls=DASHED, lw=1.2, label=f"whole: {short(self.whole)}")
        if len(at) <= _NAMED:
            names = [name if len(name) <= 16 else f"…{name[-15:]}" for name in self.blocks]
            long = sum(map(len, names)) > 60
            axes[0].set_xticks(at, names, rotation=45 if long else 0, ha="right" if long else "center")
        label(axes[0], "Without one block", "block", self.metric, legend=2)
        if more:
            axes[1].plot(self.several, self.after, "o-", ms=4, color=HUES[1])
            axes[1].axhline(self.whole, color=SOFT, ls=DASHED, lw=1.2)
            axes[1].set_xticks(self.several)
            label(axes[1], "Without several, at random", "blocks deleted", self.metric)
        return figure


def deletion(
    model: nn.Module | Fitted,
    data: Any = None,
    likelihood: Likelihood | str | None = None,
    blocks: Blocks | None = None,
    *,
    split: str = "val",
    several: Sequence[int] = (),
    draws: int = 8,
    num: int = 2048,
    seed: int = 0,
) -> Deletion:
    """How a trained network does without a block, its weights as they are. The model is left as it was.

    Args:
        data: Data, a Split or a pair (x, y); a run has its own.
        likelihood: of y; the target picks it where none is given.
        blocks: modules or paths; None finds residual blocks. Any module whose output has the shape of its input can be
            named, so that layers of a plain network can be deleted too.
        several: numbers of blocks to delete at once, each `draws` times at random.
        num: rows at most; seed: of what is deleted.

    >>> from leadline.models import Residual
    >>> from leadline.likelihoods import Categorical
    >>> net = Residual(3, (3, 3, 3), 2)
    >>> view = deletion(net, (torch.randn(9, 3), torch.arange(9) % 2), Categorical(2))
    >>> view.blocks, view.without.shape
    (('layers.0', 'layers.1', 'layers.2'), (3,))
    """
    model, rows, family = asked(model, data, split, likelihood)
    num, draws = whole("num", num, 1, usual=2048), whole("draws", draws, 1, usual=8)
    parts = blocks_of(model, blocks)
    x, y = rows.encoded(model)[:num], rows.y[:num]
    weight = None if rows.weight is None else rows.weight[:num]
    pick = np.random.default_rng(whole("seed", seed, 0, usual=0))
    many = [whole("several", n, 0, len(parts), usual=1) for n in several]

    def measured(gone: Sequence[int]) -> tuple[float, float]:
        with _deleted([parts[k] for k in gone]):
            out = torch.cat([model(part) for part in x.split(1024)])
        found = evaluate(family, out, y.to(out.device), weight)
        return found[family.headline], float(family.loss(out, y.to(out.device)).mean())

    with at_rest(model):
        full = measured([])
        each = np.array([measured([k]) for k in range(len(parts))])
        after = [
            np.mean([measured(pick.choice(len(parts), n, replace=False).tolist())[0] for _ in range(draws)])
            for n in many
        ]
    return Deletion(
        tuple(name for name, _ in parts),
        family.headline,
        full[0],
        each[:, 0],
        full[1],
        each[:, 1],
        np.array(many, dtype=int),
        np.array(after, dtype=float),
    )


@contextmanager
def _deleted(parts: Sequence[tuple[str, nn.Module]]) -> Iterator[None]:
    """Inside, these blocks are without their branches, eq. 1."""
    marked = [(name, getattr(part, "branch", None)) for name, part in parts]
    silent = [branch for _, branch in marked if isinstance(branch, nn.Module)]
    whole_ = [part for part, (_, branch) in zip(parts, marked, strict=True) if not isinstance(branch, nn.Module)]
    handles = [branch.register_forward_hook(lambda _, __, out: _nothing(out)) for branch in silent]
    try:
        with watched(whole_, lambda _, skip, __: skip):
            yield
    finally:
        for handle in handles:
            handle.remove()


def _nothing(out: Any) -> Any:
    """Zeros in place of what a branch says, and of the state that a recurrent one hands on."""
    return torch.zeros_like(out) if isinstance(out, Tensor) else tuple(map(_nothing, out))
