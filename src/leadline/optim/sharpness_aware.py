"""Sharpness-aware minimisation: the gradient is taken at the worst place nearby (Foret et al., 2021).

    e    = ρ g / |g|,   g = ∇L(φ)                 the steepest way up, to a distance of ρ           (1)
    g'   = ∇L(φ + e)                                                                                (2)
    b   <- β b + g' + λ φ,   φ <- φ - η b                                                           (3)   SGD from φ

It goes downhill on the highest loss within ρ, to first order, and so prefers wide valleys to narrow ones. Both
gradients are of the same batch: a step costs two. Batch normalisation sees the batch twice, then from φ + e.

Notation   ρ -> rho;  η -> lr;  β -> momentum;  λ -> weight_decay
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from leadline.optim.by_parameter import decayed, kept
from leadline.settings import real


class SharpnessAware(torch.optim.Optimizer):
    """Args:
        lr: η, above 0.
        momentum: β, from 0 to below 1.
        rho: ρ, above 0, in the units of the weights.
        weight_decay: λ, at least 0.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> def closure():
    ...     p.grad = p.detach().clone()
    ...     return p.detach().square().sum() / 2
    >>> loss = SharpnessAware([p], lr=0.5, momentum=0.0, rho=0.2).step(closure)  # the gradient at 1.2
    >>> float(loss), round(p.item(), 6)
    (0.5, 0.4)
    """

    needs_closure = True

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1e-2,
        momentum: float = 0.9,
        rho: float = 0.05,
        weight_decay: float = 0.0,
    ):
        options = {
            "lr": real("lr", lr, 0, above=True, usual=1e-2),
            "momentum": real("momentum", momentum, 0, 1, usual=0.9),
            "rho": real("rho", rho, 0, above=True, usual=0.05),
            "weight_decay": real("weight_decay", weight_decay, 0, usual=0.0),
        }
        super().__init__(parameters, options)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up, then down."""
        with torch.enable_grad():
            loss = closure()
        pairs = [(p, group) for group in self.param_groups for p in group["params"] if p.grad is not None]
        here = [p.clone() for p, _ in pairs]
        norm = torch.stack([p.grad.square().sum() for p, _ in pairs]).sum().sqrt().clamp(min=1e-30)
        for p, group in pairs:
            p.add_(p.grad * (group["rho"] / norm))  # eq. 1
        with torch.enable_grad():
            closure()  # eq. 2
        for (p, group), place in zip(pairs, here, strict=True):
            p.copy_(place)
            b = kept(self.state[p], "momentum", p).mul_(group["momentum"]).add_(decayed(p, group))
            p.sub_(b, alpha=group["lr"])  # eq. 3
        return loss
