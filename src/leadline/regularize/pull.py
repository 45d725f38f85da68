"""Pull towards given weights: those of another task, or any place that one trusts.

    loss + λ Σ_j (φ_j - c_j)²        (1)   over all parameters that the centre names, biases too

With the weights of a first task as the centre, a second task is learned without forgetting where they were (L2-SP,
Li et al., 2018). With a centre of 0 it is L2 on biases too.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.regularize.regularizer import Regularizer
from leadline.regularize.strength import hold


class Pull(Regularizer):
    """Args:
        strength: λ of eq. 1, at least 0.
        centre: a model whose weights are the centre, or parameters by name; copied. Parameters of the model in
            training that are not among them are free.

    >>> model = nn.Linear(1, 1)
    >>> pull = Pull(2.0, {"weight": model.weight.detach() + 3})
    >>> round(pull.objective(torch.tensor(1.0), model, 1.0).item(), 4)
    19.0
    """

    mechanism = "smoother function"
    strength: float
    _strength: Tensor

    def __init__(self, strength: float, centre: nn.Module | Mapping[str, Tensor]):
        super().__init__()
        hold(self, "strength", strength)
        named = dict(centre.named_parameters()) if isinstance(centre, nn.Module) else dict(centre)
        if not named:
            raise UserError("centre must hold parameters", got="none", do="Pass a trained model")
        self.names = tuple(named)
        for k, value in enumerate(named.values()):
            self.register_buffer(f"centre_{k}", value.detach().clone(), persistent=False)

    def objective(self, loss: Tensor, model: nn.Module, share: Tensor | float) -> Tensor:
        own, total = dict(model.named_parameters()), torch.zeros_like(loss)
        for k, name in enumerate(self.names):
            if name in own:
                total = total + (own[name] - getattr(self, f"centre_{k}")).square().sum()
        return loss + share * self._strength.to(loss.dtype) * total  # eq. 1
