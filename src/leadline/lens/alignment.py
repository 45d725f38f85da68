"""What each written word came from: the weights of a decoder's attention over its source (Bahdanau et al., 2014).

    a_{tj} = softmax_j(score(q_t, m_j))        row t: the step that writes word t;  column j: word j of the source   (1)

Of a recurrent decoder (1) is its only attention. Of a transformer it is that of a layer's cross-attention, the mean of
its heads. Padding is left out of both sides.

Notation   q_t what the decoder asks with, m_j what the encoder answers of word j
Shapes     weights (T, S) of each pair
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from leadline.data.tokens import Tokens
from leadline.engine.decoder import scorer_of
from leadline.errors import UserError
from leadline.layers.attention import CrossAttention
from leadline.lens.at_rest import at_rest
from leadline.lens.heads import attentions
from leadline.lens.style import FULL, SOFT, blank, colour_bar, styled
from leadline.lens.tokens import Read, read, words_of
from leadline.lens.view import View
from leadline.settings import whole
from leadline.text.beam import beam_search
from leadline.text.stopping import Stop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELS = 40  # words up to which an axis has them all
_END = "■"  # what closes a text


@runtime_checkable
class Aligned(Protocol):
    """A model that shows where its decoder looks."""

    len_source: int

    def alignment(self, x: Tensor) -> Tensor:
        """Eq. 1 of rows (B, S + T), (B, T, S)."""


@dataclass(frozen=True, eq=False)
class Alignment(View):
    """Weights of a decoder over its sources.

    Args:
        weights: eq. 1 of each pair, (T, S).
        sources, targets: what the words of each pair say; the last of a target closes it.
    """

    weights: tuple[np.ndarray, ...]
    sources: tuple[tuple[str, ...], ...]
    targets: tuple[tuple[str, ...], ...]

    def __post_init__(self):
        for weights in self.weights:
            weights.flags.writeable = False

    @property
    def strongest(self) -> tuple[tuple[int, ...], ...]:
        """Of each pair, the word of the source that each word of the target looks at most."""
        return tuple(tuple(map(int, weights.argmax(1))) for weights in self.weights)

    @styled
    def plot(self, row: int = 0) -> Figure:
        """One pair: the source across, what was written of it down."""
        weights = self.weights[row]
        down, across = weights.shape
        cell = min(0.34, (FULL - 2.0) / across, 8.0 / down)
        figure = blank(cell * across + 1.9, cell * down + 1.15)
        ax = figure.subplots()
        mesh = ax.imshow(weights, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="equal")
        ax.grid(False)
        ax.set_xticks(np.arange(across + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(down + 1) - 0.5, minor=True)
        ax.grid(which="minor", color=SOFT, alpha=0.25, linewidth=0.5)
        ax.tick_params(which="both", length=0)
        ax.xaxis.tick_top()
        long = max(map(len, self.sources[row])) > 2
        _tick(ax.set_xticks, self.sources[row], rotation=60 if long else 0, ha="left" if long else "center")
        _tick(ax.set_yticks, self.targets[row])
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_ylabel("written")
        ax.set_title("read", fontweight="normal", fontsize=8.5, color=SOFT, loc="center")
        colour_bar(ax, mesh, "weight")
        return figure


def alignment(
    model: Any, rows: Any = None, *, split: str = "val", num: int = 4, layer: int = -1, beams: int = 4
) -> Alignment:
    """What each word of a target was written from. The model is left as it was.

    Args:
        model: a run on pairs, or a module that reads rows (B, S + T).
        rows: sources, which the run then writes the targets of; pairs (source, target); Data; or tokens (B, S + T). A
            run has its own data.
        num: pairs at most.
        layer: of a transformer's decoder, which of its layers.
        beams: that a target is searched with.

    >>> from leadline.models import EncoderDecoder
    >>> view = alignment(EncoderDecoder.tiny(), torch.tensor([[3, 7, 0, 0, 0, 1, 4]]))
    >>> view.sources, view.targets, view.weights[0].shape
    ((('3', '7'),), (('4', '■'),), (2, 2))
    """
    seen = read(model, rows, split, whole("num", num))
    first = getattr(seen.model, "len_source", None)
    if not isinstance(first, int):
        raise UserError(
            "an alignment needs a model that reads a source and writes a target",
            got=type(seen.model).__name__,
            do="Take EncoderDecoder, Transformer or T5",
        )
    x = seen.x
    if x.shape[1] == first + 1 and isinstance(seen.inputs, Tokens):
        x = _written(seen, first, whole("beams", beams))
    with at_rest(seen.model):
        weights = seen.model.alignment(x) if isinstance(seen.model, Aligned) else _crossed(seen.model, x, layer)
    pad, words = getattr(seen.model, "pad", 0), words_of(x, seen.inputs)
    lengths = [(int(s), 1 + int(t)) for s, t in zip((x[:, :first] != pad).sum(1), (x[:, first + 1 :] != pad).sum(1))]
    if not all(s for s, _ in lengths):
        raise UserError("a source must have tokens to look at", got="an empty one", do="Leave it out")
    plain = isinstance(seen.inputs, Tokens) and seen.inputs.tokenizer.kind == "words"
    said = [
        [w.removeprefix("␣") if plain else w for w in row[first + 1 : first + t]] for row, (_, t) in zip(words, lengths)
    ]
    return Alignment(
        tuple(w[:t, :s].double().cpu().numpy() for w, (s, t) in zip(weights, lengths)),
        tuple(row[:s] for row, (s, _) in zip(words, lengths)),
        tuple((*row, _END) for row in said),
    )


def _crossed(model: Any, x: Tensor, layer: int) -> Tensor:
    """The mean over the heads of one cross-attention, (B, T, S)."""
    crossed = [call.weights for call in attentions(model, x) if isinstance(call.module, CrossAttention)]
    if not crossed or not -len(crossed) <= layer < len(crossed):
        raise UserError(
            "layer must be one of the model's cross-attentions", got=f"layer={layer} of {len(crossed)}", do="Pass -1"
        )
    return crossed[layer].mean(1)


def _written(seen: Read, first: int, beams: int) -> Tensor:
    """Rows with the targets that the model itself writes."""
    inputs: Any = seen.inputs
    end = inputs.tokenizer.end
    source = seen.x[:, :first]
    scorer = scorer_of(seen.model, inputs.length, source, inputs.length)
    found = beam_search(scorer, [[inputs.start]] * len(source), inputs.length - 1, beams, Stop((end,)))
    texts = [[token for token in texts[0].tokens if token != end] for texts in found]
    told = torch.full((len(texts), 1 + max(map(len, texts))), inputs.fill, device=source.device)
    told[:, 0] = inputs.start
    for row, tokens in zip(told, texts):
        row[1 : 1 + len(tokens)] = torch.tensor(tokens, device=source.device)
    return torch.cat([source, told.to(source.dtype)], 1)


def _tick(set_ticks: Any, words: tuple[str, ...], **how: Any) -> None:
    at = list(range(0, len(words), -(-len(words) // _LABELS)))
    set_ticks(at, [words[k] for k in at], fontsize=8.5, **how)
