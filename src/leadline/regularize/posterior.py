"""Distributions over weights around a trained network: Laplace's approximation, and SWAG from the way of SGD.

    φ ~ N(φ̂, T Σ)                                                                                       (1)
    Laplace   Σ^-1 = Σ_i J_iᵀ Λ_i J_i + τ I,   J_i = ∂output_i/∂φ,  Λ_i = ∂²loss_i/∂output_i²           (2)
    SWAG      φ̂ = mean of snapshots,  Σ = ½ diag(variances) + D Dᵀ / (2 (K - 1)),  D = the last K deviations    (3)
    p(y | x) ≈ (1/S) Σ_s p(y | x, φ_s)                                                                 (4)

For a linear model with normal noise and prior (2) is the exact posterior. τ = 1/s² for a prior N(0, s² I). Temperature
T below 1 gives a cold posterior, which has often predicted better than theory would have it. (2) is kept whole, of the
last layer or of all parameters where there are few; the curvature is that of the generalised Gauss-Newton matrix.

Paper      MacKay, 1992; Maddox et al., 2019; Wenzel et al., 2020
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian, jacrev, vmap

from leadline.errors import UserError
from leadline.regularize.several import Several
from leadline.regularize.trained import Trained, at_rest, encoded
from leadline.settings import real, whole

_MOST = 4000  # parameters whose covariance is kept whole: 128 MB
_ROWS = 256


@dataclass(frozen=True, eq=False)
class Posterior:
    """A normal distribution over some parameters of a trained model (1).

    Args:
        names: of the parameters; all others stay.
        mean: φ̂, flat.
        root: (P, R), whose product with itself is a part of Σ.
        diagonal: (P,), deviations of the rest of Σ; 0 where there is none.
        temperature: T.
    """

    trained: Trained
    names: tuple[str, ...]
    mean: Tensor
    root: Tensor
    diagonal: Tensor
    temperature: float = 1.0

    @property
    def covariance(self) -> Tensor:
        """T Σ, (P, P)."""
        return self.temperature * (self.root @ self.root.mT + self.diagonal.square().diag())

    def draw(self, count: int, seed: int = 0) -> Tensor:
        """Flat parameters, (count, P)."""
        g = torch.Generator().manual_seed(whole("seed", seed, 0))
        wide = torch.randn(count, self.root.shape[1], generator=g, dtype=torch.float64).to(self.root)
        each = torch.randn(count, len(self.mean), generator=g, dtype=torch.float64).to(self.root)
        return self.mean + self.temperature**0.5 * (wide @ self.root.mT + each * self.diagonal)

    @torch.no_grad()
    def predict(self, rows: Any, draws: int = 50, seed: int = 0) -> Several:
        """Eq. 4: what networks drawn from the posterior say of raw rows."""
        model, x = self.trained.model, encoded(self.trained, rows)
        named = dict(model.named_parameters())
        shapes = [named[name].shape for name in self.names]
        parts = []
        with at_rest(model):
            for flat in self.draw(whole("draws", draws), seed):
                pieces = flat.split([shape.numel() for shape in shapes])
                weights = {
                    name: piece.view(shape).to(x) for name, piece, shape in zip(self.names, pieces, shapes, strict=True)
                }
                parts.append(self.trained.likelihood.prediction(functional_call(model, weights, (x,))))
        return Several.of(parts)


def laplace(
    trained: Trained, rows: Any, y: Tensor, prior: float = 1.0, which: str | None = None, temperature: float = 1.0
) -> Posterior:
    """Eq. 2, around the weights as they are.

    Args:
        trained: a run, or a `Member`.
        rows, y: what it was trained on.
        prior: s, deviation of the prior of each parameter, above 0.
        which: a pattern of parameter names, such as "*" for all or "head.*"; the last linear map where it is left out.
        temperature: T, above 0.

    >>> import leadline as ll
    >>> data = ll.data.line(num=60)
    >>> run = ll.fit(ll.models.Linear(1, 1), data, epochs=5, progress=False)
    >>> posterior = laplace(run, data.train.x, data.train.y)
    >>> posterior.names, tuple(posterior.covariance.shape)
    (('map.weight', 'map.bias'), (2, 2))
    """
    real("prior", prior, 0, above=True, usual=1.0)
    real("temperature", temperature, 0, above=True, usual=1.0)
    model, likelihood = trained.model, trained.likelihood
    named = {name: p.detach() for name, p in model.named_parameters()}
    names = _chosen(model, which)
    count = sum(named[name].numel() for name in names)
    if count > _MOST:
        raise UserError(
            f"parameters must be at most {_MOST:,} to keep their covariance whole",
            got=f"{count:,} that match {which!r}" if which else f"{count:,} in the last layer",
            do="Name fewer of them with which=…, or use swag",
        )
    own = {name: named[name].double() for name in names}
    rest = {name: t.double() for name, t in (*named.items(), *model.named_buffers()) if t.is_floating_point()}
    x, y = encoded(trained, rows).double(), y.to(next(iter(named.values())).device)
    head = {name: t.double() for name, t in (*likelihood.named_parameters(), *likelihood.named_buffers())}

    def output(weights: dict[str, Tensor], row: Tensor) -> Tensor:
        return functional_call(model, {**rest, **weights}, (row[None],))[0]

    def loss(out: Tensor, target: Tensor) -> Tensor:
        return functional_call(_Loss(likelihood), {f"likelihood.{n}": t for n, t in head.items()}, (out, target))

    precision = torch.eye(count, dtype=torch.float64, device=x.device) / prior**2
    y = y.double() if y.is_floating_point() else y
    with at_rest(model), torch.no_grad():
        for part, target in zip(x.split(_ROWS), y.split(_ROWS), strict=True):
            slopes = vmap(jacrev(output), (None, 0))(own, part)
            J = torch.cat([slopes[name].flatten(2) for name in names], dim=2)  # noqa: N806 - (B, outputs, P)
            bend = vmap(hessian(loss))(vmap(output, (None, 0))(own, part), target)  # Λ, (B, outputs, outputs)
            precision += torch.einsum("bip,bij,bjq->pq", J, bend, J)  # eq. 2
    lower = torch.linalg.cholesky(precision)
    root = torch.linalg.solve_triangular(lower, torch.eye(count).to(lower), upper=False).mT  # Σ = L^-T L^-1
    mean = torch.cat([own[name].flatten() for name in names])
    return Posterior(trained, names, mean, root, torch.zeros_like(mean), float(temperature))


def swag(
    trained: Trained, snapshots: Sequence[Mapping[str, Tensor]], rank: int = 20, temperature: float = 1.0
) -> Posterior:
    """Eq. 3, from snapshots of the parameters along gradient descent at a rate that keeps moving.

    Args:
        trained: whose model the snapshots are of.
        snapshots: parameters by name, at least 2 of them, such as those of `Snapshots`.
        rank: K, the number of deviations that are kept, at least 2.
        temperature: T, above 0.

    >>> import leadline as ll
    >>> model = ll.models.Linear(2, 1)
    >>> kept = ll.regularize.Snapshots(model, start=3)
    >>> run = ll.fit(model, ll.data.moons(num=90), epochs=8, schedule="constant", listeners=[kept], progress=False)
    >>> posterior = swag(run, kept.weights)
    >>> posterior.root.shape
    torch.Size([3, 6])
    """
    real("temperature", temperature, 0, above=True, usual=1.0)
    if len(snapshots) < 2:
        raise UserError("swag needs at least 2 snapshots", got=f"{len(snapshots)}", do="Train for more epochs")
    names = tuple(snapshots[0])
    flat = torch.stack([torch.cat([one[name].detach().double().flatten() for name in names]) for one in snapshots])
    off = flat - flat.mean(0)
    last = off[-whole("rank", rank, 2) :]
    root = last.mT / (2 * (len(last) - 1)) ** 0.5
    return Posterior(trained, names, flat.mean(0), root, (off.square().mean(0) / 2).sqrt(), float(temperature))


class _Loss(nn.Module):
    """The loss of one row as a module, so that the likelihood's own numbers can be in float64."""

    def __init__(self, likelihood: nn.Module):
        super().__init__()
        self.likelihood = likelihood

    def forward(self, out: Tensor, target: Tensor) -> Tensor:
        return self.likelihood.loss(out[None], target[None])[0]  # type: ignore[operator]


def _chosen(model: nn.Module, which: str | None) -> tuple[str, ...]:
    """Names of the parameters that match, or those of the last linear map."""
    names = [name for name, _ in model.named_parameters()]
    if which is None:
        maps = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
        which = f"{maps[-1]}.*" if maps and maps[-1] else "*"
    found = tuple(name for name in names if fnmatchcase(name, which))
    if not found:
        raise UserError("which must match some parameter", got=f"which={which!r}", do=f"Names are {', '.join(names)}")
    return found
