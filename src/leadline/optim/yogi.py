"""Yogi: Adam whose second moment grows and shrinks by additions, never by more than the new square (2018).

    m <- β m + (1 - β) g                                                            (1)
    v <- v - (1 - γ) sign(v - g²) g²                                                (2)   Adam: v - (1 - γ) (v - g²)
    φ <- φ - η m̃ / (√ṽ + ε),     m̃ = m / (1 - βᵗ),  ṽ = v / (1 - γᵗ)                (3)

Where gradients become small, Adam forgets how large they were within 1 / (1 - γ) steps and its steps grow; here v falls
by (1 - γ) g² only, so that the effective rate rises slowly. That is what its proof for losses without convexity needs.
ε is larger than Adam's, as in the paper. Adam's correction (3) is kept, so that (2) is the only difference.

Notation   η -> lr;  β, γ -> betas;  ε -> eps
Paper      Zaheer, Reddi, Sachan, Kale and Kumar, Adaptive Methods for Nonconvex Optimization
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from leadline.optim.by_parameter import ByParameter, counted, kept
from leadline.settings import real


class Yogi(ByParameter):
    """Args:
        betas: β and γ, each from 0 to below 1.
        eps: ε, above 0.

    >>> import torch
    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([1.0])
    >>> Yogi([p], lr=0.5).step()
    >>> round(p.item(), 4)
    0.5005
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1e-2,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-3,
        weight_decay: float = 0.0,
    ):
        real("betas", min(betas), 0, 1, usual=0.9)
        real("betas", max(betas), 0, 1, usual=0.999)
        super().__init__(parameters, lr, weight_decay, betas=betas, eps=real("eps", eps, 0, above=True, usual=1e-3))

    def move(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta, gamma = group["betas"]
        t, square = counted(state), g.square()
        m, v = kept(state, "mean", p).lerp_(g, 1 - beta), kept(state, "square", p)
        v.addcmul_((v - square).sign_(), square, value=gamma - 1)  # eq. 2
        p.addcdiv_(m, (v / (1 - gamma**t)).sqrt_().add_(group["eps"]), value=-group["lr"] / (1 - beta**t))  # eq. 3
