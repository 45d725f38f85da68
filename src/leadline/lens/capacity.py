"""How much a model can be made to say: labels that mean nothing, and whether it fits them.

    Rademacher   E_σ[ max_h (1/n) Σ_i σ_i h(x_i) ],   σ_i = ±1 at random         from 0 to 1                     (1)
    VC           the most points of which some set takes every one of its 2^d labellings                         (2)
    effective    the most rows n that model and training together fit without an error (Nakkiran et al., 2019)   (3)

Each takes a fitting function, `fit(x, y)`, which trains a fresh model on rows x with labels y of 0 and 1 (or more, for
effective capacity) and returns the labels that it then gives to x. What it does not reach by its training counts as not
fitted: (1) and (2) are then lower bounds, and (3) is meant so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from leadline.errors import UserError
from leadline.lens.style import HALF, HUES, INK, SOFT, blank, label, short, styled
from leadline.lens.view import View
from leadline.settings import given, real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Fit = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Rademacher(View):
    """Args:
    correlations: of fitted with random labels, one for each draw.
    rows: n.
    """

    correlations: np.ndarray
    rows: int

    @property
    def value(self) -> float:
        """Eq. 1."""
        return float(self.correlations.mean())

    @property
    def error(self) -> float:
        """The standard error of `value`."""
        return float(self.correlations.std(ddof=1) / len(self.correlations) ** 0.5)

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF * 1.1, 3.0)
        ax = figure.subplots()
        ax.hist(self.correlations, np.linspace(-1.0, 1.0, 41), color=HUES[0], rwidth=0.94)
        ax.axvline(self.value, color=INK, lw=1.2, label=f"mean {short(self.value)} ± {short(self.error)}")
        label(ax, f"Random labels of {self.rows} rows", "correlation of fitted and drawn labels", "draws", 1)
        return figure


@dataclass(frozen=True, eq=False)
class Shattering(View):
    """Args:
    rows: numbers of rows that were tried, ascending.
    share: the largest share of labellings of so many rows that were fitted without an error.
    largest: the capacity.
    title: which of the two it is.
    """

    rows: np.ndarray
    share: np.ndarray
    largest: int
    title: str

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF * 1.1, 3.0)
        ax = figure.subplots()
        ax.plot(self.rows, 100 * self.share, "o-", ms=4.5, color=HUES[0])
        ax.axvline(self.largest, color=INK, lw=1.1, ls=":", label=f"{self.largest} rows")
        ax.axhline(100, color=SOFT, lw=0.8)
        ax.set_ylim(-4, 108)
        label(ax, self.title, "rows", "labellings fitted in %", 1)
        return figure


def rademacher(fit: Fit, x: Tensor, *, draws: int = 20, seed: int = 0) -> Rademacher:
    """Eq. 1 by fitting random labels.

    Args:
        fit: as above, of labels 0 and 1.
        x: the rows.
        draws: of labels, at least 2.

    >>> view = rademacher(lambda x, y: y, torch.zeros(10, 1))  # a model that remembers everything
    >>> view.value
    1.0
    """
    _check(fit, x)
    draws, generator = whole("draws", draws, 2), _generator(seed)
    found = []
    for _ in range(draws):
        y = torch.randint(2, (len(x),), generator=generator)
        found.append(1 - 2 * float((_labels(fit, x, y) != y).double().mean()))
    return Rademacher(np.array(found), len(x))


def vc_dimension(fit: Fit, points: Tensor) -> Shattering:
    """Eq. 2 among the given points, by trying every labelling of every set of them.

    Points in general position, a few more than the dimension that is looked for; 2^d fits for each set of d.

    >>> thresholds = lambda x, y: y if bool((y[x[:, 0].argsort()].diff() >= 0).all()) else 1 - y
    >>> vc_dimension(thresholds, torch.tensor([[0.0], [1.0], [2.0]])).largest
    1
    """
    _check(fit, points)
    if len(points) > 10:
        raise UserError(
            "every labelling of every set is tried, so there can be at most 10 points",
            got=f"{len(points)}",
            do="Pass fewer points",
        )
    sizes, shares, largest = [], [], 0
    for d in range(1, len(points) + 1):
        best = max(_shattered(fit, points[list(chosen)]) for chosen in combinations(range(len(points)), d))
        sizes.append(d)
        shares.append(best)
        if best < 1:
            break
        largest = d
    return Shattering(np.array(sizes), np.array(shares), largest, f"VC dimension {largest}, of {len(points)} points")


def _shattered(fit: Fit, x: Tensor) -> float:
    """Share of the labellings of x that are fitted."""
    labels = torch.arange(2 ** len(x))[:, None] >> torch.arange(len(x)) & 1
    return sum(bool((_labels(fit, x, y) == y).all()) for y in labels) / len(labels)


def effective_capacity(
    fit: Fit, x: Tensor, y: Tensor | None = None, *, classes: int = 2, draws: int = 3, part: float = 0.5, seed: int = 0
) -> Shattering:
    """Eq. 3: doubled until it fails, then halved in.

    Args:
        fit: as above.
        x: rows to choose from.  y: their labels; None draws `classes` labels at random.
        draws: choices of rows and labels at each number.  part: of them that must be fitted, above 0, at most 1.

    >>> small = lambda x, y: y if len(y) <= 13 else torch.zeros_like(y) - 1  # a model that remembers 13 rows
    >>> effective_capacity(small, torch.zeros(100, 1)).largest
    13
    """
    _check(fit, x)
    draws, classes = whole("draws", draws), whole("classes", classes, 2)
    part = real("part", part, 0, most=1, above=True, usual=0.5)
    tried: dict[int, float] = {}

    def fits(n: int) -> bool:
        generator, done = _generator(seed), 0
        for _ in range(draws):
            chosen = torch.randperm(len(x), generator=generator)[:n]
            drawn = torch.randint(classes, (n,), generator=generator)
            labels = drawn if y is None else y[chosen]
            done += bool((_labels(fit, x[chosen], labels) == labels).all())
        tried[n] = done / draws
        return tried[n] >= part

    low, high = 0, 1
    while high <= len(x) and fits(high):
        low, high = high, 2 * high
    high = min(high, len(x) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    sizes = np.array(sorted(tried))
    more = " or more" if low == len(x) else ""
    return Shattering(sizes, np.array([tried[n] for n in sizes]), low, f"Effective capacity: {low} rows{more}")


def _labels(fit: Fit, x: Tensor, y: Tensor) -> Tensor:
    found = torch.as_tensor(fit(x, y)).cpu()
    if found.shape != y.shape:
        raise UserError(
            "fit must return one label for each row",
            got=f"shape {tuple(found.shape)}",
            do="Return codes such as 0 and 1",
        )
    return found.long()


def _check(fit: Fit, x: Tensor) -> None:
    if not callable(fit):
        raise UserError("fit must be a function of (x, y)", got=given("fit", fit), do="Pass one that returns labels")
    if not isinstance(x, Tensor) or x.ndim < 2 or not len(x):
        raise UserError("rows must be a tensor (n, …)", got=given("x", x), do="Pass data.train.x")


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1, usual=0))
