"""Normalised gradients: every weight moves by the same amount, in the direction that its gradient says.

    φ <- φ - η g / √(g² + ε)            each coordinate for itself                  (1)

For |g| well above √ε that is η sign(g). It cannot settle: near a minimum a weight jumps from one side to the other,
half of η away, unless a schedule lowers η. Adam is what this becomes when g and g² are replaced by running means.

Notation   η -> lr;  ε -> eps, inside the root
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from leadline.optim.by_parameter import ByParameter
from leadline.settings import real


class SignDescent(ByParameter):
    """Args:
        eps: ε, at least 0.

    >>> import torch
    >>> p = nn.Parameter(torch.tensor([1.0, 1.0]))
    >>> p.grad = torch.tensor([1000.0, -0.5])
    >>> SignDescent([p], lr=0.25).step()
    >>> [round(value, 4) for value in p.tolist()]
    [0.75, 1.25]
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float = 1e-3, eps: float = 1e-16, weight_decay: float = 0.0
    ):
        super().__init__(parameters, lr, weight_decay, eps=real("eps", eps, 0, usual=1e-16))

    def move(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        root = g.square().add_(group["eps"]).sqrt_()
        p.sub_((g / root).nan_to_num_(0.0), alpha=group["lr"])  # eq. 1; with ε = 0 a gradient of 0 moves nothing
