"""Where a run stands: everything, beyond weights and the rule's memory, that decides what happens next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from leadline.likelihoods.likelihood import Likelihood

PLAIN = ("step", "epoch", "first_loss", "best_score", "best_epoch", "stale", "ended")


@dataclass
class State:
    """Args:
    step: steps done.
    epoch: epochs done.
    losses: losses of the steps of the epoch under way, in order.
    first_loss: of the first step: what divergence is measured against.
    best_score: of the best epoch; None before the first validation.
    best_epoch: its number; 0 before the first validation.
    best: its weights.
    stale: validations since the score last rose.
    ended: why the run is over; "" while it is not.
    """

    step: int = 0
    epoch: int = 0
    losses: list[Tensor] = field(default_factory=list)
    first_loss: float | None = None
    best_score: float | None = None
    best_epoch: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)
    stale: int = 0
    ended: str = ""

    def plain(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        return {name: getattr(self, name) for name in PLAIN}

    def epoch_losses(self) -> Tensor:
        """The losses of the epoch under way, as one tensor."""
        return torch.cat(self.losses) if self.losses else torch.zeros(0)


def weights(model: nn.Module, likelihood: Likelihood) -> dict[str, Tensor]:
    """Parameters and buffers of both, by name; views, not copies."""
    return {
        **{f"model.{name}": tensor for name, tensor in model.state_dict().items()},
        **{f"likelihood.{name}": tensor for name, tensor in likelihood.state_dict().items()},
    }


def copy(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same values in memory of their own."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


@torch.no_grad()
def put(target: dict[str, Tensor], source: dict[str, Tensor]) -> None:
    """Write values into the tensors that live in a model."""
    for name, tensor in target.items():
        tensor.copy_(source[name])
