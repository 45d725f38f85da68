"""PointNet: points pass the same network, and a cloud is the largest of each of its features (Qi et al., 2017).

    x_m    <- A(x) x_m,   f_m = φ_1(x_m)                  A of the cloud, 3 × 3, on its coordinates                 (1)
    f_m    <- A'(f) f_m,  g = a(N(max_m φ_2(f_m)))        A' of its features, 64 × 64                               (2)
    set    ρ(g)                                                                                                    (3)
    member ψ(f_m, g)                                      of every point: what it is, beside what the whole is       (4)

g is decided by the points where a maximum is taken, the critical points: without all others it is the same. Where A'
is to stay near a rotation, as in the paper, train with `--regularize orthogonal`.

Notation   A, A' -> turn and mix, `leadline.layers.point_transform`;  φ_1, φ_2 -> low, high;  ρ, ψ -> answer;
           B batch, M points, C columns
Paper      normalised over the features of each point, and of the cloud after the maximum, not over the batch: a cloud
           stands alone, and padding is exact;
           (4) takes the features of (2) after A', and g; `width` makes all widths smaller or larger
Shapes     x (B, M, C), or (B, M, C + 1) where a last column is 1 at points that are there -> (B, dim_output), or
           (B, M, dim_output)
Train it   leadline train solids --model PointNet
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.dropout import Dropout
from leadline.layers.point_transform import LargestFeatures, PointTransform, pointwise
from leadline.layers.set_pool import members
from leadline.models.sizes import check_sizes
from leadline.names import lookup
from leadline.settings import real, whole

HEADS = {name: name for name in ("set", "members")}
_MEMBERS = 5  # of a row that stands for those of any size
_LEAST = 4  # units of a layer


class PointNet(nn.Module, Configured):
    """Args:
        dim_output: what is answered.
        channels: C, numbers of a point.
        coordinates: how many of them, the first, are coordinates that A turns, from 0 to C; None is all, and at most 3.
        width: of all layers, in those of the paper, above 0; a quarter trains on a laptop, 1 is the paper's.
        transforms: whether A and A' are learned; else they are left out.
        p_drop: of a unit before the last map of eq. 3, from 0 to below 1.
        head: what is answered: the "set" or its "members"; by default as the data ask.

    >>> PointNet(10, channels=3)(torch.zeros(2, 7, 3)).shape
    torch.Size([2, 10])
    >>> PointNet(4, channels=3, head="members")(torch.zeros(2, 7, 3)).shape
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
        coordinates: int | None = None,
        width: float = 0.25,
        transforms: bool = True,
        p_drop: float = 0.3,
        head: str = "set",
    ):
        super().__init__()
        check_sizes("PointNet", dim_output=dim_output, channels=channels)
        self.dim_output, self.channels = dim_output, channels
        self.coordinates = coordinates if coordinates is None else whole("coordinates", coordinates, 0, channels)
        self.width = real("width", width, 0, above=True, usual=0.25)
        self.transforms, self.p_drop = transforms, real("p_drop", p_drop, 0, 1, usual=0.3)
        self.head = lookup(head, HEADS, "head")
        w = lambda *sizes: tuple(max(_LEAST, round(width * size)) for size in sizes)  # noqa: E731
        turned = min(3, channels) if coordinates is None else coordinates
        told = w(64, 128, 1024, 512, 256)
        self.turn = PointTransform(turned, told) if transforms and turned else None
        self.low = pointwise(channels, *w(64, 64))
        (local,) = w(64)
        self.mix = PointTransform(local, told) if transforms else None
        self.high = LargestFeatures(local, *w(64, 128, 1024))
        whole_cloud, one, two, three = w(1024, 512, 256, 128)
        if self.head == "set":
            self.answer = nn.Sequential(*pointwise(whole_cloud, one, two), Dropout(p_drop), nn.Linear(two, dim_output))
        else:
            self.answer = nn.Sequential(*pointwise(local + whole_cloud, one, two, three), nn.Linear(three, dim_output))

    @classmethod
    def tiny(cls) -> PointNet:
        return cls(2, channels=3, width=0.1, head="members")

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (_MEMBERS, self.channels)

    def forward(self, x: Tensor) -> Tensor:
        x, there = members("PointNet", x, self.channels)
        f, _ = self._local(x, there)
        g = self.high(f, there)  # eq. 2
        if self.head == "set":
            return self.answer(g)  # eq. 3
        return self.answer(torch.cat([f, g[:, None].expand(-1, f.shape[1], -1)], 2))  # eq. 4

    def matrices(self, x: Tensor) -> list[Tensor]:
        """A and A' of clouds, (B, D, D) each; none where they are left out."""
        return self._local(*members("PointNet", x, self.channels))[1]

    def _local(self, x: Tensor, there: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """Features of each point after both transforms, and these."""
        found = []
        if self.turn is not None:
            D = self.turn.dim
            found.append(self.turn(x[..., :D], there))
            x = torch.cat([x[..., :D] @ found[-1].mT, x[..., D:]], 2)  # eq. 1
        f = self.low(x)
        if self.mix is not None:
            found.append(self.mix(f, there))
            f = f @ found[-1].mT  # eq. 2
        return f, found
