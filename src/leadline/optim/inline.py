"""Updates of torch's optimizers written out as tensor operations, so that a compiler can see them.

    SGD     b <- m b + g,   φ <- φ - η b              (Nesterov: φ <- φ - η (g + m b))                (1)
    Adam    u <- β₁ u + (1-β₁) g,  v <- β₂ v + (1-β₂) g²,  φ <- φ - η û / (√v̂ + ε)                    (2)
            û = u / (1 - β₁ᵗ),  v̂ = v / (1 - β₂ᵗ)
    decay   g <- g + λ φ  (SGD, Adam);    φ <- (1 - ηλ) φ  (AdamW)                                    (3)

They move the very tensors in the optimizer's own state, so eager and compiled steps may alternate. Whatever a step
reads or changes is an argument, the rates as a tensor of `scalars`: a step is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

Update = Callable[[list[Tensor], list[list[Tensor]], list[Tensor], Tensor], None]


class Inline:
    """Args:
    optimizer: an SGD, Adam or AdamW over one parameter group, or over two of which one does not decay.
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        self.optimizer = optimizer
        self.group = max(optimizer.param_groups, key=lambda group: group["weight_decay"])
        moved = [(p, group["weight_decay"] > 0) for group in optimizer.param_groups for p in group["params"]]
        self.parameters: list[Tensor] = [p for p, _ in moved if p.requires_grad]
        self.decaying = [decays for p, decays in moved if p.requires_grad]
        self.adam = not isinstance(optimizer, torch.optim.SGD)
        self._begin()
        first = self.optimizer.state.get(self.parameters[0], {})
        self.count = int(first["step"]) if "step" in first else 0  # kept here, so that no step waits for the device

    @staticmethod
    def obstacle(optimizer: torch.optim.Optimizer) -> str | None:
        """Why this optimizer cannot be inlined, or None."""
        kind = type(optimizer)
        if kind not in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
            return f"{kind.__name__} has no inline form"
        if not _alike(optimizer.param_groups):
            return "several parameter groups"
        group = optimizer.param_groups[0]
        for option in ("amsgrad", "maximize", "differentiable"):
            if group.get(option):
                return f"option {option}"
        return "option dampening" if group.get("dampening") else None

    def _begin(self) -> None:
        """Fill the optimizer's empty state with what its own first step would make."""
        for p in self.parameters:
            state = self.optimizer.state[p]
            if self.adam and "exp_avg" not in state:
                state["step"] = torch.zeros((), device=p.device if self.group.get("fused") else "cpu")
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
            if not self.adam and self.group["momentum"] and state.get("momentum_buffer") is None:
                state["momentum_buffer"] = torch.zeros_like(p)

    def _gather(self, name: str) -> list[Tensor]:
        return [self.optimizer.state[p][name] for p in self.parameters]

    @property
    def slots(self) -> list[list[Tensor]]:
        """What the optimizer remembers of each parameter, a list for each kind of memory."""
        if self.adam:
            return [self._gather("exp_avg"), self._gather("exp_avg_sq")]
        return [self._gather("momentum_buffer")] if self.group["momentum"] else []

    def scalars(self, rates: list[float]) -> np.ndarray:
        """For each of the coming steps, the numbers of `step_numbers`, and its own."""
        group, counts = self.group, self.count + np.arange(1, len(rates) + 1)
        decay, momentum = np.array(group["weight_decay"]), np.array(group.get("momentum", 0.0))
        found = step_numbers(self.adam, group.get("betas", (0.0, 0.0)), np.array(rates), counts, decay, momentum)
        return np.concatenate([found, counts[:, None]], 1)

    def counted(self, steps: int) -> None:
        """Tell the optimizer's own step counters of steps made here."""
        self.count += steps
        if self.adam:
            torch._foreach_add_(self._gather("step"), float(steps))

    def update(self, decays: bool | None = None) -> Update:
        """A function (parameters, slots, gradients, numbers of one step) that moves parameters and slots in place.

        Args:
            decays: whether there is a decay at all; None asks the optimizer.
        """
        group = self.group
        shrinks = self.decaying.__getitem__ if decays is None else lambda k: decays
        if not self.adam:
            return _sgd(shrinks, bool(group["momentum"]), group["nesterov"])
        (beta1, beta2), eps = group["betas"], group["eps"]
        decoupled = isinstance(self.optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay", False)

        def adam(parameters: list[Tensor], slots: list[list[Tensor]], gradients: list[Tensor], numbers: Tensor) -> None:
            rate, step_size, root, decay, *_ = numbers.unbind()
            for k, (p, g, u, v) in enumerate(zip(parameters, gradients, *slots, strict=True)):
                if shrinks(k) and decoupled:
                    p.mul_(1 - rate * decay)  # eq. 3
                elif shrinks(k):
                    g = g + decay * p
                u.lerp_(g, 1 - beta1)
                v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
                p.addcdiv_(step_size * u, v.sqrt().div_(root).add_(eps), value=-1)  # eq. 2

        return adam

    def together(self) -> Update:
        """The same updates, each operation for all tensors at once: few kernels where none are compiled into one."""
        group, shrinking = self.group, [k for k, decays in enumerate(self.decaying) if decays]
        if not self.adam:
            return _sgd_together(shrinking, bool(group["momentum"]), group["nesterov"])
        (beta1, beta2), eps = group["betas"], group["eps"]
        decoupled = isinstance(self.optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay", False)

        def adam(p: list[Tensor], slots: list[list[Tensor]], g: list[Tensor], numbers: Tensor) -> None:
            rate, step_size, root, decay, *_ = numbers.unbind()
            u, v = slots
            if shrinking and decoupled:
                torch._foreach_mul_([p[k] for k in shrinking], 1 - rate * decay)  # eq. 3
            elif shrinking:
                g = _pulled(g, p, shrinking, decay)
            torch._foreach_lerp_(u, g, 1 - beta1)
            torch._foreach_mul_(v, beta2)
            torch._foreach_addcmul_(v, g, g, 1 - beta2)
            below = torch._foreach_div(torch._foreach_sqrt(v), root)
            torch._foreach_add_(below, eps)
            torch._foreach_addcdiv_(p, torch._foreach_mul(u, step_size), below, -1.0)  # eq. 2

        return adam

    def fused(self) -> Update | None:
        """The same updates by torch's own kernel, which goes through all tensors once and needs no compiling; None
        where it cannot, since the weights are not all float32.
        """
        if any(p.dtype != torch.float32 for p in self.parameters):
            return None
        group, decays = self.group, self.decaying
        parts = [
            [k for k, shrinks in enumerate(decays) if shrinks],
            [k for k, shrinks in enumerate(decays) if not shrinks],
        ]
        decoupled = isinstance(self.optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay", False)
        kernel: Any = torch._fused_sgd_ if not self.adam else torch._fused_adamw_ if decoupled else torch._fused_adam_
        common: dict[str, Any] = {"maximize": False}
        if self.adam:
            common |= {"beta1": group["betas"][0], "beta2": group["betas"][1], "eps": group["eps"], "amsgrad": False}
        else:
            common |= {"momentum": group["momentum"], "nesterov": group["nesterov"]}
            common |= {"dampening": 0.0, "is_first_step": False}

        def update(p: list[Tensor], slots: list[list[Tensor]], g: list[Tensor], numbers: Tensor) -> None:
            rate, *_, count = numbers.unbind()
            for part, decay in zip(parts, (group["weight_decay"], 0.0), strict=True):
                lists = [[tensors[k] for k in part] for tensors in (p, g, *slots)]
                if self.adam:
                    lists += [[], [count] * len(part)]
                elif not slots:
                    lists += [[]]
                if part:
                    kernel(*lists, lr=rate, weight_decay=decay, **common)

        return update


def step_numbers(
    adam: bool, betas: tuple[float, float], rates: np.ndarray, t: np.ndarray, decay: np.ndarray, momentum: np.ndarray
) -> np.ndarray:
    """Of steps number t, from 1: rate η; for Adam η / (1 - β₁ᵗ) and √(1 - β₂ᵗ); decay λ; momentum m. Shape (…, 5)."""
    size, root = (rates / (1 - betas[0] ** t), np.sqrt(1 - betas[1] ** t)) if adam else (rates, rates)
    return np.stack(np.broadcast_arrays(rates, size, root, decay, momentum), -1)


def _alike(groups: list[dict]) -> bool:
    """Whether groups differ in nothing but that some do not decay."""
    told = lambda group: {k: v for k, v in group.items() if k not in ("params", "weight_decay")}  # noqa: E731
    decays = {group["weight_decay"] for group in groups if group["weight_decay"]}
    return len(decays) <= 1 and all(told(group) == told(groups[0]) for group in groups)


def _pulled(g: list[Tensor], p: list[Tensor], shrinking: list[int], decay: Tensor) -> list[Tensor]:
    """Gradients with the decay of those parameters that have one (eq. 3)."""
    pulls = torch._foreach_mul([p[k] for k in shrinking], decay)
    g = list(g)
    for k, pulled in zip(shrinking, torch._foreach_add([g[k] for k in shrinking], pulls), strict=True):
        g[k] = pulled
    return g


def _sgd_together(shrinking: list[int], moves_on: bool, nesterov: bool) -> Update:
    def sgd(p: list[Tensor], slots: list[list[Tensor]], g: list[Tensor], numbers: Tensor) -> None:
        rate, _, _, decay, momentum, *_ = numbers.unbind()
        if shrinking:
            g = _pulled(g, p, shrinking, decay)
        if moves_on:
            torch._foreach_mul_(slots[0], momentum)
            torch._foreach_add_(slots[0], g)
            g = list(torch._foreach_add(g, torch._foreach_mul(slots[0], momentum))) if nesterov else slots[0]
        torch._foreach_sub_(p, torch._foreach_mul(g, rate))  # eq. 1

    return sgd


def _sgd(shrinks: Callable[[int], bool], moves_on: bool, nesterov: bool) -> Update:
    def sgd(parameters: list[Tensor], slots: list[list[Tensor]], gradients: list[Tensor], numbers: Tensor) -> None:
        rate, _, _, decay, momentum, *_ = numbers.unbind()
        for k, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
            if shrinks(k):
                g = g + decay * p  # eq. 3
            if moves_on:
                b = slots[0][k].mul_(momentum).add_(g)
                g = g + momentum * b if nesterov else b
            p.sub_(rate * g)  # eq. 1

    return sgd
