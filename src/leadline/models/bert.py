"""BERT: an encoder that looks both ways, taught by words that are hidden from it (Devlin et al., 2019).

    h_0      = N(token_{x_t} + position_t + segment_t)                                        (1)
    h        <- N(h + attention(h));   h <- N(h + feed_forward(h))        num_layers times    (2)
    tokens   score = E N(a(W h_t + b)) + c          E -> the embeddings of (1)                (3)
    classes  Ω tanh(W_p h_1 + b_p) + β              of the first token                        (4)
    tags     Ω h_t + β                              of every token                            (5)
    span     (Ω h_t + β) for first and last         -10⁴ where a row is only padded           (6)

Every token looks at all that are not padding. A row of two sentences has `sep` after each: what stands after the first
`sep` is segment 1. Whether one sentence follows another is asked with head="classes" on such pairs.

Notation   N layer normalisation;  a -> activation;  W, N of eq. 3 -> transform, transform_norm;  c -> bias;
           W_p -> pooler;  Ω, β -> answer
Paper      first weights are normal with deviation 0.02, cut off at twice that, as in the authors' code; the paper's two
           tasks are learned one after the other here, not as one loss
Shapes     x (B, T) of token numbers -> (B, T, num_tokens), (B, dim_output), (B, T, dim_output) or (B, T, 2)
Train it   leadline train corpus/ --task masked --model BERT
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import ShapeError, UnknownName, UserError
from leadline.layers.activation import activation as activation_by_name
from leadline.layers.attention import SelfAttention
from leadline.layers.dropout import Dropout
from leadline.layers.embedding import embedded
from leadline.layers.feed_forward import FeedForward
from leadline.layers.masks import Mask, Padding
from leadline.layers.sublayer import Sublayer
from leadline.layers.unembedding import unembed
from leadline.models.sizes import check_sizes
from leadline.names import suggest
from leadline.settings import given, real, whole

HEADS = ("tokens", "classes", "tags", "span")
_NOT_THERE = -1e4  # a score whose softmax is 0, and that is finite in 16 bits too
_DEVIATION, _ENDS = 0.02, 2  # of first weights, and how many deviations away their law is cut off


class BERT(nn.Module, Configured):
    """Args:
        num_tokens: V, tokens of the vocabulary.
        length: most tokens of a row.
        dim_output: what is answered: num_tokens with head tokens, 2 with head span.
        head: what is answered: "tokens", "classes", "tags" or a "span"; by default by the data.
        dim: width, a multiple of num_heads.
        num_layers: layers of attention and a feed-forward network, at least 1.
        num_heads: heads of each attention, at least 1.
        dim_hidden: width inside the feed-forward networks; four times dim by default.
        p_drop: probability of dropout after embeddings, attention weights and branches.
        activation: activation of the feed-forward networks and of the head.
        eps: ε of the normalisations, above 0.
        pad: the token that fills rows, at which nothing looks; None where rows are full.
        sep: the token after a sentence; None has one segment only.

    >>> x = torch.tensor([[1, 7, 8, 2, 0, 0]])
    >>> BERT(20, 6, 3, head="classes", dim=16, num_heads=2)(x).shape
    torch.Size([1, 3])
    """

    #: the head that answers what is asked of the data
    own_head: ClassVar = {
        **dict.fromkeys(
            ("classes", "binary", "ordered", "real", "positive", "count", "angle", "proportion"), "classes"
        ),
        **{kind: kind for kind in ("tokens", "tags", "span")},
    }

    def __init__(
        self,
        num_tokens: int,
        length: int,
        dim_output: int,
        head: str = "tokens",
        dim: int = 256,
        num_layers: int = 4,
        num_heads: int = 4,
        dim_hidden: int | None = None,
        p_drop: float = 0.1,
        activation: str = "gelu",
        eps: float = 1e-12,
        pad: int | None = 0,
        sep: int | None = None,
    ):
        super().__init__()
        check_sizes("BERT", num_tokens=num_tokens, length=length, dim_output=dim_output, dim=dim, num_layers=num_layers)
        _check_head(head, num_tokens, dim_output)
        self.num_tokens, self.length, self.dim_output, self.head = num_tokens, length, dim_output, head
        self.dim, self.num_layers, self.num_heads, self.dim_hidden = dim, num_layers, num_heads, dim_hidden
        self.p_drop, self.activation = real("p_drop", p_drop, 0, 1, usual=0.1), activation
        self.eps = real("eps", eps, 0, above=True, usual=1e-12)
        self.pad = None if pad is None else whole("pad", pad, 0, num_tokens - 1)
        self.sep = None if sep is None else whole("sep", sep, 0, num_tokens - 1)
        self.tokens, self.positions = nn.Embedding(num_tokens, dim), nn.Embedding(length, dim)
        self.segments, self.norm = nn.Embedding(2, dim), nn.LayerNorm(dim, eps)
        self.dropout = Dropout(p_drop, site=0)
        hidden = 4 * dim if dim_hidden is None else whole("dim_hidden", dim_hidden)
        sizes = (dim, num_heads, hidden, p_drop, activation, eps)
        self.layers = nn.ModuleList(_Layer(*sizes, site=1 + 3 * k) for k in range(num_layers))
        if head == "tokens":
            self.transform, self.transform_norm = nn.Linear(dim, dim), nn.LayerNorm(dim, eps)
            self.bend, self.bias = activation_by_name(activation), nn.Parameter(torch.zeros(num_tokens))
        else:
            self.pooler = nn.Linear(dim, dim) if head == "classes" else None
            self.leave = Dropout(0.0 if head == "span" else p_drop, site=1 + 3 * num_layers)
            self.answer = nn.Linear(dim, dim_output)
        self.apply(_draw)

    @classmethod
    def tiny(cls) -> BERT:
        return cls(11, 6, 3, head="classes", dim=8, num_layers=1, num_heads=2, sep=2)

    @property
    def input_shape(self) -> tuple[int]:
        return (self.length,)

    @torch.no_grad()
    def begin_with(self, counts: Tensor) -> None:
        """Begin hidden words with how often each stands in the text.

        Otherwise frequencies are learned first, and into the embeddings, which also make the scores: they then say
        less of what words mean.

        Args:
            counts: (V,).
        """
        if self.head == "tokens":
            self.bias.copy_(((counts + 1) / (counts + 1).sum()).log())

    def forward(self, x: Tensor) -> Tensor:
        h = self.features(x)
        if self.head == "tokens":
            h = self.transform_norm(self.bend(self.transform(h)))
            return unembed(h, self.tokens.weight, self.bias)  # eq. 3   (B, T, V)
        if self.pooler is not None:
            return self.answer(self.leave(torch.tanh(self.pooler(h[:, 0]))))  # eq. 4   (B, C)
        scores = self.answer(self.leave(h))  # eqs. 5, 6   (B, T, C)
        if self.head == "span" and self.pad is not None:
            scores = scores.masked_fill((x == self.pad)[:, :, None], _NOT_THERE)
        return scores

    def features(self, x: Tensor) -> Tensor:
        """Eqs. 1 and 2: what the last layer says of every token, (B, T, D)."""
        self._check(x)
        there = None if self.pad is None else x != self.pad
        mask = None if there is None else Padding(there)
        h = embedded(self.tokens, x, "BERT") + self.positions.weight[: x.shape[1]] + self.segments(self._segment(x))
        h = self.dropout(self.norm(h))  # eq. 1
        for layer in self.layers:
            h = layer(h, mask)
        return h

    def _segment(self, x: Tensor) -> Tensor:
        """1 after the first `sep`, but for padding."""
        if self.sep is None:
            return torch.zeros_like(x)
        ends = (x == self.sep).long()
        behind = (ends.cumsum(1) - ends) > 0
        return (behind if self.pad is None else behind & (x != self.pad)).long()

    def _check(self, x: Tensor) -> None:
        if isinstance(x, Tensor) and x.dim() == 2 and not x.is_floating_point() and 0 < x.shape[1] <= self.length:
            return
        if not isinstance(x, Tensor) or x.dim() != 2 or x.is_floating_point():
            do = "Pass whole numbers (B, T)"
        else:
            do = "Cut the rows, or build it with a larger length" if x.shape[1] else "Pass at least one token a row"
        raise ShapeError(
            f"BERT reads rows of at most {self.length} token numbers, (B, T)",
            got=f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else given("x", x),
            do=do,
        )


class _Layer(nn.Module):
    """Eq. 2."""

    def __init__(
        self, dim: int, num_heads: int, dim_hidden: int, p_drop: float, activation: str, eps: float, site: int
    ):
        super().__init__()
        attention = SelfAttention(dim, num_heads, p_drop=p_drop, site=site)
        self.attention = Sublayer(attention, nn.LayerNorm(dim, eps), "post", p_drop, site + 1)
        network = FeedForward(dim, dim_hidden, activation)
        self.feed_forward = Sublayer(network, nn.LayerNorm(dim, eps), "post", p_drop, site + 2)

    def forward(self, h: Tensor, mask: Mask | None) -> Tensor:
        return self.feed_forward(self.attention(h, mask))


@torch.no_grad()
def _draw(module: nn.Module) -> None:
    """First weights, by the inverse of the normal distribution function: many times faster than drawing again."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        inside = math.erf(_ENDS / math.sqrt(2))
        module.weight.uniform_(-inside, inside).erfinv_().mul_(math.sqrt(2) * _DEVIATION)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def _check_head(head: str, num_tokens: int, dim_output: int) -> None:
    if head not in HEADS:
        raise UnknownName("BERT: head must be a known word", got=given("head", head), do=suggest(str(head), HEADS))
    wanted = {"tokens": num_tokens, "span": 2}.get(head, dim_output)
    if dim_output != wanted:
        raise UserError(
            f"BERT: head {head} answers with {wanted} numbers a token",
            got=f"dim_output={dim_output}",
            do=f"Pass dim_output={wanted}" + (', or head="tags" for other classes' if head == "tokens" else ""),
        )


#: as in the paper, whose vocabulary has 30,000 tokens (30,522 in the authors' files) and whose rows have 512
SIZES: dict[str, dict[str, Any]] = {
    "base": {"dim": 768, "num_layers": 12, "num_heads": 12},
    "large": {"dim": 1024, "num_layers": 24, "num_heads": 16},
}
