"""Gauss-Newton for any small network: the loss's curvature in the output, carried to the weights by the Jacobian.

    C = Σ_i w_i J_iᵀ H_i J_i / Σ_i w_i,    J_i = ∂f_i / ∂φ,   H_i = ∂² loss_i / ∂f_i ∂f_iᵀ                 (1)

It is the Hessian without the term Σ ∂loss/∂f · ∂²f/∂φ², which vanishes where the fit is exact. For losses that are
convex in the output (squares, cross-entropies) C is never negative, so every damped step goes downhill; for an affine
map it is the Hessian itself. Numbers that the likelihood learns, such as a spread, stay as they are while the weights
move, and are settled at the end of the run.

Use it     ll.fit(ll.models.MLP(1, (20,), 1), data, rule=ll.optim.GaussNewton(), batch=10_000, epochs=50)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call, grad, jacrev, vmap

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.optim.curvature import Curvature

_CHUNK = 2**24  # numbers of the rows' Jacobians at a time


class GaussNewton(Curvature):
    """Args:
        damping: λ of the first step, at least 0; 0 takes pure steps.
        tolerance: loss still to be gained at which it ends, above 0.

    >>> from torch import nn
    >>> from leadline.likelihoods import Normal
    >>> x = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None]
    >>> model = nn.Linear(1, 1).double()
    >>> rule = GaussNewton(damping=0)
    >>> rule.bind(model, Normal(variance="fixed"), total_steps=1)
    >>> loss = rule.step(Batch(x, 2 * x[:, 0] + 1), 0)
    >>> round(model.weight.item(), 6), round(model.bias.item(), 6)
    (2.0, 1.0)
    """

    def __init__(self, damping: float = 1e-3, tolerance: float = 1e-12):
        super().__init__(damping, tolerance)

    def moved(self) -> list[Tensor]:
        return [p for name, p in zip(self.names, self.parameters, strict=True) if name.startswith("model.")]

    def curvature(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        model, likelihood = self.objective.model, self.objective.likelihood
        named = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
        buffers = dict(model.named_buffers())
        count = sum(p.numel() for p in named.values())
        w = torch.ones_like(batch.x.flatten(1)[:, 0]) if batch.weight is None else batch.weight
        w = w / w.sum()
        keys = batch.keys if batch.keys is not None else torch.zeros(len(batch), dtype=torch.int64, device=w.device)

        def output(values: dict[str, Tensor], x: Tensor, key: Tensor) -> Tensor:
            with noise.keyed(None if batch.keys is None else key[None]):
                return functional_call(model, (values, buffers), (x[None],))[0]

        def row_loss(out: Tensor, y: Tensor) -> Tensor:
            return likelihood.loss(out[None], y[None])[0]

        size = max(1, _CHUNK // max(1, count))
        g, matrix = w.new_zeros(count, dtype=torch.float64), w.new_zeros(count, count, dtype=torch.float64)
        total = w.new_zeros((), dtype=torch.float64)
        for x, y, key, share in zip(
            batch.x.split(size), batch.y.split(size), keys.split(size), w.split(size), strict=True
        ):
            out = vmap(output, (None, 0, 0), randomness="different")(named, x, key)
            slopes = vmap(jacrev(output), (None, 0, 0), randomness="different")(named, x, key)
            jacobian = torch.cat([part.reshape(len(x), out[0].numel(), -1) for part in slopes.values()], 2).double()
            first = vmap(grad(row_loss))(out, y).reshape(len(x), -1).double()
            second = vmap(jacrev(grad(row_loss)))(out, y).reshape(len(x), out[0].numel(), -1).double()
            total += (likelihood.loss(out, y).double() * share).sum()
            g += torch.einsum("bo,bop,b->p", first, jacobian, share.double())
            weighted = torch.einsum("bij,bjp,b->bip", second, jacobian, share.double())
            matrix += torch.einsum("bip,biq->pq", jacobian, weighted)  # eq. 1
        return total.to(w.dtype).detach(), g.detach(), matrix.detach()
