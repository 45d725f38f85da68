"""L½: the sum of roots of absolute weights, between L1 and the count of weights that are not 0.

    loss + λ Σ_j √(|φ_j| + ε) - √ε,   gradient λ sign φ / 2√(|φ| + ε)        (1)   ε = 1e-6

ε keeps the gradient finite: without it the push at 0 has no bound. The penalty is not convex.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.regularize.regularizer import Regularizer
from leadline.regularize.strength import hold, weights_of

_EPSILON = 1e-6


class LHalf(Regularizer):
    """Args:
        strength: λ of eq. 1, at least 0.

    >>> model = nn.Linear(1, 1)
    >>> _ = nn.init.constant_(model.weight, 4.0)
    >>> round(LHalf(0.5).objective(torch.tensor(1.0), model, 1.0).item(), 3)
    2.0
    """

    name = "l_half"
    mechanism = "smoother function"
    strength: float
    _strength: Tensor

    def __init__(self, strength: float = 1e-4):
        super().__init__()
        hold(self, "strength", strength)

    def objective(self, loss: Tensor, model: nn.Module, share: Tensor | float) -> Tensor:
        roots = ((w.abs() + _EPSILON).sqrt() - _EPSILON**0.5 for w in weights_of(model))
        total = sum((root.sum() for root in roots), start=torch.zeros_like(loss))
        return loss + share * self._strength.to(loss.dtype) * total  # eq. 1
