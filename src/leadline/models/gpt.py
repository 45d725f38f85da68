"""GPT: a decoder that scores the next word at every place of a text (Radford et al., 2018, 2019; Brown et al., 2020).

    h_i     = e_{x_i} + π_i                                                                          (1)
    h       <- h + Sa[N h],   h <- h + f[N h]            L times; a word sees itself and those before (2)
    score_i = E N h_i                                    E the rows e_v where tied                   (3)

Its answer for a place does not depend on later words, so one pass trains on every place, and when it writes, earlier
places are never computed again (`cache`, `step`). Where `end` is given, documents that share a row do not see each
other.

Notation   e_v -> embed.weight[v];  π -> place;  Sa -> layers[l].look;  f -> layers[l].think;  N -> norms;
           B batch, T words, D width, H heads, L layers, V vocabulary
Paper      weights are drawn as in the second paper: 0.02, and 0.02 / √(2 L) where a branch ends. Weights of attention
           are not dropped, so that the fused kernel serves in training too. `window` is the third paper's: every second
           layer sees a band alone
Shapes     x (B, T) -> (B, T, V);  rows may be shorter than `length`
Train it   leadline train my-texts/ --model GPT
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import ShapeError
from leadline.layers.alibi import ALiBi
from leadline.layers.attention import SelfAttention
from leadline.layers.cache import Cache, Room
from leadline.layers.dropout import Dropout
from leadline.layers.embedding import embedded
from leadline.layers.feed_forward import FeedForward
from leadline.layers.masks import Causal, Documents, Graph, Mask, UpTo, Window
from leadline.layers.next_word import Parts
from leadline.layers.positions import LearnedPositions, SinusoidalPositions
from leadline.layers.rotary import Rotary
from leadline.layers.sublayer import Sublayer
from leadline.layers.unembedding import unembed
from leadline.models.sizes import check_sizes
from leadline.names import lookup
from leadline.settings import given, real, truth, whole

#: what a norm adds to a variance is said: torch's own of RMSNorm depends on the type of numbers
NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "rms": partial(nn.RMSNorm, eps=1e-5)}
POSITIONS = {name: name for name in ("learned", "rotary", "alibi", "sinusoidal", "none")}


class GPT(nn.Module, Configured):
    """Args:
        num_tokens: V, tokens of the vocabulary.
        length: T, most tokens of a row.
        dim: width of the stream, a multiple of num_heads.
        num_layers: layers of attention and a feed-forward network.
        num_heads: heads of each attention, at least 1.
        dim_hidden: width inside the feed-forward networks; four times dim by default.
        p_drop: probability of dropout after embeddings and branches, from 0 to below 1.
        activation: a name in leadline.layers.activation.ACTIVATIONS.
        norm: how the stream is normalised, "layer" or "rms".
        positions: how the model knows positions, "learned", "rotary", "alibi", "sinusoidal" or "none".
        tied: the output layer shares the weights of the embeddings.
        window: tokens back that every second layer sees; None is all of them.
        end: the token that closes a document, where documents share rows.

    >>> GPT(num_tokens=100, length=16, dim=32, num_layers=2, num_heads=4)(torch.ones(2, 16, dtype=torch.long)).shape
    torch.Size([2, 16, 100])
    """

    def __init__(
        self,
        num_tokens: int,
        length: int,
        dim: int = 384,
        num_layers: int = 6,
        num_heads: int = 6,
        dim_hidden: int | None = None,
        p_drop: float = 0.1,
        activation: str = "gelu_tanh",
        norm: str = "layer",
        positions: str = "learned",
        tied: bool = True,
        window: int | None = None,
        end: int | None = None,
    ):
        super().__init__()
        check_sizes("GPT", num_tokens=num_tokens, length=length, dim=dim, num_layers=num_layers)
        hidden = 4 * dim if dim_hidden is None else dim_hidden
        check_sizes("GPT", dim_hidden=hidden)
        whole("num_heads", num_heads)
        if window is not None:
            whole("window", window)
        if end is not None:
            whole("end", end, 0, num_tokens - 1)
        real("p_drop", p_drop, 0, 1, usual=0.1)
        self.num_tokens, self.length, self.dim, self.num_layers = num_tokens, length, dim, num_layers
        self.num_heads, self.dim_hidden, self.p_drop, self.activation = num_heads, dim_hidden, p_drop, activation
        self.norm, self.positions = norm, lookup(positions, POSITIONS, "positions")
        self.tied, self.window, self.end = truth("tied", tied), window, end
        make_norm = lookup(norm, NORMS, "norm")
        self.embed = nn.Embedding(num_tokens, dim)
        self.place: nn.Module | None = None
        if self.positions in ("learned", "sinusoidal"):
            self.place = LearnedPositions(length, dim) if self.positions == "learned" else SinusoidalPositions(dim)
        self.slopes = ALiBi(num_heads) if self.positions == "alibi" else None
        self.dropout = Dropout(p_drop, 0)
        self.layers = nn.ModuleList()
        for l in range(num_layers):  # noqa: E741
            turn = Rotary(dim // num_heads) if self.positions == "rotary" else None
            look = Sublayer(SelfAttention(dim, num_heads, turn=turn), make_norm(dim), "pre", p_drop, 2 * l + 1)
            think = Sublayer(FeedForward(dim, hidden, activation), make_norm(dim), "pre", p_drop, 2 * l + 2)
            self.layers.append(_Layer(look, think))
        self.leave = make_norm(dim)
        self.head = None if tied else nn.Linear(dim, num_tokens, bias=False)
        self._draw()

    @classmethod
    def tiny(cls) -> GPT:
        return cls(num_tokens=11, length=6, dim=8, num_layers=2, num_heads=2, dim_hidden=12)

    @property
    def input_shape(self) -> tuple[int]:
        return (self.length,)

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor) or x.dim() != 2 or x.is_floating_point():
            got = f"shape {tuple(x.shape)} of {x.dtype}" if isinstance(x, Tensor) else given("x", x)
            raise ShapeError("GPT reads rows of tokens", got=got, do="Pass whole numbers of shape (B, T)")
        mask: Mask = Causal() if self.end is None else Causal() & Documents.of(x, self.end)
        bias = None
        if self.slopes is not None:
            places = torch.arange(x.shape[1], device=x.device)
            bias = self.slopes(places, places)
        return self._scores(x, mask, bias)

    def cache(
        self, B: int, length: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> Cache:
        """Empty rooms for `length` words of B rows."""
        made = Cache.empty(self.num_layers, B, self.num_heads, length, self.dim // self.num_heads, device, dtype)
        if self.end is not None:
            made.tokens = torch.zeros(B, length, dtype=torch.long, device=device)
        return made

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """Scores (B, T', V) after the next words (B, T') of each row, which stand at `cache.at`."""
        at, room = cache.at, cache.rooms[0].keys.shape[2]
        places = torch.arange(room, device=x.device)
        seen = places <= at[..., None]  # (B, T', L)
        if cache.tokens is not None and self.end is not None:
            cache.tokens.scatter_(1, at, x)
            number = Documents.of(cache.tokens, self.end).number
            seen = seen & (number[:, None] == number.gather(1, at)[..., None])
        bias = None if self.slopes is None else self.slopes(at, places)
        near = None if self.window is None else Graph(seen & (places >= at[..., None] - self.window))
        one = x.shape[1] == 1 and cache.tokens is None  # which a kernel of its own reads the room for
        return self._scores(x, UpTo(at) if one else Graph(seen), bias, near, cache)

    def parts(self) -> Parts | None:
        """What a step is made of, where it is a plain chain of layers in which a word sees all before it."""
        if self.end is not None or self.window is not None or self.slopes is not None:
            return None
        layers = [(layer.look, layer.think) for layer in self.layers]
        unembed = self.embed.weight if self.head is None else self.head.weight
        return Parts(self.embed.weight, self.place, layers, self.leave, unembed)  # type: ignore[arg-type]

    def _scores(
        self, x: Tensor, mask: Mask, bias: Tensor | None, near: Mask | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Eqs. 1 to 3.

        Args:
            near: what every second layer sees, where that is not all of `mask`.
        """
        at = None if cache is None else cache.at
        if near is None:
            near = mask if self.window is None else mask & Window(self.window)
        h = embedded(self.embed, x, "GPT")  # (B, T, D)
        h = self.dropout(h if self.place is None else self.place(h, at))  # eq. 1
        for l, layer in enumerate(self.layers):  # noqa: E741
            h = layer(h, near if l % 2 else mask, bias, None if cache is None else cache.rooms[l], at)  # eq. 2
        return unembed(self.leave(h), self.embed.weight if self.head is None else self.head.weight)  # eq. 3

    def _draw(self) -> None:
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, 0, 0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        for layer in self.layers:
            for last in (layer.look.branch.out, layer.think.branch.narrow):  # type: ignore[union-attr]
                nn.init.normal_(last.weight, 0, 0.02 / math.sqrt(2 * self.num_layers))  # type: ignore[union-attr,arg-type]


class _Layer(nn.Module):
    """Eq. 2."""

    def __init__(self, look: Sublayer, think: Sublayer):
        super().__init__()
        self.look, self.think = look, think

    def forward(self, h: Tensor, mask: Mask, bias: Tensor | None, room: Room | None, at: Tensor | None) -> Tensor:
        return self.think(self.look(h, mask, bias=bias, room=room, at=at))


def count(**size: Any) -> int:
    """How many weights a GPT of these arguments has; nothing is allocated.

    >>> count(**SIZES["gpt2"]), round(count(**SIZES["gpt3"]) / 1e9, 1)
    (124439808, 174.6)
    """
    with torch.device("meta"):
        return sum(p.numel() for p in GPT(**size).parameters())


def _size(num_layers: int, dim: int, num_heads: int, length: int) -> dict[str, Any]:
    return {"num_tokens": 50257, "length": length, "dim": dim, "num_layers": num_layers, "num_heads": num_heads}


#: as in the papers. The third prints a width of 5140 for gpt3-13b, which 40 heads of 128 do not fill, and 24 heads of
#: 128 for gpt3-xl, which fill more than its width of 2048: 5120 and 16 have the number of weights that it prints
SIZES: dict[str, dict[str, Any]] = {
    "gpt2": _size(12, 768, 12, 1024),
    "gpt2-medium": _size(24, 1024, 16, 1024),
    "gpt2-large": _size(36, 1280, 20, 1024),
    "gpt2-xl": _size(48, 1600, 25, 1024),
    "gpt3-small": _size(12, 768, 12, 2048),
    "gpt3-medium": _size(24, 1024, 16, 2048),
    "gpt3-large": _size(24, 1536, 16, 2048),
    "gpt3-xl": _size(24, 2048, 16, 2048),
    "gpt3-2.7b": _size(32, 2560, 32, 2048),
    "gpt3-6.7b": _size(32, 4096, 32, 2048),
    "gpt3-13b": _size(40, 5120, 40, 2048),
    "gpt3": _size(96, 12288, 96, 2048),
}
