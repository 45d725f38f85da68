"""L1: the sum of absolute weights (lasso). It pushes a small weight as hard as a large one, so many end near 0.

loss + λ Σ_j |φ_j|,   gradient λ sign φ        (1)   weights only, not biases
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.regularize.regularizer import Regularizer
from leadline.regularize.strength import hold, weights_of


class L1(Regularizer):
    """Args:
        strength: λ of eq. 1, at least 0.

    >>> model = nn.Linear(2, 1)
    >>> _ = nn.init.constant_(model.weight, -3.0)
    >>> L1(0.5).objective(torch.tensor(1.0), model, 1.0).item()
    4.0
    """

    name = "l1"
    mechanism = "smoother function"
    strength: float
    _strength: Tensor

    def __init__(self, strength: float = 1e-4):
        super().__init__()
        hold(self, "strength", strength)

    def objective(self, loss: Tensor, model: nn.Module, share: Tensor | float) -> Tensor:
        total = sum((w.abs().sum() for w in weights_of(model)), start=torch.zeros_like(loss))
        return loss + share * self._strength.to(loss.dtype) * total  # eq. 1
