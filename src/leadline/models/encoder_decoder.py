"""Recurrent encoder and decoder, with and without attention (Sutskever, 2014; Bahdanau, 2014; Luong, 2015).

    encoder    h <- h + f_l(N h)                       L times, in both directions; m_j = N h_j                  (1)
    begin      state of g_l = tanh(B_l ζ_l)            ζ_l the state of f_l after the source: a fixed vector    (2)
    decoder    h <- h + g_l(N h)                       L times, h_t = e_{y_{t-1}} at first                       (3)
    weight     a_{tj} = softmax_j(score(q_t, m_j)),    c_t = Σ_j a_{tj} m_j      over the words of the source    (4)
    after     h_t <- tanh(W [N h_t; c_t])             q_t = N h_t                                               (5)
    inside     g_1 reads [N h_t; c_t] as well          q_t its state before step t; (5) has this c_t             (6)
    score      = E h_t                                 E the rows e_v where tied                                 (7)

With attention "none" (2) is all that the decoder knows of a source, however long that is. With attention after (5) no
state depends on a weight, so the whole target goes through each layer in one call of a fused kernel; inside (6) goes
step by step. What is kept while it writes is m and the states.

While training, with probability `p_own` the word that the decoder reads next is not that of the target but one drawn
from its own scores (Bengio et al., 2015). This goes step by step too; draws belong to the example.

Notation   e_v -> embed.weight[v], of sources source_embed's where it is there;  f_l -> encoder[l].branch;
           g_l -> decoder[l].branch;  N -> their norm, leave_source, leave;  B_l -> bridges[l];  score -> score;
           W -> join;  E -> head;  B batch, S T words of source and target, D width, V vocabulary
Paper      residuals and normalisations are later practice; as q and m are normalised, the bilinear score is divided by
           √D, or its weights would be 0 or 1 from the first step on; Luong's also reads h_{t-1} of (5) at step t
           ("input feeding"), which is left out; p_own stays as it is, and grows along the training in the paper
Shapes     x (B, S + T), a source padded to S and the target moved one place to the right -> (B, T, V)
Train it   leadline train pairs.tsv --model EncoderDecoder
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers import noise
from leadline.layers.additive_attention import AdditiveAttention, BilinearAttention, DotAttention
from leadline.layers.bidirectional import Bidirectional
from leadline.layers.cache import Cache, Room
from leadline.layers.dropout import Dropout
from leadline.layers.elman import Elman
from leadline.layers.gru import GRU
from leadline.layers.lstm import LSTM
from leadline.layers.masked_softmax import limited_softmax, limits
from leadline.layers.steps_there import State
from leadline.layers.unembedding import unembed
from leadline.models.sizes import check_sizes
from leadline.models.sources import check_source, parted
from leadline.names import lookup
from leadline.settings import real, whole

CELLS: dict[str, type[nn.Module]] = {"lstm": LSTM, "gru": GRU, "elman": Elman}
ATTENTIONS = {name: name for name in ("bilinear", "additive", "dot", "none")}
_Drop = Callable[[Tensor], Tensor]


class _Source(NamedTuple):
    """What the decoder may look at."""

    keys: Tensor  # (B, S, …)
    m: Tensor  # (B, S, D)
    there: Tensor  # (B, S)
    limits: tuple[Tensor, Tensor]  # of the softmax of eq. 4

    @classmethod
    def of(cls, keys: Tensor, m: Tensor, there: Tensor) -> _Source:
        return cls(keys, m, there, limits(there[:, None]))


class EncoderDecoder(nn.Module, Configured):
    """Args:
        num_tokens: V, words of a target, and of a source where both share a vocabulary.
        length: T, most words of a target.
        len_source: S, words of a source with its padding.
        num_source_tokens: words of a source's own vocabulary; None where it is that of the targets.
        cell: "lstm", "gru" or "elman".
        dim: D, even where sources are read in both directions.
        num_layers: L, at least 1.
        attention: the score of eq. 4, "bilinear", "additive" or "dot", or "none" for a fixed vector.
        inside: attention stands inside of the step (6), not after it (5).
        bidirectional: half of the encoder's units read each source from its end.
        p_drop: of a unit of the embeddings and of what layers give, from 0 to below 1.
        p_own: while training, of a word of the target being one of the model's own, from 0 to 1.
        tied: words are scored by their own embeddings.
        pad: the token that fills a source.

    >>> model = EncoderDecoder(num_tokens=100, length=8, len_source=10, dim=32)
    >>> model(torch.ones(2, 18, dtype=torch.long)).shape
    torch.Size([2, 8, 100])
    """

    def __init__(
        self,
        num_tokens: int,
        length: int,
        len_source: int,
        num_source_tokens: int | None = None,
        cell: str = "lstm",
        dim: int = 256,
        num_layers: int = 2,
        attention: str = "bilinear",
        inside: bool = False,
        bidirectional: bool = True,
        p_drop: float = 0.2,
        p_own: float = 0.0,
        tied: bool = True,
        pad: int = 0,
    ):
        super().__init__()
        reads = num_tokens if num_source_tokens is None else num_source_tokens
        check_sizes("EncoderDecoder", num_tokens=num_tokens, length=length, len_source=len_source, dim=dim)
        check_sizes("EncoderDecoder", num_layers=num_layers, num_source_tokens=reads)
        self.num_tokens, self.length, self.len_source = num_tokens, length, len_source
        self.num_source_tokens, self.cell, self.dim, self.num_layers = num_source_tokens, cell, dim, num_layers
        self.bidirectional, self.inside, self.tied = bidirectional, inside, tied
        self.p_drop, self.p_own = real("p_drop", p_drop, 0, 1, usual=0.2), real("p_own", p_own, 0, most=1, usual=0.2)
        self.pad = whole("pad", pad, 0, reads - 1)
        self.attention, self.draws_noise = lookup(attention, ATTENTIONS, "attention"), self.p_own > 0
        self._check()
        make: Any = lookup(cell, CELLS, "cell")
        site, wide = count(), dim * (1 + (inside and self.attention != "none"))
        self.embed = nn.Embedding(num_tokens, dim)
        self.source_embed = None if num_source_tokens is None else nn.Embedding(num_source_tokens, dim)
        read = (
            Bidirectional(make(dim, dim // 2), make(dim, dim // 2)) if bidirectional else make(dim, dim)
            for _ in range(num_layers)
        )
        self.encoder = nn.ModuleList(_Layer(branch, dim) for branch in read)
        self.decoder = nn.ModuleList(_Layer(make(dim if k else wide, dim), dim) for k in range(num_layers))
        held = dim * (2 if cell.lower() == "lstm" else 1)
        self.bridges = nn.ModuleList(nn.Linear(held, held) for _ in range(num_layers))
        self.score = _score(self.attention, dim)
        self.leave_source = nn.Identity() if self.score is None else nn.LayerNorm(dim)
        self.leave = nn.LayerNorm(dim)
        self.join = None if self.score is None else nn.Linear(2 * dim, dim)
        self.source_drops = nn.ModuleList(Dropout(p_drop, next(site)) for _ in range(num_layers + 1))
        self.drops = nn.ModuleList(Dropout(p_drop, next(site)) for _ in range(num_layers + 2))
        self.site = next(site)
        self.head = None if tied else nn.Linear(dim, num_tokens, bias=False)
        for table in (self.embed, self.source_embed):
            if table is not None:
                nn.init.normal_(table.weight, 0, dim**-0.5)

    @classmethod
    def tiny(cls) -> EncoderDecoder:
        return cls(num_tokens=11, length=4, len_source=5, dim=8, num_layers=1)

    @property
    def input_shape(self) -> tuple[int]:
        return (self.len_source + self.length,)

    def forward(self, x: Tensor) -> Tensor:
        source, target = parted("EncoderDecoder", x, self.len_source, self.length)  # (B, S), (B, T)
        seen, states = self.encode(source)
        if self.training and self.p_own:
            return self._scores(self._own(target, states, seen))
        return self._scores(self._written(target, states, seen)[0])

    def alignment(self, x: Tensor) -> Tensor:
        """The weights of eq. 4, (B, T, S): which words of its source each word of a target was written from."""
        source, target = parted("EncoderDecoder", x, self.len_source, self.length)
        seen, states = self.encode(source)
        weights = self._written(target, states, seen)[2]
        if weights is None:
            raise UserError("there must be attention to see", got='attention="none"', do="Train a model with it")
        return weights

    def encode(self, source: Tensor) -> tuple[_Source, list[State]]:
        """Eqs. 1 and 2: what the decoder may look at of sources (B, S), any S, and the states that it begins with."""
        there, states = source != self.pad, []
        enter, *drops = self.source_drops
        h = enter((self.embed if self.source_embed is None else self.source_embed)(source))
        for layer, drop, bridge in zip(self.encoder, drops, self.bridges, strict=True):
            y, state = layer(h, None, there)
            h = h + drop(y.to(h.dtype))
            parts = [torch.cat(sides, -1) for sides in zip(*_sides(state, 1 + self.bidirectional), strict=True)]
            first = bridge(torch.cat(parts, -1)).tanh().to(h.dtype)  # eq. 2
            states.append(tuple(part.contiguous() for part in first.chunk(len(parts), -1)))
        m = self.leave_source(h)
        keys = m if self.score is None else self.score.keys(m)  # type: ignore[operator]
        return _Source.of(keys, m, there), states

    def cache(
        self, B: int, length: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> Cache:
        """Of B targets, whatever their length; `read` puts the first states into it."""
        return Cache([], torch.zeros(B, 1, dtype=torch.long, device=device))

    def read(self, source: Tensor, cache: Cache) -> None:
        """Keep what the decoder will ask of the sources (B, S), padded with `pad`, and its first states."""
        check_source("EncoderDecoder", source, len(cache.at))
        seen, states = self.encode(source)
        keys = seen.keys.clone() if seen.keys is seen.m else seen.keys  # rows change places in each of the two
        cache.source_there, cache.sources = seen.there, [Room(keys, seen.m, fixed=True)]
        cache.begins = states
        cache.states = [tuple(part.clone() for part in state) for state in states]

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """Scores (B, T', V) after the next words (B, T') of each target; those at place 0 begin it anew."""
        new, [room] = cache.at[:, :1] == 0, cache.sources
        both = zip(cache.begins, cache.states, strict=True)
        states = [tuple(torch.where(new, a, b) for a, b in zip(*pair, strict=True)) for pair in both]
        seen = _Source.of(room.keys, room.values, cache.source_there)  # type: ignore[arg-type]
        h, after, _ = self._written(x, states, seen, cache.there)
        for state, values in zip(cache.states, after, strict=True):
            for part, value in zip(state, values, strict=True):
                part.copy_(value)
        return self._scores(h)

    def _written(
        self,
        words: Tensor,
        states: Sequence[State],
        seen: _Source,
        there: Tensor | None = None,
        drops: Sequence[_Drop] | None = None,
    ) -> tuple[Tensor, list[State], Tensor | None]:
        """Eqs. 3 to 6 of the next words (B, T'): features (B, T', D), states after them, and weights (B, T', S)."""
        every: Sequence[Any] = list(self.drops) if drops is None else drops
        enter, *each, end = every
        h, after, weights = enter(self.embed(words)), [], None
        for number, (layer, drop, state) in enumerate(zip(self.decoder, each, states, strict=True)):
            if number == 0 and self.inside and self.score is not None:
                y, state, weights = self._asking(layer, h, state, seen, there)
            else:
                y, state = layer(h, state, there)
            h = h + drop(y.to(h.dtype))
            after.append(state)
        h = self.leave(h)
        if self.score is not None:
            weights = self._weights(h, seen) if weights is None else weights
            h = self.join(torch.cat([h, weights.to(h.dtype) @ seen.m], -1)).tanh()  # type: ignore[misc]  # eq. 5
        return end(h), after, weights

    def _asking(
        self, layer: Any, h: Tensor, state: State, seen: _Source, there: Tensor | None
    ) -> tuple[Tensor, State, Tensor]:
        """Eq. 6, step by step; what no step has to wait for comes before all."""
        x, ys, weights = layer.norm(h), [], []
        for t, x_t in enumerate(x.split(1, 1)):
            a_t = self._weights(state[0][:, None].to(h.dtype), seen)
            c_t = a_t.to(h.dtype) @ seen.m
            both = torch.cat([x_t, c_t.to(x.dtype)], -1)
            y, state = layer.branch(both, state, None if there is None else there[:, t : t + 1])
            ys.append(y)
            weights.append(a_t)
        return torch.cat(ys, 1), state, torch.cat(weights, 1)

    def _weights(self, q: Tensor, seen: _Source) -> Tensor:
        q = q * self.dim**-0.5 if self.attention == "bilinear" else q
        scores = self.score.scores(q, seen.keys)  # type: ignore[union-attr, operator]
        return limited_softmax(scores, *seen.limits)  # eq. 4

    def _own(self, target: Tensor, states: list[State], seen: _Source) -> Tensor:
        """Features (B, T, D) of targets in which some words are the model's own."""
        B, T = target.shape
        ones = seen.m.new_ones(B, T, self.dim)
        masks = [drop(ones) for drop in self.drops]  # those of the whole target, so that p_own = 0 changes nothing
        keys = noise.current.keys
        u = torch.rand(B, 2, T, device=target.device) if keys is None else noise.uniform(keys, (2, T), self.site)
        words, features = target[:, :1], []
        for t in range(T):
            now = [lambda h, mask=mask, t=t: h * mask[:, t : t + 1] for mask in masks]
            h, states, _ = self._written(words, states, seen, None, now)
            features.append(h)
            if t + 1 < T:
                own = self._drawn(h.detach(), u[:, 0, t : t + 1])
                words = torch.where(u[:, 1, t : t + 1] < self.p_own, own, target[:, t + 1 : t + 2])
        return torch.cat(features, 1)

    @torch.no_grad()
    def _drawn(self, h: Tensor, u: Tensor) -> Tensor:
        """Words (B, 1) drawn from the scores: the first whose cumulated probability exceeds u."""
        p = nn.functional.linear(h[:, 0], self._table()).float().softmax(-1)
        return (p.cumsum(-1) <= u).sum(-1, keepdim=True).clamp(max=self.num_tokens - 1)

    def _table(self) -> Tensor:
        return self.embed.weight if self.head is None else self.head.weight

    def _scores(self, h: Tensor) -> Tensor:
        return unembed(h, self._table())  # eq. 7

    def _check(self) -> None:
        """Arguments that fit one another."""
        if self.bidirectional and self.dim % 2:
            raise UserError("dim must be even in two directions", got=f"dim={self.dim}", do=f"Pass {self.dim + 1}")
        if self.inside and self.attention == "none":
            raise UserError(
                "attention that stands inside of the step must be there",
                got='inside=True with attention="none"',
                do='Pass attention="additive", or leave inside out',
            )


class _Layer(nn.Module):
    """A recurrent layer after a normalisation."""

    def __init__(self, branch: nn.Module, dim: int):
        super().__init__()
        self.branch, self.norm = branch, nn.LayerNorm(dim)

    def forward(self, h: Tensor, state: State | None, there: Tensor | None) -> tuple[Tensor, State]:
        if state is not None:  # which a kernel may have handed back in fewer bits
            state = tuple(part.to(h.dtype) for part in state)
        return self.branch(self.norm(h), state, there)


def _score(kind: str, dim: int) -> nn.Module | None:
    if kind == "none":
        return None
    if kind == "additive":
        return AdditiveAttention(dim, dim, dim)
    return BilinearAttention(dim, dim) if kind == "bilinear" else DotAttention()


def _sides(state: State, num: int) -> list[State]:
    """The state of each direction."""
    each = len(state) // num
    return [state[k * each : (k + 1) * each] for k in range(num)]
