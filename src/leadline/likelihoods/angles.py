"""Angles: wrapped into one turn, and the mass of a von Mises around its mean direction.

    p(d)  = e^{κ (cos d - 1)} / (2π I0e(κ)),   I0e(κ) = e^-κ I0(κ)          (1)   d -> angle from the mean
    P(|D| <= h) = ∫_0^h e^{-2 κ sin²(t/2)} dt / (π I0e(κ))                  (2)   by Gauss and Legendre's rule
    h <- h + (level - P(|D| <= h)) / 2 p(h)                               (3)   Newton; (2) is concave: it climbs from 0
    draw f = cos d of a wrapped Cauchy law, and keep it with probability c e^{1 - c}, c = κ (r - f)       (4)

(4) is Best and Fisher's way (1979), with r = (1 + ρ²) / 2ρ, ρ = (τ - √2τ) / 2κ and τ = 1 + √(1 + 4κ²): it keeps two of
three at worst.
The e^κ of p and of I0 never meet a floating-point number: both are divided by it.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.errors import DataError, ShapeError

TURN = 2 * math.pi
_REACH = 13.5  # beyond this many 1/√κ there is less than 1e-16 of the mass
_FLAT, _NORMAL = 1e-5, 1e6  # κ below which every angle is as likely, and above which the law is normal to 1e-6
_ROWS = 65_536  # rows of a quadrature at a time


def wrap(angle: Tensor) -> Tensor:
    """The angle in (-π, π].

    >>> [round(a, 4) for a in wrap(torch.tensor([0.0, 4.0, -7.0])).tolist()]
    [0.0, -2.2832, -0.7168]
    """
    return math.pi - torch.remainder(math.pi - angle, TURN)


def log_i0(kappa: Tensor) -> Tensor:
    """log of the modified Bessel function of order 0, for any size of κ."""
    return torch.special.i0e(kappa).log() + kappa


def mean_length(kappa: Tensor) -> Tensor:
    """I1(κ) / I0(κ): the length of the mean of unit arrows, 0 for no direction at all and 1 for one alone."""
    return torch.special.i1e(kappa) / torch.special.i0e(kappa)


def mass_within(h: Tensor, kappa: Tensor) -> Tensor:
    """P(|D| <= h) by eq. 2, for h from 0 to π."""
    if len(h) > _ROWS:
        return torch.cat([mass_within(a, b) for a, b in zip(h.split(_ROWS), kappa.split(_ROWS), strict=True)])
    end = torch.minimum(h, _REACH / kappa.clamp(min=1e-30).sqrt())
    nodes, weights = _rule()
    t = end[..., None] * (h.new_tensor(nodes) + 1) / 2
    heights = (-2 * kappa[..., None] * (t / 2).sin().square()).exp() @ h.new_tensor(weights)
    return (heights * end / 2 / (math.pi * torch.special.i0e(kappa))).clamp(max=1)


@cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Places and weights of the quadrature; numpy's polynomials are slow to import."""
    return np.polynomial.legendre.leggauss(64)


def half_width(level: float, kappa: Tensor) -> Tensor:
    """The h of which P(|D| <= h) is `level`, in float64, by eq. 3.

    >>> round(float(half_width(0.9, torch.tensor([0.0]))), 4)  # nine tenths of half a turn
    2.8274
    """
    kappa = kappa.double()
    h = torch.zeros_like(kappa)
    for _ in range(60):
        density = (-2 * kappa * (h / 2).sin().square()).exp() / (TURN * torch.special.i0e(kappa))
        step = (level - mass_within(h, kappa)).clamp(min=0) / (2 * density)
        h = (h + step).clamp(max=math.pi)
        if not bool((step > 1e-12 * h.clamp(min=1e-12)).any()):
            break
    return h


def below(angle: Tensor, kappa: Tensor) -> Tensor:
    """P(-π < D <= angle), continued over all turns: it grows by 1 with each."""
    turns = torch.round(angle / TURN)
    d = angle - TURN * turns
    return turns + 0.5 + d.sign() * mass_within(d.abs(), kappa) / 2


def drawn(kappa: Tensor) -> Tensor:
    """An angle from the mean for each κ, by eq. 4; in float64. Those that have theirs are not drawn again.

    >>> _ = torch.manual_seed(0)
    >>> round(float(drawn(torch.full((20_000,), 4.0)).cos().mean()), 2), round(float(mean_length(torch.tensor(4.0))), 2)
    (0.86, 0.86)
    """
    if kappa.numel() > _ROWS:
        return torch.cat([drawn(part) for part in kappa.flatten().split(_ROWS)]).view_as(kappa)
    k = kappa.double().flatten()
    d = torch.randn_like(k) / k.clamp(min=1e-30).sqrt()  # where κ is large the law is normal
    flat = k < _FLAT
    d[flat] = TURN * torch.rand_like(k[flat]) - math.pi
    left = ((k >= _FLAT) & (k < _NORMAL)).nonzero().flatten()
    tau = 1 + (1 + 4 * k.square()).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * k)
    r = (1 + rho.square()) / (2 * rho)
    while len(left):
        z, keep = torch.rand(2, len(left), dtype=k.dtype, device=k.device)
        z, side = (TURN * z).cos(), torch.where(z < 0.5, -1.0, 1.0)  # the cosine is the same on both sides
        f = ((1 + r[left] * z) / (r[left] + z)).clamp(-1, 1)
        c = k[left] * (r[left] - f)
        kept = c.log() + 1 - c >= keep.log()
        d[left[kept]] = (side * f.acos())[kept]
        left = left[~kept]
    return wrap(d).view_as(kappa)


def angular_distance(a: Tensor, b: Tensor) -> Tensor:
    """How far two angles are apart, from 0 to π."""
    return wrap(a - b).abs()


def check_angles(y: Tensor) -> None:
    """y must be (n,) of radians; degrees are told from them by their size."""
    if y.dim() != 1:
        do = "Pass y.squeeze(1)" if y.shape[1:] == (1,) else "Pass one angle for each row"
        raise ShapeError("angles must have shape (n,)", got=f"y of shape {tuple(y.shape)}", do=do)
    if not y.is_floating_point():
        raise DataError("angles must be floating-point numbers", got=f"y of type {y.dtype}", do="Pass y.float()")
    wrong = (y.abs() > TURN + 1e-4).nonzero().flatten()
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            "angles must be in radians, from -2π to 2π",
            got=f"{y[row].item():g} in row {row}" + (f" ({counted(len(wrong), 'such row')})" if len(wrong) > 1 else ""),
            do="Turn degrees into radians: y * π / 180",
        )
