"""Which tokens look at which: the weights of every attention of a model, for some rows.

    weight_{ij} = softmax_j(q_i · k_j / √K + bias_{ij}),  over the keys that query i may look at        (1)
    rollout     = Π_l ½ (mean over heads of weight^l + I)                       (Abnar and Zuidema, 2020)  (2)

(1) is computed again from queries and keys, masks and biases among them, for the kernels that use it do not show it. Of
(2), row i says how much of each token of the row has come to place i after the last layer, if values were only mixed.

Notation   q, k queries and keys of a head;  l the layers
Shapes     weights (B, H, T, S) of each attention
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.errors import UserError
from leadline.layers.attention import CrossAttention
from leadline.lens.at_rest import at_rest
from leadline.lens.heads import Heard, attentions
from leadline.lens.style import FULL, HUES, INK, SOFT, blank, colour_bar, styled
from leadline.lens.tiles import bare, layout
from leadline.lens.tokens import read
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TILES = 48  # heads that a grid shows
_LABELS = 32  # tokens up to which an axis has them all
_VALUES = 12  # values that a drawing of routes shows


@dataclass(frozen=True, eq=False)
class AttentionMap(View):
    """Weights of attention.

    Args:
        names: path of the module of each attention, in the order of the calls.
        weights: eq. 1 of each, (B, H, T, S).
        own: whether each looks from a row at that row itself, and not at another or inside windows.
        queries, keys: of each attention and row, what its tokens say; empty where rows are no tokens.
    """

    names: tuple[str, ...]
    weights: tuple[np.ndarray, ...]
    own: tuple[bool, ...]
    queries: tuple[tuple[tuple[str, ...], ...], ...]
    keys: tuple[tuple[tuple[str, ...], ...], ...]

    def __post_init__(self):
        for weights in self.weights:
            weights.flags.writeable = False

    @property
    def rollout(self) -> np.ndarray:
        """Eq. 2 over the attentions of the last stack that look at their own row, (B, T, T)."""
        own = [(name.split(".")[0], w) for name, w, own in zip(self.names, self.weights, self.own) if own]
        if not own:
            raise UserError(
                "a rollout needs attention of whole rows on themselves",
                got="none",
                do="Take a model that has it, such as GPT, BERT or ViT",
            )
        root, last = own[-1]
        total = mixer = np.eye(last.shape[-1])
        for name, weights in own:
            if name == root and weights.shape == last.shape:
                mixed = weights.mean(1) + mixer
                total = mixed / mixed.sum(-1, keepdims=True) @ total
        return total

    @styled
    def plot(self, layer: int | None = None, head: int | None = None, row: int = 0) -> Figure:
        """All heads as a grid, or one of them large.

        Args:
            layer: number of the attention; None shows all.
            head: of that attention; None shows all of its heads.
        """
        self._check(layer, head, row)
        chosen = range(len(self.names)) if layer is None else [range(len(self.names))[layer]]
        if layer is not None and head is not None:
            return self._large(chosen[0], head, row)
        all_heads = [(k, h) for k in chosen for h in range(self.weights[k].shape[1])]
        tiles = all_heads[:_TILES]
        cut = "" if tiles == all_heads else f"; the first {_TILES} of {len(all_heads)} heads"
        heads = {self.weights[k].shape[1] for k in chosen}  # one number of heads: a line of the grid is a layer
        wide = min(heads) if len(heads) == 1 and 3 <= min(heads) <= 12 else 8
        rows, columns = layout(len(tiles), wide)
        figure = blank(min(FULL, 1.6 * columns + 1.0), 1.55 * rows + 0.5)
        axes = figure.subplots(rows, columns, squeeze=False)
        for ax in axes.flat[len(tiles) :]:
            ax.set_axis_off()
        for ax, (k, h) in zip(axes.flat, tiles):
            mesh = ax.imshow(self.weights[k][row, h], cmap="Greys", norm=_seen_small(), interpolation="nearest")
            bare(ax)
            ax.set_title(f"{k}.{h}", fontsize=7.5, fontweight="normal", color=SOFT, pad=3)
        colour_bar(list(axes.flat), mesh, "weight")
        said = f"Attention weights of layer.head: each row is a query, each column a key{cut}"
        figure.suptitle(said, x=0.01, ha="left", fontweight="bold", fontsize=9.5)
        return figure

    def _check(self, layer: int | None, head: int | None, row: int) -> None:
        chosen = whole("layer", layer or 0, -len(self.names), len(self.names) - 1)
        for weights in self.weights if layer is None else [self.weights[chosen]]:
            whole("row", row, -len(weights), len(weights) - 1)
            whole("head", head or 0, -weights.shape[1], weights.shape[1] - 1)

    def _large(self, layer: int, head: int, row: int) -> Figure:
        weights = self.weights[layer][row, head]
        down, across = weights.shape
        width, height = 2.6 + 0.24 * min(across, _LABELS), 2.0 + 0.22 * min(down, _LABELS)
        figure = blank(min(FULL, width), min(9.0, height))
        ax = figure.subplots()
        mesh = ax.imshow(weights, cmap="Greys", norm=_seen_small(), interpolation="nearest", aspect="auto")
        ax.grid(False)
        _tick(ax.set_xticks, self.keys[layer], row, across, rotation=60, ha="right")
        _tick(ax.set_yticks, self.queries[layer], row, down)
        ax.set(xlabel="key: the token attended to", ylabel="query: the token that attends")
        ax.set_title(f"{self.names[layer]}, head {head}")
        colour_bar(ax, mesh, "weight")
        return figure

    @styled
    def routing(self, layer: int = 0, head: int = 0, row: int = 0, most: int = 4) -> Figure:
        """Where the first outputs come from: a panel for each, a line from every value, as wide as its weight.

        Args:
            most: outputs that are drawn, with the first twelve values of each.
        """
        self._check(layer, head, row)
        weights = self.weights[layer][row, head]
        shown = min(whole("most", most), len(weights))
        values = min(weights.shape[1], _VALUES)
        left_out = "" if values == weights.shape[1] else f"; the first {values} of {weights.shape[1]} values"
        figure = blank(min(FULL, 2.4 * shown), 0.34 * values + 1.0)
        axes = figure.subplots(1, shown, squeeze=False)[0]
        names = self.keys[layer][row] if self.keys[layer] else tuple(map(str, range(values)))
        asked = self.queries[layer][row] if self.queries[layer] else tuple(map(str, range(shown)))
        for i, ax in enumerate(axes):
            _routed(ax, weights[i, :values], names, f"{asked[i]}", HUES[i % len(HUES)])
        figure.suptitle(
            f"Where outputs come from: {self.names[layer]}, head {head}{left_out}",
            x=0.01,
            ha="left",
            fontsize=9.5,
            fontweight="bold",
        )
        return figure


def attention_map(
    model: Any, rows: Any = None, *, split: str = "val", num: int = 4, tokens: Sequence[str] | None = None
) -> AttentionMap:
    """The weights of every attention of a model. The model is left as it was.

    Args:
        model: a run, or any module with attention.
        rows: Data, texts where a run is given, tokens (B, T), or pictures; a run has its own.
        num: rows at most.
        tokens: names of the places of a row, where they are not found.

    >>> import torch
    >>> from leadline.models import GPT
    >>> view = attention_map(GPT.tiny(), torch.tensor([[3, 1, 4]]))
    >>> view.names, view.weights[0].shape, view.weights[0][0, 0, 0].tolist()
    (('layers.0.look.branch', 'layers.1.look.branch'), (1, 2, 3, 3), [1.0, 0.0, 0.0])
    """
    seen = read(model, rows, split, whole("num", num))
    with at_rest(seen.model):
        calls = attentions(seen.model, seen.x)
    words = seen.words if tokens is None else (tuple(map(str, tokens)),) * len(seen.x)
    source = getattr(seen.model, "len_source", None)
    both = [_names(call, words, source) for call in calls]
    return AttentionMap(
        tuple(call.name for call in calls),
        tuple(call.weights.double().cpu().numpy() for call in calls),
        tuple(_is_own(call, len(seen.x)) for call in calls),
        tuple(queries for queries, _ in both),
        tuple(keys for _, keys in both),
    )


def _is_own(call: Heard, rows: int) -> bool:
    num, _, down, across = call.weights.shape
    return rows == num and down == across and not isinstance(call.module, CrossAttention)


def _names(call: Heard, words: tuple[tuple[str, ...], ...], source: int | None) -> tuple[Any, Any]:
    """What queries and keys of each row say, where rows have as many words as there are of them."""
    down, across = call.weights.shape[-2:]
    if not words or len(call.weights) != len(words):
        return (), ()
    parts = [words]
    if source is not None:  # a row is the source and, after it, what the decoder reads
        head, tail = tuple(row[:source] for row in words), tuple(row[source:] for row in words)
        crossed = isinstance(call.module, CrossAttention)
        reads = "encoder" in call.name.split(".")[0]
        parts = [head if reads else tail, head if reads or crossed else tail]
    queries, keys = parts[0], parts[-1]
    return queries if len(queries[0]) == down else (), keys if len(keys[0]) == across else ()


def _seen_small() -> Any:
    """Greys by the root of a weight, so that small ones are seen beside large ones."""
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.5, 0, 1)


def _tick(set_ticks: Any, words: tuple[tuple[str, ...], ...], row: int, size: int, **how: Any) -> None:
    step = -(-size // _LABELS)
    at = list(range(0, size, step))
    set_ticks(at, [words[row][k] if words else str(k) for k in at], fontsize=7.5, **how)


def _routed(ax: Axes, weights: np.ndarray, names: Sequence[str], output: str, colour: str) -> None:
    """Values below each other on the left, one output on the right, lines between them."""
    count = len(weights)
    clear = {"facecolor": "w", "edgecolor": "none", "alpha": 0.8, "pad": 0.8}  # figures stay readable on thick lines
    for j, weight in enumerate(weights):
        ax.plot([0, 1], [count - 1 - j, (count - 1) / 2], color=colour, lw=0.3 + 9 * weight, alpha=0.15 + 0.85 * weight)
        ax.text(-0.06, count - 1 - j, names[j], ha="right", va="center", fontsize=8, color=INK)
        if weight >= 0.05:
            y = (count - 1 - j) * 0.72 + (count - 1) / 2 * 0.28
            ax.text(0.28, y, f"{weight:.2f}".lstrip("0"), fontsize=7, color=SOFT, ha="center", va="center", bbox=clear)
    ax.text(1.06, (count - 1) / 2, output, ha="left", va="center", fontsize=8.5, color=INK, fontweight="bold")
    ax.set(xlim=(-0.75, 1.5), ylim=(-0.8, count - 0.2))
    ax.set_axis_off()
