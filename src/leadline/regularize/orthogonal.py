"""Orthogonal transforms: what a cloud is multiplied by stays near a rotation (Qi et al., 2017).

    loss + λ mean_b ‖I - A_b A_bᵀ‖²        (1)   A_b the matrix that a PointNet says of the features of cloud b

A rotation loses nothing; a matrix of 64 × 64 that is free to shrink directions does, and is hard to train. The matrices
are computed once more for it, which costs about half a step. A model without such transforms is refused.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.models.point_net import PointNet
from leadline.regularize.again import Again
from leadline.regularize.strength import hold


class Orthogonal(Again):
    """Args:
        strength: λ of eq. 1, at least 0.

    >>> import leadline as ll
    >>> data = ll.data.solids(num=20, points=16)
    >>> model = ll.models.build("PointNet", data, 10, width=0.1)
    >>> run = ll.fit(model, data, epochs=1, regularize="orthogonal", progress=False)
    >>> run.settings.regularize
    ('orthogonal(0.001)',)
    """

    name = "orthogonal"
    mechanism = "smoother function"
    strength: float
    _strength: Tensor

    def __init__(self, strength: float = 1e-3):
        super().__init__()
        hold(self, "strength", strength)

    def objective(self, loss: Tensor, model: nn.Module, share: Tensor | float) -> Tensor:
        _, batch = self.seen()
        nets = [module for module in model.modules() if isinstance(module, PointNet) and module.mix is not None]
        if not nets:
            raise UserError(
                "orthogonal must have transforms to hold",
                got="a model without",
                do="Train a PointNet with transforms, or leave orthogonal out",
            )
        total = sum((_strayed(net.matrices(batch.x)[-1], batch.weight) for net in nets), start=torch.zeros_like(loss))
        return loss + share * self._strength.to(loss.dtype) * total  # eq. 1


def _strayed(matrix: Tensor, weight: Tensor | None) -> Tensor:
    """Mean of ‖I - A Aᵀ‖² over clouds."""
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    each = (one - matrix @ matrix.mT).square().sum((1, 2))
    return each.mean() if weight is None else (each * weight).sum() / weight.sum()
