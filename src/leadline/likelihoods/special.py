"""Functions of the gamma family that torch lacks, for losses (differentiable) and for quantiles (float64, no gradient).

    log Γ(a)  = a log a - a + rest(a)                                         (1)
    rest(a)   ~ ½ log(2π/a) + 1/(12a) - 1/(360a³) + 1/(1260a⁵) - 1/(1680a⁷)   (2)   Stirling; from a = 10 on
    I_x(a, b) = x^a (1-x)^b / (a B(a, b)) · 1/(1 + d₁/(1 + d₂/(1 + …)))       (3)   P(Beta(a, b) <= x)
       d_2m   =  m (b - m) x / ((a + 2m - 1)(a + 2m))
       d_2m+1 = -(a + m)(a + b + m) x / ((a + 2m)(a + 2m + 1))

Differences of log Γ cancel the large a log a; (1) takes them off by hand, so that float32 is enough.
Notation   B(a, b) = Γ(a) Γ(b) / Γ(a + b).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

_TERMS = 5000  # of the fraction (3); it needs about √max(a, b), and ends when it stands still


def rest(a: Tensor) -> Tensor:
    """Eqs. 1 and 2.

    >>> round(float(rest(torch.tensor(1.0))), 6)  # log Γ(1) = 0
    1.0
    """
    small = a.clamp(max=10.0)
    direct = torch.lgamma(small) - torch.xlogy(small, small) + small
    large = a.clamp(min=10.0)
    v = large.reciprocal()
    v2 = v * v
    series = v * (1 / 12 - v2 * (1 / 360 - v2 * (1 / 1260 - v2 / 1680))) + 0.5 * torch.log(2 * math.pi * v)
    return torch.where(a < 10.0, direct, series)


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """log B(a, b).

    >>> round(float(log_beta(torch.tensor(2.0), torch.tensor(3.0))), 4)  # log 1/12
    -2.4849
    """
    return rest(a) + rest(b) - rest(a + b) - a * torch.log1p(b / a) - b * torch.log1p(a / b)


def beta_below(a: Tensor, b: Tensor, logit: Tensor) -> Tensor:
    """Eq. 3 at x = sigmoid(logit): a logit holds both x and 1 - x to full precision.

    >>> round(beta_below(*(torch.tensor(v).double() for v in (2.0, 2.0, 0.0))).item(), 6)
    0.5
    """
    a, b, logit = torch.broadcast_tensors(a, b, logit)
    # the fraction is quick left of the mean; on the right 1 - I_{1-x}(b, a) is
    turned = torch.sigmoid(logit) > (a + 1) / (a + b + 2)
    left, right = torch.where(turned, b, a), torch.where(turned, a, b)
    logit = torch.where(turned, -logit, logit)
    head = torch.exp(left * F.logsigmoid(logit) + right * F.logsigmoid(-logit) - log_beta(left, right))
    part = head * _fraction(left, right, torch.sigmoid(logit)) / left
    return torch.where(turned, 1 - part, part)


def _fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The fraction of eq. 3 from the front, by Lentz's two ratios."""
    tiny = 1e-300
    c = torch.ones_like(x)
    d = 1 - (a + b) * x / (a + 1)
    d = torch.where(d.abs() < tiny, tiny, d).reciprocal()
    value = d.clone()
    for m in range(1, _TERMS):
        step = torch.ones_like(x)
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + term * d
            d = torch.where(d.abs() < tiny, tiny, d).reciprocal()
            c = 1 + term / c
            c = torch.where(c.abs() < tiny, tiny, c)
            step = c * d
            value = value * step
        if bool(((step - 1).abs() < 1e-13).all()):
            break
    return value


def invert(below: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor], q: Tensor, start: Tensor) -> Tensor:
    """The t at which the increasing `below` reaches `q`: Newton's step, or half of what is left where that fails."""
    t = start.clamp(-700, 700)
    low, high = torch.full_like(t, -750.0), torch.full_like(t, 750.0)
    for _ in range(100):
        off = below(t) - q
        low, high = torch.where(off < 0, t, low), torch.where(off >= 0, t, high)
        step = t - off / slope(t)
        moved = torch.where((step >= low) & (step <= high), step, (low + high) / 2)  # also where the step is nan
        done = (moved - t).abs() <= 1e-11 * (1 + t.abs())
        t = moved
        if bool(done.all()):
            break
    return t


def gamma_quantile(shape: Tensor, q: Tensor) -> Tensor:
    """The value that Gamma(shape, 1) stays below with probability q; over its logarithm, which is nearly normal.

    >>> round(float(gamma_quantile(torch.tensor(1.0).double(), torch.tensor(0.5).double())), 6)  # log 2
    0.693147
    """
    shape, q = torch.broadcast_tensors(shape.detach().cpu().double(), q.detach().cpu().double())
    start = torch.digamma(shape) + torch.special.ndtri(q) * torch.polygamma(1, shape).sqrt()
    # log Γ by eq. 1: p(t) = exp(-shape (e^u - 1 - u) - rest), u = t - log shape
    lift, height = shape.log(), rest(shape)
    slope = lambda t: torch.exp(-shape * (torch.expm1(t - lift) - (t - lift)) - height)  # noqa: E731
    return invert(lambda t: torch.special.gammainc(shape, t.exp()), slope, q, start).exp()


def beta_quantile(a: Tensor, b: Tensor, q: Tensor) -> Tensor:
    """The logit of the value that Beta(a, b) stays below with probability q.

    >>> round(float(beta_quantile(*(torch.tensor(v).double() for v in (2.0, 2.0, 0.5)))), 6)
    0.0
    """
    a, b, q = torch.broadcast_tensors(*(v.detach().cpu().double() for v in (a, b, q)))
    spread = (torch.polygamma(1, a) + torch.polygamma(1, b)).sqrt()
    start = torch.digamma(a) - torch.digamma(b) + torch.special.ndtri(q) * spread
    height = log_beta(a, b)
    slope = lambda t: torch.exp(a * F.logsigmoid(t) + b * F.logsigmoid(-t) - height)  # noqa: E731
    return invert(lambda t: beta_below(a, b, t), slope, q, start)
