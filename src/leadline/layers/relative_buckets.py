"""Relative positions in buckets: one number for each head and each range of offsets (Raffel et al., 2020).

    bias_{h,ij} = table[bucket(j - i), h]                                                              (1)
    bucket(o)   = half·[o > 0] + b(|o|)                  both ways: half = num_buckets / 2             (2)
                = b(max(-o, 0))                          backwards only: half = num_buckets            (3)
    b(d)        = d                                                             for d < e              (4)
                = min(e + ⌊log(d/e) / log(furthest/e) · (half - e)⌋, half - 1)  from e = ⌊half/2⌋ on

Near offsets have buckets of their own, far ones share them on a scale of logarithms, and all from `furthest` on are
one.

Notation   o = j - i -> key's place less query's place
Shapes     i (T,) or (B, T);  j (S,);  bias (1 or B, H, T, S)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.settings import truth, whole


class BucketBias(nn.Module):
    """Args:
        num_heads: H.
        num_buckets: at least 4 both ways, at least 2 backwards; even both ways.
        furthest: the offset from which on all are one, beyond a quarter of the buckets, or half of them backwards.
        both_ways: keys after the query have buckets too.

    >>> BucketBias(num_heads=4)(torch.arange(3), torch.arange(5)).shape
    torch.Size([1, 4, 3, 5])
    """

    def __init__(self, num_heads: int, num_buckets: int = 32, furthest: int = 128, both_ways: bool = True):
        super().__init__()
        whole("num_buckets", num_buckets, 4 if truth("both_ways", both_ways) else 2)
        whole("furthest", furthest)
        near = num_buckets // (4 if both_ways else 2)
        if furthest <= near or (both_ways and num_buckets % 2):
            raise UserError(
                "num_buckets must be even where both ways count, and furthest must lie beyond the single buckets",
                got=f"num_buckets={num_buckets}, furthest={furthest}, both_ways={both_ways}",
                do=f"T5 has 32 and 128; here furthest is at least {near + 1}",
            )
        self.num_buckets, self.furthest, self.both_ways = num_buckets, furthest, both_ways
        self.table = nn.Embedding(num_buckets, whole("num_heads", num_heads))

    def forward(self, i: Tensor, j: Tensor) -> Tensor:
        """The bias, for `attend` (eq. 1)."""
        found = bucket(j - i[..., :, None], self.num_buckets, self.furthest, self.both_ways)  # (T, S) or (B, T, S)
        found = found if found.dim() == 3 else found[None]
        return self.table(found).movedim(-1, 1)  # (1 or B, H, T, S)


def bucket(offset: Tensor, num_buckets: int = 32, furthest: int = 128, both_ways: bool = True) -> Tensor:
    """Eqs. 2 to 4, of any shape.

    >>> bucket(torch.tensor([-200, -9, -1, 0, 1, 9, 200])).tolist()
    [15, 8, 1, 0, 17, 24, 31]
    """
    half = num_buckets // 2 if both_ways else num_buckets
    first = half * (offset > 0) if both_ways else torch.zeros_like(offset)
    d = offset.abs() if both_ways else (-offset).clamp(min=0)
    e = half // 2
    far = (d.clamp(min=1).float() / e).log() / math.log(furthest / e) * (half - e)
    return first + torch.where(d < e, d, (e + far.long()).clamp(max=half - 1))
