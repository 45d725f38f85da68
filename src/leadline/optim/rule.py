"""How parameters move. Gradient descent is one rule; perceptron, Hebb, closed forms and Newton are others.

A rule is bound once to a model and a likelihood, then asked for steps. Everything it remembers between steps is in
`state()`, as tensors and plain values, so that any rule can be checkpointed and resumed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.likelihoods.likelihood import Likelihood


class Rule(ABC):
    """One way of learning from batches."""

    #: how many batches `steps` likes to receive at once
    steps_per_call: int = 1
    #: how many batches make one pass over the rows; set before `bind`
    steps_per_epoch: int = 1
    #: whether further steps would change nothing; the run then ends after the epoch
    finished: bool = False
    #: whether it follows the loss step by step, so that what it learned may still be on its way at the end
    by_gradient: bool = False
    #: whether the last weights are the answer, whatever validation says of earlier ones
    latest_is_best: bool = False

    @abstractmethod
    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        """Meet the parameters that this rule will move."""

    @abstractmethod
    def step(self, batch: Batch, index: int) -> Tensor:
        """Move the parameters once, as step number `index`; the batch's mean loss before the move, detached."""

    def steps(self, batches: Sequence[Batch], index: int) -> Tensor:
        """Move once for each batch, the first being step `index`; their losses, shape (len(batches),)."""
        if len(batches) == 1:
            return self.step(batches[0], index).view(1)
        return torch.stack([self.step(batch, index + k) for k, batch in enumerate(batches)])

    def rate(self, index: int) -> float:
        """The learning rate of step `index`, for the record; 0 for rules without one."""
        return 0.0

    def state(self) -> Any:
        """Nested dicts and lists of tensors and plain values."""
        return {}

    def load_state(self, state: Any) -> None:
        """Take up what `state` returned, possibly in another process."""
