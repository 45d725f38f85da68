"""Set transformer: members look at one another, and learned members ask the set (Lee et al., 2019).

    h_m    = V x_m + b                                                                                             (1)
    h      <- ISAB(h), or SAB(h) without seeds          L times                                                    (2)
    set    Ω SAB(PMA(h)) + β                            all answers of the K asking members side by side            (3)
    member Ω h_m + β                                    of every member                                            (4)

Answer (3) is the same in any order of the members, (4) moves with them. Through learned members the work grows with the
set, not with its square.

Notation   V, b -> enter;  ISAB, SAB -> layers;  PMA -> pool;  Ω, β -> answer, as `leadline.layers.set_attention` has
           them;  B batch, M members, C columns, D width
Shapes     x (B, M, C), or (B, M, C + 1) where a last column is 1 at members that are there -> (B, dim_output), or
           (B, M, dim_output)
Train it   leadline train solids --num 400 --points 64 --model SetTransformer --dim 32
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.set_attention import InducedAttention, PooledByAttention, SetAttention
from leadline.layers.set_pool import members
from leadline.models.sizes import check_sizes
from leadline.names import lookup
from leadline.settings import whole

HEADS = {name: name for name in ("set", "members")}
_MEMBERS = 5  # of a row that stands for those of any size


class SetTransformer(nn.Module, Configured):
    """Args:
        dim_output: what is answered.
        channels: C, numbers of a member.
        dim: D, a multiple of num_heads.
        num_layers: L, at least 1.
        num_heads: of attention.
        num_seeds: learned members through which members look at one another; 0 lets each look at each.
        num_answers: K of eq. 3, at least 1.
        head: what is answered: the "set" or its "members"; by default as the data ask.

    >>> import torch
    >>> SetTransformer(10, channels=3)(torch.zeros(2, 7, 3)).shape
    torch.Size([2, 10])
    >>> SetTransformer(4, channels=3, head="members")(torch.zeros(2, 7, 3)).shape
    torch.Size([2, 7, 4])
    """

    #: reads sets, which need not be of one size
    reads_sets: ClassVar[bool] = True
    #: the head that answers what is asked of the data
    own_head: ClassVar = {
        **dict.fromkeys(("classes", "binary", "ordered", "real", "positive", "count", "angle", "proportion"), "set"),
        "tags": "members",
    }

    def __init__(
        self,
        dim_output: int,
        channels: int,
        dim: int = 64,
        num_layers: int = 2,
        num_heads: int = 4,
        num_seeds: int = 16,
        num_answers: int = 1,
        head: str = "set",
    ):
        super().__init__()
        check_sizes("SetTransformer", dim_output=dim_output, channels=channels, dim=dim, num_layers=num_layers)
        self.dim_output, self.channels, self.dim = dim_output, channels, dim
        self.num_layers, self.num_heads = num_layers, num_heads
        self.num_seeds, self.num_answers = whole("num_seeds", num_seeds, 0), whole("num_answers", num_answers)
        self.head = lookup(head, HEADS, "head")
        self.enter = nn.Linear(channels, dim)
        self.layers = nn.ModuleList(
            InducedAttention(dim, num_heads, num_seeds) if num_seeds else SetAttention(dim, num_heads)
            for _ in range(num_layers)
        )
        pools = self.head == "set"
        self.pool = PooledByAttention(dim, num_heads, num_answers) if pools else None
        self.among = SetAttention(dim, num_heads) if pools and num_answers > 1 else None
        self.answer = nn.Linear(dim * num_answers if pools else dim, dim_output)

    @classmethod
    def tiny(cls) -> SetTransformer:
        return cls(2, channels=3, dim=8, num_layers=1, num_heads=2, num_seeds=3, num_answers=2)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (_MEMBERS, self.channels)

    def forward(self, x: Tensor) -> Tensor:
        x, there = members("SetTransformer", x, self.channels)
        h = self.enter(x)  # eq. 1
        for layer in self.layers:
            h = layer(h, there) if isinstance(layer, InducedAttention) else layer(h, there=there)  # eq. 2
        if self.pool is None:
            return self.answer(h)  # eq. 4
        asked = self.pool(h, there)  # (B, K, D)
        return self.answer((asked if self.among is None else self.among(asked)).flatten(1))  # eq. 3
