"""Kullback-Leibler divergence: how much worse q explains what p makes.

    KL[p || q] = E_p[log p(y) - log q(y)]                                                   (1)
    estimate   = mean over draws of p,   error = deviation of the terms / √draws            (2)

It is never negative, 0 only where the two are one, and not the same from q to p. By torch's closed forms where it has
one, else by (2). Infinite where p makes values that q rules out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Distribution, kl_divergence, register_kl

from leadline.errors import ShapeError
from leadline.likelihoods.angles import log_i0, mean_length
from leadline.likelihoods.joint import JointPrediction
from leadline.likelihoods.prediction import Prediction
from leadline.likelihoods.signs import SignsDistribution
from leadline.likelihoods.von_mises import VonMisesDistribution
from leadline.settings import whole


@dataclass(frozen=True, eq=False)
class Divergence:
    """Args:
    value: KL of each row, in nats.
    error: standard error of each; 0 where it is exact.
    exact: whether a closed form gave it.
    """

    value: Tensor
    error: Tensor
    exact: bool


@torch.no_grad()
def kl(p: Prediction, q: Prediction, draws: int = 4096, seed: int = 0) -> Divergence:
    """KL[p || q] of two predictions, row by row; of several outputs a row, their sum.

    Args:
        draws, seed: of the estimate (2), where no closed form is known.

    >>> from leadline.likelihoods import Normal
    >>> normal = Normal(variance="fixed")
    >>> found = kl(normal.prediction(torch.zeros(1, 1)), normal.prediction(torch.ones(1, 1)))  # (1 - 0)² / 2
    >>> found.value.item(), found.exact
    (0.5, True)
    """
    draws = whole("draws", draws, 2, usual=4096)
    if p.mode.shape != q.mode.shape:
        raise ShapeError(
            "both predictions must be of the same rows",
            got=f"modes of shape {tuple(p.mode.shape)} and {tuple(q.mode.shape)}",
            do="Predict the same rows with both",
        )
    if isinstance(p, JointPrediction) and isinstance(q, JointPrediction):
        parts = [kl(a, b, draws, seed) for a, b in zip(p.columns, q.columns, strict=True)]
        return Divergence(
            torch.stack([part.value for part in parts]).sum(0),
            torch.stack([part.error.square() for part in parts]).sum(0).sqrt(),
            all(part.exact for part in parts),
        )
    try:
        value = _rows(kl_divergence(p.distribution, q.distribution))
        return Divergence(value, torch.zeros_like(value), True)
    except NotImplementedError:  # torch's answer where it has no closed form
        pass
    y = p.sample(draws, seed=seed)
    terms = (_log_prob(p.distribution, y) - _log_prob(q.distribution, y)).double()
    terms = terms.flatten(2).sum(2) if terms.dim() > 2 else terms
    error = terms.std(0) / math.sqrt(draws)
    return Divergence(terms.mean(0), torch.where(error.isfinite(), error, 0.0), False)


def _rows(value: Tensor) -> Tensor:
    return (value.flatten(1).sum(1) if value.dim() > 1 else value).double()


def _log_prob(distribution: Distribution, y: Tensor) -> Tensor:
    """log p(y), -∞ where y cannot be."""
    found = distribution.log_prob(y)
    try:
        inside = distribution.support.check(y)  # type: ignore[union-attr]
    except (NotImplementedError, AttributeError):  # torch's answers where a distribution does not say where y can be
        return found
    return found if inside.shape != found.shape else torch.where(inside, found, -math.inf)


@register_kl(VonMisesDistribution, VonMisesDistribution)
def _of_angles(p: VonMisesDistribution, q: VonMisesDistribution) -> Tensor:
    along = mean_length(p.concentration) * torch.cos(p.loc - q.loc)
    return math.log(2 * math.pi) + log_i0(q.concentration) - q.concentration * along - p.entropy()


@register_kl(SignsDistribution, SignsDistribution)
def _of_signs(p: SignsDistribution, q: SignsDistribution) -> Tensor:
    plus = torch.sigmoid(p.logits)
    return plus * F.softplus(-q.logits) + (1 - plus) * F.softplus(q.logits) - p.entropy()
