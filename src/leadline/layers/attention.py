"""Multi-head attention: of a row on itself, and of a row on another (Vaswani et al., 2017).

    q, k, v = W_q x, W_k s, W_v s         s = x for self-attention, the source for cross-attention        (1)
    out     = W_o [head_1; …; head_H],    head_h = attend(q_h, k_g, v_g),   g = ⌊h G / H⌋                 (2)

One product computes queries, keys and values of all heads. G = H is multi-head, G = 1 multi-query, between them
grouped. A position encoding that turns or shifts queries and keys is applied between (1) and (2).

Notation   W_q, W_k, W_v -> query_key_value, or query and key_value;  W_o -> out
Shapes     x (B, T, D) -> (B, T, D);  source (B, S, D')
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.attend import attend
from leadline.layers.attend_one import attend_one, can_attend_one
from leadline.layers.cache import Room
from leadline.layers.masks import Mask, UpTo
from leadline.layers.positions import check_rows
from leadline.settings import given, real, whole

#: (queries or keys (B, H, T, K), their positions (B, T), or None for 0 … T-1) -> the same, turned
Turn = Callable[[Tensor, Tensor | None], Tensor]


class SelfAttention(nn.Module):
    """Args:
        dim: D.
        num_heads: H.
        dim_head: K; D / H by default.
        num_groups: G, heads of keys and values; H by default. H must be a multiple of it.
        bias: of all four maps.
        p_drop: of an attention weight, while training, from 0 to below 1.
        site: tells this layer's noise from that of others.
        scale: of the scores, in place of 1 / √K.
        turn: what a rotary position encoding does to queries and keys.

    >>> import torch
    >>> SelfAttention(16, 4)(torch.zeros(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        dim_head: int | None = None,
        num_groups: int | None = None,
        bias: bool = True,
        p_drop: float = 0.0,
        site: int = 0,
        scale: float | None = None,
        turn: Turn | None = None,
    ):
        super().__init__()
        if turn is not None and not callable(turn):
            got = given("turn", turn)
            raise UserError("turn must turn queries and keys", got=got, do="Pass Rotary(dim_head), or leave it out")
        self.heads, self.groups, self.dim_head = shares(dim, num_heads, dim_head, num_groups)
        self.dim, self.p_drop, self.site = dim, real("p_drop", p_drop, 0, 1, usual=0.1), site
        self.scale, self.turn = scale if scale is None else real("scale", scale, usual=1.0), turn
        self.query_key_value = nn.Linear(dim, (self.heads + 2 * self.groups) * self.dim_head, bias)
        self.out = nn.Linear(self.heads * self.dim_head, dim, bias)

    def forward(
        self,
        x: Tensor,
        mask: Mask | None = None,
        bias: Tensor | None = None,
        room: Room | None = None,
        at: Tensor | None = None,
    ) -> Tensor:
        """Args:
        bias: added to the scores.
        room: keys and values of earlier positions, to which these are added; `mask` then speaks of the whole room,
            and None means all positions up to a query's own.
        at: (B, T), where the rows' positions stand; 0 … T-1 by default.
        """
        q, k, v = self.queries_keys_values(x, at)
        if room is not None and isinstance(mask, UpTo | None) and bias is None and can_attend_one(q, room.keys):
            scale = self.dim_head**-0.5 if self.scale is None else self.scale
            return self.out(joined(attend_one(q, k, v, room.keys, room.values, at, scale)))
        if room is not None:
            room.write(k, v, at)  # type: ignore[arg-type]
            k, v, mask = room.keys, room.values, mask or UpTo(at)  # type: ignore[arg-type]
        p_drop = self.p_drop if self.training else 0.0
        return self.out(joined(attend(q, k, v, mask, bias, self.scale, p_drop, self.site)))  # eq. 2

    def queries_keys_values(self, x: Tensor, at: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Eq. 1, in heads: (B, H, T, K), (B, G, T, K), (B, G, T, K)."""
        check_rows(x, self.dim, "SelfAttention")
        return self.heads_of(self.query_key_value(x), at)

    def heads_of(self, x: Tensor, at: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The same of W x + b (B, T, (H + 2 G) K)."""
        sizes = [count * self.dim_head for count in (self.heads, self.groups, self.groups)]
        q, k, v = (in_heads(part, self.dim_head) for part in x.split(sizes, -1))
        return (q, k, v) if self.turn is None else (self.turn(q, at), self.turn(k, at), v)


class CrossAttention(nn.Module):
    """Args:
        dim: D, of what asks.
        num_heads: H.
        dim_source: D', of what is asked; D by default.
        dim_head: K; D / H by default.
        bias, p_drop, site, scale: as of `SelfAttention`.

    >>> import torch
    >>> CrossAttention(16, 4)(torch.zeros(2, 5, 16), torch.zeros(2, 7, 16)).shape
    torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        dim_source: int | None = None,
        dim_head: int | None = None,
        bias: bool = True,
        p_drop: float = 0.0,
        site: int = 0,
        scale: float | None = None,
    ):
        super().__init__()
        self.heads, self.groups, self.dim_head = shares(dim, num_heads, dim_head, None)
        self.p_drop, self.site = real("p_drop", p_drop, 0, 1, usual=0.1), site
        self.scale = scale if scale is None else real("scale", scale, usual=1.0)
        self.dim, self.dim_source = dim, dim if dim_source is None else whole("dim_source", dim_source)
        self.query = nn.Linear(dim, self.heads * self.dim_head, bias)
        self.key_value = nn.Linear(self.dim_source, 2 * self.heads * self.dim_head, bias)
        self.out = nn.Linear(self.heads * self.dim_head, dim, bias)

    def forward(self, x: Tensor, source: Tensor | None, mask: Mask | None = None, room: Room | None = None) -> Tensor:
        """Args:
        source: (B, S, D'); None where `room` holds its keys and values.
        mask: on the source's positions.
        """
        check_rows(x, self.dim, "CrossAttention")
        q = in_heads(self.query(x), self.dim_head)
        k, v = (room.keys, room.values) if source is None and room is not None else self.keys_values(source)
        p_drop = self.p_drop if self.training else 0.0
        return self.out(joined(attend(q, k, v, mask, None, self.scale, p_drop, self.site)))

    def keys_values(self, source: Tensor | None) -> tuple[Tensor, Tensor]:
        """Of a source, in heads: (B, H, S, K) each."""
        if source is None:
            raise UserError("cross-attention must be given a source", got="None", do="Pass source, or room for it")
        check_rows(source, self.dim_source, "CrossAttention, of its source,")
        k, v = self.key_value(source).chunk(2, -1)
        return in_heads(k, self.dim_head), in_heads(v, self.dim_head)

    def room(self, source: Tensor) -> Room:
        """Keys and values of a source that is read once."""
        return Room(*self.keys_values(source), fixed=True)


def in_heads(x: Tensor, dim_head: int) -> Tensor:
    """(B, T, H K) -> (B, H, T, K).

    >>> import torch
    >>> in_heads(torch.arange(4).view(1, 1, 4), 2).tolist()
    [[[[0, 1]], [[2, 3]]]]
    """
    return x.unflatten(-1, (-1, dim_head)).transpose(1, 2)


def joined(heads: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, H K).

    >>> import torch
    >>> joined(torch.arange(4).view(1, 2, 1, 2)).tolist()
    [[[0, 1, 2, 3]]]
    """
    return heads.transpose(1, 2).flatten(2)


def shares(dim: int, num_heads: int, dim_head: int | None, num_groups: int | None) -> tuple[int, int, int]:
    """Heads, groups and width of a head, checked.

    >>> shares(12, 4, None, 2)
    (4, 2, 3)
    """
    dim, num_heads = whole("dim", dim), whole("num_heads", num_heads)
    if dim_head is None and dim % num_heads:
        below = dim // num_heads * num_heads
        raise UserError(
            "dim must be divisible by num_heads",
            got=f"dim={dim}, num_heads={num_heads}",
            do=f"Nearest: {f'{below} or ' if below else ''}{below + num_heads}",
        )
    groups = num_heads if num_groups is None else whole("num_groups", num_groups, 1, num_heads)
    if num_heads % groups:
        fitting = [count for count in range(1, num_heads + 1) if num_heads % count == 0]
        raise UserError(
            "num_heads must be a multiple of num_groups",
            got=f"num_heads={num_heads}, num_groups={groups}",
            do=f"Take one of {', '.join(map(str, fitting))} groups",
        )
    return num_heads, groups, dim // num_heads if dim_head is None else whole("dim_head", dim_head)
