"""Which tokens an answer comes from.

    gradient     a_t = |∂f / ∂e_t|                                                                            (1)
    times_input  a_t = e_t · ∂f / ∂e_t                                          (Shrikumar et al., 2016)      (2)
    integrated   a_t = e_t · mean of ∂f / ∂e_t at s e,  s in 0…1                (Sundararajan et al., 2017)   (3)
                 Σ_t a_t = f(e) - f(0), up to the error of the mean
    occlusion    a_t = f(x) - f(x with token t replaced)                                                      (4)
    rollout      a_t = weight of token t by attention, layer by layer           (see `attention_map`)         (5)

f is one output: the score of a class, or of a token at one place. (5) knows nothing of f but that place.

Notation   e_t the vector that the embedding has for token t, before positions are added
Shapes     values (B, T)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.tokens import Tokens
from leadline.errors import ShapeError
from leadline.lens.at_rest import at_rest
from leadline.lens.attention_map import attention_map
from leadline.lens.style import SIGNED, SOFT, blank, styled
from leadline.lens.tiles import largest
from leadline.lens.tokens import Read, embedding_of, read, word
from leadline.lens.view import View
from leadline.names import lookup
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {
    "times_input": "gradient times input",
    "gradient": "gradient",
    "integrated": "integrated gradients",
    "occlusion": "each token hidden in turn",
    "rollout": "attention rollout",
}
_ALONG = 14  # words of a line of the drawing


@dataclass(frozen=True, eq=False)
class TokenAttribution(View):
    """What each token does to one output.

    Args:
        kind: times_input, gradient, integrated, occlusion or rollout.
        words: of each row; values: eq. 1 to 5, (B, T).
        place: of the output asked about, (B,), -1 where a row has one answer; target: its number; score: its value.
        answer: what the output says, of each row.
    """

    kind: str
    words: tuple[tuple[str, ...], ...]
    values: np.ndarray
    place: np.ndarray
    target: np.ndarray
    score: np.ndarray
    answer: tuple[str, ...]

    @styled
    def plot(self, row: int = 0) -> Figure:
        """The text of a row, each word on the colour of its value."""
        from matplotlib import colormaps

        words, values = self.words[row], self.values[row]
        lines = -(-len(words) // _ALONG)
        figure = blank(10.0, 0.7 + 0.42 * lines)
        ax = figure.subplots()
        top = largest(values)
        colours = colormaps[SIGNED](0.5 + values / top / 2)
        for k, said in enumerate(words):
            x, y = k % _ALONG, -(k // _ALONG)
            ax.add_patch(_box(x, y, colours[k]))
            ink = "w" if abs(values[k]) > 0.65 * top else "#1a2029"
            weight = "bold" if k == self.place[row] else "normal"
            ax.text(x, y, said[:11], ha="center", va="center", fontsize=8, color=ink, fontweight=weight)
        ax.set(xlim=(-0.6, _ALONG - 0.4), ylim=(0.6 - lines, 0.6))
        ax.set_axis_off()
        what = f"Score of {self.answer[row]}: {self.score[row]:.3g}. Red tokens raise it, blue ones lower it"
        ax.set_title(f"{what} ({KINDS[self.kind]})", color=SOFT)
        return figure


def token_attribution(
    model: Any,
    rows: Any = None,
    target: int | None = None,
    *,
    place: int = -1,
    kind: str = "times_input",
    by: int | None = None,
    draws: int = 32,
    split: str = "val",
    num: int = 4,
) -> TokenAttribution:
    """How much each token of a row has to do with an output. The model is left as it was.

    Args:
        model, rows, split, num: as of `attention_map`; rows are tokens.
        target: number of the output; None is each row's largest.
        place: where the output stands, of a model that answers at every place; -1 is the last.
        kind: times_input (2), gradient (1), integrated (3), occlusion (4) or rollout (5).
        by: the token that replaces another in (4); by default what hides or fills in the tokenizer, else 0.
        draws: steps of (3).

    >>> from leadline.models import BERT
    >>> view = token_attribution(BERT.tiny(), torch.tensor([[3, 7, 5, 0]]), target=1, kind="occlusion", by=0)
    >>> view.values.shape, float(view.values[0, 3])
    ((1, 4), 0.0)
    """
    lookup(kind, KINDS, "kind")
    seen = read(model, rows, split, whole("num", num))
    if not seen.words:
        raise ShapeError("rows must be tokens", got=f"x of shape {tuple(seen.x.shape)}", do="Use saliency for pictures")
    net, x = seen.model, seen.x
    with at_rest(net):
        out = net(x)
        at = None if out.dim() == 2 else whole("place", place, -out.shape[1], out.shape[1] - 1) % out.shape[1]
        codes = _asked(out if at is None else out[:, at], target)
        score = lambda found: (found if at is None else found[:, at]).gather(1, codes[:, None])[:, 0]  # noqa: E731
        if kind == "occlusion":
            values = _occluded(seen, score, _hides(seen) if by is None else by)
        elif kind == "rollout":
            shares = attention_map(net, x, num=len(x)).rollout
            values = torch.from_numpy(shares[:, 0 if at is None else at])
        else:
            values = _by_gradient(net, x, score, kind, whole("draws", draws, 1, usual=32))
    said = codes.tolist()
    names = [word(seen.inputs, code) if out.shape[-1] > 2 and at is not None else f"output {code}" for code in said]
    return TokenAttribution(
        kind,
        seen.words,
        values.double().cpu().numpy(),
        np.full(len(x), -1 if at is None else at),
        codes.cpu().numpy(),
        score(out).double().cpu().numpy(),
        tuple(names),
    )


def _asked(out: Tensor, target: int | None) -> Tensor:
    if target is None:
        return out.argmax(1)
    num = out.shape[1]
    return torch.full((len(out),), whole("target", target, -num, num - 1) % num, device=out.device)


def _hides(seen: Read) -> int:
    if not isinstance(seen.inputs, Tokens):
        return 0
    own = seen.inputs.tokenizer
    return next(token for token in (own.mask, own.pad, own.unknown, 0) if token is not None)


def _occluded(seen: Read, score: Callable[[Tensor], Tensor], by: int) -> Tensor:
    """Eq. 4, one place of all rows at a time."""
    full = score(seen.model(seen.x))
    values = []
    for t in range(seen.x.shape[1]):
        hidden = seen.x.clone()
        hidden[:, t] = by
        values.append(full - score(seen.model(hidden)))
    return torch.stack(values, 1)


def _by_gradient(net: nn.Module, x: Tensor, score: Callable[[Tensor], Tensor], kind: str, draws: int) -> Tensor:
    """Eqs. 1 to 3."""
    _, table = embedding_of(net, x)
    scales = [(k + 0.5) / draws for k in range(draws)] if kind == "integrated" else [1.0]
    total: Tensor | float = 0.0
    for scale in scales:
        with torch.enable_grad(), embedded(table, scale) as kept:
            found = torch.autograd.grad(score(net(x)).sum(), kept)
        total = total + torch.cat(found, 1) / len(scales)
    if kind == "gradient":
        return total.norm(dim=-1)  # type: ignore[union-attr]
    return (total * table(x)).sum(-1)


@contextmanager
def embedded(table: nn.Embedding, scale: float = 1.0) -> Iterator[list[Tensor]]:
    """Inside, what the table hands out is scaled and kept in the list, as the start of a gradient."""
    kept: list[Tensor] = []

    def start(_: nn.Module, args: Sequence[Any], out: Tensor) -> Tensor:
        kept.append((scale * out.detach()).requires_grad_())
        return kept[-1]

    handle = table.register_forward_hook(start)
    try:
        yield kept
    finally:
        handle.remove()


def _box(x: float, y: float, colour: Any) -> Any:
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (x - 0.44, y - 0.32), 0.88, 0.64, boxstyle="round,pad=0,rounding_size=0.08", fc=colour, ec="none"
    )
