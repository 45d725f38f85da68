"""Families of one shape, moved and stretched: y = μ + σ · z, z of a standard density.

    μ = shift + scale · output                                          (1)
    fixed     σ = scale · sigma                                         (2)
    learned   σ = scale · positive(PACE · ρ)     one ρ for all inputs   (3)
    input     σ = scale · positive(output')      one for each row       (4)
    loss = -log p_standard((y - μ) / σ) + log σ                         (5)

Notation   shift, scale -> mean and deviation of y over the training split, as in normal.py; positive -> links.py
Shapes     output (B, dim), or (B, 2·dim) for input-dependent width; y (B,) for dim 1, else (B, dim)
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import torch
from torch import Tensor

from leadline.data.target import Target
from leadline.likelihoods.continuous import ContinuousPrediction
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import PACE, before_positive, check_variance, full, learned, positive
from leadline.likelihoods.values import check_values, error_summary, errors, names_of
from leadline.settings import real, whole


class LocationScale(Likelihood):
    """A family adds its standard density, `standard_loss`, and its `distribution`."""

    headline = "mae"
    unit_in_buffers = True
    _shift: Tensor
    _scale: Tensor

    def __init__(
        self,
        variance: str = "learned",
        sigma: float = 1.0,
        dim: int = 1,
        shift: tuple[float, ...] = (0.0,),
        scale: tuple[float, ...] = (1.0,),
        names: tuple[str, ...] = (),
    ):
        super().__init__()
        self.variance, self.dim = check_variance(variance), whole("dim", dim)
        self.sigma = real("sigma", sigma, 0, above=True, usual=1.0)
        self.shift, self.scale = tuple(shift), tuple(scale)
        self.names: tuple[str, ...] = ()
        if self.dim > 1:
            self.names, self.headline, self.higher_is_better = names_of(names, dim), "r2", True  # units differ
        self.dim_output = 2 * dim if variance == "input" else dim
        self.register_buffer("_shift", torch.tensor(self.shift).expand(dim).clone(), persistent=False)
        self.register_buffer("_scale", torch.tensor(self.scale).expand(dim).clone(), persistent=False)
        if variance == "learned":
            self.rho = learned(before_positive(self.sigma), dim)

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Self:
        names = target.names if target.columns else ()
        return cls(dim=target.dim, shift=target.shift, scale=target.scale, names=names, **options)

    @abstractmethod
    def standard_loss(self, z: Tensor) -> Tensor:
        """-log p of the family's member of μ 0 and σ 1."""

    def parameters_of(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """μ and σ in y's own unit, both (B, dim)."""
        output = full(output)
        if self.variance == "input":
            output, raw = output.chunk(2, dim=-1)
            sigma = positive(raw)  # eq. 4
        elif self.variance == "learned":
            sigma = positive(PACE * self.rho)  # eq. 3
        else:
            sigma = torch.full_like(output[:1], self.sigma)  # eq. 2
        return self._shift + self._scale * output, (self._scale * sigma).expand_as(output)  # eq. 1

    def of_y(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """μ and σ in the shape of y."""
        mu, sigma = self.parameters_of(output)
        return (mu.squeeze(-1), sigma.squeeze(-1)) if self.dim == 1 else (mu, sigma)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        mu, sigma = self.parameters_of(output)
        z = (y.view_as(mu) - mu) / sigma
        return (self.standard_loss(z) + sigma.log()).sum(-1)  # eq. 5

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        mu, _ = self.parameters_of(output)
        return {"nll": self.loss(output, y), **errors(mu, y.view_as(mu), self._shift, self._scale, self.names)}

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        return {"nll": means["nll"], **error_summary(means, self.names)}

    def prediction(self, output: Tensor) -> ContinuousPrediction:
        return ContinuousPrediction(self.distribution(output)).named(self.names)

    def check(self, y: Tensor) -> None:
        check_values(y, self.dim)
