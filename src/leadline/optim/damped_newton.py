"""Damped Newton for any small network: solve with the Hessian of the batch's loss, all weights together.

    Δ = -(H + λ I)⁻¹ g,    H = ∂²L / ∂φ ∂φᵀ                                              (1)

Near a minimum λ has fallen to nothing and the number of right digits doubles with every step; where the loss curves
down, λ rises until H + λ I is positive, and the step goes downhill. `damping=0` is Newton's bare step.

`Newton` is the rule for affine maps: there the loss is convex, one pass gathers H, and nothing needs to be refused.
Here each batch is a step of its own: pass batch as large as the split.

Use it     ll.fit(ll.models.MLP(1, (8,), 1), data, rule=ll.optim.DampedNewton(), batch=10_000, epochs=50)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, jacrev

from leadline.data.data import Batch
from leadline.optim.curvature import Curvature


class DampedNewton(Curvature):
    """Args:
        damping: λ of the first step, at least 0; 0 takes pure steps of Newton's.
        tolerance: loss still to be gained at which it ends, above 0.

    >>> from torch import nn
    >>> from leadline.likelihoods import Normal
    >>> x = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None]
    >>> model = nn.Linear(1, 1).double()
    >>> rule = DampedNewton(damping=0)
    >>> rule.bind(model, Normal(variance="fixed"), total_steps=1)
    >>> loss = rule.step(Batch(x, 2 * x[:, 0] + 1), 0)  # the loss is quadratic: one step is all
    >>> round(model.weight.item(), 6), round(model.bias.item(), 6)
    (2.0, 1.0)
    """

    def __init__(self, damping: float = 1e-3, tolerance: float = 1e-12):
        super().__init__(damping, tolerance)

    def curvature(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        buffers = dict(self.objective.named_buffers())
        shapes = [p.shape for p in self.parameters]

        def loss(flat: Tensor) -> Tensor:
            parts = flat.split([shape.numel() for shape in shapes])
            named = {name: part.view(shape) for name, part, shape in zip(self.names, parts, shapes, strict=True)}
            return functional_call(self.objective, (named, buffers), (batch,))

        here = torch.cat([p.detach().flatten() for p in self.parameters])

        def gradient(flat: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            g, value = grad_and_value(loss)(flat)
            return g, (g, value)

        hessian, (g, value) = jacrev(gradient, has_aux=True)(here)
        return value.detach(), g.detach(), hessian.detach()
