"""Stochastic variance-reduced descent: batches corrected by what they said at an anchor (Johnson and Zhang, 2013).

    anchor    φ̄ = φ,   ḡ = mean gradient of all rows at φ̄                    one pass that does not move      (1)
    move      φ <- φ - η (g(φ, batch) - g(φ̄, batch) + ḡ)                     `passes` passes                  (2)

The bracket is a batch's gradient without bias, and its noise vanishes as φ and φ̄ approach the minimum: so a constant
rate converges where SGD's must fall. Each move takes two gradients, and one pass in every 1 + `passes` none. Neural
networks gain little from it: their anchors grow old within a pass.

Notation   φ̄ -> anchor;  ḡ -> mean;  η -> step_size
Use it     ll.fit(ll.models.Linear(2, 1), data, rule=ll.optim.SVRG(step_size=0.5), epochs=30)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.descent import Descent
from leadline.settings import real, whole


class SVRG(Descent):
    """Args:
        step_size: η, above 0.
        passes: passes that move between two that anchor, at least 1.

    >>> from leadline.likelihoods import Normal
    >>> model = nn.Linear(1, 1, bias=False)
    >>> rule = SVRG(step_size=0.1)
    >>> rule.bind(model, Normal(variance="fixed"), total_steps=60)
    >>> x = torch.tensor([[1.0], [2.0]])
    >>> losses = [rule.step(Batch(x, 3 * x[:, 0]), k) for k in range(60)]
    >>> round(model.weight.item(), 3)
    3.0
    """

    def __init__(self, step_size: float = 0.1, passes: int = 2):
        self.step_size = real("step_size", step_size, 0, above=True, usual=0.1)
        self.passes = whole("passes", passes, usual=2)

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        super().bind(model, likelihood, total_steps)
        self.anchor: list[Tensor] = []
        self.mean: list[Tensor] = []
        self.weight = 0.0

    def step(self, batch: Batch, index: int) -> Tensor:
        passes, place = divmod(index, self.steps_per_epoch)
        with self.same_noise():
            loss, g = self.gradient(batch)
        if passes % (1 + self.passes) == 0:
            if place == 0:
                self.anchor = [p.detach().clone() for p in self.parameters]
                self.mean, self.weight = [torch.zeros_like(p) for p in self.parameters], 0.0
            own = float(len(batch) if batch.weight is None else batch.weight.sum())
            self.weight += own
            for mean, part in zip(self.mean, g, strict=True):
                mean.add_(part - mean, alpha=own / self.weight)  # eq. 1
            return loss
        _, then = self.gradient_at(self.anchor, batch)
        with torch.no_grad():
            for p, now, before, mean in zip(self.parameters, g, then, self.mean, strict=True):
                p.sub_(now - before + mean, alpha=self.step_size)  # eq. 2
        return loss

    def rate(self, index: int) -> float:
        return 0.0 if (index // self.steps_per_epoch) % (1 + self.passes) == 0 else self.step_size

    def state(self) -> Any:
        return {"anchor": list(self.anchor), "mean": list(self.mean), "weight": self.weight}

    def load_state(self, state: Any) -> None:
        device = self.parameters[0].device
        self.anchor, self.mean = ([t.to(device) for t in state[name]] for name in ("anchor", "mean"))
        self.weight = state["weight"]
