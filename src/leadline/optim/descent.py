"""Rules that go down the loss of a batch in ways that no torch optimizer can: they ask for more than one gradient.

    g(φ, batch) = ∇_φ Σ_i w_i loss_i / Σ_i w_i                                    (1)

Losses at places that are only tried leave no trace: buffers, such as the means of a batch norm, are copied for them,
and they draw the same random numbers as the step's own gradient.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from leadline.config import Configured
from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.objective import Objective
from leadline.optim.rule import Rule


class Descent(Rule, Configured):
    """What such rules share: the parameters by name, the loss and its gradient, here and elsewhere."""

    by_gradient = True

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        self.objective = Objective(model, likelihood)
        moved = {name: p for name, p in self.objective.named_parameters() if p.requires_grad}
        if not moved:
            raise UserError(
                f"{type(self).__name__} needs weights to train",
                got=f"a {type(model).__name__} without any",
                do="Unfreeze some",
            )
        self.names, self.parameters = list(moved), list(moved.values())

    @abstractmethod
    def step(self, batch: Batch, index: int) -> Tensor: ...

    def gradient(self, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Loss and g of eq. 1 at the weights as they are."""
        loss = self.objective.forward(batch)
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True, materialize_grads=True)
        return loss.detach(), list(found)

    def at(self, values: Sequence[Tensor], batch: Batch) -> Tensor:
        """The loss at other weights."""
        buffers = {name: buffer.clone() for name, buffer in self.objective.named_buffers()}
        named = dict(zip(self.names, values, strict=True))
        with self.same_noise():
            return functional_call(self.objective, (named, buffers), (batch,))

    def gradient_at(self, values: Sequence[Tensor], batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Loss and gradient at other weights."""
        places = [value.detach().requires_grad_() for value in values]
        with torch.enable_grad():
            loss = self.at(places, batch)
            found = torch.autograd.grad(loss, places, allow_unused=True, materialize_grads=True)
        return loss.detach(), list(found)

    def same_noise(self) -> AbstractContextManager[None]:
        """Inside, torch's generators begin where they are now; afterwards they are there again."""
        devices = {p.device for p in self.parameters if p.is_cuda}
        return torch.random.fork_rng(devices=list(devices))


def dot(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    """The inner product of two lists of tensors, taken as one vector each.

    >>> dot([torch.ones(2), torch.ones(1)], [torch.full((2,), 3.0), torch.zeros(1)])
    6.0
    """
    return float(torch.stack([(a.double() * b.double()).sum() for a, b in zip(first, second, strict=True)]).sum())


def without_batch_norm(rule: Rule, model: nn.Module) -> None:
    """Refuse layers whose answer for a row depends on the other rows of the batch and changes their own buffers."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise UserError(
                f"{type(rule).__name__} needs a model without batch normalisation",
                got=f"{type(module).__name__} at {name or 'the top'}",
                do="Use norm='layer', or leave rule out",
            )
