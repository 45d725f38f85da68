"""Deep Sets: each member passes the same network, and a set is what all of them add up to (Zaheer et al., 2017).

    h_m    = a(V x_m + b)                                                                                          (1)
    h_m    <- a(N(Λ h_m + Γ pool_{m'} h_{m'} + β))     L - 1 times; without Γ members never hear of one another      (2)
    set    ρ(pool_m (W h_m + c)),     ρ a network of one hidden layer                                                (3)
    member Ω h_m + β'                                  of every member                                             (4)

Answer (3) is the same in any order of the members, (4) moves with them. Any continuous function of a set is of this
form where the pooled vector is wide enough: for sums of sets with M numbers, M wide (Wagstaff et al., 2019).

Notation   V, b -> enter;  Λ, Γ -> layers, `leadline.layers.equivariant`, or plain maps;  W, c -> latent;  ρ -> answer;
           N -> layer normalisation of each member;  B batch, M members, C columns, D width
Paper      normalisations are later practice; sums are divided by the typical number of members, one number for all sets
Shapes     x (B, M, C), or (B, M, C + 1) where a last column is 1 at members that are there -> (B, dim_output), or
           (B, M, dim_output)
Train it   leadline train solids --num 400 --points 64 --model DeepSets
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.equivariant import Equivariant
from leadline.layers.set_pool import POOLS, SetPool, members
from leadline.models.sizes import check_sizes
from leadline.names import lookup
from leadline.settings import real

HEADS = {name: name for name in ("set", "members")}
_MEMBERS = 5  # of a row that stands for those of any size


class DeepSets(nn.Module, Configured):
    """Args:
        dim_output: what is answered.
        channels: C, numbers of a member.
        dim: width of a member inside.
        dim_set: width of the pooled vector; dim by default.
        num_layers: L, at least 1.
        pool: sum, mean or max.
        equivariant: whether members hear of one another on the way (Γ); by default where every member is answered.
        norm: whether members are normalised between layers; without it a sum keeps what is large.
        head: what is answered: the "set" or its "members"; by default as the data ask.
        typical: members of a usual set, above 0, by which sums are divided.

    >>> import torch
    >>> DeepSets(10, channels=3)(torch.zeros(2, 7, 3)).shape
    torch.Size([2, 10])
    >>> DeepSets(4, channels=3, head="members")(torch.zeros(2, 7, 3)).shape
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
        dim_set: int | None = None,
        num_layers: int = 3,
        pool: str = "sum",
        equivariant: bool | None = None,
        norm: bool = True,
        head: str = "set",
        typical: float = 1.0,
    ):
        super().__init__()
        check_sizes("DeepSets", dim_output=dim_output, channels=channels, dim=dim, num_layers=num_layers)
        check_sizes("DeepSets", **({} if dim_set is None else {"dim_set": dim_set}))
        self.dim_output, self.channels, self.dim, self.dim_set = dim_output, channels, dim, dim_set
        self.num_layers, self.pool = num_layers, lookup(pool, POOLS, "pool")
        self.equivariant, self.norm, self.head = equivariant, norm, lookup(head, HEADS, "head")
        self.typical = real("typical", typical, 0, above=True, usual=1.0)
        mixes = self.head == "members" if equivariant is None else equivariant
        self.enter = nn.Linear(channels, dim)
        maps = (Equivariant(dim, dim, pool, typical) if mixes else nn.Linear(dim, dim) for _ in range(num_layers - 1))
        self.layers = nn.ModuleList(maps)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) if norm else nn.Identity() for _ in self.layers)
        self.activation = nn.ReLU()
        pools = self.head == "set"
        width = dim_set or dim
        self.latent = nn.Linear(dim, width) if pools else None
        self.pooled = SetPool(pool, typical) if pools else None
        hidden = nn.Sequential(nn.Linear(width, dim), nn.ReLU(), nn.Linear(dim, dim_output))
        self.answer = hidden if pools else nn.Linear(dim, dim_output)

    @classmethod
    def tiny(cls) -> DeepSets:
        return cls(2, channels=3, dim=8, num_layers=2, equivariant=True)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (_MEMBERS, self.channels)

    def forward(self, x: Tensor) -> Tensor:
        x, there = members("DeepSets", x, self.channels)
        h = self.activation(self.enter(x))  # eq. 1
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = layer(h, there) if isinstance(layer, Equivariant) else layer(h)
            h = self.activation(norm(h))  # eq. 2
        if self.latent is None or self.pooled is None:
            return self.answer(h)  # eq. 4
        return self.answer(self.pooled(self.latent(h), there))  # eq. 3
