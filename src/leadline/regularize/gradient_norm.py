"""Gradient penalty: the term that steps of finite size add to the loss by themselves, made explicit.

    loss + s ‖∇_φ loss‖²        (1)   over the rows of the step

Gradient descent at learning rate α follows, to second order, the flow of (1) with s = α/4 (Barrett and Dherin, 2021):
it is drawn away from the steep. With a small learning rate and this term, one reaches where a large one would have led.
Minima stay where they are. A step costs a second pass, and one backward through it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import grad
from torch.nn.attention import SDPBackend, sdpa_kernel

from leadline.regularize.again import Again, mean_loss
from leadline.regularize.strength import hold


class GradientNorm(Again):
    """Args:
        strength: s of eq. 1, at least 0.

    >>> import leadline as ll
    >>> run = ll.fit(ll.models.MLP(2, (8,), 1), ll.data.moons(num=90), epochs=1, regularize="gradient_norm(0.01)",
    ...              progress=False)
    >>> run.settings.regularize
    ('gradient_norm(0.01)',)
    """

    name = "gradient_norm"
    mechanism = "wider minima"
    whole_batch = True
    strength: float
    _strength: Tensor

    def __init__(self, strength: float = 0.01):
        super().__init__()
        hold(self, "strength", strength)

    def objective(self, loss: Tensor, model: nn.Module, share: Tensor | float) -> Tensor:
        score, batch = self.seen()
        named = dict(model.named_parameters())
        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
            slopes = grad(lambda weights: mean_loss(score, batch, model, batch.x, weights))(named)
        total = sum((g.square().sum() for g in slopes.values()), start=torch.zeros_like(loss))
        return loss + self._strength.to(loss.dtype) * total  # eq. 1
