"""Continuous ranked probability score: the absolute error of a whole distribution, in y's own unit.

    CRPS(F, y) = ∫ (F(x) - [x >= y])² dx = E|Y - y| - ½ E|Y - Y'| = 2 ∫ pinball_τ(y, F^-1(τ)) dτ        (1)

In closed form, z = (y - μ)/σ:

    normal        σ (z (2Φ(z) - 1) + 2φ(z) - 1/√π)                                                       (2)
    Laplace       σ (|z| + e^-|z| - ¾)                                                                   (3)
    Student's t   σ (z (2F(z) - 1) + (2 f(z) (ν + z²) - 2√ν B(½, ν-½) / B(½, ν/2)²) / (ν - 1))           (4)   ν > ½
    exponential   y - 2m F(y) + m/2                                                                      (5)
    gamma         y (2F_k(y) - 1) - m (2F_{k+1}(y) - 1) - m / (k B(½, k))                                (6)
    log-normal    y (2Φ(z) - 1) - 2 e^{μ + σ²/2} (Φ(z - σ) + Φ(σ/√2) - 1)      z = (log y - μ)/σ         (7)
    beta          y (2F_ab(y) - 1) + m (1 - 2F_{a+1,b}(y) - 2 B(2a, 2b) / (a B(a, b)²))                  (8)
    von Mises     ∫ d(t, y - μ) p(t) dt - ½ ∫ |t| I0(2κ cos(t/2)) / (2π I0(κ)²) dt                       (9)   summed

Every other family: the third form of (1) over 400 levels where quantiles of any level are at hand, else the second
over 400 samples; for angles with the shorter way around the circle as the distance (Grimit et al. 2006).
Notation   Φ, φ -> distribution function and density of the standard normal;  F, f -> those of the family;
           B -> beta function;  m -> mean;  F_k -> of shape k and the same scale m/k, F_ab -> of Beta(a, b)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Exponential, Laplace, LogNormal, Normal

from leadline.likelihoods.angles import angular_distance, wrap
from leadline.likelihoods.beta import BetaDistribution
from leadline.likelihoods.gamma import GammaDistribution
from leadline.likelihoods.huber import HuberDistribution
from leadline.likelihoods.joint import JointPrediction
from leadline.likelihoods.multivariate_normal import MultivariateNormalPrediction
from leadline.likelihoods.prediction import Prediction
from leadline.likelihoods.quantile import PiecewiseDistribution
from leadline.likelihoods.robust import RobustDistribution
from leadline.likelihoods.special import log_beta
from leadline.likelihoods.student_t import StudentTDistribution, surprise
from leadline.likelihoods.von_mises import VonMisesDistribution

_DRAWS = 400
_NEAR = 1e-5  # by which ν keeps from 1, where (4) is 0/0
_REACH, _PARTS = 8.0, 160  # in deviations: less than 1e-14 lies beyond; a tenth of one is a part


@torch.no_grad()
def crps(prediction: Prediction, y: Any) -> Tensor:
    """The score of each value of y, in y's own shape; less is better.

    >>> from leadline.likelihoods import Normal
    >>> round(float(crps(Normal("fixed").prediction(torch.zeros(1, 1)), torch.zeros(1))), 4)  # √(2/π) - 1/√π
    0.2337
    """
    y = prediction._as_y(y)
    if isinstance(prediction, JointPrediction):
        return torch.stack([crps(own, y[:, k]) for k, own in enumerate(prediction.columns)], -1)
    y = y if y.is_floating_point() else y.to(torch.get_default_dtype())
    distribution = prediction.each if isinstance(prediction, MultivariateNormalPrediction) else prediction.distribution
    closed = CLOSED.get(type(distribution))
    if closed is not None:
        return closed(distribution, y)
    if isinstance(distribution, (HuberDistribution, RobustDistribution, PiecewiseDistribution)):
        return _by_quantiles(distribution, y)
    return _around(prediction, y) if prediction.circular else _by_samples(prediction, y)


def _normal(p: Normal, y: Tensor) -> Tensor:
    z = (y - p.loc) / p.scale
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    return p.scale * (z * torch.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))  # eq. 2


def _laplace(p: Laplace, y: Tensor) -> Tensor:
    size = ((y - p.loc) / p.scale).abs()
    return p.scale * (size + torch.exp(-size) - 0.75)  # eq. 3


def _student_t(p: StudentTDistribution, y: Tensor) -> Tensor:
    z, nu = ((y - p.loc) / p.scale).double(), p.df.double()
    finite = nu > 0.5
    nu = torch.where(finite, torch.where((nu - 1).abs() < _NEAR, 1 + _NEAR, nu), 2.0)
    half = torch.full_like(nu, 0.5)
    density = torch.exp(-surprise(z, nu))
    ends = 2 * nu.sqrt() * torch.exp(log_beta(half, nu - 0.5) - 2 * log_beta(half, nu / 2))
    score = z * (2 * p.cdf(y).double() - 1) + (2 * density * (nu + z.square()) - ends) / (nu - 1)  # eq. 4
    return torch.where(finite, p.scale * score, math.inf).to(y.dtype)


def _exponential(p: Exponential, y: Tensor) -> Tensor:
    return y + 2 * torch.expm1(-p.rate * y) / p.rate + 0.5 / p.rate  # eq. 5


def _gamma(p: GammaDistribution, y: Tensor) -> Tensor:
    k, x = p.concentration, y * p.rate
    below, next_below = torch.special.gammainc(k, x), torch.special.gammainc(k + 1, x)
    ends = torch.exp(-log_beta(torch.full_like(k, 0.5), k))
    return (x * (2 * below - 1) - k * (2 * next_below - 1) - ends) / p.rate  # eq. 6


def _log_normal(p: LogNormal, y: Tensor) -> Tensor:
    z = (y.log() - p.loc) / p.scale
    share = torch.special.ndtr(z - p.scale) - torch.special.ndtr(-p.scale / math.sqrt(2))
    return y * torch.erf(z / math.sqrt(2)) - 2 * torch.exp(p.loc + p.scale.square() / 2) * share  # eq. 7


def _beta(p: BetaDistribution, y: Tensor) -> Tensor:
    a, b = p.concentration1, p.concentration0
    ends = 2 * torch.exp(log_beta(2 * a, 2 * b) - 2 * log_beta(a, b)) / a
    return y * (2 * p.cdf(y) - 1) + p.mean * (1 - 2 * BetaDistribution(a + 1, b).cdf(y) - ends)  # eq. 8


def _von_mises(p: VonMisesDistribution, y: Tensor) -> Tensor:
    """Eq. 9 by the middles of equal parts, as far as there is mass: Y - Y' is spread √2 times as far as Y."""
    kappa, off = p.concentration.double()[..., None], wrap(y - p.loc).double()[..., None]
    steps = (torch.arange(_PARTS, dtype=torch.float64, device=y.device) + 0.5) / _PARTS
    unit = kappa.clamp(min=1e-30).rsqrt()
    t = (_REACH * unit).clamp(max=math.pi) * (2 * steps - 1)
    density = torch.exp(-2 * kappa * (t / 2).sin().square())
    near = (angular_distance(t, off) * density).sum(-1) / density.sum(-1)
    t = (1.5 * _REACH * unit).clamp(max=math.pi) * steps  # the other half is its mirror image
    density = torch.special.i0e(2 * kappa * (t / 2).cos()) * torch.exp(-4 * kappa * (t / 4).sin().square())
    return (near - 0.5 * (t * density).sum(-1) / density.sum(-1)).to(y.dtype)  # eq. 9


#: by the distribution itself, whatever likelihood made it
CLOSED: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Normal: _normal,
    Laplace: _laplace,
    StudentTDistribution: _student_t,
    Exponential: _exponential,
    GammaDistribution: _gamma,
    LogNormal: _log_normal,
    BetaDistribution: _beta,
    VonMisesDistribution: _von_mises,
}


def _by_quantiles(p: Any, y: Tensor) -> Tensor:
    """The third form of eq. 1, levels at the middles of equal parts."""
    levels = (torch.arange(_DRAWS, dtype=y.dtype, device=y.device) + 0.5) / _DRAWS
    levels = levels.view(-1, *[1] * y.dim())
    short = y - p.icdf(levels)
    return 2 * torch.maximum(levels * short, (levels - 1) * short).mean(0)


def _by_samples(prediction: Prediction, y: Tensor) -> Tensor:
    """The second form of eq. 1; E|Y - Y'| from the sorted draws."""
    draws = prediction.sample(_DRAWS, seed=0).to(y.dtype).sort(0).values
    rank = 2 * torch.arange(1, _DRAWS + 1, dtype=y.dtype, device=y.device) - _DRAWS - 1
    apart = (draws * rank.view(-1, *[1] * y.dim())).sum(0) * 2 / (_DRAWS * (_DRAWS - 1))
    return (draws - y).abs().mean(0) - apart / 2


def _around(prediction: Prediction, y: Tensor) -> Tensor:
    """The second form of eq. 1 on the circle; the draws are independent, so that neighbours are pairs."""
    draws = prediction.sample(2 * _DRAWS, seed=0).to(y.dtype)
    apart = angular_distance(draws, draws.roll(1, 0)).mean(0)
    return angular_distance(draws, y).mean(0) - apart / 2
