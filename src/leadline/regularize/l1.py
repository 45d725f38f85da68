"""L1: the sum of absolute weights (lasso). It pushes a small weight as hard as a large one, so many end near 0.

loss + λ Σ_j |φ_j|,   gradient λ sign φ        (1)   weights only, not biases
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from leadline.regularize.penalty import Penalty
from leadline.regularize.strength import weights_of


class L1(Penalty):
    """Args:
        strength: λ of eq. 1, at least 0.

    >>> import torch
    >>> model = nn.Linear(2, 1)
    >>> _ = nn.init.constant_(model.weight, -3.0)
    >>> L1(0.5).objective(torch.tensor(1.0), model, 1.0).item()
    4.0
    """

    name = "l1"

    def sizes(self, model: nn.Module) -> Iterable[Tensor]:
        return (w.abs().sum() for w in weights_of(model))  # eq. 1
