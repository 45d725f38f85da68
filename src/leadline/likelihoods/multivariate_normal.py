"""Multivariate normal: y is several real numbers whose misses go together.

    μ    = shift + scale · output[:dim]                                                   (1)
    r    = (y - μ) / scale,   z = P r,   P lower triangular, P_dd = positive(…)           (2)
    Σ    = S P^-1 P^-T S,   S = diag(scale)                                               (3)
    loss = ½ |z|² - Σ_d log P_dd + Σ_d log scale_d + ½ dim log 2π                         (4)
    learned  P of dim (dim + 1)/2 numbers of its own, times PACE      input  P from the network

P is the inverse of the covariance's Cholesky factor: (4) then multiplies where the factor itself would ask for a
triangular solve, which is slower and divides by small numbers. With diagonal P this is Normal(dim=…).
Shapes     output (B, dim) or (B, dim + dim (dim + 1)/2); y (B, dim)
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal as MultivariateNormalDistribution
from torch.distributions import Normal as NormalDistribution

from leadline.data.target import Target
from leadline.errors import UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import PACE, before_positive, full, learned, positive
from leadline.likelihoods.prediction import Prediction, check_probability
from leadline.likelihoods.values import check_values, error_summary, errors, names_of
from leadline.settings import whole


class MultivariateNormal(Likelihood):
    """Args:
        covariance: "learned" (one for all rows) or "input" (the network predicts one for each row).
        dim: number of real outputs, at least 2.
        shift, scale: one per output.
        names: of the outputs, for their metrics; 1, 2 … where they are left out.

    >>> MultivariateNormal(dim=2).loss(torch.zeros(1, 2), torch.zeros(1, 2)).tolist()  # log 2π
    [1.8378770351409912]
    """

    headline = "r2"
    higher_is_better = True
    kinds = ("real",)
    _shift: Tensor
    _scale: Tensor
    _rows: Tensor
    _columns: Tensor

    def __init__(
        self,
        covariance: str = "learned",
        dim: int = 2,
        shift: tuple[float, ...] = (0.0,),
        scale: tuple[float, ...] = (1.0,),
        names: tuple[str, ...] = (),
    ):
        super().__init__()
        if covariance not in ("learned", "input"):
            raise UserError("covariance must be learned or input", got=repr(covariance), do="Choose one of the two")
        self.covariance, self.dim = covariance, whole("dim", dim, 2)
        self.shift, self.scale = tuple(shift), tuple(scale)
        self.names = names_of(names, self.dim)
        free = dim * (dim + 1) // 2
        self.dim_output = dim + free if covariance == "input" else dim
        rows, columns = torch.tril_indices(dim, dim, -1)
        for name, value in (("_rows", rows), ("_columns", columns)):
            self.register_buffer(name, value, persistent=False)
        for name, given in (("_shift", self.shift), ("_scale", self.scale)):
            self.register_buffer(name, torch.tensor(given).expand(dim).clone(), persistent=False)
        if covariance == "learned":
            self.factor = learned(0.0, free)
            with torch.no_grad():
                self.factor[:dim] = before_positive(1.0) / PACE

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> MultivariateNormal:
        if target.dim < 2:
            raise UserError(
                "likelihood MultivariateNormal needs at least 2 numbers a row", got=f"{target}", do="Use Normal"
            )
        names = target.names if target.columns else ()
        return cls(dim=target.dim, shift=target.shift, scale=target.scale, names=names, **options)

    def parameters_of(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """μ (B, dim) in y's own unit, and P (B, dim, dim), or (dim, dim) where it is learned."""
        output = full(output)
        raw = output[:, self.dim :] if self.covariance == "input" else PACE * self.factor
        below = raw.new_zeros(*raw.shape[:-1], self.dim, self.dim)
        below[..., self._rows, self._columns] = raw[..., self.dim :]
        P = below + torch.diag_embed(positive(raw[..., : self.dim]))
        return self._shift + self._scale * output[:, : self.dim], P  # eq. 1

    def distribution(self, output: Tensor) -> MultivariateNormalDistribution:
        mu, P = self.parameters_of(output)
        eye = torch.eye(self.dim, dtype=mu.dtype, device=mu.device)
        tril = torch.linalg.solve_triangular(P, eye.expand_as(P), upper=False)
        return MultivariateNormalDistribution(mu, scale_tril=self._scale[:, None] * tril, validate_args=False)  # eq. 3

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        mu, P = self.parameters_of(output)
        z = (P @ ((y - mu) / self._scale)[..., None]).squeeze(-1)  # eq. 2
        log_width = self._scale.log().sum() - P.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 0.5 * z.square().sum(-1) + log_width + 0.5 * self.dim * math.log(2 * math.pi)  # eq. 4

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        mu, _ = self.parameters_of(output)
        return {"nll": self.loss(output, y), **errors(mu, y, self._shift, self._scale, self.names)}

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        return {"nll": means["nll"], **error_summary(means, self.names)}

    def prediction(self, output: Tensor) -> MultivariateNormalPrediction:
        return MultivariateNormalPrediction(self.distribution(output)).named(self.names)

    def check(self, y: Tensor) -> None:
        check_values(y, self.dim)


class MultivariateNormalPrediction(Prediction):
    """A bell in several dimensions for each row. Quantiles and intervals are those of each output by itself."""

    distribution: MultivariateNormalDistribution

    @property
    def mode(self) -> Tensor:
        return self.distribution.loc

    @property
    def covariance(self) -> Tensor:
        """Shape (B, dim, dim)."""
        return self.distribution.covariance_matrix

    @property
    def each(self) -> NormalDistribution:
        """Every output by itself."""
        return NormalDistribution(self.distribution.loc, self.distribution.stddev, validate_args=False)

    def quantile(self, q: float) -> Tensor:
        check_probability("q", q)
        return self.each.icdf(torch.tensor(q, dtype=self.mode.dtype, device=self.mode.device))

    def cdf(self, y: Any) -> Tensor:
        """P(Y_d <= y_d) of each output by itself."""
        return self.each.cdf(self._as_y(y))
