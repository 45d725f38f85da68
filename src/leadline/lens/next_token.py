"""The distribution of the next token: how much of it a few tokens hold, and which would be drawn from.

    p_v      = softmax_v(score_v / τ),   v in order of p                                             (1)
    top-k    the k likeliest                                                                         (2)
    nucleus  the fewest that hold p of the mass                   (Holtzman et al., 2019)            (3)

The tail after them is long: each token of it is all but impossible, and together they often have a tenth of the mass,
which plain sampling draws from every tenth word.

Notation   τ -> temperature
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.data.tokens import Tokens
from leadline.errors import ShapeError
from leadline.lens.at_rest import at_rest
from leadline.lens.style import DASHED, FULL, HUES, SOFT, blank, label, percent, styled
from leadline.lens.tokens import read, word
from leadline.lens.view import View
from leadline.settings import real, whole
from leadline.text.choosing import nucleus

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMED = 20  # tokens that are written out


@dataclass(frozen=True, eq=False)
class NextToken(View):
    """What may come next.

    Args:
        words: of the row, up to the place after which it is asked.
        tokens: all of the vocabulary, the likeliest first, (V,); names: what the first of them say.
        probability: eq. 1, (V,).
        top_k: k of eq. 2; top_mass: what they hold.
        top_p: p of eq. 3; num_nucleus: how many are in it.
        entropy: of eq. 1, in nats.
    """

    words: tuple[str, ...]
    tokens: np.ndarray
    names: tuple[str, ...]
    probability: np.ndarray
    top_k: int
    top_mass: float
    top_p: float
    num_nucleus: int
    entropy: float

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.6)
        left, right = figure.subplots(1, 2, width_ratios=[1.2, 1])
        shown = len(self.names)
        inside = np.arange(shown) < self.num_nucleus
        left.barh(range(shown), self.probability[:shown], color=[HUES[0] if i else SOFT for i in inside], height=0.75)
        left.set_yticks(range(shown), self.names, fontsize=7.5)
        left.invert_yaxis()
        told = "".join(self.words[-8:])
        label(left, f"After …{told}", "probability (blue: in the nucleus)", "")
        places = np.arange(1, len(self.tokens) + 1)
        right.loglog(places, np.maximum(self.probability, 1e-12), color=HUES[0])
        right.axvline(self.top_k, color=HUES[1], ls=DASHED, lw=1.2, label=f"top {self.top_k}: {percent(self.top_mass)}")
        nucleus_word = f"nucleus of {percent(self.top_p)}: {self.num_nucleus} tokens"
        right.axvline(self.num_nucleus, color=HUES[2], ls=DASHED, lw=1.2, label=nucleus_word)
        label(right, f"All tokens, entropy {self.entropy:.2f} nats", "rank", "probability", legend=2)
        return figure


def next_token(
    model: Any,
    rows: Any = None,
    *,
    row: int = 0,
    place: int = -1,
    top_k: int = 10,
    top_p: float = 0.9,
    temperature: float = 1.0,
    split: str = "val",
) -> NextToken:
    """The distribution after a text, or at a place of it. The model is left as it was.

    Args:
        model: a run or a module that scores tokens at every place.
        rows: a text where a run is given, tokens (B, T) or Data.
        row: number of the row; place: of the scores, -1 is the last.
        top_k: at least 1; top_p: above 0 and at most 1; temperature: above 0.

    >>> import torch
    >>> from leadline.models import GPT
    >>> view = next_token(GPT.tiny(), torch.tensor([[3, 1, 4]]), top_k=3)
    >>> view.tokens.shape, bool(view.probability[0] >= view.probability[1]), len(view.words)
    ((11,), True, 3)
    """
    seen = read(model, rows, split, whole("row", row, 0) + 1)
    with at_rest(seen.model):
        out = seen.model(seen.x)
    fewer = isinstance(seen.inputs, Tokens) and out.shape[-1] < seen.inputs.tokenizer.num_tokens
    if out.dim() != 3 or fewer:
        raise ShapeError(
            "the model must score tokens at every place",
            got=f"an output of shape {tuple(out.shape)}",
            do="Take a model of language, such as GPT",
        )
    row, at = whole("row", row, 0, len(out) - 1), whole("place", place, -out.shape[1], out.shape[1] - 1) % out.shape[1]
    p = (out[row, at].double() / real("temperature", temperature, 0, above=True, usual=1.0)).softmax(-1).cpu()
    values, order = p.sort(descending=True, stable=True)
    k = whole("top_k", top_k, 1, len(p), usual=10)
    stays = nucleus(p, real("top_p", top_p, 0, most=1, above=True, usual=0.9))
    start = seen.x.shape[1] - out.shape[1]  # a source stands before what the decoder reads
    return NextToken(
        seen.words[row][start : start + at + 1],
        order.numpy(),
        tuple(word(seen.inputs, token) for token in order[:_NAMED].tolist()),
        values.numpy(),
        k,
        float(values[:k].sum()),
        top_p,
        int(stays.sum()),
        float(-(values * values.clamp(min=1e-300).log()).sum()),
    )
