"""Exhaustive search: every set of weights on a grid is tried, so the best of them is certainly the best.

    φ* = argmin over φ in {-s, …, s}^P of Σ_i w_i loss_i(φ)                                  (1)

The only way of fitting that can promise that no lower loss lies elsewhere, on its grid; and only for very small models,
since P weights with l levels each make l^P candidates. One pass adds up the loss of each, the weights are then set.

Notation   s -> span;  l -> levels;  P weights
Use it     ll.fit(ll.models.Linear(2, 1), data, rule=ll.optim.Exhaustive(levels=21, span=4.0), epochs=1)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from leadline.config import Configured
from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.descent import without_batch_norm
from leadline.optim.rule import Rule
from leadline.settings import real, whole

MOST = 2**21  # candidates
_CHUNK = 2**22  # losses at a time


class Exhaustive(Rule, Configured):
    """Args:
        levels: values that each weight may take, evenly spread, at least 2.
        span: the largest of them; the least is -span. Above 0.

    After a pass `least` is the mean loss of the best candidate and `tried` their number.

    >>> from leadline.likelihoods import Normal
    >>> model, rule = nn.Linear(1, 1), Exhaustive(levels=5, span=2.0)
    >>> rule.bind(model, Normal(variance="fixed"), total_steps=1)
    >>> x = torch.tensor([[0.0], [1.0]])
    >>> loss = rule.step(Batch(x, 2 * x[:, 0] - 1), 0)
    >>> model.weight.item(), model.bias.item(), rule.tried
    (2.0, -1.0, 25)
    """

    latest_is_best = True

    def __init__(self, levels: int = 3, span: float = 1.0):
        self.levels = whole("levels", levels, 2, usual=3)
        self.span = real("span", span, 0, above=True, usual=1.0)

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        self.model, self.likelihood = model, likelihood
        without_batch_norm(self, model)
        self.named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.count = sum(p.numel() for p in self.named.values())
        if self.count == 0 or self.count * torch.tensor(float(self.levels)).log2() > torch.tensor(float(MOST)).log2():
            raise UserError(
                f"Exhaustive needs a model with at most {MOST:,} candidates, levels to the power of its weights",
                got=f"{self.levels} levels and {self.count:,} weights",
                do="Take fewer levels or a smaller model",
            )
        self.tried = self.levels**self.count
        self.least: float | None = None
        first = next(iter(self.named.values()))
        self.grid = torch.linspace(-self.span, self.span, self.levels, dtype=first.dtype, device=first.device)
        self.sums = torch.zeros(self.tried, device=first.device, dtype=torch.float64)
        self.weight = 0.0

    @torch.no_grad()
    def step(self, batch: Batch, index: int) -> Tensor:
        here = self.likelihood.loss(self.model(batch.x), batch.y)
        w = torch.ones_like(here) if batch.weight is None else batch.weight
        loss = (here * w).sum() / w.sum()
        if self.finished:
            return loss
        buffers = dict(self.model.named_buffers())

        def one(values: dict[str, Tensor]) -> Tensor:
            return (self.likelihood.loss(functional_call(self.model, (values, buffers), (batch.x,)), batch.y) * w).sum()

        several = vmap(one, randomness="same")
        for part in torch.arange(self.tried, device=self.sums.device).split(max(1, _CHUNK // len(batch))):
            self.sums[part] += several(self._weights(part)).double()
        self.weight += float(w.sum())
        if (index + 1) % self.steps_per_epoch == 0:
            best = torch.where(self.sums.isfinite(), self.sums, torch.inf).argmin()
            self.least, self.finished = float(self.sums[best]) / self.weight, True
            for name, value in self._weights(best[None]).items():
                self.named[name].copy_(value[0])  # eq. 1
        return loss

    def _weights(self, candidates: Tensor) -> dict[str, Tensor]:
        """The weights of some candidates, the digits of their numbers to the base `levels`, by name."""
        places = self.levels ** torch.arange(self.count, device=candidates.device)
        flat = self.grid[candidates[:, None] // places % self.levels]
        parts = flat.split([p.numel() for p in self.named.values()], 1)
        return {n: part.view(-1, *p.shape) for (n, p), part in zip(self.named.items(), parts, strict=True)}

    def state(self) -> Any:
        return {"sums": self.sums, "weight": self.weight, "least": self.least, "finished": self.finished}

    def load_state(self, state: Any) -> None:
        self.sums = state["sums"].to(self.sums.device)
        self.weight, self.least, self.finished = state["weight"], state["least"], state["finished"]
