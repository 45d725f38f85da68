"""From any real number to one that can be a width or the logarithm of a mean.

    positive(a) = log(1 + e^a) + ε                          (1)   a width; ε keeps a perfect fit away from log 0
    gentle(a)   = a                       for |a| <= 30     (2)   a logarithm whose exponential is finite in float32
                = ±(30 + log(|a| - 29))   beyond, and its slope never 0
    a           = PACE · ρ                                  (3)   of a number ρ of its own, learned for all rows

Adam moves a weight by about lr a step. An output is moved by hundreds of weights together; ρ, alone, would still be on
its way when a run of a thousand steps ends.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.errors import UserError

FLOOR = 1e-4  # ε of eq. 1, in units of the target
EXACT = 30.0  # e^30 is 10^13: no mean is so far from the unit of its target
PACE = 10.0
VARIANCES = ("fixed", "learned", "input")


def positive(a: Tensor, floor: float = FLOOR) -> Tensor:
    """Eq. 1.

    >>> positive(torch.tensor([-1e4, 0.0, 1e4])).tolist()
    [9.999999747378752e-05, 0.6932471990585327, 10000.0]
    """
    return F.softplus(a) + floor


def before_positive(width: float, floor: float = FLOOR) -> float:
    """The a of a width: eq. 1 undone.

    >>> round(float(positive(torch.tensor(before_positive(0.5)))), 4)
    0.5
    """
    above = max(width - floor, 1e-8)
    return above + math.log(-math.expm1(-above))


def learned(a: float, count: int = 1) -> nn.Parameter:
    """ρ of eq. 3, so many times, with PACE · ρ = a at first."""
    return nn.Parameter(torch.full((count,), a / PACE))


def gentle(a: Tensor) -> Tensor:
    """Eq. 2.

    >>> gentle(torch.tensor([-1e4, 3.0, 1e4])).exp().isfinite().all()
    tensor(True)
    """
    near = a.clamp(-EXACT, EXACT)
    return near + torch.sign(a) * (a.abs() - EXACT).clamp(min=0).log1p()


def full(output: Tensor) -> Tensor:
    """A network's output in at least float32: mixed precision ends where the likelihood begins."""
    return output if output.dtype in (torch.float32, torch.float64) else output.float()


def check_variance(variance: str) -> str:
    if variance not in VARIANCES:
        raise UserError("variance must be fixed, learned or input", got=repr(variance), do="Choose one of the three")
    return variance
