"""From a token's last features to a score for every word of the vocabulary.

    score_v = e_v · h + b_v        e_v -> row v of `weight`, often the embedding of word v itself (tied)        (1)

The scores of a batch are the largest tensor of a language model. Inside `deferred()` they are not computed: features
and weights are handed on together, and a loss that knows them (`leadline.likelihoods.Tokens`) computes the scores piece
by piece.

Shapes     h (B, T, D);  weight (V, D);  scores (B, T, V)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, cast

import torch.nn.functional as F
from torch import Tensor


class Deferred(NamedTuple):
    """Scores that are not computed yet."""

    h: Tensor
    weight: Tensor
    bias: Tensor | None

    def scores(self) -> Tensor:
        """Eq. 1."""
        bias = None if self.bias is None else rounded(self.bias)
        return F.linear(self.h, rounded(self.weight), bias)[..., : len(self.weight)]


_ROUND = 64  # words


def rounded(t: Tensor) -> Tensor:
    """On a GPU, whose matrix products are made for round numbers, with zeros after up to a multiple of 64 words."""
    missing = -len(t) % _ROUND if t.is_cuda else 0
    return F.pad(t, (*((0, 0) * (t.dim() - 1)), 0, missing)) if missing else t


class _Deferring:
    on = False


_deferring = _Deferring()


@contextmanager
def deferred() -> Iterator[None]:
    """Inside, `unembed` hands on what the scores are made of."""
    before, _deferring.on = _deferring.on, True
    try:
        yield
    finally:
        _deferring.on = before


def unembed(h: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Scores of all words (eq. 1), or inside `deferred()` the three as a `Deferred`.

    >>> import torch
    >>> unembed(torch.ones(1, 2, 3), torch.ones(5, 3)).shape
    torch.Size([1, 2, 5])
    """
    made = Deferred(h, weight, bias)
    return cast(Tensor, made) if _deferring.on else made.scores()
