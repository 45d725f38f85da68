"""Every row votes for its answer, and one pass is enough.

    v_r <- v_r + w (2y - 1)        for each row of bits r with answer y and weight w        (1)

Rows that contradict each other are outvoted; a row of bits that never came has no vote.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods.bernoulli import Bernoulli
from leadline.likelihoods.likelihood import Likelihood
from leadline.models.boolean import Boolean
from leadline.optim.rule import Rule


class Votes(Rule, Configured):
    """Fill the truth table of a Boolean function.

    >>> import leadline as ll
    >>> data = ll.data.arrays([[0, 0], [0, 1], [1, 0], [1, 1]] * 5, [0, 1, 1, 0] * 5)
    >>> run = ll.fit(ll.models.Boolean(2), data, rule=ll.optim.Votes(), epochs=1, progress=False)
    >>> run.evaluate("test")["accuracy"], run.model.circuit().truth_table().flatten().tolist()
    (1.0, [0, 1, 1, 0])
    """

    #: what was counted is the answer, whatever validation says
    latest_is_best = True

    def __init__(self) -> None:
        self._steps = 0

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        if not isinstance(model, Boolean) or not isinstance(likelihood, Bernoulli):
            raise UserError(
                "Votes needs a Boolean model and a Bernoulli likelihood",
                got=f"a {type(model).__name__} and {type(likelihood).__name__}",
                do="Use ll.models.Boolean on a target of two classes, or leave the rule out",
            )
        self.model, self.likelihood = model, likelihood

    @torch.no_grad()
    def step(self, batch: Batch, index: int) -> Tensor:
        loss = self.likelihood.loss(self.model(batch.x), batch.y).mean()
        if not self.finished:  # a second pass would only count every row twice
            weight = torch.ones_like(loss).expand(len(batch)) if batch.weight is None else batch.weight
            votes = self.model.votes
            votes.index_add_(0, self.model.row(batch.x), (weight * (2 * batch.y - 1)).to(votes)[:, None])  # eq. 1
        self._steps += 1
        self.finished = self._steps >= self.steps_per_epoch
        return loss

    def state(self) -> Any:
        return {"steps": self._steps}

    def load_state(self, state: Any) -> None:
        self._steps = state["steps"]
        self.finished = self._steps >= self.steps_per_epoch
