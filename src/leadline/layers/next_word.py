"""What stands between two steps of decoding: the scores, the largest of them, and the word that follows from those.

    of each block of words    the largest score that is allowed, where it stands, and log Σ e^score              (1)
    enter                     h = e_x + π_at,   x the word with the largest score of all blocks, or one given    (2)

Choosing the likeliest word from (1) reads a few hundred numbers, not the vocabulary. All of it stays on the device.

Shapes     scores (B, V) float32;  best, where, mass (B, P), of P blocks;  h (B, D) float32
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leadline.layers.kernels import early, kernels, power
from leadline.layers.positions import LearnedPositions
from leadline.layers.sublayer import Sublayer

WORDS = 64  #: of a block

_KERNEL = """
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def enter(best, where, mass, tokens, embed, place, at, h, words, log_p, slot, num_words, D, P,
          CHOOSE: tl.constexpr, PLACED: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    b = tl.program_id(0)
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()  # a step begins when the one before it is over: its keys and values are read early
    if CHOOSE:
        p = tl.arange(0, BLOCKS)
        here = p < P
        largest = tl.load(best + b * P + p, mask=here, other=float("-inf"))
        most = tl.max(largest)
        stands = tl.load(where + b * P + p, mask=here, other=2147483647)
        token = tl.min(tl.where(largest == most, stands, 2147483647))
        token = tl.where(token == 2147483647, 0, token)  # of scores that are no numbers, none is the largest
        logs = tl.load(mass + b * P + p, mask=here, other=float("-inf"))
        top = tl.max(logs)
        column = tl.load(slot)
        tl.store(words + b * num_words + column, token.to(tl.int64))
        tl.store(log_p + b * num_words + column, most - top - tl.log(tl.sum(tl.exp(logs - top))))
        tl.store(tokens + b, token.to(tl.int64))
    else:
        token = tl.load(tokens + b).to(tl.int32)
    d = tl.arange(0, BLOCK)
    x = tl.load(embed + token.to(tl.int64) * D + d, mask=d < D, other=0.0).to(tl.float32)
    if PLACED:
        x += tl.load(place + tl.load(at + b) * D + d, mask=d < D, other=0.0).to(tl.float32)
    tl.store(h + b * D + d, x, mask=d < D)


@triton.jit
def largest(given, allowed, scores, best, where, mass, at, slot, number, most_at, width, V, P, WORDS: tl.constexpr,
            EARLY: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1)
    if EARLY:
        gdc_wait()
    if p == 0:
        tl.store(at + b, tl.minimum(tl.load(at + b) + 1, most_at))
        if b == 0:
            tl.store(slot, tl.load(slot) + 1)
            tl.store(number, tl.load(number) + 1)
    v = p * WORDS + tl.arange(0, WORDS)
    known = v < V
    y = tl.load(given + b * width + v, mask=known, other=float("-inf")).to(tl.float32)
    tl.store(scores + b * V + v, y, mask=known)
    top = tl.max(y)
    tl.store(mass + b * P + p, top + tl.log(tl.sum(tl.exp(y - top))))
    y = tl.where(tl.load(allowed + v, mask=known, other=0) != 0, y, float("-inf"))
    own = tl.max(y)
    tl.store(best + b * P + p, own)
    tl.store(where + b * P + p, tl.min(tl.where(y == own, v, 2147483647)))
"""


@dataclass(frozen=True, eq=False)
class Parts:
    """A decoder as a chain of layers, in which a word sees all before it.

    Args:
        embed: (V, D).
        place: what is added for a place, if anything.
        layers: attention and feed-forward network of each.
        leave: the norm after them.
        unembed: (V, D).
    """

    embed: Tensor
    place: nn.Module | None
    layers: list[tuple[Sublayer, Sublayer]]
    leave: nn.Module
    unembed: Tensor


@dataclass(frozen=True, eq=False)
class Places:
    """Where a decoder keeps what it goes on with, on the device.

    Args:
        tokens, at: (B, 1), the words that come next, and where.
        words, log_p: (B, W), those that were chosen.
        slot, number: the column of them that is next, and how many there were.
        length: most words of a row.
    """

    tokens: Tensor
    at: Tensor
    words: Tensor
    log_p: Tensor
    slot: Tensor
    number: Tensor
    length: int


class NextWord:
    """Args:
    parts: of the model; it must have no places, or learned ones.
    places: `at`, `slot` and `number` move on by one with each step.
    words: of a block; `largest` needs a power of 2.
    """

    def __init__(self, parts: Parts, places: Places, words: int = WORDS):
        if not isinstance(parts.place, LearnedPositions | None):
            raise TypeError("places are learned here")
        self.parts, self.places, self.block = parts, places, words
        (V, D), B = parts.embed.shape, len(places.at)
        self.P = -(-V // words)
        new = lambda *size, dtype=torch.float32: torch.zeros(*size, dtype=dtype, device=places.at.device)  # noqa: E731
        self.scores, self.h, self.best, self.mass = new(B, V), new(B, D), new(B, self.P), new(B, self.P)
        self.where, self.allowed = new(B, self.P, dtype=torch.int32), new(V, dtype=torch.uint8) + 1

    @property
    def state(self) -> list[Tensor]:
        """What a step changes."""
        return [self.scores, self.best, self.where, self.mass]

    def given(self, scores: Tensor, allowed: Tensor | None = None) -> None:
        """Eq. 1 of scores that came from elsewhere, as those after prompts; and the words (V,) that may be chosen."""
        self.allowed.fill_(1) if allowed is None else self.allowed.copy_(allowed)
        self.scores.copy_(scores)
        self.best.fill_(-torch.inf)
        self.mass.fill_(-torch.inf)
        self.best[:, 0], at = self.scores.masked_fill(self.allowed == 0, -torch.inf).max(-1)
        self.where[:, 0], self.mass[:, 0] = at.int(), self.scores.logsumexp(-1)

    def enter(self, choose: bool) -> Tensor:
        """Eq. 2."""
        parts, at = self.parts, self.places
        place: Any = parts.embed if parts.place is None else parts.place.weight
        B, D = self.h.shape
        kernels(_KERNEL).enter[(B,)](
            self.best, self.where, self.mass, at.tokens, parts.embed, place, at.at, self.h, at.words, at.log_p,
            at.slot, at.words.shape[1], D, self.P, CHOOSE=choose, PLACED=parts.place is not None,
            BLOCKS=power(self.P), BLOCK=power(D), num_warps=4, **early(self.h.device),
        )  # fmt: skip
        return self.h

    def largest(self, scores: Tensor) -> None:
        """Eq. 1 of scores (B, V') of any type, of which the first V count; a step is over."""
        (B, V), at = self.scores.shape, self.places
        kernels(_KERNEL).largest[(B, self.P)](
            scores, self.allowed, self.scores, self.best, self.where, self.mass, at.at, at.slot, at.number,
            at.length - 1, scores.stride(0), V, self.P, WORDS=self.block, num_warps=4, **early(scores.device),
        )  # fmt: skip
