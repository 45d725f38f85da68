"""T5: every task is text to text, positions are relative (Raffel et al., 2020).

    encoder    h <- h + Sa[N h],   h <- h + f[N h]                            every word sees every word     (1)
    decoder    h <- h + Sa[N h],   h <- h + Ca[N h, m],   h <- h + f[N h]     a word sees those before it    (2)
    weight     = softmax_j(q_i · k_j + bias_{ij})                             not divided by √K              (3)
    N h        = γ h / √(mean h² + ε)                                         no mean is taken away          (4)
    f[h]       = W₂ relu(W₁ h),   or W₂ (gelu(W_g h) * W₁ h)                  gated, T5 version 1.1          (5)
    score_i    = E N h_i / √D,    or head N h_i                               tied, or not                   (6)

The bias of (3) belongs to ranges of offsets j - i and is one table for all layers of a stack; cross-attention has none.
No map has a bias. Rows hold a source, padded to `len_source`, and after it what the decoder reads: the target moved
one place to the right.

Notation   Sa, Ca, f -> self-attention, cross-attention, feed-forward network: look, ask, think of a layer;
           E -> embed.weight;  bias_{ij} -> encoder_bias, decoder_bias (see leadline.layers.relative_buckets);
           B batch, S T words of source and target, D width, H heads, K width of a head, V vocabulary
Paper      dropout is on embeddings, on what branches give, on attention weights and on the ends of both stacks; inside
           (5) there is none. An untied head begins with deviation 1 / √D
Shapes     x (B, S + T) -> (B, T, V)
Train it   leadline train pairs.tsv --model T5
"""

from __future__ import annotations

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
from leadline.layers.relative_buckets import BucketBias
from leadline.layers.sublayer import Sublayer
from leadline.layers.unembedding import unembed
from leadline.models.sizes import check_sizes
from leadline.models.sources import check_source, parted
from leadline.settings import truth, whole

EPS = 1e-6


class T5(nn.Module, Configured):
    """Args:
        num_tokens: V.
        length: T, most tokens of a target.
        len_source: S, tokens of a source with its padding.
        dim: width of the stream.
        num_layers: layers of the encoder, at least 1.
        num_heads: heads of each attention, at least 1.
        dim_head: width of a head; all heads together may be wider than dim.
        dim_hidden: width inside the feed-forward networks.
        num_decoder_layers: layers of the decoder; by default as many as the encoder has.
        gated: feed-forward networks have a gate, as from version 1.1 on.
        tied: the output layer shares the weights of the embeddings.
        num_buckets: ranges of offsets, even, at least 4.
        furthest: the offset from which on all are in one range.
        p_drop: probability of dropout after embeddings and branches, from 0 to below 1.
        pad: the token that fills a source.
        start: the token that a target begins with; pad by default.
        end: the token that closes a target.

    >>> model = T5(num_tokens=100, length=8, len_source=10, dim=32, num_layers=1, dim_hidden=64)
    >>> model(torch.ones(2, 18, dtype=torch.long)).shape
    torch.Size([2, 8, 100])
    """

    def __init__(
        self,
        num_tokens: int,
        length: int,
        len_source: int,
        dim: int = 256,
        num_layers: int = 4,
        num_heads: int = 4,
        dim_head: int = 64,
        dim_hidden: int = 1024,
        num_decoder_layers: int | None = None,
        gated: bool = False,
        tied: bool = True,
        num_buckets: int = 32,
        furthest: int = 128,
        p_drop: float = 0.1,
        pad: int = 0,
        start: int | None = None,
        end: int = 1,
    ):
        super().__init__()
        check_sizes("T5", num_tokens=num_tokens, length=length, len_source=len_source, dim=dim, dim_hidden=dim_hidden)
        check_sizes("T5", dim_head=dim_head, num_heads=num_heads)
        truth("gated", gated), truth("tied", tied)
        written = num_layers if num_decoder_layers is None else num_decoder_layers
        check_sizes("T5", num_layers=num_layers, num_decoder_layers=written)
        self.num_tokens, self.length, self.len_source = num_tokens, length, len_source
        self.pad, self.end = whole("pad", pad, 0, num_tokens - 1), whole("end", end, 0, num_tokens - 1)
        self.start = self.pad if start is None else whole("start", start, 0, num_tokens - 1)
        self.dim, self.num_layers, self.num_heads, self.dim_head = dim, num_layers, num_heads, dim_head
        self.dim_hidden, self.num_decoder_layers, self.gated, self.tied = dim_hidden, num_decoder_layers, gated, tied
        self.num_buckets, self.furthest, self.p_drop = num_buckets, furthest, p_drop
        site = count()
        self.embed = nn.Embedding(num_tokens, dim)
        self.source_dropout, self.target_dropout = Dropout(p_drop, next(site)), Dropout(p_drop, next(site))
        self.encoder_bias = BucketBias(num_heads, num_buckets, furthest)
        self.decoder_bias = BucketBias(num_heads, num_buckets, furthest, both_ways=False)
        shape = (dim, num_heads, dim_head, dim_hidden, gated, p_drop)
        self.encoder = nn.ModuleList(_Reads(*shape, site) for _ in range(num_layers))
        self.decoder = nn.ModuleList(_Writes(*shape, site) for _ in range(written))
        self.encoder_norm, self.decoder_norm = nn.RMSNorm(dim, EPS), nn.RMSNorm(dim, EPS)
        self.encoder_dropout, self.decoder_dropout = Dropout(p_drop, next(site)), Dropout(p_drop, next(site))
        self.head = None if tied else nn.Linear(dim, num_tokens, bias=False)
        self._draw()

    @classmethod
    def tiny(cls) -> T5:
        sizes: dict[str, Any] = {"dim": 8, "num_layers": 1, "num_heads": 2, "dim_head": 3, "dim_hidden": 12}
        return cls(num_tokens=11, length=4, len_source=5, num_buckets=4, furthest=4, **sizes)

    @property
    def input_shape(self) -> tuple[int]:
        return (self.len_source + self.length,)

    def forward(self, x: Tensor) -> Tensor:
        source, target = parted("T5", x, self.len_source, self.length)  # (B, S), (B, T)
        there = Padding(source != self.pad)
        m = self.encode(source, there)
        at = torch.arange(target.shape[1], device=x.device)
        bias = self.decoder_bias(at, at)  # (1, H, T, T)
        h = self.target_dropout(embedded(self.embed, target, "T5"))
        for layer in self.decoder:
            h = layer(h, m, Causal(), there, bias)
        return self._scores(h)

    def encode(self, source: Tensor, mask: Mask | None) -> Tensor:
        """Eq. 1: the source (B, S), any S, as features (B, S, D)."""
        at = torch.arange(source.shape[1], device=source.device)
        bias = self.encoder_bias(at, at)  # (1, H, S, S)
        h = self.source_dropout(embedded(self.embed, source, "T5"))
        for layer in self.encoder:
            h = layer(h, mask, bias)
        return self.encoder_dropout(self.encoder_norm(h))

    def cache(
        self, B: int, length: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> Cache:
        """Empty rooms for `length` words of B targets."""
        return Cache.empty(len(self.decoder), B, self.num_heads, length, self.dim_head, device, dtype)

    def read(self, source: Tensor, cache: Cache) -> None:
        """Keep what the decoder will ask of the sources (B, S), padded with `pad`."""
        check_source("T5", source, len(cache.at))
        cache.source_there = source != self.pad
        m = self.encode(source, Padding(cache.source_there))
        cache.sources = [layer.ask.branch.room(m) for layer in self.decoder]  # type: ignore[operator, union-attr]

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """Scores (B, T', V) after the next words (B, T') of each target, which stand at `cache.at`."""
        there = Padding(cache.source_there)  # type: ignore[arg-type]
        keys = torch.arange(cache.rooms[0].keys.shape[2], device=x.device)
        bias = self.decoder_bias(cache.at, keys)  # (B, H, T', L)
        h = self.target_dropout(embedded(self.embed, x, "T5"))
        for layer, room, source in zip(self.decoder, cache.rooms, cache.sources, strict=True):
            h = layer(h, None, None, there, bias, room, source, cache.at)
        return self._scores(h)

    def _scores(self, h: Tensor) -> Tensor:
        h = self.decoder_dropout(self.decoder_norm(h))
        if self.head is None:
            return unembed(h * self.dim**-0.5, self.embed.weight)  # eq. 6
        return unembed(h, self.head.weight)

    def _draw(self) -> None:
        """As in the paper's code: each map keeps the variance; queries bring the 1 / √K that (3) leaves out."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, module.in_features**-0.5)
        wide = self.num_heads * self.dim_head
        with torch.no_grad():
            for part in (*self.encoder, *self.decoder):
                part.look.branch.query_key_value.weight[:wide] *= self.dim_head**-0.5
            for layer in self.decoder:
                layer.ask.branch.query.weight *= self.dim_head**-0.5  # type: ignore[union-attr]
        for bias in (self.encoder_bias, self.decoder_bias):
            nn.init.normal_(bias.table.weight, 0, self.dim**-0.5)


class _Reads(nn.Module):
    """A layer of the encoder, eq. 1."""

    def __init__(
        self, dim: int, num_heads: int, dim_head: int, dim_hidden: int, gated: bool, p_drop: float, site: count
    ):
        super().__init__()
        look = SelfAttention(dim, num_heads, dim_head, bias=False, p_drop=p_drop, site=next(site), scale=1.0)
        self.look = Sublayer(look, nn.RMSNorm(dim, EPS), "pre", p_drop, next(site))
        self.think = _think(dim, dim_hidden, gated, p_drop, next(site))

    def forward(self, h: Tensor, mask: Mask | None, bias: Tensor) -> Tensor:
        return self.think(self.look(h, mask, bias))


class _Writes(nn.Module):
    """A layer of the decoder, eq. 2."""

    def __init__(
        self, dim: int, num_heads: int, dim_head: int, dim_hidden: int, gated: bool, p_drop: float, site: count
    ):
        super().__init__()
        more: dict[str, Any] = {"dim_head": dim_head, "bias": False, "p_drop": p_drop, "scale": 1.0}
        look, ask = (kind(dim, num_heads, site=next(site), **more) for kind in (SelfAttention, CrossAttention))
        self.look = Sublayer(look, nn.RMSNorm(dim, EPS), "pre", p_drop, next(site))
        self.ask = Sublayer(ask, nn.RMSNorm(dim, EPS), "pre", p_drop, next(site))
        self.think = _think(dim, dim_hidden, gated, p_drop, next(site))

    def forward(
        self,
        h: Tensor,
        m: Tensor | None,
        mask: Mask | None,
        there: Mask | None,
        bias: Tensor,
        room: Room | None = None,
        source: Room | None = None,
        at: Tensor | None = None,
    ) -> Tensor:
        h = self.look(h, mask, bias, room, at)
        return self.think(self.ask(h, m, there, source))


def _think(dim: int, dim_hidden: int, gated: bool, p_drop: float, site: int) -> Sublayer:
    network = FeedForward(dim, dim_hidden, "gelu_tanh" if gated else "relu", gated, bias=False)  # eq. 5
    return Sublayer(network, nn.RMSNorm(dim, EPS), "pre", p_drop, site)


#: as in the paper; version 1.1 is gated, untied, of these widths, and trains without dropout first
SIZES: dict[str, dict[str, Any]] = {
    "small": {"dim": 512, "num_layers": 6, "num_heads": 8, "dim_hidden": 2048},
    "base": {"dim": 768, "num_layers": 12, "num_heads": 12, "dim_hidden": 3072},
    "large": {"dim": 1024, "num_layers": 24, "num_heads": 16, "dim_hidden": 4096},
    "small_1_1": {"dim": 512, "num_layers": 8, "num_heads": 6, "dim_hidden": 1024, "gated": True, "tied": False},
    "base_1_1": {"dim": 768, "num_layers": 12, "num_heads": 12, "dim_hidden": 2048, "gated": True, "tied": False},
    "large_1_1": {"dim": 1024, "num_layers": 24, "num_heads": 16, "dim_hidden": 2816, "gated": True, "tied": False},
}
