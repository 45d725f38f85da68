"""Flooding: the loss may not fall below a level; once there, weights wander at that height (Ishida et al., 2020).

    loss <- |loss - b| + b        (1)   below b the gradient turns round

Wandering leads to where the loss is flat. It needs the rows of a step together: of the mean of losses, not of each.
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.regularize.regularizer import Regularizer
from leadline.regularize.strength import hold


class Flooding(Regularizer):
    """Args:
        level: b of eq. 1, at least 0, in the unit of the loss.

    >>> import torch
    >>> flood = Flooding(0.5)
    >>> [float(flood.objective(torch.tensor(loss), nn.Identity(), 1.0)) for loss in (2.0, 0.25)]
    [2.0, 0.75]
    """

    name = "flooding"
    mechanism = "wider minima"
    whole_batch = True
    level: float
    _level: Tensor

    def __init__(self, level: float = 0.05):
        super().__init__()
        hold(self, "level", level)

    def objective(self, loss: Tensor, model: nn.Module, share: Tensor | float) -> Tensor:
        level = self._level.to(loss.dtype)
        return (loss - level).abs() + level  # eq. 1
