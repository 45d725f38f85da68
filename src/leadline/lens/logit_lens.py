"""What a language model would say after each of its layers (nostalgebraist, 2020).

    score^l = unembed(norm(h^l)),     h^l -> the stream after layer l, h^0 -> the embeddings               (1)
    p^l     = softmax(score^l)_y,     rank^l = 1 + how many tokens score higher than y                      (2)

The layers after l hand on what they read, so whatever the model does between its last layer and its scores is done
here too. After the last layer (1) is the model's own answer.

Notation   y the token that comes next, or that is asked for
Shapes     probability, rank (L + 1, B, T)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import ShapeError
from leadline.lens.at_rest import at_rest
from leadline.lens.heads import attentions
from leadline.lens.style import FULL, INK, SEQUENTIAL, SOFT, blank, colour_bar, label, styled
from leadline.lens.tokens import layers_of, read, word
from leadline.lens.view import View
from leadline.likelihoods.tokens import NOTHING
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDE = 24  # places of a row that are drawn


@dataclass(frozen=True, eq=False)
class LogitLens(View):
    """What each layer would predict.

    Args:
        layers: their paths; the first entry of what follows is before them all.
        y: the tokens asked for, (B, T); -1 where none is.
        probability, rank: eq. 2, (L + 1, B, T); nan and 0 where nothing is asked.
        said: the likeliest token, (L + 1, B, T); words: what these say; true: what y says.
    """

    layers: tuple[str, ...]
    y: np.ndarray
    probability: np.ndarray
    rank: np.ndarray
    said: np.ndarray
    words: tuple[Any, ...]
    true: tuple[tuple[str, ...], ...]

    @property
    def median_rank(self) -> np.ndarray:
        """Of the tokens that are asked for, by layer, (L + 1,)."""
        return np.median(self.rank[:, self.y != NOTHING], 1)

    @property
    def mean_probability(self) -> np.ndarray:
        """Of the tokens that are asked for, by layer, (L + 1,)."""
        return self.probability[:, self.y != NOTHING].mean(1)

    @styled
    def plot(self, row: int = 0) -> Figure:
        count = min(self.y.shape[1], _WIDE)
        shown = self.probability[:, row, :count]
        top = float(np.nan_to_num(shown).max()) or 1.0
        figure = blank(FULL, 1.9 + 0.3 * len(self.rank))
        ax, side = figure.subplots(1, 2, width_ratios=[4, 1], sharey=True)
        mesh = ax.imshow(shown, cmap=SEQUENTIAL, vmin=0, vmax=top, aspect="auto", interpolation="nearest")
        for k in range(len(self.rank)):
            for t in range(count):
                p = shown[k, t] / top
                ax.text(
                    t, k, self.words[k][row][t], ha="center", va="center", fontsize=6, color=INK if p > 0.6 else "w"
                )
        ax.grid(False)
        ax.set_xticks(range(count), self.true[row][:count], rotation=60, ha="right", fontsize=7.5)
        ax.set_yticks(range(len(self.rank)), ["embedded", *(f"after {k + 1}" for k in range(len(self.layers)))])
        ax.invert_yaxis()
        label(ax, "What each layer would predict", "the token to predict", "")
        colour_bar(ax, mesh, "probability of the true one")
        side.plot(self.median_rank, range(len(self.rank)), "o-", ms=4, color=SOFT)
        side.set_xscale("log")
        side.minorticks_off()
        ends = np.unique(np.stack([self.median_rank.min(), self.median_rank.max()]))
        side.set_xticks(ends, [f"{end:g}" for end in ends])
        label(side, "All rows", "median rank", "")
        return figure


def logit_lens(
    model: Any,
    rows: Any = None,
    y: Tensor | None = None,
    *,
    layers: str | None = None,
    split: str = "val",
    num: int = 4,
) -> LogitLens:
    """Rank and probability of the true token after each layer. The model is left as it was.

    Args:
        model: a run or a module that scores tokens at every place.
        rows: as of `attention_map`.
        y: the tokens asked for, (B, T), -1 where none is; by default those of Data, else the next of each row.
        layers: path of the list of layers; by default the last that attends.
        num: rows at most.

    >>> from leadline.models import GPT
    >>> view = logit_lens(GPT.tiny(), torch.tensor([[3, 1, 4, 1, 5]]))
    >>> view.layers, view.rank.shape, view.y.tolist()
    (('layers.0', 'layers.1'), (3, 1, 5), [[1, 4, 1, 5, -1]])
    """
    seen = read(model, rows, split, whole("num", num))
    own = seen.y if y is None else y[:num].to(seen.x.device)
    with at_rest(seen.model):
        calls = attentions(seen.model, seen.x)
        stack = layers_of(seen.model, [call.name for call in calls], layers)
        found = []
        for depth in range(len(stack) + 1):
            with handing_on([module for _, module in stack[depth:]]):
                found.append(seen.model(seen.x).double().log_softmax(-1).cpu())
    asked = _next(seen.x) if own is None else own.cpu().long()
    if found[0].dim() != 3 or found[0].shape[:2] != asked.shape or int(asked.max()) >= found[0].shape[2]:
        raise ShapeError(
            "the model must score tokens at every place",
            got=f"an output of shape {tuple(found[0].shape)} for y of shape {tuple(asked.shape)}, "
            f"tokens up to {int(asked.max())}",
            do="Take a model of language, or pass y",
        )
    scores = torch.stack(found)  # (L + 1, B, T, V)
    codes = asked.clamp(min=0).expand(len(scores), -1, -1)[..., None]
    true = scores.gather(-1, codes)
    there = (asked != NOTHING).expand(len(scores), -1, -1)
    rank = torch.where(there, 1 + (scores > true).sum(-1), 0)
    said = scores.argmax(-1)
    return LogitLens(
        tuple(path for path, _ in stack),
        asked.numpy(),
        torch.where(there, true[..., 0].exp(), torch.nan).numpy(),
        rank.numpy(),
        said.numpy(),
        tuple(tuple(tuple(word(seen.inputs, t) for t in row) for row in layer) for layer in said.tolist()),
        tuple(tuple("" if t == NOTHING else word(seen.inputs, t) for t in row) for row in asked.tolist()),
    )


@contextmanager
def handing_on(layers: Sequence[nn.Module]) -> Iterator[None]:
    """Inside, these layers put out what they read first, unchanged."""

    def same(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        stream = args[0] if args else next(iter(kwargs.values()))
        return (stream, *out[1:]) if isinstance(out, tuple) else stream

    handles = [layer.register_forward_hook(same, with_kwargs=True) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _next(x: Tensor) -> Tensor:
    """The token after each place; none after the last."""
    return torch.cat([x[:, 1:], torch.full_like(x[:, :1], NOTHING)], 1).cpu().long()
