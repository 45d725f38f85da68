"""How many labellings of s points can a plane through the origin realise? (Cover, 1965)

    C(s, d) = 2 Σ_{i<d} binom(s - 1, i)        points in general position, any d of them independent        (1)
    share   = C(s, d) / 2^s                    1 up to s = d, exactly ½ at s = 2d, then soon 0              (2)

It is the share that falls past s = 2d; the count goes on growing. A plane with a bias is one through the origin in one
dimension more.

Notation   s -> points;  d -> dims
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leadline.errors import UserError
from leadline.models.separability import separable
from leadline.settings import whole

_MOST = 16


def cover(points: int, dims: int) -> int:
    """Eq. 1, exact.

    >>> cover(4, 2), cover(5, 3), cover(6, 3)
    (8, 22, 32)
    """
    points, dims = whole("points", points), whole("dims", dims)
    return 2 * sum(math.comb(points - 1, i) for i in range(min(dims, points)))


def share_separable(points: int, dims: int) -> float:
    """Eq. 2.

    >>> share_separable(40, 20), round(share_separable(50, 20), 4)
    (0.5, 0.0762)
    """
    return cover(points, dims) / 2 ** whole("points", points)


def estimate_share(points: int, dims: int, trials: int = 200, seed: int = 0) -> float:
    """Eq. 2 by trial: random points, random labels, and whether a plane through the origin parts them.

    >>> estimate_share(3, 4, trials=20)
    1.0
    """
    points, dims, trials = whole("points", points), whole("dims", dims), whole("trials", trials)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1, usual=0))
    found = 0
    for _ in range(trials):
        x = torch.randn(points, dims, generator=generator, dtype=torch.float64)
        y = torch.randint(2, (points,), generator=generator)
        found += parted(x, y)
    return found / trials


def count_dichotomies(x: Tensor, bias: bool = False) -> int:
    """How many labellings of these very points a plane realises, each one asked of a linear program.

    >>> count_dichotomies(torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), bias=True)  # all but XOR
    14
    """
    x = torch.as_tensor(x)
    if x.dim() != 2 or not 1 <= len(x) <= _MOST:
        raise UserError(
            f"count_dichotomies takes 1 to {_MOST} points, one a row",
            got=f"shape {tuple(x.shape)}",
            do="Use estimate_share for more",
        )
    bits = torch.arange(2 ** (len(x) - 1))[:, None] >> torch.arange(len(x)) & 1  # the last label 0: ±u come in pairs
    return 2 * sum(parted(x, y, bias) for y in bits)


def parted(x: Tensor, y: Tensor, bias: bool = False) -> bool:
    """Whether a plane parts these rows, for certain."""
    found = separable(x, y, bias)
    if found is None:
        raise UserError(
            "telling labellings apart for certain needs a solver of linear programs",
            got="no scipy",
            do="Install scipy",
        )
    return found
