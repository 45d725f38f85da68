"""Bayesian linear regression: not the best weights, but how probable all of them are, in closed form.

    t = aᵀφ + σ ε,   φ ~ N(0, σ0² I)                      a = features of x, and 1          (1)
    Σ⁻¹ = Σ_i w_i a_i a_iᵀ / σ² + I / σ0²,    μ = Σ (Σ_i w_i a_i t_i) / σ²                   (2)   φ | rows ~ N(μ, Σ)
    t* ~ N(a*ᵀμ, a*ᵀΣa* + σ²)                                                                (3)   averaged over all φ
    t = (y - shift) / scale                                                                  (4)   the likelihood's unit

The model ends with the posterior's mean as its weights, which is least squares with a ridge of σ²/σ0² on offset and
slopes alike. `posterior` holds the rest: what the whole infinite ensemble answers, and members drawn from it.

Notation   σ -> deviation,  σ0 -> prior, both in units of the target's deviation;  w -> the rows' weights
Use it     run = ll.fit(ll.models.FixedJoints(1, 10), data, rule="BayesianLinear", epochs=1); run.rule.posterior
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import FLOOR, PACE
from leadline.likelihoods.normal import Normal
from leadline.optim.passes import PassRule
from leadline.settings import real, whole


@dataclass(frozen=True, eq=False)
class Posterior:
    """Which weights, and how surely (2).

    Args:
        mean: (outputs, d + 1), the offset last.  covariance: (d + 1, d + 1), the same for each output.
        deviation: σ.  shift, scale: of (4), one per output.
        features: takes the network's inputs to a without its 1.
    """

    mean: Tensor
    covariance: Tensor
    deviation: float
    shift: Tensor
    scale: Tensor
    features: Callable[[Tensor], Tensor]

    @torch.no_grad()
    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of a new y at each row of x (3), (B, outputs) each, in y's own unit."""
        a = self._rows(x)
        spread = (torch.einsum("bi,ij,bj->b", a, self.covariance, a) + self.deviation**2).sqrt()[:, None]
        return self.shift + self.scale * (a @ self.mean.T), self.scale * spread

    @torch.no_grad()
    def draw(self, x: Tensor, num: int = 1, seed: int = 0) -> Tensor:
        """Functions drawn from the posterior, without noise: their values at x, (num, B, outputs)."""
        generator = torch.Generator().manual_seed(whole("seed", seed, 0))
        root = torch.linalg.cholesky(self.covariance)
        z = torch.randn(whole("num", num), *self.mean.shape, generator=generator, dtype=torch.float64).to(root)
        return self.shift + self.scale * (self._rows(x) @ (self.mean + z @ root.T).transpose(1, 2))

    def _rows(self, x: Tensor) -> Tensor:
        return torch.nn.functional.pad(self.features(x.to(self.mean)), (0, 1), value=1.0)


class BayesianLinear(PassRule):
    """Args:
        prior: deviation of each weight before any row is seen, σ0, above 0.
        deviation: of the rows about the function, σ, above 0.

    >>> from leadline.models import Linear
    >>> model, rule = Linear(1, 1), BayesianLinear(prior=10.0, deviation=0.1)
    >>> rule.bind(model, Normal(), total_steps=1)
    >>> x = torch.arange(4.0)[:, None]
    >>> _ = rule.step(Batch(x, 2 * x.flatten() + 1), 0)
    >>> mean, deviation = rule.posterior.predict(torch.tensor([[1.5], [30.0]]))
    >>> mean.flatten().round(decimals=1).tolist(), deviation.flatten().round(decimals=2).tolist()
    ([4.0, 61.0], [0.11, 1.28])
    """

    def __init__(self, prior: float = 1.0, deviation: float = 0.3):
        self.prior = real("prior", prior, 0, above=True, usual=1.0)
        self.deviation = real("deviation", deviation, 0, above=True, usual=0.3)
        self._found: dict[str, Tensor] = {}

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        if not isinstance(likelihood, Normal) or likelihood.variance == "input":
            raise UserError(
                "BayesianLinear needs a Normal likelihood with one variance for all rows",
                got="Normal(variance='input')" if isinstance(likelihood, Normal) else type(likelihood).__name__,
                do="Use Normal(), or leave rule out",
            )
        super().bind(model, likelihood, total_steps)
        if self.map.bias is None:
            raise UserError(
                "BayesianLinear needs a linear map with a bias", got="bias=False", do="Build it with bias=True"
            )

    @property
    def posterior(self) -> Posterior:
        """What is known of the weights after a pass over the rows."""
        if not self._found:
            raise UserError(
                "a posterior needs rows", got="a rule that has seen none", do="Call fit with this rule first"
            )
        shift, scale = self._unit()
        return Posterior(self._found["mean"], self._found["covariance"], self.deviation, shift, scale, self.features)

    def gather(self, batch: Batch) -> Tensor:
        losses = self.likelihood.loss(self.model(batch.x), batch.y)
        if not self.finished:
            x, w = self.rows(batch)
            a = torch.nn.functional.pad(x, (0, 1), value=1.0)
            shift, scale = self._unit()
            t = (batch.y.to(a).view(len(a), -1) - shift) / scale  # eq. 4
            self.add(gram=(a * w[:, None]).T @ a, right=(a * w[:, None]).T @ t)
        return losses.mean() if batch.weight is None else (losses * batch.weight).sum() / batch.weight.sum()

    def move(self, last: bool) -> None:
        gram = self.sums["gram"] / self.deviation**2
        precision = gram + torch.eye(len(gram)).to(gram) / self.prior**2
        covariance = torch.cholesky_inverse(torch.linalg.cholesky(precision))
        mean = (covariance @ self.sums["right"] / self.deviation**2).T  # eq. 2
        self._found = {"mean": mean, "covariance": covariance}
        self.put(mean[:, :-1], mean[:, -1])
        normal = cast(Normal, self.likelihood)
        if normal.variance == "learned":  # softplus(ρ) + floor = σ
            normal.rho.fill_(float(torch.tensor(max(self.deviation - FLOOR, 1e-2 * FLOOR)).expm1().log()) / PACE)
        self.finished = True

    def _unit(self) -> tuple[Tensor, Tensor]:
        normal = cast(Normal, self.likelihood)
        return normal._shift.to(self.device, torch.float64), normal._scale.to(self.device, torch.float64)

    def state(self) -> Any:
        return {**super().state(), "found": dict(self._found)}

    def load_state(self, state: Any) -> None:
        super().load_state(state)
        self._found = {name: tensor.to(self.device, torch.float64) for name, tensor in state["found"].items()}
