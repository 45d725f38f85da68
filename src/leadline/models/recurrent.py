"""Recurrent network: a stack of layers that read a row step by step and remember (Elman, 1990; Cho et al., 2014).

    h_t      = e_{x_t}                  of tokens;     V x_t + b   of numbers                             (1)
    h        <- h + f_l(N h)            L times; f_l a recurrent layer, in one direction or in both       (2)
    plain    h <- f_l(h)                without `residual`; the first layer then reads x itself           (3)
    sequence Ω r + β                    r the mean of N h over the steps that are there, or its last      (4)
    steps    Ω N h_t + β                of every step                                                     (5)
    next     score_t = E N h_t          of the next token; E the rows e_v where tied                      (6)

What the layers remember of a row does not grow with it. When it writes, the state is all that is kept
(`cache`, `step`), so a text has no longest length. A new row begins with a new state, or, where the rows of a batch go
on from those of the batch before (`leadline.layers.carried`), with theirs. Where documents share a row, a document is
read with the state of the one before.

Notation   e_v -> embed.weight[v];  V, b -> read;  f_l -> layers[l].branch;  N -> layers[l].norm and leave, none in (3);
           Ω, β -> answer;  E -> score;  B batch, T steps, C channels, D width, L layers
Paper      residuals with a normalisation before each layer are later practice
Shapes     x (B, T) of tokens, or (B, T, C) of numbers, (B, T) where C is 1; (B, T, C + 1) where a last channel is 1 at
           steps that are there and 0 after them -> (B, dim_output), or (B, T, dim_output)
Train it   leadline train mnist1d --model Recurrent --cell gru
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import ShapeError, UserError
from leadline.layers.bidirectional import Bidirectional
from leadline.layers.cache import Cache
from leadline.layers.carried import begun, ended
from leadline.layers.dropout import Dropout
from leadline.layers.recurrent_layers import RECURRENT
from leadline.layers.steps_there import State, at_last
from leadline.layers.unembedding import unembed
from leadline.models.sizes import check_sizes
from leadline.names import lookup
from leadline.settings import given, real, whole

HEADS = {name: name for name in ("sequence", "steps", "next")}
POOLS = {name: name for name in ("mean", "last")}
_STEPS = 16  # of a row that stands for those of any length


class Recurrent(nn.Module, Configured):
    """Args:
        dim_output: what is answered; num_tokens with head next.
        channels: C, of rows of numbers; None where rows are tokens.
        num_tokens: words of the vocabulary; None where rows are numbers.
        cell: a name in leadline.layers.recurrent_layers.RECURRENT.
        dim: width of the stream; even where it is read in both directions.
        num_layers: L, at least 1.
        p_drop: of a unit of what a layer gives, from 0 to below 1.
        bidirectional: half of the units read each row from its end; not with head next.
        head: what is answered: "sequence", "steps" or "next"; by default as the data ask.
        pool: what head sequence looks at, the "mean" of all steps or the "last".
        residual: each layer adds to the stream, normalised before it; else layers follow one another alone.
        tied: words are scored by their own embeddings.
        pad: the token that fills rows at their end; None where they are full.
        channels_first: rows of numbers are (C, T).

    >>> Recurrent(10, channels=1)(torch.zeros(2, 40)).shape
    torch.Size([2, 10])
    >>> Recurrent(50, num_tokens=50, head="next", dim=16)(torch.ones(2, 7, dtype=torch.long)).shape
    torch.Size([2, 7, 50])
    """

    #: the head that answers what is asked of the data
    own_head: ClassVar = {
        **dict.fromkeys(
            ("classes", "binary", "ordered", "real", "positive", "count", "angle", "proportion"), "sequence"
        ),
        **{"tokens": "next", "tags": "steps"},
    }
    #: a row that is written has no end: what is kept of it does not grow
    length: ClassVar[int] = 2**40

    def __init__(
        self,
        dim_output: int,
        channels: int | None = None,
        num_tokens: int | None = None,
        cell: str = "gru",
        dim: int = 64,
        num_layers: int = 2,
        p_drop: float = 0.1,
        bidirectional: bool = False,
        head: str = "sequence",
        pool: str = "mean",
        residual: bool = True,
        tied: bool = True,
        pad: int | None = None,
        channels_first: bool = False,
    ):
        super().__init__()
        check_sizes("Recurrent", dim_output=dim_output, dim=dim, num_layers=num_layers)
        self.dim_output, self.channels, self.num_tokens = dim_output, channels, num_tokens
        self.cell, self.dim, self.num_layers = cell, dim, num_layers
        self.p_drop, self.bidirectional = real("p_drop", p_drop, 0, 1, usual=0.1), bidirectional
        self.head, self.pool = lookup(head, HEADS, "head"), lookup(pool, POOLS, "pool")
        self.residual, self.tied, self.channels_first = residual, tied, channels_first
        self.pad = pad if pad is None or num_tokens is None else whole("pad", pad, 0, num_tokens - 1)
        self._check()
        width = dim if residual or channels is None else channels
        self.embed = None if num_tokens is None else nn.Embedding(num_tokens, dim)
        self.read = None if channels is None or not residual else nn.Linear(channels, dim)
        self.layers = nn.ModuleList()
        for number in range(num_layers):
            layer = self._layer(width if number == 0 else dim)
            self.layers.append(_Block(layer, dim, residual, p_drop, number))
        self.leave = nn.LayerNorm(dim) if residual else nn.Identity()
        scored = self.head == "next"
        self.answer = None if scored else nn.Linear(dim, dim_output)
        self.score = nn.Linear(dim, dim_output, bias=False) if scored and not tied else None
        if self.embed is not None:
            nn.init.normal_(self.embed.weight, 0, dim**-0.5)  # tied scores then begin near those of a uniform choice

    @classmethod
    def tiny(cls) -> Recurrent:
        return cls(11, num_tokens=11, dim=6, head="next", pad=0)

    @property
    def input_shape(self) -> tuple[int, ...]:
        if self.channels is None or self.channels == 1:
            return (_STEPS,)
        return (self.channels, _STEPS) if self.channels_first else (_STEPS, self.channels)

    def forward(self, x: Tensor) -> Tensor:
        h, there = self._read(x)
        for number, layer in enumerate(self.layers):
            h, state = layer(h, begun(number), there if self.bidirectional else None)  # padding lies after the rest
            ended(number, state)
        if self.head != "sequence":
            return self._each(h)
        h = self.leave(h)
        if h.shape[1] == 0:  # nothing to read: as a row of padding alone
            r = h.new_zeros(len(h), h.shape[2])
        elif there is None:
            r = h.mean(1) if self.pool == "mean" else self._last(h, None)
        elif self.pool == "mean":
            r = h.masked_fill(~there[..., None], 0.0).sum(1) / there.sum(1, keepdim=True).clamp(min=1)
        else:
            r = self._last(h, there)
        return self.answer(r)  # type: ignore[misc]  # eq. 4

    def cache(
        self, B: int, length: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> Cache:
        """First states of B rows, whatever their length."""
        made = Cache([], torch.zeros(B, 1, dtype=torch.long, device=device))
        made.begins = self.first_states(B, device, dtype)
        made.states = [tuple(part.clone() for part in state) for state in made.begins]
        return made

    @torch.no_grad()
    def first_states(
        self, B: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> list[State]:
        """What each layer's state is before the first step of B rows."""
        never, found = torch.zeros(B, 1, dtype=torch.bool, device=device), []
        for layer in self.layers:
            width: Any = layer.branch.dim
            x = torch.zeros(B, 1, width, device=device, dtype=dtype)
            found.append(layer(x, None, never)[1])  # a step that is not there leaves the first state as it is
        return found

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """Answers (B, T', …) after the next words or values of each row, (B, T') or (B, T', C). Those at place 0 begin
        the row anew.
        """
        if self.bidirectional:
            raise UserError("a network must read ahead to write", got="bidirectional=True", do="Train one without")
        new = cache.at[:, 0] == 0
        h, there = self._read(x)
        there = there if self.embed is None else cache.there
        for layer, begin, state in zip(self.layers, cache.begins, cache.states, strict=True):
            now = tuple(_chosen(new, first, part) for first, part in zip(begin, state, strict=True))
            h, after = layer(h, now, there)
            for part, value in zip(state, after, strict=True):
                part.copy_(value)
        return self._each(h)

    def _read(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Eq. 1, (B, T, D), and which steps are there."""
        if self.embed is not None:
            if x.dim() != 2 or x.is_floating_point():
                got = f"shape {tuple(x.shape)} of {x.dtype}"
                raise ShapeError("Recurrent reads rows of tokens here", got=got, do="Pass whole numbers (B, T)")
            return self.embed(x), None if self.pad is None else x != self.pad
        C, there = self.channels, None
        x = x[..., None] if x.dim() == 2 and C == 1 else x.mT if self.channels_first and x.dim() == 3 else x
        if x.dim() != 3 or x.shape[2] not in (C, C + 1):  # type: ignore[operator]
            raise ShapeError(
                f"Recurrent reads rows of {C} channels here, or of {C} and one for which steps are there",
                got=f"shape {tuple(x.shape)}",
                do=f"Pass (B, {'C, T' if self.channels_first else 'T, C'})",
            )
        if x.shape[2] != C:
            x, there = x[..., :-1], x[..., -1] > 0
        return x if self.read is None else self.read(x), there

    def _each(self, h: Tensor) -> Tensor:
        """Eq. 5 or 6."""
        h = self.leave(h)
        if self.answer is not None:
            return self.answer(h)
        return unembed(h, self.embed.weight if self.score is None else self.score.weight)  # type: ignore[union-attr]

    def _last(self, h: Tensor, there: Tensor | None) -> Tensor:
        """Of each direction, what it has when it has read all: ahead at the last step, back at the first."""
        ahead = h[:, -1] if there is None else at_last(h, there, torch.zeros_like(h[:, 0]))
        if not self.bidirectional:
            return ahead
        half = self.dim // 2
        back = h[:, 0, half:] if there is None else h[:, 0, half:].masked_fill(~there[:, :1], 0)
        return torch.cat([ahead[:, :half], back], -1)

    def _layer(self, width: int) -> nn.Module:
        make: Any = lookup(self.cell, RECURRENT, "cell")
        if not self.bidirectional:
            return make(width, self.dim)
        return Bidirectional(make(width, self.dim // 2), make(width, self.dim // 2))

    def _check(self) -> None:
        """Arguments that fit one another."""
        if (self.channels is None) == (self.num_tokens is None):
            raise UserError(
                "Recurrent must be told either channels or num_tokens",
                got=f"channels={self.channels}, num_tokens={self.num_tokens}",
                do="Pass channels for rows of numbers, num_tokens for rows of tokens",
            )
        known = {"channels": self.channels, "num_tokens": self.num_tokens}
        check_sizes("Recurrent", **{name: size for name, size in known.items() if size is not None})
        if self.head == "next" and (self.bidirectional or self.num_tokens != self.dim_output):
            got = given("bidirectional", True) if self.bidirectional else f"dim_output={self.dim_output}"
            raise UserError(
                "head next must score all words, none of which it has seen",
                got=f"{got} with num_tokens={self.num_tokens}",
                do="Leave bidirectional out" if self.bidirectional else f"Pass dim_output={self.num_tokens}",
            )
        if self.bidirectional and self.dim % 2:
            raise UserError("dim must be even in two directions", got=f"dim={self.dim}", do=f"Pass {self.dim + 1}")


class _Block(nn.Module):
    """Eq. 2 or 3."""

    def __init__(self, branch: nn.Module, dim: int, residual: bool, p_drop: float, site: int):
        super().__init__()
        self.branch, self.residual = branch, residual
        if not residual:
            self.residual_branch = ()  # see leadline.lens.skips
        self.norm = nn.LayerNorm(dim) if residual else nn.Identity()
        self.dropout = Dropout(p_drop, site)

    def forward(self, h: Tensor, state: State | None, there: Tensor | None) -> tuple[Tensor, State]:
        y, state = self.branch(self.norm(h), state, there)
        y = self.dropout(y.to(h.dtype))
        return (h + y if self.residual else y), state


def _chosen(new: Tensor, first: Tensor, part: Tensor) -> Tensor:
    """The first state of rows that begin, the kept one of the others, (B, …)."""
    return torch.where(new.view(-1, *[1] * (part.dim() - 1)), first, part)
