"""Rules that see every row before they move: sums are gathered over the batches of a pass, then the weights are set.

    S <- S + Σ_{i in batch} s(x_i, y_i)        for each batch         (1)
    φ <- move(φ, S),   S <- 0                  after the last one     (2)

So the result does not depend on the size of the batches, but for rounding, and rows need not fit into memory at once.
Sums are held in float64 whatever the type of the weights. They are part of the rule's state: a run that stops in
the middle of a pass goes on in the middle of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.models.fixed_joints import FixedJoints
from leadline.models.linear import Linear
from leadline.models.polynomial import Polynomial
from leadline.optim.rule import Rule


class PassRule(Rule, Configured):
    """A rule that moves an affine map, of the inputs or of their powers, once for each pass over the rows.

    `steps_per_epoch` is told before `bind`; a rule that is stepped by hand takes every batch for a whole pass. It is
    `finished` when the weights have reached their end.
    """

    latest_is_best = True  # the end of a convex problem is the answer, whatever validation says of the way there

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        self.model, self.likelihood, self.total_steps = model, likelihood, total_steps
        self.map, self.features = _affine_map(self, model)
        weight = self.map.weight
        # float64 is not everywhere
        self.device = torch.device("cpu") if weight.device.type == "mps" else weight.device
        self.sums: dict[str, Tensor] = {}

    @torch.no_grad()
    def step(self, batch: Batch, index: int) -> Tensor:
        loss = self.gather(batch)
        if (index + 1) % self.steps_per_epoch == 0 and not self.finished:
            self.move(last=index + 1 == self.total_steps)
            self.sums = {}
        return loss.detach().to(batch.x.device, self.map.weight.dtype)

    @abstractmethod
    def gather(self, batch: Batch) -> Tensor:
        """Add the batch's part of the sums (1); its mean loss."""

    @abstractmethod
    def move(self, last: bool) -> None:
        """Set the weights from the sums of a whole pass (2); `last` tells that no pass follows."""

    def add(self, **parts: Tensor) -> None:
        """Add to the sums of these names."""
        for name, part in parts.items():
            self.sums[name] = self.sums[name] + part if name in self.sums else part

    def rows(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What the map reads (B, d) and weights (B,), in float64."""
        x = self.features(batch.x.to(self.device, torch.float64))
        weight = x.new_ones(len(x)) if batch.weight is None else batch.weight.to(x)
        return x, weight

    def put(self, slopes: Tensor, offsets: Tensor | None) -> None:
        """Write the affine map."""
        self.map.weight.copy_(slopes)
        if self.map.bias is not None and offsets is not None:
            self.map.bias.copy_(offsets)

    def state(self) -> Any:
        return {"sums": dict(self.sums), "finished": self.finished}

    def load_state(self, state: Any) -> None:
        self.sums = {name: tensor.to(self.device, torch.float64) for name, tensor in state["sums"].items()}
        self.finished = state["finished"]


def _affine_map(rule: Rule, model: nn.Module) -> tuple[nn.Linear, Callable[[Tensor], Tensor]]:
    """The map, and what takes inputs to the rows that it reads."""
    if isinstance(model, (Polynomial, FixedJoints)):
        return model.map, model.features
    if isinstance(model, (Linear, nn.Linear)):
        return model.map if isinstance(model, Linear) else model, lambda x: x.flatten(1)
    name = type(rule).__name__
    raise UserError(
        f"{name} needs a model that is one affine map",
        got=f"a {type(model).__name__}",
        do=f"Use ll.models.Linear with {name}, or leave rule out to train a {type(model).__name__} by gradient descent",
    )


def solve(matrix: Tensor, right: Tensor) -> Tensor:
    """The a of least norm among those that come closest to `matrix` a = `right`, for a symmetric matrix >= 0.

    By Cholesky; where the matrix is singular to rounding, by its eigenvectors with those of eigenvalue 0 left out.
    Rows and columns are scaled to a diagonal of ones first, and "norm" is meant in those units: columns of very
    different size do not count as singular.

    >>> solve(torch.full((2, 2), 2.0).double(), torch.full((2, 1), 4.0).double()).flatten().round(decimals=9).tolist()
    [1.0, 1.0]
    """
    scaled, scale = _unit_diagonal(matrix)
    tiny = 10 * len(matrix) * torch.finfo(matrix.dtype).eps
    factor, failed = torch.linalg.cholesky_ex(scaled)
    if not bool(failed) and bool(factor.diagonal().min() ** 2 > tiny):
        return torch.cholesky_solve(right / scale, factor) / scale
    values, vectors = torch.linalg.eigh(scaled)
    inverse = torch.where(values > tiny * values[-1].clamp(min=tiny), 1 / values, 0.0)
    return vectors @ (inverse[:, None] * (vectors.T @ (right / scale))) / scale


def least_pivot(matrix: Tensor) -> float:
    """How far a symmetric matrix is from singular: the least square of its Cholesky factor's diagonal, at most 1.

    >>> least_pivot(torch.eye(3)), least_pivot(torch.ones(2, 2)) < 1e-6
    (1.0, True)
    """
    factor, failed = torch.linalg.cholesky_ex(_unit_diagonal(matrix)[0])
    return 0.0 if bool(failed) else float(factor.diagonal().min() ** 2)


def _unit_diagonal(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix with rows and columns scaled to a diagonal of ones, and the scale, (n, 1)."""
    root = matrix.diagonal().clamp(min=0).sqrt()
    scale = torch.where(root > 0, root, 1.0)[:, None]
    return matrix / scale / scale.T, scale
