"""Entropy SGD: go where the loss is low on average over a neighbourhood (Chaudhari et al., 2017).

    F(φ) = log ∫ exp(-L(x) - γ/2 |φ - x|²) dx,    -∇F = γ (φ - ⟨x⟩)                                 (1)   local entropy
    x <- x - η (∇L(x) - γ (φ - x)) + √η s ζ,      ζ normal,  from x = φ                             (2)   Langevin
    μ <- (1 - a) μ + a x                                                                            (3)   ⟨x⟩
    φ <- φ - r (φ - μ)                            after `inner` rounds of (2) and (3)               (4)

A wide valley has much volume of low loss, a narrow one little: F tells them apart where L does not. Eq. 4 divides the
gradient of F by γ, so that r = 1 goes to the mean of the walk itself.

Paper      the walk takes a new batch each round and γ grows during the run; here a step has one batch and γ is fixed.
Notation   γ -> gamma;  η -> lr;  s -> noise;  a -> share;  r -> outer
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from leadline.optim.by_parameter import decayed
from leadline.settings import real, whole


class EntropyDescent(torch.optim.Optimizer):
    """Args:
        lr: η of the walk, above 0.
        inner: rounds of the walk a step, at least 1; each takes a gradient.
        gamma: γ, at least 0: larger stays closer.
        noise: s, at least 0.
        share: a, above 0 and below 1.
        outer: r, above 0.
        weight_decay: added to the gradient, times the weights; at least 0.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> def closure():
    ...     p.grad = p.detach().clone()
    ...     return p.detach().square().sum() / 2
    >>> loss = EntropyDescent([p], lr=0.5, inner=1, gamma=0.0, noise=0.0, share=0.5).step(closure)
    >>> float(loss), p.item()  # x goes to 0.5, its mean from 1 to 0.75
    (0.5, 0.75)
    """

    needs_closure = True

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1e-2,
        inner: int = 5,
        gamma: float = 0.03,
        noise: float = 1e-4,
        share: float = 0.75,
        outer: float = 1.0,
        weight_decay: float = 0.0,
    ):
        options = {
            "lr": real("lr", lr, 0, above=True, usual=1e-2),
            "gamma": real("gamma", gamma, 0, usual=0.03),
            "noise": real("noise", noise, 0, usual=1e-4),
            "share": real("share", share, 0, 1, above=True, usual=0.75),
            "outer": real("outer", outer, 0, above=True, usual=1.0),
            "weight_decay": real("weight_decay", weight_decay, 0, usual=0.0),
        }
        super().__init__(parameters, options)
        self.inner = whole("inner", inner, usual=5)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """A walk around φ, then a move to its mean."""
        first = None
        pairs = [(p, group) for group in self.param_groups for p in group["params"]]
        here, means = [p.clone() for p, _ in pairs], [p.clone() for p, _ in pairs]
        for _ in range(self.inner):
            with torch.enable_grad():
                loss = closure()
            first = loss if first is None else first
            for (p, group), place, mean in zip(pairs, here, means, strict=True):
                if p.grad is not None:
                    g = decayed(p, group) - group["gamma"] * (place - p)
                    p.sub_(g, alpha=group["lr"])
                    if group["noise"]:
                        p.add_(torch.randn_like(p), alpha=group["noise"] * group["lr"] ** 0.5)  # eq. 2
                    mean.lerp_(p, group["share"])  # eq. 3
        for (p, group), place, mean in zip(pairs, here, means, strict=True):
            p.copy_(place.lerp_(mean, group["outer"]))  # eq. 4
        return first
