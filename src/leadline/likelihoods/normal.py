"""Normal: y is real, and misses its mean by a bell curve.

    μ = shift + scale · output                                                    (1)
    fixed     σ = scale · sigma                  least squares, up to constants   (2)
    learned   σ = scale · softplus(ρ)            one ρ for all inputs             (3)
    input     σ = scale · softplus(output')      heteroscedastic                  (4)
    loss = ½ ((y - μ) / σ)² + log σ + ½ log 2π                                    (5)

Notation   shift, scale -> mean and deviation of y over the training split (the target holds them), so that the
           network works in units of one and the loss stays in y's own
Shapes     output (B, dim), or (B, 2·dim) for input-dependent variance; y (B,) for dim 1, else (B, dim)
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal as NormalDistribution

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.prediction import Prediction, check_probability
from leadline.settings import real, whole

VARIANCES = ("fixed", "learned", "input")
_FLOOR = 1e-4  # least σ, in units of the target's deviation: a perfect fit must not reach log 0


class Normal(Likelihood):
    """Args:
        variance: "fixed", "learned" (one for all rows) or "input" (the network predicts one for each row).
        sigma: σ of "fixed", and where "learned" begins, in units of the target's deviation; above 0.
        dim: number of real outputs, at least 1.
        shift, scale: one per output.

    >>> float(Normal(variance="fixed").loss(torch.zeros(1, 1), torch.zeros(1)))  # ½ log 2π
    0.9189385175704956
    """

    headline = "rmse"
    _shift: Tensor
    _scale: Tensor

    def __init__(
        self,
        variance: str = "learned",
        sigma: float = 1.0,
        dim: int = 1,
        shift: tuple[float, ...] = (0.0,),
        scale: tuple[float, ...] = (1.0,),
    ):
        super().__init__()
        if variance not in VARIANCES:
            raise UserError(
                "variance must be fixed, learned or input", got=repr(variance), do="Choose one of the three"
            )
        sigma, dim = real("sigma", sigma, 0, above=True, usual=1.0), whole("dim", dim)
        self.variance, self.sigma, self.dim = variance, sigma, dim
        self.shift, self.scale = tuple(shift), tuple(scale)
        self.dim_output = 2 * dim if variance == "input" else dim
        self.register_buffer("_shift", torch.tensor(self.shift).expand(dim).clone(), persistent=False)
        self.register_buffer("_scale", torch.tensor(self.scale).expand(dim).clone(), persistent=False)
        if variance == "learned":
            self.rho = nn.Parameter(torch.full((dim,), math.log(math.expm1(sigma))))

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Normal:
        return cls(dim=target.dim, shift=target.shift, scale=target.scale, **options)

    def parameters_of(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """μ and σ in y's own unit, both (B, dim)."""
        if self.variance == "input":
            output, raw = output.chunk(2, dim=-1)
            sigma = F.softplus(raw) + _FLOOR  # eq. 4
        elif self.variance == "learned":
            sigma = F.softplus(self.rho) + _FLOOR  # eq. 3
        else:
            sigma = torch.full_like(output[:1], self.sigma)  # eq. 2
        return self._shift + self._scale * output, (self._scale * sigma).expand_as(output)  # eq. 1

    def distribution(self, output: Tensor) -> NormalDistribution:
        mu, sigma = self.parameters_of(output)
        if self.dim == 1:
            mu, sigma = mu.squeeze(-1), sigma.squeeze(-1)
        return NormalDistribution(mu, sigma, validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        mu, sigma = self.parameters_of(output)
        z = (y.view_as(mu) - mu) / sigma
        return (0.5 * z.square() + sigma.log() + 0.5 * math.log(2 * math.pi)).sum(-1)  # eq. 5

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        mu, _ = self.parameters_of(output)
        y = y.view_as(mu)
        error = y - mu
        # y is centred by the training mean: its variance over the split is then free of cancellation
        centred = (y - self._shift) / self._scale
        return {
            "nll": self.loss(output, y),
            "squared_error": error.square().mean(-1),
            "mae": error.abs().mean(-1),
            "scaled_error": (error / self._scale).square().mean(-1),
            "y": centred.mean(-1),
            "y_squared": centred.square().mean(-1),
        }

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        spread = means["y_squared"] - means["y"] ** 2
        r2 = 1 - means["scaled_error"] / spread if spread > 1e-12 else float("nan")
        return {"nll": means["nll"], "rmse": math.sqrt(means["squared_error"]), "mae": means["mae"], "r2": r2}

    def prediction(self, output: Tensor) -> NormalPrediction:
        return NormalPrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        wanted = "(n,)" if self.dim == 1 else f"(n, {self.dim})"
        fits = y.dim() == 1 if self.dim == 1 else y.shape[1:] == (self.dim,)
        if not fits:
            do = "Pass y.squeeze(1)" if y.shape[1:] == (1,) else f"Use Normal(dim={y.shape[-1]})"
            raise ShapeError(f"y must have shape {wanted}", got=f"y of shape {tuple(y.shape)}", do=do)
        if not y.is_floating_point():
            raise DataError(
                "a real target must hold floating-point numbers", got=f"y of type {y.dtype}", do="Pass y.float()"
            )


class NormalPrediction(Prediction):
    """A bell curve for each row."""

    distribution: NormalDistribution

    @property
    def mode(self) -> Tensor:
        return self.distribution.loc

    def quantile(self, q: float) -> Tensor:
        check_probability("q", q)
        return self.distribution.icdf(torch.tensor(q, dtype=self.mode.dtype, device=self.mode.device))
