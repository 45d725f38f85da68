"""What a set is, whatever the order of its members: their sum, their mean, or the largest of each number.

    sum    y = Σ_m h_m / n̄           n̄ one number for all sets, so that sums of large sets stay near 1          (1)
    mean   y = Σ_m h_m / n           n members of the set itself: it cannot count them                         (2)
    max    y_d = max_m h_md          it cannot tell a set from the same with a member twice                    (3)

Over members that are there alone; 0 of none.

Notation   n̄ -> typical
Shapes     h (B, M, D), there (B, M) -> (B, D)
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from leadline.errors import ShapeError
from leadline.names import lookup
from leadline.settings import real

POOLS = {name: name for name in ("sum", "mean", "max")}


class SetPool(nn.Module):
    """Args:
        how: sum, mean or max.
        typical: n̄ of eq. 1, above 0.

    >>> import torch
    >>> h, there = torch.tensor([[[5.0], [-2.0], [9.0]]]), torch.tensor([[True, True, False]])
    >>> [float(SetPool(how)(h, there)) for how in POOLS]
    [3.0, 1.5, 5.0]
    """

    def __init__(self, how: str = "sum", typical: float = 1.0):
        super().__init__()
        self.how = lookup(how, POOLS, "pool")
        self.typical = real("typical", typical, 0, above=True, usual=1.0)

    def forward(self, h: Tensor, there: Tensor | None = None) -> Tensor:
        """Args:
        there: true where a member is; all are by default.
        """
        if self.how == "max":
            if there is None:
                return h.max(1).values  # its gradient costs a third of that of amax
            most = h.masked_fill(~there[..., None], -math.inf).max(1).values
            return most.masked_fill(~there.any(1, keepdim=True), 0.0)  # eq. 3
        total = (h if there is None else h.masked_fill(~there[..., None], 0.0)).sum(1)
        if self.how == "sum":
            return total / self.typical  # eq. 1
        count = h.shape[1] if there is None else there.sum(1, keepdim=True).clamp(min=1)
        return total / count  # eq. 2


def members(owner: str, x: Tensor, channels: int) -> tuple[Tensor, Tensor | None]:
    """The members of sets, 0 where there are none, and which are there; None where rows have no column for it.

    >>> import torch
    >>> members("DeepSets", torch.tensor([[[3.0, 1.0], [7.0, 0.0]]]), 1)
    (tensor([[[3.],
             [0.]]]), tensor([[ True, False]]))
    """
    if x.dim() != 3 or x.shape[2] not in (channels, channels + 1):
        raise ShapeError(
            f"{owner} reads sets of members with {channels} numbers here, or with {channels} and one that is 1 where a "
            "member is there",
            got=f"shape {tuple(x.shape)}",
            do="Pass (B, M, C)",
        )
    if x.shape[2] == channels:
        return x, None
    there = x[..., -1] > 0.5
    return x[..., :-1].masked_fill(~there[..., None], 0.0), there
