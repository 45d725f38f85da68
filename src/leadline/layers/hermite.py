"""Powers of a number, made orthonormal for standard normal inputs: Hermite's polynomials.

    h_0 = 1,   h_1 = x,   h_{k+1} = (x h_k - √k h_{k-1}) / √(k + 1)        (1)
    E h_j(x) h_k(x) = 1 if j = k, else 0        for x ~ N(0, 1)            (2)

h_0 … h_k span the same functions as 1, x … x^k, but stay apart and small where standardized inputs lie: at x = 3 the
twelfth is 4, the power 531,441.
"""

from __future__ import annotations

import torch
from torch import Tensor


def hermite(x: Tensor, degree: int) -> Tensor:
    """h_1 … h_degree of every entry, along a new last axis.

    >>> hermite(torch.tensor([2.0]), 3).square().mul(6).round().tolist()  # x, (x² - 1)/√2, (x³ - 3x)/√6
    [[24.0, 27.0, 4.0]]
    """
    before, now = torch.ones_like(x), x
    found = [now]
    for k in range(1, degree):
        before, now = now, (x * now - k**0.5 * before) / (k + 1) ** 0.5  # eq. 1
        found.append(now)
    return torch.stack(found, dim=-1)
