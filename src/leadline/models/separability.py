"""Can a plane part two classes, how widely, and how long may the perceptron take?

    z_i   = y_i (x_i, 1)                                       (1)   without the 1 where there is no bias
    γ     = max over |u| = 1 of min_i uᵀ z_i                   (2)   above 0 if and only if they can be parted
          = |v|, v the point of the convex hull of all z_i nearest to 0
    R     = max_i |z_i|                                        (3)
    t    <= ⌊R² / γ²⌋  mistakes of the perceptron              (4)   (Novikoff, 1962)
    V     = {u : uᵀ z_i > 0 for all i}                         (5)   the version space

(2) is decided by a linear program where scipy is installed: z_iᵀ u >= 1 has a solution or has none. v is found by
moving weight from the worst corner of the hull to the best (Mitchell, Demyanov and Malozemov, 1974).

Notation   u -> (w, b);  γ -> margin;  R -> radius;  y -> codes 0 and 1, or -1 and +1
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from leadline.errors import DataError, ShapeError
from leadline.settings import whole

_ITERATIONS = 20_000
_CLOSE = 1e-4  # v is near enough when its margin is within this share of its length, an upper bound of γ


@dataclass(frozen=True, eq=False)
class Separation:
    """Args:
    separable: whether some plane separates the classes; None where that was not decided.
    w, b: a separating plane with |(w, b)| = 1 in the space of (1); the widest up to rounding. None where there is none.
    margin: γ of that plane.
    radius: R.
    bias: whether (1) has its 1.
    """

    separable: bool | None
    w: Tensor | None
    b: float
    margin: float
    radius: float
    bias: bool

    @property
    def bound(self) -> int | None:
        """Eq. 4; None where no plane separates the classes."""
        return novikoff(self.radius, self.margin) if self.separable else None

    def __str__(self) -> str:
        if self.separable is None:
            return "not decided: no separating plane was found, and scipy is not installed to rule one out"
        if not self.separable:
            return "no plane separates the classes"
        return f"a plane separates the classes with margin {self.margin:.4g}; at most {self.bound} mistakes to find one"


@dataclass(frozen=True, eq=False)
class VersionSpace:
    """Args:
    share: part of all directions (w, b) that part the classes, estimated.
    most: upper end of its 95 % interval, above 0 also where none was found.
    centre: mean of those found, of length 1; None where there is none.
    count, num: how many of how many directions.
    """

    share: float
    most: float
    centre: Tensor | None
    count: int
    num: int


def novikoff(radius: float, margin: float) -> int:
    """Eq. 4.

    >>> novikoff(1.0, 0.1), novikoff(3.0, 3.0)
    (100, 1)
    """
    if not (0 < margin <= radius * (1 + 1e-9)):
        raise DataError(
            "margin must be above 0 and at most radius",
            got=f"margin={margin}, radius={radius}",
            do="Swap or correct them",
        )
    return math.floor((radius / margin) ** 2 * (1 + 1e-9))


def separate(x: Tensor, y: Tensor, bias: bool = True) -> Separation:
    """Whether and how a plane parts the rows of x by y.

    >>> bits = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> separate(bits, torch.tensor([0, 1, 1, 0])).separable, separate(bits, torch.tensor([0, 1, 1, 1])).separable
    (False, True)
    """
    z = signed(x, y, bias)
    radius = float(z.norm(dim=1).max())
    separable, u = _program(z), None
    if separable is not False:
        u = _nearest(z)
        margin = float((z @ u).min())
        if margin <= 0 and separable:  # thinner than the search can see: the program's own answer serves
            u, margin = _feasible(z)
        separable = True if margin > 0 else separable
    if not separable or u is None:
        return Separation(separable, None, 0.0, 0.0, radius, bias)
    return Separation(True, u[:-1] if bias else u, float(u[-1]) if bias else 0.0, margin, radius, bias)


def separable(x: Tensor, y: Tensor, bias: bool = True) -> bool | None:
    """Whether a plane parts the rows, and nothing more; None where scipy is not there to decide it.

    >>> separable(torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 1, 0]))
    False
    """
    return _program(signed(x, y, bias))


def version_space(x: Tensor, y: Tensor, num: int = 10_000, seed: int = 0, bias: bool = True) -> VersionSpace:
    """Which part of all directions lies in (5), by drawing `num` of them.

    >>> round(version_space(torch.tensor([[1.0]]), torch.tensor([1]), bias=False).share, 1)
    0.5
    """
    z, num = signed(x, y, bias), whole("num", num)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1, usual=0))
    found, total = 0, torch.zeros(z.shape[1], dtype=z.dtype)
    part = max(1, 2**22 // len(z))
    for begin in range(0, num, part):
        u = torch.randn(min(part, num - begin), z.shape[1], dtype=z.dtype, generator=generator)
        u = u / u.norm(dim=1, keepdim=True)
        fits = (u @ z.T > 0).all(1)
        found += int(fits.sum())
        total += u[fits].sum(0)
    share, square = found / num, 1.96**2
    half = 1.96 * math.sqrt(share * (1 - share) / num + square / (4 * num * num))
    most = (share + square / (2 * num) + half) / (1 + square / num)  # Wilson's interval
    return VersionSpace(share, most, total / total.norm() if found else None, found, num)


def signed(x: Tensor, y: Tensor, bias: bool = True) -> Tensor:
    """Eq. 1, (B, d + 1) in float64."""
    x, y = torch.as_tensor(x).double().cpu(), torch.as_tensor(y).double().cpu()
    if x.dim() < 2 or y.shape != (len(x),) or not len(x):
        raise ShapeError(
            "x must hold rows and y one label for each",
            got=f"x of shape {tuple(x.shape)} and y of shape {tuple(y.shape)}",
            do="Pass x (B, d) and y (B,)",
        )
    y = y * 2 - 1 if bool(((y == 0) | (y == 1)).all()) else y
    if not bool((y.abs() == 1).all()):
        raise DataError("labels must be 0 and 1, or -1 and +1", got=f"{y[y.abs() != 1][0].item():g}", do="Recode them")
    x = x.flatten(1)
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1) if bias else x
    return y[:, None] * x


def _program(z: Tensor) -> bool | None:
    """Whether z u >= 1 has a solution; None where there is no solver to ask."""
    if importlib.util.find_spec("scipy") is None:
        return None
    return _solve(z) is not None


def _solve(z: Tensor) -> Tensor | None:
    from scipy.optimize import linprog

    size = float(z.abs().max()) or 1.0  # a solver's tolerances are absolute
    answer = linprog(
        torch.zeros(z.shape[1]).numpy(), -(z / size).numpy(), -torch.ones(len(z)).numpy(), bounds=(None, None)
    )
    return torch.from_numpy(answer.x) if answer.status == 0 else None


def _feasible(z: Tensor) -> tuple[Tensor | None, float]:
    u = _solve(z)
    if u is None:
        return None, 0.0
    u = u / u.norm()
    return u, float((z @ u).min())


def _nearest(z: Tensor) -> Tensor:
    """The direction of v of eq. 2."""
    share = torch.zeros(len(z), dtype=z.dtype)
    begin = int(z.norm(dim=1).argmin())
    share[begin] = 1.0
    v = z[begin].clone()
    along = z @ v
    for _ in range(_ITERATIONS):
        best = int(along.argmin())
        worst = int(torch.where(share > 0, along, -math.inf).argmax())
        length = float(v @ v)
        if length - float(along[best]) <= _CLOSE * length or length == 0:
            break
        way = z[worst] - z[best]
        move = min(float(share[worst]), float(along[worst] - along[best]) / max(float(way @ way), 1e-300))
        share[worst] -= move
        share[best] += move
        v -= move * way
        along = z @ v
    return v / v.norm().clamp(min=1e-300)
