"""Transformer: an encoder that reads one sentence, a decoder that writes another (Vaswani et al., 2017).

    embed(t)_i = √D e_{t_i} + p_i                                                                     (1)
    encoder    h <- h + Sa[h],   h <- h + f[h]                       every word sees every word       (2)
    decoder    h <- h + Sa[h],   h <- h + Ca[h, m],   h <- h + f[h]  a word sees those before it      (3)
    score_i    = E h_i                                               E the rows e_v where tied        (4)

A row of inputs holds both sentences: the source, padded to `len_source`, and after it what the decoder reads, the
target moved one place to the right. In (2) and (3) branches read a normalised stream (order="pre", which normalises
once more at the end of each stack), or each sum is normalised (order="post").

Notation   e_v -> embed.weight[v], of a source source_embed's where that is there;  m -> what the encoder answers;
           p_i -> place (see leadline.layers.positions);
           Sa, Ca, f -> self-attention, cross-attention, feed-forward network: look, ask, think of a layer;
           B batch, S T words of source and target, D width, H heads, V vocabulary
Paper      its order is "post", which needs warm-up; "pre" is usual here. Both languages share one vocabulary there.
           Dropout is on (1) and on what branches give
Shapes     x (B, S + T) -> (B, T, V)
Train it   leadline train pairs.tsv --model Transformer
"""

from __future__ import annotations

import math
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.attention import CrossAttention, SelfAttention
from leadline.layers.cache import Cache, Room
from leadline.layers.dropout import Dropout
from leadline.layers.embedding import embedded
from leadline.layers.feed_forward import FeedForward
from leadline.layers.masks import Causal, Mask, Padding
from leadline.layers.positions import LearnedPositions, SinusoidalPositions
from leadline.layers.sublayer import Sublayer
from leadline.layers.unembedding import unembed
from leadline.models.sizes import check_sizes
from leadline.models.sources import check_source, parted
from leadline.names import lookup
from leadline.settings import truth, whole

POSITIONS = {name: name for name in ("sinusoidal", "learned", "none")}


class Transformer(nn.Module, Configured):
    """Args:
        num_tokens: V, tokens of the one vocabulary.
        length: T, most tokens of a target.
        len_source: S, tokens of a source with its padding.
        dim: width of the stream, a multiple of num_heads.
        num_layers: layers of the encoder, and of the decoder.
        num_heads: heads of each attention, at least 1.
        dim_hidden: width inside the feed-forward networks; four times dim by default.
        p_drop: probability of dropout after embeddings and branches, from 0 to below 1.
        order: where the normalisations are, "pre" or "post".
        positions: "sinusoidal", "learned", or "none", to which a source is a bag of words.
        tied: the output layer shares the weights of the embeddings.
        pad: the token that fills a source.
        num_source_tokens: tokens of a source's own vocabulary; None where it is that of the targets.

    >>> model = Transformer(num_tokens=100, length=8, len_source=10, dim=32)
    >>> model(torch.ones(2, 18, dtype=torch.long)).shape
    torch.Size([2, 8, 100])
    """

    def __init__(
        self,
        num_tokens: int,
        length: int,
        len_source: int,
        dim: int = 256,
        num_layers: int = 3,
        num_heads: int = 4,
        dim_hidden: int | None = None,
        p_drop: float = 0.1,
        order: str = "pre",
        positions: str = "sinusoidal",
        tied: bool = True,
        pad: int = 0,
        num_source_tokens: int | None = None,
    ):
        super().__init__()
        check_sizes("Transformer", num_tokens=num_tokens, length=length, len_source=len_source, dim=dim)
        reads = num_tokens if num_source_tokens is None else num_source_tokens
        check_sizes("Transformer", num_layers=num_layers, dim_hidden=4 * dim if dim_hidden is None else dim_hidden)
        check_sizes("Transformer", num_source_tokens=reads)
        self.num_tokens, self.length, self.len_source = num_tokens, length, len_source
        self.num_source_tokens, self.pad = num_source_tokens, whole("pad", pad, 0, reads - 1)
        self.dim, self.num_layers, self.num_heads, self.dim_hidden = dim, num_layers, num_heads, dim_hidden
        self.p_drop, self.order, self.tied = p_drop, order, truth("tied", tied)
        self.positions = lookup(positions, POSITIONS, "positions")
        site = count()
        self.embed = nn.Embedding(num_tokens, dim)
        self.source_embed = None if num_source_tokens is None else nn.Embedding(num_source_tokens, dim)
        self.place = _place(self.positions, max(length, len_source), dim)
        self.source_dropout, self.target_dropout = Dropout(p_drop, next(site)), Dropout(p_drop, next(site))
        shape = (dim, num_heads, dim_hidden or 4 * dim, p_drop, order)
        self.encoder = nn.ModuleList(_Reads(*shape, site) for _ in range(num_layers))
        self.decoder = nn.ModuleList(_Writes(*shape, site) for _ in range(num_layers))
        self.encoder_norm = nn.LayerNorm(dim) if order == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(dim) if order == "pre" else nn.Identity()
        self.head = None if tied else nn.Linear(dim, num_tokens, bias=False)
        self._draw()

    @classmethod
    def tiny(cls) -> Transformer:
        return cls(num_tokens=11, length=4, len_source=5, dim=8, num_layers=1, num_heads=2, dim_hidden=12)

    @property
    def input_shape(self) -> tuple[int]:
        return (self.len_source + self.length,)

    def forward(self, x: Tensor) -> Tensor:
        source, target = parted("Transformer", x, self.len_source, self.length)  # (B, S), (B, T)
        there = Padding(source != self.pad)
        m = self.encode(source, there)
        h = self._entered(embedded(self.embed, target, "Transformer"), self.target_dropout)
        for layer in self.decoder:
            h = layer(h, m, Causal(), there)
        return self._scores(h)

    def encode(self, source: Tensor, mask: Mask | None) -> Tensor:
        """Eq. 2: the source (B, S), any S that has places, as features (B, S, D)."""
        table = self.embed if self.source_embed is None else self.source_embed
        h = self._entered(embedded(table, source, "Transformer"), self.source_dropout)
        for layer in self.encoder:
            h = layer(h, mask)
        return self.encoder_norm(h)

    def cache(
        self, B: int, length: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> Cache:
        """Empty rooms for `length` words of B targets."""
        return Cache.empty(self.num_layers, B, self.num_heads, length, self.dim // self.num_heads, device, dtype)

    def read(self, source: Tensor, cache: Cache) -> None:
        """Keep what the decoder will ask of the sources (B, S), padded with `pad`."""
        check_source("Transformer", source, len(cache.at), self.len_source)
        cache.source_there = source != self.pad
        m = self.encode(source, Padding(cache.source_there))
        cache.sources = [layer.ask.branch.room(m) for layer in self.decoder]  # type: ignore[operator, union-attr]

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """Scores (B, T', V) after the next words (B, T') of each target, which stand at `cache.at`."""
        there = Padding(cache.source_there)  # type: ignore[arg-type]
        h = self._entered(embedded(self.embed, x, "Transformer"), self.target_dropout, cache.at)
        for layer, room, source in zip(self.decoder, cache.rooms, cache.sources, strict=True):
            h = layer(h, None, None, there, room, source, cache.at)
        return self._scores(h)

    def _entered(self, e: Tensor, dropout: Dropout, at: Tensor | None = None) -> Tensor:
        h = math.sqrt(self.dim) * e
        return dropout(h if self.place is None else self.place(h, at))  # eq. 1

    def _scores(self, h: Tensor) -> Tensor:
        return unembed(self.decoder_norm(h), self.embed.weight if self.head is None else self.head.weight)  # eq. 4

    def _draw(self) -> None:
        """As in the paper's code: maps by Glorot's rule, embeddings such that (1) begins with variance 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for table in (self.embed, self.source_embed):
            if table is not None:
                nn.init.normal_(table.weight, 0, self.dim**-0.5)


class _Reads(nn.Module):
    """A layer of the encoder, eq. 2."""

    def __init__(self, dim: int, num_heads: int, dim_hidden: int, p_drop: float, order: str, site: count):
        super().__init__()
        self.look = Sublayer(SelfAttention(dim, num_heads), nn.LayerNorm(dim), order, p_drop, next(site))
        self.think = Sublayer(FeedForward(dim, dim_hidden, "relu"), nn.LayerNorm(dim), order, p_drop, next(site))

    def forward(self, h: Tensor, mask: Mask | None) -> Tensor:
        return self.think(self.look(h, mask))


class _Writes(nn.Module):
    """A layer of the decoder, eq. 3."""

    def __init__(self, dim: int, num_heads: int, dim_hidden: int, p_drop: float, order: str, site: count):
        super().__init__()
        self.look = Sublayer(SelfAttention(dim, num_heads), nn.LayerNorm(dim), order, p_drop, next(site))
        self.ask = Sublayer(CrossAttention(dim, num_heads), nn.LayerNorm(dim), order, p_drop, next(site))
        self.think = Sublayer(FeedForward(dim, dim_hidden, "relu"), nn.LayerNorm(dim), order, p_drop, next(site))

    def forward(
        self,
        h: Tensor,
        m: Tensor | None,
        mask: Mask | None,
        there: Mask | None,
        room: Room | None = None,
        source: Room | None = None,
        at: Tensor | None = None,
    ) -> Tensor:
        h = self.look(h, mask, room=room, at=at)
        return self.think(self.ask(h, m, there, source))


def _place(positions: str, length: int, dim: int) -> nn.Module | None:
    if positions == "none":
        return None
    return LearnedPositions(length, dim) if positions == "learned" else SinusoidalPositions(dim)


#: as in the paper, with order="post"
SIZES: dict[str, dict[str, Any]] = {
    "base": {"dim": 512, "num_layers": 6, "num_heads": 8, "dim_hidden": 2048, "p_drop": 0.1, "order": "post"},
    "big": {"dim": 1024, "num_layers": 6, "num_heads": 16, "dim_hidden": 4096, "p_drop": 0.3, "order": "post"},
}
