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

import torch
import torch.nn.functional as F
from torch import Tensor

_ROUND = 64  # words


class Deferred(NamedTuple):
    """Scores that are not computed yet."""

    h: Tensor
    weight: Tensor
    bias: Tensor | None

    def padded(self, multiple: int | None = None) -> Tensor:
        """Eq. 1 over a multiple of so many words, with -inf for those that are none: matrix products of a GPU are made
        for round numbers. None takes 64 there, and 1 elsewhere.
        """
        count = len(self.weight)
        missing = -count % (multiple or (_ROUND if self.weight.is_cuda else 1))
        if not missing:
            return F.linear(self.h, self.weight, self.bias)
        bias = None if self.bias is None else F.pad(self.bias, (0, missing))
        scores = F.linear(self.h, F.pad(self.weight, (0, 0, 0, missing)), bias)
        words = torch.arange(count + missing, device=scores.device) < count
        return torch.where(words, scores, -torch.inf)

    def scores(self) -> Tensor:
        """Eq. 1."""
        return self.padded()[..., : len(self.weight)]


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
