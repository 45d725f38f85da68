"""The loss of some rows as a function of all weights at once.

    L(φ) = Σ_i w_i l(f(x_i, φ), y_i) / Σ_i w_i                                           (1)

The module runs in evaluation mode: dropout off, norms with the statistics that they have. The likelihood's own
parameters stay as they are, and penalties are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from leadline.errors import UserError
from leadline.lens.path import flat, unflat
from leadline.lens.rows import Rows, loss_of, rows_of
from leadline.settings import whole


class Landscape:
    """Eq. 1 for a sample of rows, at most `most` of them, evenly spread.

    >>> from leadline.data import moons
    >>> from leadline.lens.at_rest import at_rest
    >>> net = nn.Linear(2, 1)
    >>> with at_rest(net):
    ...     landscape = Landscape(net, moons(num=60), None, "train", 2000)
    ...     landscape.moved(torch.zeros(3)) == float(landscape.loss(landscape.centre))
    True
    """

    def __init__(self, model: nn.Module, data: Any, likelihood: Any, split: str, most: int):
        rows: Rows = rows_of(data, split)
        step = max(1, -(-len(rows.y) // whole("most", most)))
        self.model, self.each = model, loss_of(rows, likelihood)
        self.x = rows.encoded(model)[::step]
        self.y = rows.y[::step].to(self.x.device)
        if self.y.is_floating_point():
            self.y = self.y.to(self.x.dtype)
        weight = torch.ones(len(self.y)) if rows.weight is None else rows.weight[::step]
        self.weight = (weight.double() / weight.double().mean()).to(self.x.device)  # 1 on average
        if not any(p.is_floating_point() for p in model.parameters()):
            raise UserError(
                "a model must have parameters to have a loss over them",
                got=f"none in {type(model).__name__}",
                do="Look at a model that learns",
            )
        self.centre = flat(model)
        #: 1 for weights that learn, 0 for those that are frozen
        self.learns = torch.cat([torch.full((p.numel(),), float(p.requires_grad)) for p in model.parameters()])
        self.learns = self.learns.to(self.centre)

    def loss(self, weights: Tensor, rows: Tensor | slice = slice(None)) -> Tensor:
        """Eq. 1 at a flat row of weights, which may ask for its gradient; of all rows, or of those given."""
        output = functional_call(self.model, unflat(self.model, weights), (self.x[rows],))
        loss = self.each(output, self.y[rows]).double()
        return (loss * self.weight[rows]).mean()

    def moved(self, shift: Tensor) -> float:
        """The loss at a displacement of the model's own weights."""
        return float(self.loss(self.centre + shift.to(self.centre)))

    def gradient(self, weights: Tensor, rows: Tensor | slice = slice(None)) -> Tensor:
        """Of eq. 1, flat; 0 for weights that the loss does not read."""
        with torch.enable_grad():
            w = weights.detach().requires_grad_()
            return torch.autograd.grad(self.loss(w, rows), w)[0]

    def curvature(self, weights: Tensor) -> Callable[[Tensor], Tensor]:
        """v ↦ H v, the Hessian of eq. 1 times a vector, by a second backward pass through the gradient's own graph."""
        with torch.enable_grad():
            w = weights.detach().requires_grad_()
            (g,) = torch.autograd.grad(self.loss(w), w, create_graph=True)
        if not g.requires_grad:  # a loss that is linear in the weights
            return torch.zeros_like
        return lambda v: torch.autograd.grad(g, w, v, retain_graph=True)[0]
