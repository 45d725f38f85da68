"""Who may look at whom: patterns of attention as matrices, and how far a token reaches through several layers.

    M_{ij} = 1  where query i may look at key j                                                     (1)
    R_l    = [M_l R_{l-1} > 0],    R_0 = I                                                          (2)

Row i of (2) has the tokens of which something can have come to place i after layer l: a layer adds what it looks at to
what it has, so M has its diagonal. A band of w neighbours reaches l w places; a token that all look at, and that looks
at all, needs two layers for any distance. (2) says what can happen; `measured_reach` changes the tokens of a real model
one at a time and sees what does.

Notation   M -> a `leadline.layers.masks.Mask`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from leadline.errors import ShapeError
from leadline.layers.masks import Causal, Dilated, Global, Mask, Window
from leadline.lens.at_rest import exactly
from leadline.lens.heads import heard
from leadline.lens.style import FULL, HUES, LINE, blank, styled
from leadline.lens.tiles import bare, layout
from leadline.lens.tokens import layers_of, read
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROUNDING = 1e-13  # of float64, where a product of matrices is summed in another order


def common_patterns(length: int = 16) -> dict[str, Mask]:
    """Eight patterns: all and earlier, bands of both, bands with holes, chosen tokens, and tokens added for all.

    >>> list(common_patterns())[:3]
    ['encoder', 'decoder', 'band, encoder']
    """
    chosen = Global(tuple(range(0, length, 5)))
    everything = Window(length)
    return {
        "encoder": everything,
        "decoder": Causal(),
        "band, encoder": Window(2),
        "band, decoder": Window(2) & Causal(),
        "every 2nd, decoder": Dilated(2, 2) & Causal(),
        "every 3rd, decoder": Dilated(2, 3) & Causal(),
        "band and chosen tokens, decoder": (Window(2) | chosen) & Causal(),
        "band and two global tokens": Window(2) | Global((0, 1)),
    }


@dataclass(frozen=True, eq=False)
class Interaction(View):
    """Patterns side by side.

    Args:
        names: of the patterns.
        matrices: eq. 1, (patterns, T, T).
        counts: pairs that each allows.
    """

    names: tuple[str, ...]
    matrices: np.ndarray
    counts: np.ndarray

    @styled
    def plot(self) -> Figure:
        rows, columns = layout(len(self.names), 4)
        figure = blank(min(FULL, 2.5 * columns), 2.5 * rows)
        axes = figure.subplots(rows, columns, squeeze=False)
        for ax in axes.flat[len(self.names) :]:
            ax.set_axis_off()
        for ax, name, matrix, count in zip(axes.flat, self.names, self.matrices, self.counts):
            _cells(ax, matrix, HUES[0])
            ax.set_title(f"{name}\n{count} of {matrix.size} pairs", fontsize=8, fontweight="normal")
        return figure


def interaction(masks: Mapping[str, Mask] | Mask | None = None, length: int = 16) -> Interaction:
    """Patterns as matrices, with the number of pairs that each allows.

    Args:
        masks: by name; one; or None for eight common ones.
        length: T.

    >>> view = interaction(length=8)
    >>> dict(zip(view.names, view.counts.tolist()))["decoder"]
    36
    """
    length = whole("length", length, 1, 4096, usual=16)
    named = common_patterns(length) if masks is None else {"mask": masks} if isinstance(masks, Mask) else dict(masks)
    found = np.stack([_matrix(mask, length) for mask in named.values()])
    return Interaction(tuple(named), found, found.sum((1, 2)))


@dataclass(frozen=True, eq=False)
class Reach(View):
    """Which tokens have come where, layer by layer.

    Args:
        matrices: eq. 2, (L, T, T).
        furthest: the largest distance |i - j| that was bridged, (L,).
        counts: pairs, (L,).
    """

    matrices: np.ndarray
    furthest: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, matrices: np.ndarray) -> Reach:
        """With distances and counts of the matrices."""
        place = np.arange(matrices.shape[-1])
        apart = np.abs(place[:, None] - place)
        return cls(matrices, (matrices * apart).max((1, 2)), matrices.sum((1, 2)))

    @styled
    def plot(self) -> Figure:
        rows, columns = layout(len(self.matrices), 6)
        figure = blank(min(FULL, max(4.4, 1.7 * columns + 0.6)), 1.9 * rows + 0.4)
        axes = figure.subplots(rows, columns, squeeze=False)
        for ax in axes.flat[len(self.matrices) :]:
            ax.set_axis_off()
        for k, (ax, matrix) in enumerate(zip(axes.flat, self.matrices)):
            _cells(ax, matrix, HUES[1])
            ax.set_title(f"layer {k + 1}: {self.furthest[k]} away", fontsize=8)
        figure.suptitle(
            "What a token (down) can know of others (across)",
            x=0.01,
            ha="left",
            fontweight="bold",
            fontsize=9.5,
        )
        return figure


def reach(masks: Mask | Sequence[Mask], length: int, num_layers: int | None = None) -> Reach:
    """How far tokens reach through layers of attention (eq. 2).

    Args:
        masks: of each layer in turn; one for all of them.
        num_layers: how many there are; as many as masks by default.

    >>> reach(Window(1) & Causal(), 8, num_layers=3).furthest.tolist()
    [1, 2, 3]
    """
    length = whole("length", length, 1, 4096, usual=16)
    each = [masks] if isinstance(masks, Mask) else list(masks)
    count = len(each) if num_layers is None else whole("num_layers", num_layers)
    own = [_matrix(mask, length) | np.eye(length, dtype=bool) for mask in each]
    found, now = [], np.eye(length, dtype=bool)
    for k in range(count):
        now = (own[k % len(own)].astype(np.int64) @ now) > 0
        found.append(now)
    return Reach.of(np.stack(found))


def measured_reach(model: Any, row: Any, *, layers: str | None = None) -> Reach:
    """The same of a model: each token is changed in turn, and each layer's places that then differ are counted.

    Args:
        row: tokens (T,) or (1, T).
        layers: path of the list of layers; by default the last that attends.

    >>> from leadline.models import GPT
    >>> measured_reach(GPT.tiny(), torch.tensor([3, 1, 4, 1])).matrices[0].astype(int).tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    """
    told = torch.as_tensor(row)
    seen = read(model, told[None] if told.dim() == 1 else told, num=1)
    x = seen.x
    size, num_tokens = x.shape[1], int(getattr(seen.model, "num_tokens", int(x.max()) + 2))
    changed = x.repeat(size + 1, 1)  # the last row is as it was
    changed[range(size), range(size)] = (x[0] + 1) % num_tokens
    kept: list[Tensor] = []
    with exactly(seen.model) as f:
        with heard(seen.model) as calls:
            f(x)
        stack = layers_of(seen.model, [call.name for call in calls], layers)
        handles = [part.register_forward_hook(lambda _, __, out: kept.append(_first(out))) for _, part in stack]
        try:
            f(changed)
        finally:
            for handle in handles:
                handle.remove()
    if other := next((name for (name, _), h in zip(stack, kept) if h.shape[1:2] != (size,)), None):
        raise ShapeError(
            "each layer must have a place for each token of the row",
            got=f"{size} tokens, and another number of places in {other} of {type(seen.model).__name__}",
            do="Take a model that reads one sequence, such as GPT or BERT",
        )
    return Reach.of(np.stack([_moved(h) for h in kept]))


def _moved(h: Tensor) -> np.ndarray:
    """Which places (the first axis) differ where a token (the second) was changed, beyond rounding."""
    far = (h[:-1] - h[-1]).abs().amax(-1)
    return (far > _ROUNDING * h.abs().max()).T.cpu().numpy()


def _first(out: Any) -> Tensor:
    return out[0] if isinstance(out, tuple) else out


def _matrix(mask: Mask, length: int) -> np.ndarray:
    return mask.dense(1, length, length)[0, 0].numpy()


def _cells(ax: Any, matrix: np.ndarray, colour: str) -> None:
    from matplotlib.colors import ListedColormap

    ax.imshow(matrix, cmap=ListedColormap(["#ffffff", colour]), vmin=0, vmax=1, interpolation="nearest")
    bare(ax)
    if len(matrix) <= 24:
        for k in range(1, len(matrix)):
            ax.axhline(k - 0.5, color=LINE, lw=0.4)
            ax.axvline(k - 0.5, color=LINE, lw=0.4)
