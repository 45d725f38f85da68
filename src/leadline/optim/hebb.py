"""Hebb's rule: what fires together is wired together (Hebb, 1949). One pass stores every pattern; nothing descends.

    W <- W + (1/n) ξ ξᵀ,   W_ii = 0                           (1)   Hopfield
    room t <- ξ                                               (2)   DenseMemory, ModernHopfield

Stored is y, the pattern as it should be. A second pass would only write it twice as strongly: rows that are stored
already are left out, and the rule says that it is done.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.models.dense_memory import DenseMemory
from leadline.models.hopfield import Hopfield
from leadline.models.modern_hopfield import ModernHopfield
from leadline.optim.rule import Rule


class Hebb(Rule, Configured):
    """Store the training patterns of an associative memory.

    >>> import leadline as ll
    >>> data = ll.data.patterns(5, 100, corrupted=0.2)
    >>> run = ll.fit(ll.models.Hopfield(100), data, rule=ll.optim.Hebb(), epochs=1, progress=False)
    >>> run.evaluate("test")["recalled"]
    1.0
    """

    #: batches an epoch, told before `bind`; 0 where rows are stored by hand
    steps_per_epoch: int = 0
    #: what is stored is the answer, whatever validation says
    latest_is_best = True

    def __init__(self) -> None:
        self._steps = 0
        self._stored = torch.zeros(0, dtype=torch.bool)

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        if not isinstance(model, (Hopfield, DenseMemory, ModernHopfield)):
            raise UserError(
                "Hebb's rule needs a model of memory",
                got=f"a model of type {type(model).__name__}",
                do="Use Hopfield, DenseMemory or ModernHopfield, or leave the rule out",
            )
        self.model, self.likelihood = model, likelihood

    @property
    def stored(self) -> int:
        """How many training patterns are in the memory."""
        return int(self._stored.sum())

    @torch.no_grad()
    def step(self, batch: Batch, index: int) -> Tensor:
        model = self.model
        before = model.field(batch.y) if isinstance(model, Hopfield) else model(batch.x)
        loss = self.likelihood.loss(before, batch.y).mean()
        new = self._new(batch)
        if bool(new.any()):
            if isinstance(model, ModernHopfield):
                model.store(batch.x[new].flatten(1), batch.y[new])
            else:
                model.store(batch.y[new])
        self._steps += 1
        self.finished = self._steps >= self.steps_per_epoch > 0
        return loss

    def _new(self, batch: Batch) -> Tensor:
        """Which rows are not stored yet; they will be."""
        if batch.example is None:
            return torch.ones(len(batch), dtype=torch.bool, device=batch.y.device)
        rows = batch.example.cpu()
        if len(self._stored) <= int(rows.max()):
            grown = torch.zeros(int(rows.max()) + 1, dtype=torch.bool)
            grown[: len(self._stored)] = self._stored
            self._stored = grown
        new = ~self._stored[rows]
        self._stored[rows] = True
        return new.to(batch.y.device)

    def state(self) -> Any:
        return {"stored": self._stored, "steps": self._steps}

    def load_state(self, state: Any) -> None:
        self._stored, self._steps = state["stored"].cpu(), state["steps"]
        self.finished = self._steps >= self.steps_per_epoch > 0
