"""Signs: y is a pattern of -1 and +1, each bit decided by the field on its unit.

    p(y_i) = sigmoid(2 β y_i h_i)                             (1)   a unit at temperature 1/β (Glauber)
    loss   = Σ_i softplus(-2 β y_i h_i)                       (2)

Notation   h_i -> output[:, i], the field on unit i;  β -> coldness
Shapes     output (B, dim); y (B, dim) of -1 and +1
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Distribution, constraints

from leadline.data.account import counted
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError
from leadline.layers.signs import check_signs, signs
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.prediction import Prediction, check_probability
from leadline.settings import real, whole


class Signs(Likelihood):
    """Args:
        dim: bits a pattern, at least 1.
        coldness: β of eq. 1, above 0: how sure a field of 1 makes a bit.

    >>> round(float(Signs(2).loss(torch.zeros(1, 2), torch.tensor([[1.0, -1.0]]))), 4)  # 2 log 2
    1.3863
    """

    headline = "overlap"
    shares = ("bits",)
    higher_is_better = True
    kinds = ("signs",)

    def __init__(self, dim: int, coldness: float = 1.0):
        super().__init__()
        self.dim = self.dim_output = whole("dim", dim)
        self.coldness = real("coldness", coldness, 0, above=True, usual=1.0)

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Signs:
        return cls(target.dim, **options)

    def distribution(self, output: Tensor) -> SignsDistribution:
        return SignsDistribution(2 * self.coldness * output)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        return F.softplus(-2 * self.coldness * y * output).sum(-1)  # eq. 2

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        right = (signs(output) == y).to(output.dtype)
        bits = right.mean(-1)
        recalled = right.amin(-1)  # 1 where every bit is right
        return {"nll": self.loss(output, y), "overlap": 2 * bits - 1, "bits": bits, "recalled": recalled}

    def prediction(self, output: Tensor) -> SignsPrediction:
        return SignsPrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        if y.dim() != 2 or y.shape[1] != self.dim:
            raise ShapeError(
                f"y must have shape (n, {self.dim}), one pattern a row",
                got=f"y of shape {tuple(y.shape)}",
                do=f"Pass rows of {counted(self.dim, 'bit')}",
            )
        check_signs("Signs", y, self.dim)
        if not y.is_floating_point():
            raise DataError(
                "a pattern must hold floating-point numbers", got=f"y of type {y.dtype}", do="Use y.float()"
            )


class SignsDistribution(Distribution):
    """Independent bits of -1 and +1 with log-odds `logits`.

    >>> SignsDistribution(torch.tensor([0.0])).mean.item()
    0.0
    """

    arg_constraints = {"logits": constraints.real}  # noqa: RUF012

    def __init__(self, logits: Tensor):
        self.logits = logits
        super().__init__(logits.shape, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return torch.tanh(self.logits / 2)

    @property
    def variance(self) -> Tensor:
        return 1 - self.mean.square()

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)
            p = torch.sigmoid(self.logits).expand(shape)
            return torch.bernoulli(p).mul_(2).sub_(1)

    def log_prob(self, value: Tensor) -> Tensor:
        return -F.softplus(-value.to(self.logits) * self.logits)

    def entropy(self) -> Tensor:
        p = torch.sigmoid(self.logits)
        return F.softplus(self.logits) - p * self.logits


class SignsPrediction(Prediction):
    """A pattern for each row."""

    distribution: SignsDistribution

    @property
    def mode(self) -> Tensor:
        return signs(self.distribution.logits)

    @property
    def probabilities(self) -> Tensor:
        """p(bit = -1) and p(bit = +1), shape (B, dim, 2)."""
        plus = torch.sigmoid(self.distribution.logits)
        return torch.stack([1 - plus, plus], dim=-1)

    def quantile(self, q: float) -> Tensor:
        check_probability("q", q)
        # P(bit = -1) < q, asked of the logits, which do not round to 0 or 1
        return torch.where(self.distribution.logits > math.log1p(-q) - math.log(q), 1.0, -1.0).to(self.mode.dtype)
