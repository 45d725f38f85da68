"""The loss of a small model as a function of its weights: in float64, differentiable, at many places at once.

    L(φ) = Σ_i w_i l_i(φ) / Σ_i w_i + penalty(φ),     L_b(φ) the same over the rows of a batch b          (1)

A copy of the model in evaluation mode is asked; the model itself is not touched. Meant for few weights: Hessians are
built whole.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, vmap

from leadline.errors import UserError
from leadline.lens.path import flat, unflat
from leadline.lens.rows import loss_of, rows_of
from leadline.settings import given

_CHUNK = 4096  # places that are computed together


class WeightLoss:
    """Args:
        model: whose weights are φ.
        data: Data, a Split, or a pair (x, y) of the network's own inputs.
        likelihood: a family, or a function of (output, y) that gives a loss a row; None takes the target's.
        penalty: a function of φ that is added; None adds nothing.

    >>> net = nn.Linear(1, 1)
    >>> squares = lambda output, y: (output[:, 0] - y).square()
    >>> loss = WeightLoss(net, (torch.tensor([[0.0], [2.0]]), torch.tensor([1.0, 1.0])), squares)
    >>> loss.names, float(loss(torch.tensor([1.0, 0.0], dtype=torch.float64)))  # slope 1, offset 0
    (('weight[0, 0]', 'bias[0]'), 1.0)
    """

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        likelihood: Any = None,
        split: str = "train",
        penalty: Callable[[Tensor], Tensor] | None = None,
    ):
        if not isinstance(model, nn.Module):
            raise UserError("a lens looks at a torch module", got=given("model", model), do="Pass run.model")
        self.model = copy.deepcopy(model).cpu().double().eval().requires_grad_(False)
        rows = rows_of(data, split)
        self._each = copy.deepcopy(loss_of(rows, likelihood))
        family = getattr(self._each, "__self__", None)
        if isinstance(family, nn.Module):  # what it has learned stays as it is
            family.cpu().double().requires_grad_(False)
        self.x = rows.encoded(self.model)
        self.y = rows.y.double().cpu() if rows.y.is_floating_point() else rows.y.cpu()
        self.weight = torch.ones(len(self.y)) if rows.weight is None else rows.weight
        self.weight = self.weight.double().cpu()
        self.raw, self.inputs = rows.raw, rows.inputs
        self.centre = flat(self.model)
        self.penalty = (lambda phi: 0.0) if penalty is None else penalty
        self.names = tuple(name for name, p in self.model.named_parameters() for name in _places(name, p))

    def each(self, phi: Tensor) -> Tensor:
        """The loss of each row, (B,)."""
        output = functional_call(self.model, unflat(self.model, phi), (self.x,))
        return self._each(output, self.y).double()

    def __call__(self, phi: Tensor) -> Tensor:
        """Eq. 1 of all rows."""
        return (self.each(phi) * self.weight).sum() / self.weight.sum() + self.penalty(phi)

    def of_batch(self, rows: Tensor | Sequence[int]) -> Any:
        """Eq. 1 of some rows, as a function of φ."""
        index = torch.as_tensor(rows)
        weight = self.weight[index]
        return lambda phi: (self.each(phi)[index] * weight).sum() / weight.sum() + self.penalty(phi)

    def output(self, phi: Tensor, x: Tensor) -> Tensor:
        """What the model answers to the network's inputs x at weights φ."""
        return functional_call(self.model, unflat(self.model, phi), (x.double(),))

    # ── at many places: φ is (n, P) ──

    def losses(self, phi: Tensor) -> Tensor:
        """(n,)"""
        return at_many(self, phi)

    def gradients(self, phi: Tensor) -> Tensor:
        """(n, P)"""
        return at_many(grad(self), phi)

    def hessians(self, phi: Tensor) -> Tensor:
        """(n, P, P)"""
        return at_many(hessian(self), phi)


def at_many(function: Any, phi: Tensor) -> Tensor:
    """A function of one vector, at each row of φ.

    >>> at_many(lambda row: row.sum(), torch.ones(3, 2)).tolist()
    [2.0, 2.0, 2.0]
    """
    if not len(phi):
        return at_many(function, phi.new_zeros(1, phi.shape[1]))[:0]
    return vmap(function, chunk_size=_CHUNK)(phi).detach()


def grid_of(window: Any, num: int) -> tuple[Tensor, Tensor, Tensor]:
    """Coordinates of a grid over a window of two weights, and all its points, (num · num, 2), the first fastest."""
    first, second = (torch.linspace(low, high, num, dtype=torch.float64) for low, high in window)
    along, across = torch.meshgrid(first, second, indexing="xy")
    return first, second, torch.stack([along.flatten(), across.flatten()], dim=1)


def window_of(window: Any, centre: Tensor) -> tuple[tuple[float, float], ...]:
    """One (least, largest) for each weight; by default as far to each side as the weight is large, and at least 1."""
    if window is None:
        reach = centre.abs().clamp(min=1.0)
        return tuple((float(c - r), float(c + r)) for c, r in zip(centre, reach))
    try:
        ends = tuple((float(low), float(high)) for low, high in window)
        fits = len(ends) == len(centre) and all(low < high for low, high in ends)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise UserError(
            f"window must be an ascending pair for each of the {len(centre)} weights",
            got=given("window", window),
            do="Write window=((-10, 10), (2.5, 22.5)) for two weights",
        )
    return ends


def two_weights(loss: WeightLoss, what: str) -> None:
    """Refuse a model that is no surface."""
    if len(loss.centre) != 2:
        raise UserError(
            f"{what} must have a model of two weights",
            got=f"{len(loss.centre):,} of them",
            do="Use ll.models.Gabor() or a line, or ll.lens.loss_surface for a plane through more weights",
        )


def _places(name: str, p: Tensor) -> list[str]:
    if p.ndim == 0:
        return [name]
    return [f"{name}[{', '.join(map(str, place))}]" for place in torch.cartesian_prod(
        *(torch.arange(n) for n in p.shape)).view(-1, p.ndim).tolist()]  # fmt: skip
