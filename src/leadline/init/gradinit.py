"""GradInit: one factor for each weight matrix, learned so that the first step helps most (Zhu et al., 2021).

    θ(s)   = (s_1 W_1, …, s_K W_K),   W He's, frozen;   s_k > 0                                    (1)
    g(s)   = ∇_θ L_A(θ(s))                                       A: every other row of the batch    (2)
    min_s    L(θ(s) - η g(s))    subject to    |g(s)| ≤ γ                                          (3)

While |g| > γ the factors go down the gradient of log |g|, otherwise down that of (3), by Adam on log s. The best
factors that kept the bound are taken.

Notation   η -> lr;  γ -> bound;  L over all rows, half of which g has not seen
Paper      a new batch each step and thousands of steps; here one batch and 60. The step is that of gradient descent
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrize

from leadline.errors import UserError
from leadline.init.maps import maps
from leadline.init.scaled import he

_STEPS, _RATE = 60, 0.05  # e^±3 at most: He's draw is never further from a good one
_BOUND = 1.0


def gradinit(
    model: nn.Module,
    generator: torch.Generator | None,
    x: Tensor,
    y: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    lr: float = 0.1,
) -> None:
    """
    >>> net, x = nn.Sequential(nn.Linear(3, 20), nn.ReLU(), nn.Linear(20, 1)), torch.randn(64, 3)
    >>> square = lambda out, y: (out[:, 0] - y).square()
    >>> gradinit(net, torch.Generator().manual_seed(0), x, x.sum(1), square)
    >>> bool(net[0].weight.isfinite().all())
    True
    """
    he(model, generator)
    found = maps(model)
    names = {id(p): name for name, p in model.named_parameters()}
    if any(parametrize.is_parametrized(one.module, one.name) for one in found):
        raise UserError(
            "gradinit scales plain weights",
            got="a weight that is computed from others",
            do="Use lsuv",
        )
    matrices = [names[id(one.weight)] for one in found]
    state = {name: p.detach() for name, p in model.named_parameters()}
    buffers = {name: b.detach().clone() for name, b in model.named_buffers()}
    logs = torch.zeros(len(matrices), dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([logs], lr=_RATE)
    best, kept = math.inf, torch.zeros_like(logs)

    def risk(theta: dict[str, Tensor], rows: slice) -> Tensor:
        return loss(cast(Tensor, functional_call(model, {**theta, **buffers}, (x[rows],))), y[rows]).mean()

    # fused attention and cuDNN's recurrent layers have no second derivative
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), torch.backends.cudnn.flags(enabled=False):
        for _ in range(_STEPS):
            theta = {name: value.clone().requires_grad_() for name, value in state.items()}
            for name, log in zip(matrices, logs, strict=True):
                theta[name] = log.exp().to(state[name]) * state[name]  # eq. 1
            gradients = torch.autograd.grad(
                risk(theta, slice(0, None, 2)), list(theta.values()), create_graph=True, allow_unused=True
            )
            steps = {n: g for (n, g) in zip(theta, gradients, strict=True) if g is not None}
            size = cast(Tensor, sum(g.double().square().sum() for g in steps.values())).sqrt()
            if float(size.detach()) > _BOUND:
                objective = size.log()
            else:
                moved = {n: t - lr * steps[n] if n in steps else t for n, t in theta.items()}
                objective = risk(moved, slice(None))  # eq. 3
                if float(objective.detach()) < best:
                    best, kept = float(objective.detach()), logs.detach().clone()
            (slope,) = torch.autograd.grad(objective, logs)
            if not bool(slope.isfinite().all()):
                break
            logs.grad = slope
            adam.step()
    for one, log in zip(found, kept if math.isfinite(best) else logs.detach(), strict=True):
        one.scale(float(log.exp()))
