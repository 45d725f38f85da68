"""Nesterov's momentum with a true look ahead: the gradient is taken where momentum is about to lead.

    printed    m <- β m + (1 - β) g[φ - η m],     φ <- φ - η m                    (1)
    exact      m <- β m + (1 - β) g[φ - η β m],   φ <- φ - η m                    (2)

Without a gradient the next move would be -η β m, since m shrinks by β first: eq. 2 looks just there, and eq. 1, the
form that is often printed, a little farther, by 1 / β. Eq. 2 is Nesterov's method: its look-ahead points are the
weights of torch's SGD(nesterov=True) of rate η (1 - β), which moves them without ever standing on φ.

The gradient is of another place than φ, so a step is given a closure; the loss that it returns is of that place.

Notation   η -> lr;  β -> momentum
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from leadline.optim.by_parameter import decayed, kept
from leadline.settings import real


class LookAhead(torch.optim.Optimizer):
    """Args:
        lr: η, above 0.
        momentum: β, from 0 to below 1.
        printed: look as far as eq. 1, else eq. 2.
        weight_decay: added to the gradient, times the weights; at least 0.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = LookAhead([p], lr=0.5, momentum=0.5)
    >>> def closure():
    ...     p.grad = p.detach().clone()
    ...     return p.detach().square().sum() / 2
    >>> [(float(optimizer.step(closure)), round(p.item(), 6)) for _ in range(2)]  # 2nd: 0.75 - 0.25, the gradient there
    [(0.5, 0.75), (0.125, 0.5)]
    """

    needs_closure = True

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1e-2,
        momentum: float = 0.9,
        printed: bool = True,
        weight_decay: float = 0.0,
    ):
        options = {
            "lr": real("lr", lr, 0, above=True, usual=1e-2),
            "momentum": real("momentum", momentum, 0, 1, usual=0.9),
            "weight_decay": real("weight_decay", weight_decay, 0, usual=0.0),
        }
        super().__init__(parameters, options)
        self.printed = bool(printed)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Look ahead, come back, move."""
        here = []
        for group in self.param_groups:
            reach = group["lr"] * (1.0 if self.printed else group["momentum"])
            for p in group["params"]:
                here.append(p.clone())
                p.sub_(kept(self.state[p], "mean", p), alpha=reach)
        with torch.enable_grad():
            loss = closure()
        places = iter(here)
        for group in self.param_groups:
            for p in group["params"]:
                g = None if p.grad is None else decayed(p, group)
                p.copy_(next(places))
                if g is not None:
                    m = self.state[p]["mean"].lerp_(g, 1 - group["momentum"])
                    p.sub_(m, alpha=group["lr"])  # eq. 1, 2
        return loss
