"""Which tokens a model has put beside each other: neighbours in its table of embeddings.

    s_{uv} = e_u · e_v / (|e_u| |e_v|),   the mean of the table taken off first where `centred`        (1)

All vectors of a trained table tend to share one direction, which says little and makes all cosines large; without it
neighbours are told apart.

Notation   e_v -> row v of the table
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from leadline.data.inputs import Identity, Inputs
from leadline.data.tokens import Tokens
from leadline.errors import UserError
from leadline.lens.rows import Fitted
from leadline.lens.style import HUES, blank, styled
from leadline.lens.tokens import word
from leadline.lens.view import View
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class EmbeddingNeighbours(View):
    """The nearest tokens of some.

    Args:
        tokens: those asked about, (n,); words: what they say.
        neighbours: the nearest of each, (n, num), the nearest first; names: what they say.
        cosine: eq. 1, (n, num).
    """

    tokens: np.ndarray
    words: tuple[str, ...]
    neighbours: np.ndarray
    names: tuple[tuple[str, ...], ...]
    cosine: np.ndarray

    @styled
    def plot(self) -> Figure:
        count, num = self.cosine.shape
        figure = blank(max(3.6, min(10.0, 2.4 * count)), 0.9 + 0.26 * num)
        axes = figure.subplots(1, count, squeeze=False)[0]
        for ax, said, names, values in zip(axes, self.words, self.names, self.cosine):
            ax.barh(range(num), values, color=HUES[0], height=0.7)
            ax.set_yticks(range(num), names)
            ax.invert_yaxis()
            ax.set(xlabel="cosine similarity", xlim=(min(0.0, float(values.min())), 1))
            ax.set_title(f"Nearest to {said!r}")
        return figure


def embedding_neighbours(
    model: Any, tokens: str | int | Sequence[str | int], num: int = 8, *, centred: bool = True, table: str | None = None
) -> EmbeddingNeighbours:
    """The tokens whose vectors point most nearly where that of a token does. The model is left as it was.

    Args:
        model: a run, or a module with a table of embeddings.
        tokens: their numbers; with a run also words, each of which must be one token.
        num: neighbours of each, at least 1.
        centred: take the mean of the table off first.
        table: path of the nn.Embedding; by default the largest.

    >>> from leadline.models import GPT
    >>> embedding_neighbours(GPT.tiny(), [3, 7], num=4).neighbours.shape
    (2, 4)
    """
    inputs: Inputs = getattr(model, "inputs", Identity()) if isinstance(model, Fitted) else Identity()
    net = model.model if isinstance(model, Fitted) else model
    weight = _table(net, table).weight.detach().double().cpu()
    listed = list(tokens) if isinstance(tokens, Iterable) and not isinstance(tokens, str) else [tokens]
    if not listed:
        raise UserError("there must be a token", got="none", do="Pass a token or several")
    codes = [_code(token, inputs, len(weight)) for token in listed]
    num = whole("num", num, 1, len(weight) - 1, usual=8)
    e = weight - weight.mean(0) if centred else weight
    e = e / e.norm(dim=1, keepdim=True).clamp(min=1e-12)
    near = e[codes] @ e.T  # eq. 1, (n, V)
    near[range(len(codes)), codes] = -2.0  # itself
    values, order = near.topk(num, 1)
    names = tuple(tuple(word(inputs, token) for token in row) for row in order.tolist())
    words = tuple(word(inputs, code) for code in codes)
    return EmbeddingNeighbours(np.array(codes), words, order.numpy(), names, values.numpy())


def _table(model: Any, path: str | None) -> nn.Embedding:
    if not isinstance(model, nn.Module):
        raise UserError("a lens looks at a run or a torch module", got=given("model", model), do="Pass run")
    tables = {name: part for name, part in model.named_modules() if isinstance(part, nn.Embedding)}
    if path is None and tables:
        return max(tables.values(), key=lambda part: part.num_embeddings)
    if path not in tables:
        got = f"table={path!r}" if path is not None else f"{type(model).__name__} without one"
        raise UserError(
            "the model must have a table of embeddings",
            got=got,
            do=f"Pass table=, one of {', '.join(tables)}" if tables else "Take a model of tokens",
        )
    return tables[path]


def _code(token: str | int, inputs: Inputs, size: int) -> int:
    if isinstance(token, str):
        if not isinstance(inputs, Tokens):
            raise UserError("words need the run that has their tokenizer", got=f"{token!r}", do="Pass run, or numbers")
        own = inputs.tokenizer
        found = own.id(token)
        cut = [found] if found is not None else own.encode(token)
        if len(cut) != 1:
            parts = " ".join(word(inputs, code) for code in cut) or "none"
            raise UserError(
                "a word must be a single token", got=f"{token!r}, which is {parts}", do="Ask about one of them"
            )
        return cut[0]
    return whole("token", token, 0, size - 1)
