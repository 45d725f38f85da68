"""SWATS: begin with Adam, go on with SGD, whose rate Adam's own steps tell (2017).

    p   = -η m̃ / (√ṽ + ε)                                       a step of Adam             (1)
    γ   = |p|² / (-pᵀg)                                         SGD's rate for that step   (2)
    λ  <- β₂ λ + (1 - β₂) γ,     λ̃ = λ / (1 - β₂ᵗ)                                         (3)
    switch for good when t > 1 and |λ̃ - γ| < τ λ̃,  with Λ = λ̃                              (4)
    afterwards   b <- β₁ b + g,   φ <- φ - (1 - β₁) Λ b                                    (5)

Eq. 2 is the rate at which SGD's step, projected on Adam's, has Adam's length. All weights are one vector: they switch
together. The paper's test (4) is |λ̃ - γ| < 10⁻⁹, which gradients of batches meet by chance alone; here it is relative.
A schedule of η goes on to act after the switch: Λ is multiplied by η over the η of the switch.

Notation   η -> lr;  β₁, β₂ -> betas;  ε -> eps;  τ -> tolerance;  Λ -> `rate`, None before the switch
Paper      Keskar and Socher, Improving Generalization Performance by Switching from Adam to SGD
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from leadline.optim.by_parameter import decayed, kept
from leadline.settings import real


class SWATS(torch.optim.Optimizer):
    """Args:
        lr: η, above 0.
        betas: β₁ and β₂, each from 0 to below 1; β₁ is SGD's momentum too.
        eps: ε, above 0.
        weight_decay: added to the gradient, times the weights; at least 0.
        tolerance: τ, above 0: larger switches earlier.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = SWATS([p], lr=0.1)
    >>> for _ in range(50):
    ...     p.grad = p.detach().clone()
    ...     optimizer.step()
    >>> optimizer.rate is None
    True
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        tolerance: float = 1e-4,
    ):
        real("betas", min(betas), 0, 1, usual=0.9)
        real("betas", max(betas), 0, 1, usual=0.999)
        options = {
            "lr": real("lr", lr, 0, above=True, usual=1e-3),
            "betas": betas,
            "eps": real("eps", eps, 0, above=True, usual=1e-8),
            "weight_decay": real("weight_decay", weight_decay, 0, usual=0.0),
        }
        super().__init__(parameters, options)
        self.tolerance = real("tolerance", tolerance, 0, above=True, usual=1e-4)

    @property
    def rate(self) -> float | None:
        """Λ of eq. 4, or None while Adam leads."""
        return self._shared.get("rate")

    @property
    def switched_at(self) -> int | None:
        """The number of the step, from 1, after which SGD leads."""
        return self._shared.get("switched_at")

    @property
    def _shared(self) -> dict[str, Any]:
        """What all parameters have in common lies with the first, where torch's own state dict takes it along."""
        return self.state[self.param_groups[0]["params"][0]]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of whichever leads."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        shared = self._shared
        shared["moves"] = shared.get("moves", 0) + 1
        with_gradient = [(p, group) for group in self.param_groups for p in group["params"] if p.grad is not None]
        if self.rate is not None:
            for p, group in with_gradient:
                b = kept(self.state[p], "momentum", p).mul_(group["betas"][0]).add_(decayed(p, group))
                share = group["lr"] / shared["lr_then"]
                p.sub_(b, alpha=(1 - group["betas"][0]) * self.rate * share)  # eq. 5
            return loss
        length, along = torch.zeros(()), torch.zeros(())
        for p, group in with_gradient:
            g = decayed(p, group)
            move = self._adam(p, g, group, shared["moves"])
            length, along = length.to(p) + move.square().sum(), along.to(p) - (move * g).sum()
            p.add_(move)
        self._judge(float(length), float(along))
        return loss

    def _adam(self, p: Tensor, g: Tensor, group: dict[str, Any], t: int) -> Tensor:
        """Eq. 1."""
        beta1, beta2 = group["betas"]
        m = kept(self.state[p], "mean", p).lerp_(g, 1 - beta1)
        v = kept(self.state[p], "square", p).mul_(beta2).addcmul_(g, g, value=1 - beta2)
        return m / (v / (1 - beta2**t)).sqrt_().add_(group["eps"]) * (-group["lr"] / (1 - beta1**t))

    def _judge(self, length: float, along: float) -> None:
        """Eq. 2 to 4."""
        shared, group = self._shared, self.param_groups[0]
        beta2, t = group["betas"][1], shared["moves"]
        if along == 0:
            return
        gamma = length / along
        shared["average"] = beta2 * shared.get("average", 0.0) + (1 - beta2) * gamma  # eq. 3
        estimate = shared["average"] / (1 - beta2**t)
        if t > 1 and estimate > 0 and abs(estimate - gamma) < self.tolerance * estimate:
            shared |= {"rate": estimate, "lr_then": group["lr"], "switched_at": t}
