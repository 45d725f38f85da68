"""From the scores of all tokens to the next token: the likeliest, or one drawn from those that are likely enough.

    p_v        = softmax_v(score_v / τ)                                              τ -> temperature       (1)
    top-k      v stays where score_v is among the k highest                          (Fan et al., 2018)     (2)
    nucleus    v stays where the tokens above it hold less than p of the mass         (Holtzman et al., 2019) (3)
    min-p      v stays where p_v >= m max_w p_w                                                             (4)
    repeated   score_v <- score_v / r if score_v > 0, else r score_v, for v seen     (Keskar et al., 2019)  (5)
    drawn      the first v with  Σ_{w<=v} p_w > u,     u = u(seed of the row, number of the token)           (6)

In this order: (5), the allowed tokens, (1), (2), (3), (4). Equal scores at the border of (2) all stay. Since u is a
pure function of (6), a row's tokens do not depend on its batch mates, and the same seed gives the same text.

Shapes     scores (B, V);  tokens (B,);  seen (B, T), -1 where a row has nothing
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from leadline.errors import UserError
from leadline.settings import given, real, whole

#: (tokens so far (B, T), -1 where a row has nothing) -> (B, V), true where a token may come next
Constraint = Callable[[Tensor], Tensor]


@runtime_checkable
class AfterPrompts(Protocol):
    """A constraint on new tokens alone, which must know where the prompts end."""

    def after_prompts(self, lengths: Tensor) -> Constraint:
        """The constraint after prompts of these lengths (B,)."""


@dataclass(frozen=True, eq=False)
class Choice:
    """How the next token is taken.

    Args:
        temperature: τ, at least 0; 0 takes the likeliest token.
        top_k: k, at least 1.
        top_p: p, above 0 and at most 1.
        min_p: m, from 0 to 1.
        repetition: r, above 0; more than 1 makes tokens that were there less likely.
        allowed: tokens that may come, (V,) or (B, V), a function of the tokens so far, or `leadline.text.one_of.OneOf`.

    >>> scores = torch.tensor([[3.0, 1.0, 2.0, -1.0]])
    >>> Choice(temperature=0)(scores, torch.tensor([7]), torch.tensor(0)).tolist()
    [0]
    >>> Choice(top_k=2).narrowed(scores).isfinite().tolist()
    [[True, False, True, False]]
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition: float = 1.0
    allowed: Tensor | Constraint | AfterPrompts | None = None

    def __post_init__(self):
        real("temperature", self.temperature, 0, usual=1.0)
        real("repetition", self.repetition, 0, above=True, usual=1.0)
        if self.top_k is not None:
            whole("top_k", self.top_k)
        if self.top_p is not None:
            real("top_p", self.top_p, 0, most=1, above=True, usual=0.9)
        if self.min_p is not None:
            real("min_p", self.min_p, 0, most=1, usual=0.05)
        if isinstance(self.allowed, Tensor):
            _some(self.allowed)
        elif self.allowed is not None and not callable(self.allowed) and not isinstance(self.allowed, AfterPrompts):
            raise UserError(
                "allowed must be a tensor of truth values, or a function of the tokens so far",
                got=given("allowed", self.allowed),
                do="Pass torch.tensor([True, False, …]), one for each token",
            )

    @property
    def looks_back(self) -> bool:
        """Whether it must know the tokens so far."""
        return self.repetition != 1 or not isinstance(self.allowed, (Tensor, type(None)))

    @property
    def takes_likeliest(self) -> bool:
        """Whether it takes the likeliest token, of all or of those that a list (V,) allows."""
        listed = self.allowed is None or (isinstance(self.allowed, Tensor) and self.allowed.dim() == 1)
        return self.temperature == 0 and listed and self.repetition == 1

    def after_prompts(self, lengths: Tensor) -> Choice:
        """The same, after prompts of these lengths (B,)."""
        return (
            replace(self, allowed=self.allowed.after_prompts(lengths))
            if isinstance(self.allowed, AfterPrompts)
            else self
        )

    def on(self, device: torch.device) -> Choice:
        """The same, with what it holds on a device."""
        return replace(self, allowed=self.allowed.to(device)) if isinstance(self.allowed, Tensor) else self

    def __call__(self, scores: Tensor, seeds: Tensor, number: Tensor, seen: Tensor | None = None) -> Tensor:
        """The next token of each row.

        Args:
            seeds: of the rows, (B,).
            number: of the token, counted from the first that is drawn; () or (B,).
        """
        scores = self.narrowed(scores, seen)
        return scores.argmax(-1) if self.temperature == 0 else drawn(scores, uniform(seeds, number))

    def narrowed(self, scores: Tensor, seen: Tensor | None = None) -> Tensor:
        """Scores with temperature, -∞ for tokens that are out."""
        scores = self.permitted(scores.to(torch.promote_types(scores.dtype, torch.float32)), seen)
        if self.temperature == 0:
            return scores
        scores = scores / self.temperature  # eq. 1
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            least = scores.topk(self.top_k, -1).values[..., -1:]
            scores = scores.masked_fill(scores < least, -math.inf)  # eq. 2
        if self.top_p is not None and self.top_p < 1:
            scores = scores.masked_fill(~nucleus(scores.softmax(-1), self.top_p), -math.inf)  # eq. 3
        if self.min_p is not None:
            p = scores.softmax(-1)
            scores = scores.masked_fill(p < self.min_p * p.amax(-1, keepdim=True), -math.inf)  # eq. 4
        return scores

    def permitted(self, scores: Tensor, seen: Tensor | None = None, some: bool = True) -> Tensor:
        """Eq. 5, and -∞ for tokens that may not come.

        Args:
            some: each row must have a token that may come.
        """
        if self.repetition != 1 and seen is not None:
            scores = repeated(scores, seen, self.repetition)
        if self.allowed is None:
            return scores
        if isinstance(self.allowed, Tensor):
            allowed = self.allowed
        elif seen is None or isinstance(self.allowed, AfterPrompts):
            got = "seen=None" if seen is None else "no lengths of prompts"
            raise UserError(
                "a constraint needs the tokens so far", got=got, do="Pass seen, and call after_prompts first"
            )
        else:
            allowed = _some(self.allowed(seen)) if some else _truths(self.allowed(seen))
        check_allowed(allowed, scores.shape[-1])
        if allowed.dim() > 1 and len(allowed) not in (1, len(scores)):
            got, do = f"{len(allowed)} rows for {len(scores)}", "Pass a mask (V,) for all, or one (B, V) for each row"
            raise UserError("allowed must have a row for each row of tokens", got=got, do=do)
        return scores.masked_fill(~allowed.to(scores.device), -math.inf)


def check_allowed(allowed: Tensor, num_words: int) -> None:
    """Refuse tokens that may come, (…, V), of another vocabulary."""
    if allowed.shape[-1] != num_words:
        got, do = f"{allowed.shape[-1]} for {num_words} tokens", "Make it as long as the vocabulary"
        raise UserError("allowed must say for each token whether it may come next", got=got, do=do)


def _truths(allowed: Tensor) -> Tensor:
    if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool or allowed.dim() not in (1, 2):
        of = f"{allowed.dtype} of shape {tuple(allowed.shape)}" if isinstance(allowed, Tensor) else given("it", allowed)
        raise UserError(
            "allowed must be truth values, one for each token", got=of, do="Pass a mask of tokens, (V,) or (B, V)"
        )
    return allowed


def _some(allowed: Tensor) -> Tensor:
    if not bool(_truths(allowed).any(-1).all()):
        raise UserError(
            "at least one token must be allowed to come next", got="none in a row", do="Allow at least the end token"
        )
    return allowed


#: the likeliest token
GREEDY = Choice(temperature=0)


def nucleus(p: Tensor, most: float) -> Tensor:
    """Eq. 3: which tokens of (…, V) stay. The likeliest always does.

    >>> nucleus(torch.tensor([0.5, 0.1, 0.3, 0.1]), 0.7).tolist()
    [True, False, True, False]
    """
    ordered, order = p.sort(dim=-1, descending=True, stable=True)
    above = ordered.double().cumsum(-1) - ordered  # the mass of the tokens above each
    stays = above < most
    stays[..., 0] = True
    return torch.zeros_like(stays).scatter(-1, order, stays)


def repeated(scores: Tensor, seen: Tensor, by: float) -> Tensor:
    """Eq. 5.

    >>> repeated(torch.tensor([[2.0, -2.0, 2.0]]), torch.tensor([[0, 1, -1]]), 2.0).tolist()
    [[1.0, -4.0, 2.0]]
    """
    num = scores.shape[-1]
    there = torch.zeros(len(scores), num + 1, dtype=torch.bool, device=scores.device)
    there.scatter_(1, torch.where(seen < 0, num, seen).to(scores.device), True)
    return torch.where(there[:, :num], torch.where(scores > 0, scores / by, scores * by), scores)


def drawn(scores: Tensor, u: Tensor) -> Tensor:
    """Eq. 6.

    >>> drawn(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0.4, 0.6])).tolist()
    [0, 1]
    """
    mass = scores.double().softmax(-1).cumsum(-1)
    found = (mass <= u[:, None] * mass[:, -1:]).sum(-1)
    return found.clamp(max=scores.shape[-1] - 1)


def uniform(seeds: Tensor, number: Tensor) -> Tensor:
    """u of eq. 6, in [0, 1), float64: splitmix64's finaliser of the seed and of the number.

    >>> u = uniform(torch.tensor([0, 1, 0]), torch.tensor(5))
    >>> bool(u[0] == u[2]), bool(u[0] == u[1])
    (True, False)
    """
    z = _mix(_mix(seeds + _STEP) + (number + 1) * _STEP)
    return ((z >> 11) & (2**53 - 1)).double() * 2.0**-53


_STEP = -0x61C8864680B583EB  # 2^64 / golden ratio, as a signed number


def _mix(z: Tensor) -> Tensor:
    z = (z ^ ((z >> 30) & (2**34 - 1))) * -0x40A7B892E31B1A47
    z = (z ^ ((z >> 27) & (2**37 - 1))) * -0x6B2FB644ECCEEE15
    return z ^ ((z >> 31) & (2**33 - 1))
