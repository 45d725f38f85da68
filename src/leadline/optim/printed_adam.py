"""Adam as the textbooks print it: ε stands inside the root.

    m <- β m + (1 - β) g,      m̃ = m / (1 - βᵗ)                                     (1)
    v <- γ v + (1 - γ) g²,     ṽ = v / (1 - γᵗ)                                     (2)
    φ <- φ - η m̃ / √(ṽ + ε)                                                         (3)

torch's Adam has √ṽ + ε. Inside the root ε sets a floor of √ε: 1e-8 there is 1e-4 outside, a thousand times what Adam
usually takes, and weights whose gradients are smaller than that move less than η. Without `corrected` m̃ and ṽ are m and
v, as in the shortest printed form.

Notation   η -> lr;  β, γ -> betas;  ε -> eps;  t counts steps from 1
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from leadline.optim.by_parameter import ByParameter, counted, kept
from leadline.settings import real


class PrintedAdam(ByParameter):
    """Args:
        betas: β and γ, each from 0 to below 1.
        eps: ε, above 0.
        corrected: divide by 1 - βᵗ and 1 - γᵗ.

    >>> import torch
    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([3.0])
    >>> PrintedAdam([p], lr=0.5).step()
    >>> round(p.item(), 6)
    0.5
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        corrected: bool = True,
    ):
        real("betas", min(betas), 0, 1, usual=0.9)
        real("betas", max(betas), 0, 1, usual=0.999)
        super().__init__(parameters, lr, weight_decay, betas=betas, eps=real("eps", eps, 0, above=True, usual=1e-8))
        self.corrected = bool(corrected)

    def move(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta, gamma = group["betas"]
        t = counted(state)
        m = kept(state, "mean", p).lerp_(g, 1 - beta)
        v = kept(state, "square", p).mul_(gamma).addcmul_(g, g, value=1 - gamma)
        share, scale = (1 - beta**t, 1 - gamma**t) if self.corrected else (1.0, 1.0)
        p.addcdiv_(m, (v / scale).add_(group["eps"]).sqrt_(), value=-group["lr"] / share)  # eq. 3
