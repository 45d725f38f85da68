"""ImageGPT: a picture as a row of colours, each predicted from those before it (Chen et al., 2020).

    h_t = E[x_t] + e_t                           x_0 the start token, x_t the colour of pixel t, row by row         (1)
    h  <- h + attention(N h)                     on what came before                                                (2)
    h  <- h + W₂ gelu(W₁ N h)                                                                                       (3)
    score_t = Ω N h_t                            head="tokens": of the colour of pixel t + 1                        (4)
    output  = β + Ω mean_t N h_t                 head="classes": of the whole picture                               (5)

(2) and (3) are repeated `num_layers` times. Nothing says that pixel t lies above pixel t + X: which places are
neighbours is learned, in e (`leadline.lens.position_similarity` shows it). `leadline.data.colours` makes rows of
pictures. What was learned with (4) is a beginning for (5): `model.classifying(dim_output)`.

Notation   E -> embed;  e -> position;  N -> norm;  W₁, W₂ -> widen, narrow;  Ω, β -> answer;  V -> num_tokens, D -> dim
Paper      the default is a small network for small pictures; SIZES has those of the paper. norm="rms" is N as their
           code has it, without a mean. Classes and colours are learned one after the other here, together there
Shapes     x (B, T) -> (B, T, dim_output), or (B, dim_output) with head="classes"; T up to `length`
Train it   ll.fit(ll.models.build("ImageGPT", data, data.target.dim), data), with data = ll.data.colours(pictures)
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
from leadline.layers.attention import SelfAttention
from leadline.layers.cache import Cache, Room
from leadline.layers.dropout import Dropout
from leadline.layers.embedding import embedded
from leadline.layers.feed_forward import FeedForward
from leadline.layers.masks import Causal
from leadline.layers.sublayer import Sublayer
from leadline.layers.unembedding import unembed
from leadline.models.sizes import check_sizes
from leadline.names import lookup
from leadline.settings import given

NORMS: dict[str, Callable[..., nn.Module]] = {"layer": nn.LayerNorm, "rms": partial(nn.RMSNorm, eps=1e-5)}
HEADS = {"tokens": "tokens", "classes": "classes"}


class ImageGPT(nn.Module, Configured):
    """Args:
        num_tokens: V, colours and the start token.
        length: the most positions of a row: pixels of a picture, and one for the start token.
        dim_output: colours, or classes with head="classes".
        dim: width of the stream, a multiple of num_heads.
        num_layers: of attention and a feed-forward network each, at least 1.
        num_heads: of each attention, at least 1.
        p_drop: of a unit of the embeddings and of what each branch gives, from 0 to below 1.
        head: what is answered, the next of the "tokens" or "classes".
        norm: how the stream is normalised, "layer" or "rms".

    >>> model = ImageGPT(num_tokens=513, length=65, dim_output=512)
    >>> model(torch.zeros(2, 64, dtype=torch.long)).shape
    torch.Size([2, 64, 512])
    """

    #: the head that fits what is asked of the data
    own_head = {"classes": "classes", "binary": "classes", "ordered": "classes", "tokens": "tokens"}  # noqa: RUF012

    def __init__(
        self,
        num_tokens: int,
        length: int,
        dim_output: int,
        dim: int = 128,
        num_layers: int = 6,
        num_heads: int = 4,
        p_drop: float = 0.0,
        head: str = "tokens",
        norm: str = "layer",
    ):
        super().__init__()
        check_sizes("ImageGPT", num_tokens=num_tokens, length=length, dim_output=dim_output, dim=dim)
        check_sizes("ImageGPT", num_layers=num_layers, num_heads=num_heads)
        self.num_tokens, self.length, self.dim_output, self.dim = num_tokens, length, dim_output, dim
        self.num_layers, self.num_heads, self.p_drop, self.norm = num_layers, num_heads, p_drop, norm
        self.head = lookup(head, HEADS, "head")
        self.embed, self.position = nn.Embedding(num_tokens, dim), nn.Embedding(length, dim)
        self.dropout = Dropout(p_drop, site=1)
        make = lookup(norm, NORMS, "norm")
        self.blocks = nn.ModuleList(_Block(dim, num_heads, p_drop, make, 2 * k + 2) for k in range(num_layers))
        self.leave = make(dim, eps=1e-5)
        self.answer = nn.Linear(dim, dim_output, bias=head == "classes")
        self._draw()

    @classmethod
    def tiny(cls) -> ImageGPT:
        return cls(9, 6, 8, dim=8, num_layers=2, num_heads=2, p_drop=0.1)

    @property
    def input_shape(self) -> tuple[int]:
        return (self.length,)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        h = self.features(x)  # (B, T, D)
        if self.head == "classes":
            return self.answer(h.mean(1))  # eq. 5
        return unembed(h, self.answer.weight)  # eq. 4

    def features(self, x: Tensor) -> Tensor:
        """N h of (4) and (5), (B, T, D)."""
        h = self.dropout(embedded(self.embed, x, "ImageGPT") + self.position.weight[: x.shape[1]])  # eq. 1
        for block in self.blocks:
            h = block(h)  # eqs. 2, 3
        return self.leave(h)

    def cache(
        self, B: int, length: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> Cache:
        """Empty rooms for `length` pixels of B pictures."""
        return Cache.empty(self.num_layers, B, self.num_heads, length, self.dim // self.num_heads, device, dtype)

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """Scores (B, T', dim_output) after the next colours (B, T') of each picture, which stand at `cache.at`."""
        h = self.dropout(embedded(self.embed, x, "ImageGPT") + self.position(cache.at))
        for block, room in zip(self.blocks, cache.rooms, strict=True):
            h = block(h, room, cache.at)
        return unembed(self.leave(h), self.answer.weight)

    def classifying(self, dim_output: int) -> ImageGPT:
        """The same network with a new head, for classes (5).

        >>> ImageGPT.tiny().classifying(3)(torch.zeros(2, 6, dtype=torch.long)).shape
        torch.Size([2, 3])
        """
        made = type(self)(**{**self.config, "dim_output": dim_output, "head": "classes"})
        learned = {name: value for name, value in self.state_dict().items() if not name.startswith("answer.")}
        made.load_state_dict({**made.state_dict(), **learned})
        return made.to(self.embed.weight).train(self.training)

    def _check(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or x.dim() != 2 or x.shape[1] > self.length:
            raise ShapeError(
                f"ImageGPT: x must be rows of at most {self.length} colours, (B, T)",
                got=f"x of shape {tuple(x.shape)}" if isinstance(x, Tensor) else given("x", x),
                do="Make rows of pictures with ll.data.colours, and the model with their length",
            )

    def _draw(self) -> None:
        """As GPT-2 begins: what L layers of two branches add up to does not depend on L."""
        for name, part in self.named_modules():
            if isinstance(part, (nn.Linear, nn.Embedding)):
                ends = name.endswith((".out", ".narrow"))
                nn.init.normal_(part.weight, std=0.02 / math.sqrt(2 * self.num_layers) if ends else 0.02)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)


class _Block(nn.Module):
    """Eqs. 2 and 3."""

    def __init__(self, dim: int, num_heads: int, p_drop: float, norm: Callable[..., nn.Module], site: int):
        super().__init__()
        self.attention = Sublayer(SelfAttention(dim, num_heads), norm(dim, eps=1e-5), p_drop=p_drop, site=site)
        self.feed_forward = Sublayer(FeedForward(dim, 4 * dim), norm(dim, eps=1e-5), p_drop=p_drop, site=site + 1)

    def forward(self, h: Tensor, room: Room | None = None, at: Tensor | None = None) -> Tensor:
        mask = Causal() if room is None else None
        return self.feed_forward(self.attention(h, mask, room=room, at=at))


#: of the paper, about 76 million, 455 million, 1.4 and 6.8 billion weights
SIZES: dict[str, dict[str, Any]] = {
    "S": {"dim": 512, "num_layers": 24, "num_heads": 8},
    "M": {"dim": 1024, "num_layers": 36, "num_heads": 8},
    "L": {"dim": 1536, "num_layers": 48, "num_heads": 16},
    "XL": {"dim": 3072, "num_layers": 60, "num_heads": 16},
}
