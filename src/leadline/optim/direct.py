"""torch's own update without the bookkeeping around it.

`Optimizer.step` collects its tensors anew on every call and reports to the profiler: a tenth of a small network's
step. The lists do not change during a run, so `Direct` collects them once and calls the same torch function. The
numbers are the same bits; hooks, sparse gradients and several groups go the ordinary way.
"""

from __future__ import annotations

import torch
from torch.optim.adamw import adamw


class Direct:
    """Args:
    optimizer: a fused SGD or AdamW over one parameter group.
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        self.optimizer = optimizer
        self.group = optimizer.param_groups[0]
        self.parameters = self.group["params"]
        self.ready = False

    @staticmethod
    def fits(optimizer: torch.optim.Optimizer) -> bool:
        """Whether this optimizer can be stepped so."""
        hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
        plain = type(optimizer) in (torch.optim.SGD, torch.optim.AdamW) and len(optimizer.param_groups) == 1
        return plain and not hooks and bool(optimizer.param_groups[0]["fused"])

    def step(self) -> None:
        """One update from the parameters' gradients."""
        gradients = [p.grad for p in self.parameters]
        if not self.ready or any(g is None for g in gradients):
            self.optimizer.step()  # the first step creates the state
            self._collect()
            return
        group = self.group
        with torch.no_grad():
            if type(self.optimizer) is torch.optim.SGD:
                torch._fused_sgd_(
                    self.parameters,
                    gradients,
                    self.buffers if group["momentum"] else [],
                    weight_decay=group["weight_decay"],
                    momentum=group["momentum"],
                    lr=group["lr"],
                    dampening=group["dampening"],
                    nesterov=group["nesterov"],
                    maximize=group["maximize"],
                    is_first_step=False,
                )
            else:
                adamw(
                    self.parameters,
                    gradients,
                    self.averages,
                    self.squares,
                    self.maxima,
                    self.counts,
                    fused=True,
                    amsgrad=group["amsgrad"],
                    beta1=group["betas"][0],
                    beta2=group["betas"][1],
                    lr=group["lr"],
                    weight_decay=group["weight_decay"],
                    eps=group["eps"],
                    maximize=group["maximize"],
                )

    def _collect(self) -> None:
        states = [self.optimizer.state.get(p, {}) for p in self.parameters]
        if type(self.optimizer) is torch.optim.SGD:
            self.buffers = [state.get("momentum_buffer") for state in states]
            self.ready = self.group["momentum"] == 0 or all(b is not None for b in self.buffers)
            return
        self.ready = all("exp_avg" in state for state in states)
        if self.ready:
            self.averages = [state["exp_avg"] for state in states]
            self.squares = [state["exp_avg_sq"] for state in states]
            self.counts = [state["step"] for state in states]
            self.maxima = [state["max_exp_avg_sq"] for state in states] if self.group["amsgrad"] else []
