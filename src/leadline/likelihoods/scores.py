"""Scores of a prediction against what came true: are intervals honest, and how narrow are they?

    coverage        share of y with low <= y <= high, the ends of the central interval of `level`         (1)
    sharpness       mean of high - low                                                                    (2)
    interval score  high - low + 2/(1 - level) · (how far y lies outside)                                 (3)
    pinball         τ (y - q)  or, where y < q,  (1 - τ) (q - y),   q the τ-quantile                      (4)
    PIT             P(Y <= y): uniform over 0 … 1 where the distributions are right                       (5)
                    of counts P(Y < y) + v P(Y = y), v drawn from 0 … 1: uniform too
    CRPS            see crps.py                                                                           (6)

(3), (4) and (6) are proper: no one scores better than the true distribution. (1) alone is not, a wide interval covers
all; read it beside (2). Each is in y's own unit. Of several outputs, each is scored by itself; an angle counts in the
turn that is nearest.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from leadline.likelihoods.crps import crps
from leadline.likelihoods.prediction import Prediction, check_probability

_DRAWS = 1000


def scores(prediction: Prediction, y: Any, level: float = 0.9) -> dict[str, float]:
    """Coverage, sharpness, interval score and CRPS, each as a mean over the rows.

    >>> from leadline.likelihoods import Normal
    >>> found = scores(Normal("fixed").prediction(torch.zeros(4, 1)), torch.tensor([-2.0, -1.0, 0.5, 1.0]))
    >>> {name: round(value, 3) for name, value in found.items()}
    {'coverage': 0.75, 'sharpness': 3.29, 'interval_score': 5.065, 'crps': 0.747}
    """
    return {
        "coverage": coverage(prediction, y, level),
        "sharpness": sharpness(prediction, level),
        "interval_score": float(interval_score(prediction, y, level).mean()),
        "crps": float(crps(prediction, y).double().mean()),
    }


@torch.no_grad()
def coverage(prediction: Prediction, y: Any, level: float = 0.9) -> float:
    """The share of y inside its interval, eq. 1."""
    return float(prediction.holds(y, level).double().mean())


@torch.no_grad()
def sharpness(prediction: Prediction, level: float = 0.9) -> float:
    """The mean width of the intervals, eq. 2."""
    low, high = prediction.interval(level)
    return float((high - low).double().mean())


@torch.no_grad()
def interval_score(prediction: Prediction, y: Any, level: float = 0.9) -> Tensor:
    """Eq. 3 of each value of y; less is better."""
    low, high = prediction.interval(level)
    y = prediction.near(y, (low + high) / 2)
    outside = torch.relu(low - y) + torch.relu(y - high)
    return high - low + 2 / (1 - level) * outside


@torch.no_grad()
def pinball(prediction: Prediction, y: Any, q: float) -> Tensor:
    """Eq. 4 of each value of y at level `q`; less is better."""
    check_probability("q", q)
    short = prediction._as_y(y) - prediction.quantile(q)
    return torch.maximum(q * short, (q - 1) * short)


@torch.no_grad()
def pit(prediction: Prediction, y: Any) -> Tensor:
    """Eq. 5 of each value of y; the same draws at every call.

    Families whose distribution function is not at hand are sampled 1,000 times; equal draws, as counts have them, are
    put below or above y at random.
    """
    if prediction.whole:
        y = prediction._as_y(y)
        low, high = prediction.cdf(y - 1), prediction.cdf(y)
        return low + _uniform(y).to(high.dtype) * (high - low)
    try:
        return prediction.cdf(y)
    except NotImplementedError:  # torch's answer where a distribution has no cdf
        y = prediction.near(y, torch.zeros_like(prediction.mode))
        draws = prediction.sample(_DRAWS, seed=0)
        below, equal = (draws < y).double().sum(0), (draws == y).double().sum(0)
        return (below + _uniform(y) * (equal + 1)) / (_DRAWS + 1)


def _uniform(y: Tensor) -> Tensor:
    return torch.rand(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(y.device)
