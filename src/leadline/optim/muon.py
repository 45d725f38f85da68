"""Muon: momentum whose matrices are made orthogonal, for weights with two axes; AdamW for all others (2024).

    B <- μ B + G,     O = nearest orthogonal matrix of G + μ B, by five rounds of Newton and Schulz        (1)
    W <- W - η 0.2 √max(rows, columns) O                                                              (2)

All singular values of a move are near 1, so that directions which gradients rarely take get as much as the others. The
factor of eq. 2 gives a move the size of AdamW's, so that one η serves both. Offsets, norms, kernels of convolutions
and single numbers have no such matrix and go by AdamW; so should an embedding, which here counts as a matrix.

Both parts are torch's own: `torch.optim.Muon` and `torch.optim.AdamW`.

Notation   μ -> momentum;  η -> lr
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from leadline.settings import real


class Muon(torch.optim.Optimizer):
    """Args:
        lr: η, above 0.
        momentum: μ, from 0 to below 1.
        weight_decay: pull towards 0 apart from the gradient, at least 0.

    >>> model = nn.Linear(3, 2)
    >>> [len(group["params"]) for group in Muon(model.parameters()).param_groups]
    [1, 1]
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float = 1e-3, momentum: float = 0.95, weight_decay: float = 0.0
    ):
        lr = real("lr", lr, 0, above=True, usual=1e-3)
        options: dict[str, Any] = {"weight_decay": real("weight_decay", weight_decay, 0, usual=0.0)}
        momentum = real("momentum", momentum, 0, 1, usual=0.95)
        every = list(parameters)
        matrices, others = [p for p in every if p.ndim == 2], [p for p in every if p.ndim != 2]
        self._parts: list[torch.optim.Optimizer] = []
        if matrices:
            adjusted: Any = "match_rms_adamw"  # eq. 2
            self._parts.append(torch.optim.Muon(matrices, lr, momentum=momentum, adjust_lr_fn=adjusted, **options))
        if others:
            self._parts.append(torch.optim.AdamW(others, lr, **options))
        super().__init__([dict(part.param_groups[0]) for part in self._parts], {"lr": lr, **options})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of both parts."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part, group in zip(self._parts, self.param_groups, strict=True):
            part.state, part.param_groups = self.state, [group]  # one memory, which a checkpoint may have replaced
            part.step()
        return loss
