"""Momentum as an average: the move is a running mean of gradients, from the first step on.

    m <- β m + (1 - β) g,    φ <- φ - η m                                        (1)

torch's SGD adds gradients up without (1 - β), so the same η moves 1 / (1 - β) times as far; its `dampening` = β would
agree but for the first step, which it leaves undamped.

Notation   η -> lr;  β -> momentum;  g -> gradient of the batch (a mean here: with a sum of losses, η is smaller by
           the size of the batch)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from leadline.optim.by_parameter import ByParameter, kept
from leadline.settings import real


class AveragedMomentum(ByParameter):
    """Args:
        momentum: β, from 0 to below 1.

    >>> import torch
    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([2.0])
    >>> AveragedMomentum([p], lr=0.5, momentum=0.9).step()
    >>> round(p.item(), 6)
    0.9
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float = 1e-2, momentum: float = 0.9, weight_decay: float = 0.0
    ):
        super().__init__(parameters, lr, weight_decay, momentum=real("momentum", momentum, 0, 1, usual=0.9))

    def move(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        m = kept(state, "mean", p).lerp_(g, 1 - group["momentum"])
        p.sub_(m, alpha=group["lr"])  # eq. 1
