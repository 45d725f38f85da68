"""L½: the sum of roots of absolute weights, between L1 and the count of weights that are not 0.

    loss + λ Σ_j √(|φ_j| + ε) - √ε,   gradient λ sign φ / 2√(|φ| + ε)        (1)   ε = 1e-6

ε keeps the gradient finite: without it the push at 0 has no bound. The penalty is not convex.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from leadline.regularize.penalty import Penalty
from leadline.regularize.strength import weights_of

_EPSILON = 1e-6


class LHalf(Penalty):
    """Args:
        strength: λ of eq. 1, at least 0.

    >>> import torch
    >>> model = nn.Linear(1, 1)
    >>> _ = nn.init.constant_(model.weight, 4.0)
    >>> round(LHalf(0.5).objective(torch.tensor(1.0), model, 1.0).item(), 3)
    2.0
    """

    name = "l_half"

    def sizes(self, model: nn.Module) -> Iterable[Tensor]:
        return (((w.abs() + _EPSILON).sqrt() - _EPSILON**0.5).sum() for w in weights_of(model))  # eq. 1
