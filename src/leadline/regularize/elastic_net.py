"""Elastic net: L1 and L2 together (Zou and Hastie, 2005).

loss + λ1 Σ_j |φ_j| + λ2 Σ_j φ_j²        (1)   weights only, not biases
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.regularize.regularizer import Regularizer
from leadline.regularize.strength import hold, weights_of


class ElasticNet(Regularizer):
    """Args:
        l1, l2: λ1 and λ2 of eq. 1, at least 0 each.

    >>> model = nn.Linear(1, 1)
    >>> _ = nn.init.constant_(model.weight, 2.0)
    >>> ElasticNet(0.5, 0.25).objective(torch.tensor(1.0), model, 1.0).item()
    3.0
    """

    name = "elastic_net"
    mechanism = "smoother function"
    l1: float
    l2: float
    _l1: Tensor
    _l2: Tensor

    def __init__(self, l1: float = 1e-4, l2: float = 1e-4):
        super().__init__()
        hold(self, "l1", l1)
        hold(self, "l2", l2)

    def objective(self, loss: Tensor, model: nn.Module, share: Tensor | float) -> Tensor:
        l1, l2 = self._l1.to(loss.dtype), self._l2.to(loss.dtype)
        terms = (l1 * w.abs().sum() + l2 * w.square().sum() for w in weights_of(model))
        return loss + share * sum(terms, start=torch.zeros_like(loss))  # eq. 1
