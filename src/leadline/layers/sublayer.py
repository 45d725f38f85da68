"""A branch beside the stream of a transformer, with its normalisation before or after (Vaswani 2017; Xiong 2020).

    pre     x <- x + α branch(norm(x))                     (1)
    post    x <- norm(x + α branch(x))                     (2)

α is 1, or learned from 0 on, so that a deep stack begins as the identity (Bachlechner et al., 2020). What a branch
gives is dropped, example by example, while training.

Notation   α -> weight
Shapes     those of the stream
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.dropout import Dropout
from leadline.settings import given

ORDERS = ("pre", "post")


class Sublayer(nn.Module):
    """Args:
        branch: of the stream, and of whatever else it is called with.
        norm: of the stream; nn.Identity() is none.
        order: pre or post.
        p_drop: of what the branch gives.
        site: tells this layer's noise from that of others.
        weighted: learn α, from 0 on.

    >>> Sublayer(nn.Linear(4, 4), nn.LayerNorm(4))(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        branch: nn.Module,
        norm: nn.Module,
        order: str = "pre",
        p_drop: float = 0.0,
        site: int = 0,
        weighted: bool = False,
    ):
        super().__init__()
        if order not in ORDERS:
            raise UserError("order must be pre or post", got=given("order", order), do="Pass one of the two")
        self.branch, self.norm, self.order = branch, norm, order
        self.dropout = Dropout(p_drop, site)
        self.weight = nn.Parameter(torch.zeros(())) if weighted else None

    def forward(self, x: Tensor, *context: Any, **more: Any) -> Tensor:
        h = self.dropout(self.branch(self.norm(x) if self.order == "pre" else x, *context, **more))
        h = h if self.weight is None else self.weight * h
        return x + h if self.order == "pre" else self.norm(x + h)  # eqs. 1, 2
