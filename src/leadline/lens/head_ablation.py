"""How many heads a model needs: its score as more and more are silenced (Voita et al., 2019; Michel et al., 2019).

    importance_h = loss without head h - loss                                                    (1)
    curve(n)     = score without the n heads of least importance                                 (2)

A silenced head puts out 0; no weight is changed. Voita et al. let heads switch themselves off in training and keep what
is left; here they are ordered by (1), each silenced alone, and most can go as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from leadline.data.data import Split
from leadline.engine.evaluation import Evaluation, assess
from leadline.engine.feed import Feed
from leadline.lens.at_rest import at_rest
from leadline.lens.heads import attentions, silenced
from leadline.lens.rows import Fitted, asked
from leadline.lens.style import DASHED, FULL, HUES, SOFT, blank, colour_bar, label, short, styled
from leadline.lens.view import View
from leadline.likelihoods import Likelihood
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Head = tuple[str, int]


@dataclass(frozen=True, eq=False)
class HeadAblation(View):
    """A model without some of its heads.

    Args:
        names: path of the attention of each head; heads: its number there.
        metric: name of the score; whole: the score of the whole model.
        loss: nll of the whole model; importance: eq. 1, (heads,).
        order: heads by importance, the least first.
        silenced: how many were silenced at once; score: eq. 2; reversed: the most important first.
    """

    names: tuple[str, ...]
    heads: np.ndarray
    metric: str
    whole: float
    loss: float
    importance: np.ndarray
    order: np.ndarray
    silenced: np.ndarray
    score: np.ndarray
    reversed: np.ndarray

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.4)
        left, right = figure.subplots(1, 2)
        layers = list(dict.fromkeys(self.names))
        grid = np.full((len(layers), int(self.heads.max()) + 1), np.nan)
        for name, head, value in zip(self.names, self.heads, self.importance):
            grid[layers.index(name), head] = value
        top = float(np.nanmax(np.abs(grid))) or 1.0
        mesh = left.imshow(grid, cmap="RdBu_r", vmin=-top, vmax=top, interpolation="nearest", aspect="auto")
        left.grid(False)
        left.set(xticks=range(grid.shape[1]), yticks=range(len(layers)))
        label(left, "Without one head", "head", "attention")
        colour_bar(left, mesh, "rise of the loss")
        right.plot(self.silenced, self.score, "o-", ms=3.5, color=HUES[0], label="least important first")
        right.plot(self.silenced, self.reversed, "o-", ms=3.5, color=HUES[1], label="most important first")
        right.axhline(self.whole, color=SOFT, ls=DASHED, lw=1.2, label=f"whole: {short(self.whole)}")
        right.xaxis.get_major_locator().set_params(integer=True)
        label(right, "Without several", f"heads silenced, of {len(self.names)}", self.metric, legend=3)
        return figure


def head_ablation(
    model: nn.Module | Fitted,
    data: Any = None,
    likelihood: Likelihood | str | None = None,
    *,
    split: str = "val",
    steps: int = 12,
    num: int = 256,
) -> HeadAblation:
    """How a model scores with heads silenced. The model is left as it was.

    Args:
        data: Data, a Split or a pair (x, y); a run has its own.
        likelihood: of y; the target picks it where none is given.
        steps: points of the curve, at least 2: from no head to all of them.
        num: rows at most.

    >>> from leadline.models import GPT
    >>> from leadline.likelihoods import Tokens
    >>> x = torch.randint(11, (4, 6))
    >>> view = head_ablation(GPT.tiny(), (x, x), Tokens(11))
    >>> len(view.names), view.silenced.tolist(), bool(view.score[0] == view.whole)
    (4, [0, 1, 2, 3, 4], True)
    """
    model, rows, family = asked(model, data, split, likelihood)
    num, steps = whole("num", num, 1, usual=256), whole("steps", steps, 2, usual=12)
    weight = next(iter(model.parameters()), torch.zeros(()))
    part = Split(rows.raw[:num], rows.y[:num], None if rows.weight is None else rows.weight[:num])
    feed = Feed(part, rows.inputs, len(part), 0, weight.device, weight.dtype, keyed=False)

    def measured(gone: Sequence[Head]) -> Evaluation:
        by_path: dict[str, list[int]] = {}
        for path, head in gone:
            by_path.setdefault(path, []).append(head)
        with silenced(model, by_path):
            return assess(model, family, feed.in_order(), spans=False)

    with at_rest(model):
        calls = attentions(model, feed.first(1).x)
        heads = [(call.name, h) for call in calls if "," not in call.name for h in range(call.weights.shape[1])]
        full = measured([])
        importance = np.array([measured([head])["nll"] - full["nll"] for head in heads])  # eq. 1
        order = np.argsort(importance, kind="stable")
        counts = np.unique(np.linspace(0, len(heads), min(steps, len(heads) + 1)).round().astype(int))
        curves = [
            [measured([heads[k] for k in way[:n]])[family.headline] for n in counts] for way in (order, order[::-1])
        ]
    return HeadAblation(
        tuple(path for path, _ in heads),
        np.array([head for _, head in heads]),
        family.headline,
        full[family.headline],
        full["nll"],
        importance,
        order,
        counts,
        np.array(curves[0]),
        np.array(curves[1]),
    )
