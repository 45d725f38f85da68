"""Group lasso: all weights into a hidden unit shrink together, until the unit can go (Yuan and Lin, 2006).

    loss + λ Σ_d √n ‖Ω_d‖,   Ω_d -> the n weights into unit d        (1)

A unit without weights answers the same to every input; `leadline.models.prune` takes it out, and the function stays.
The last matrix is left alone: its rows are the outputs.

Paper      ‖·‖ is √(Σ φ² + 1e-12) here, so that there is a gradient at 0
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from leadline.regularize.penalty import Penalty
from leadline.regularize.strength import weights_of


class GroupLasso(Penalty):
    """Args:
        strength: λ of eq. 1, at least 0.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 1))
    >>> _ = nn.init.constant_(model[0].weight, 1.0)
    >>> round(GroupLasso(0.5).objective(torch.tensor(1.0), model, 1.0).item(), 6)  # 1 + 0.5 · √4 · ‖(1, 1, 1, 1)‖
    3.0
    """

    name = "group_lasso"

    def __init__(self, strength: float = 1e-3):
        super().__init__(strength)

    def sizes(self, model: nn.Module) -> Iterable[Tensor]:
        rows = (w.flatten(1) for w in weights_of(model)[:-1])
        return ((row.square().sum(1) + 1e-12).sqrt().sum() * row.shape[1] ** 0.5 for row in rows)  # eq. 1
