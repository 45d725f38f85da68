"""Branches whose weights differ between the forward and the backward pass (Gastaldi, 2017; Yamada et al., 2019).

    shaken(f; a, g)    forward a f,  backward g times the gradient                                            (1)
    shake-shake        y = x + shaken(f_1; α, β) + shaken(f_2; 1 - α, 1 - β)      α, β ~ U(0, 1)              (2)
    shake-drop         y = x + shaken(f; b + α - b α, b + β - b β)                b ~ Bernoulli(p)            (3)
                                                                                  α ~ U(-1, 1), β ~ U(0, 1)

In evaluation the weights are their expectations: ½ and ½ in (2), p in (3). With b = 1 (3) is an ordinary residual unit,
with b = 0 a shaken one. The gradient is on purpose not that of the function. What an example draws is a pure function
of (seed, epoch, example, layer).

Notation   α, β, b, p as in the papers;  p -> p_keep
Paper      (2) with its draws for each image, the variant that its authors found best
Shapes     (B, ...) -> (B, ...)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from leadline.layers import noise
from leadline.layers.stochastic_depth import probability


class ShakeShake(nn.Module):
    """The weighted sum of two branches (2).

    Args:
        first, second: modules f_1 and f_2, whose outputs have one shape.
        site: tells this layer's noise from that of other layers.

    >>> both = ShakeShake(nn.Identity(), nn.Identity())
    >>> x = torch.randn(3, 4)
    >>> torch.allclose(both(x), x), torch.allclose(both.eval()(x), x)
    (True, True)
    """

    draws_noise = True

    def __init__(self, first: nn.Module, second: nn.Module, site: int = 0):
        super().__init__()
        self.first, self.second, self.site = first, second, site

    def forward(self, x: Tensor) -> Tensor:
        f1, f2 = self.first(x), self.second(x)
        if not self.training:
            return 0.5 * (f1 + f2)
        u = _uniform(f1, 2, self.site)
        alpha, beta = u[:, 0], u[:, 1]
        return shaken(f1, alpha, beta) + shaken(f2, 1 - alpha, 1 - beta)  # eq. 2


class ShakeDrop(nn.Module):
    """The last part of a branch f, which it weights (3).

    Args:
        p_keep: probability p that the branch is an ordinary one, 0 < p_keep <= 1.
        site: tells this layer's noise from that of other layers.

    >>> ShakeDrop(0.5).eval()(torch.ones(1, 2)).tolist()
    [[0.5, 0.5]]
    """

    draws_noise = True

    def __init__(self, p_keep: float, site: int = 0):
        super().__init__()
        self.p_keep, self.site = probability("p_keep", p_keep), site

    def forward(self, h: Tensor) -> Tensor:
        if not self.training:
            return self.p_keep * h
        u = _uniform(h, 3, self.site)
        b, alpha, beta = u[:, 0] < self.p_keep, 2 * u[:, 1] - 1, u[:, 2]
        return shaken(h, torch.where(b, 1, alpha), torch.where(b, 1, beta))  # eq. 3

    def extra_repr(self) -> str:
        return f"p_keep={self.p_keep}"


def shaken(h: Tensor, forward: Tensor, backward: Tensor) -> Tensor:
    """`forward` times h, whose gradient is `backward` times what comes (1).

    >>> h = torch.ones(2, requires_grad=True)
    >>> y = shaken(h, torch.tensor(3.0), torch.tensor(5.0))
    >>> y.sum().backward()
    >>> y.tolist(), h.grad.tolist()
    ([3.0, 3.0], [5.0, 5.0])
    """
    return _Shaken.apply(h, forward, backward)


class _Shaken(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(h: Tensor, forward: Tensor, backward: Tensor) -> Tensor:
        return h * forward

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient * ctx.saved_tensors[0], None, None


def _uniform(h: Tensor, count: int, site: int) -> Tensor:
    """`count` uniform numbers for each row, (B, count, 1, …, 1) with the axes of h."""
    keys, shape = noise.current.keys, (count,) + (1,) * (h.dim() - 1)
    u = torch.rand(len(h), *shape, device=h.device) if keys is None else noise.uniform(keys, shape, site)
    return u.to(h.dtype)
