"""Optimizers that move each parameter by its own gradient and its own memory: one equation a rule.

    g    <- ∇ loss + λ φ                                                                    (1)
    φ    <- φ + Δ(g, memory of φ),   elementwise                                            (2)

What a rule remembers lies in torch's own `state`, as tensors of the parameter's type and plain numbers, so that a
checkpoint holds all of it.

Notation   λ -> weight_decay, which here joins the gradient as in torch's SGD and Adam
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from leadline.settings import real


class ByParameter(torch.optim.Optimizer, ABC):
    """Args:
    parameters: what is moved.
    lr: learning rate, above 0.
    weight_decay: λ of eq. 1, at least 0.
    options: further numbers of a parameter group.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.0, **options: Any):
        lr = real("lr", lr, 0, above=True, usual=1e-3)
        decay = real("weight_decay", weight_decay, 0, usual=0.0)
        super().__init__(parameters, {"lr": lr, "weight_decay": decay, **options})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One move from the gradients that are there, or that `closure` makes."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.move(p, decayed(p, group), self.state[p], group)
        return loss

    @abstractmethod
    def move(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Eq. 2, in place; `g` must stay as it is."""


def decayed(p: Tensor, group: dict[str, Any]) -> Tensor:
    """g of eq. 1."""
    if p.grad is None:
        raise RuntimeError("a parameter without a gradient does not move")
    return p.grad.add(p, alpha=group["weight_decay"]) if group["weight_decay"] else p.grad


def kept(state: dict[str, Any], name: str, like: Tensor) -> Tensor:
    """What is remembered under a name; zeros at first."""
    if name not in state:
        state[name] = torch.zeros_like(like)
    return state[name]


def counted(state: dict[str, Any]) -> int:
    """The number of this move, from 1."""
    state["moves"] = state.get("moves", 0) + 1
    return state["moves"]
