"""A penalty of one strength on the weights of a model, biases apart: what L1, L2 and their like have in common.

loss + λ Σ_k size(Ω_k)        (1)   k over the matrices and kernels
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from leadline.regularize.regularizer import Regularizer
from leadline.regularize.strength import hold


class Penalty(Regularizer, ABC):
    """A concrete one says what the parts of a model cost, most of them each matrix."""

    mechanism = "smoother function"
    strength: float
    _strength: Tensor

    def __init__(self, strength: float = 1e-4):
        super().__init__()
        hold(self, "strength", strength)

    @abstractmethod
    def sizes(self, model: nn.Module) -> Iterable[Tensor]:
        """What is summed in eq. 1, one number a part."""

    def objective(self, loss: Tensor, model: nn.Module, share: Tensor | float) -> Tensor:
        total = sum(self.sizes(model), start=torch.zeros_like(loss))
        return loss + share * self._strength.to(loss.dtype) * total  # eq. 1
