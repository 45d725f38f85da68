"""Noise, bias and variance: what an error is made of, by fitting again and again to fresh data of a known truth.

    y       = μ(x) + σ ε,                            ε standard normal                       (1)   the world
    f̄(x)    = E_D f_D(x)                             over data sets D                        (2)   the mean fit
    E_D,y (f_D(x) - y)² = E_D (f_D(x) - f̄(x))²  +  (f̄(x) - μ(x))²  +  σ²                     (3)
          loss          =      variance          +      bias²       +  noise

Everything is estimated without bias from S fits: the variance with S - 1, the squared bias less variance / S, which is
what f̄ of a sample scatters by; a squared bias near 0 may then come out a little below it. The loss is measured on its
own, against fresh targets, so that (3) is a check and no tautology.

Notation   μ -> World.mean,  σ -> World.noise,  D -> a row of `World.draw`,  S -> sets
Fits       a fit takes all sets at once, `fit(xs, ys, x) -> predictions`: `least_squares` solves them together,
           `networks` trains them as a population, `one_by_one` makes a fit of any fitting function
Shapes     xs (S, I, 1), ys (S, I), x (P, 1) -> predictions (S, P)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.arrays import arrays
from leadline.errors import ShapeError, UserError
from leadline.lens.style import DASHED, FULL, HALF, HUES, INK, SOFT, blank, label, short, styled
from leadline.lens.view import View
from leadline.population import fit_many
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Fit = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class World:
    """Data with a known truth (1), x in [low, high].

    Args:
        mean: μ, of a tensor of any shape.
        noise: σ, at least 0.
        even: one x from each of as many equal segments as there are rows, and not anywhere at random.

    >>> xs, ys = World(torch.sin, noise=0.1).draw(rows=6, sets=3)
    >>> xs.shape, ys.shape
    (torch.Size([3, 6, 1]), torch.Size([3, 6]))
    """

    mean: Callable[[Tensor], Tensor]
    noise: float = 0.3
    low: float = 0.0
    high: float = 1.0
    even: bool = True

    def __post_init__(self):
        real("noise", self.noise, 0, usual=0.3)
        if not self.low < self.high:
            raise UserError("low must be below high", got=f"low={self.low}, high={self.high}", do="Pass low=0, high=1")

    def draw(self, rows: int, sets: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        """`sets` data sets of `rows` rows each."""
        g = torch.Generator().manual_seed(whole("seed", seed, 0))
        shape = (whole("sets", sets, 1), whole("rows", rows, 1))
        u = torch.rand(shape, generator=g, dtype=torch.float64)
        if self.even:
            u = (torch.arange(rows) + u) / rows
        x = self.low + (self.high - self.low) * u
        return x[..., None], self.mean(x) + self.noise * torch.randn(shape, generator=g, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Decomposition(View):
    """Args:
    x, truth: places and μ there.
    fits: (sets, places).
    noise: σ².
    losses: of each set, the mean over places of the squared error on fresh targets.
    rows: in a data set.
    sample: one data set, x and y, for the figure.
    """

    x: np.ndarray
    truth: np.ndarray
    fits: np.ndarray
    noise: float
    losses: np.ndarray
    rows: int
    sample: tuple[np.ndarray, np.ndarray]

    @property
    def mean_fit(self) -> np.ndarray:
        """Eq. 2 at each place."""
        return self.fits.mean(0)

    @property
    def variances(self) -> np.ndarray:
        """At each place."""
        return self.fits.var(0, ddof=1)

    @property
    def squared_biases(self) -> np.ndarray:
        """At each place, without bias."""
        return (self.mean_fit - self.truth) ** 2 - self.variances / len(self.fits)

    @property
    def variance(self) -> float:
        """Mean over places."""
        return float(self.variances.mean())

    @property
    def squared_bias(self) -> float:
        """Mean over places."""
        return float(self.squared_biases.mean())

    @property
    def total(self) -> float:
        """The right side of eq. 3."""
        return self.variance + self.squared_bias + self.noise

    @property
    def loss(self) -> float:
        """The left side of eq. 3, measured."""
        return float(self.losses.mean())

    @property
    def loss_error(self) -> float:
        """The standard error of `loss`."""
        return float(self.losses.std(ddof=1) / math.sqrt(len(self.losses)))

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.7)
        left, right = figure.subplots(1, 2, sharey=True)
        mean, deviation = self.mean_fit, np.sqrt(self.variances)
        left.fill_between(
            self.x, mean - 2 * deviation, mean + 2 * deviation, color=HUES[0], alpha=0.2, lw=0, label="± 2 deviations"
        )
        for k, fit in enumerate(self.fits[:3]):
            left.plot(self.x, fit, color=SOFT, lw=0.8, alpha=0.8, label="three of the fits" if k == 0 else None)
        left.plot(self.x, mean, color=HUES[0], label="mean fit")
        left.plot(self.x, self.truth, color=INK, lw=1.2, ls=DASHED, label="truth")
        left.plot(*self.sample, "o", ms=3.5, color=HUES[1], label="rows of one set")
        top, sigma = self.truth, math.sqrt(self.noise)
        right.fill_between(self.x, top - 2 * sigma, top + 2 * sigma, color=SOFT, alpha=0.15, lw=0, label="noise ± 2σ")
        for sign, hue, name in ((1, HUES[1], "fit above truth"), (-1, HUES[2], "fit below truth")):
            where = sign * (mean - self.truth) > 0
            right.fill_between(self.x, mean, self.truth, where=where, color=hue, alpha=0.5, lw=0, label=name)
        right.plot(self.x, mean, color=HUES[0], label="mean fit")
        right.plot(self.x, self.truth, color=INK, lw=1.2, ls=DASHED, label="truth")
        spread = max(float(np.ptp(self.truth)), 4 * sigma, 1e-9)
        left.set_ylim(float(self.truth.min()) - 0.6 * spread, float(self.truth.max()) + 0.6 * spread)
        said = f"{len(self.fits)} fits to {self.rows} rows"
        label(left, f"{said}: variance {short(self.variance)}", "x", "y", legend=3)
        label(right, f"Bias² {short(self.squared_bias)}, noise {short(self.noise)}", "x", "", legend=3)
        return figure


@dataclass(frozen=True, eq=False)
class Tradeoff(View):
    """Bias and variance against capacity.

    Args:
        capacity: what the fits were given.
        squared_bias, variance, loss, loss_error: of each.
        noise: σ².
        axis: what capacity is.
        rows: in a data set.
    """

    capacity: np.ndarray
    squared_bias: np.ndarray
    variance: np.ndarray
    loss: np.ndarray
    loss_error: np.ndarray
    noise: float
    axis: str
    rows: int

    @property
    def best(self) -> float:
        """The capacity whose bias² + variance is least."""
        return float(self.capacity[(self.squared_bias + self.variance).argmin()])

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF + 1.2, 3.7)
        axes = figure.subplots()
        total = self.squared_bias + self.variance
        axes.plot(self.capacity, self.squared_bias, "o-", ms=3.5, color=HUES[0], label="bias²")
        axes.plot(self.capacity, self.variance, "o-", ms=3.5, color=HUES[1], label="variance")
        axes.plot(self.capacity, total, "o", ms=3.5, ls=DASHED, color=INK, label="bias² + variance")
        axes.errorbar(
            self.capacity, self.loss - self.noise, 2 * self.loss_error,
            fmt="x", ms=5, color=HUES[2], elinewidth=1, capsize=2, label="measured loss - noise",
        )  # fmt: skip
        axes.axvline(self.best, color=SOFT, lw=1, ls=":", label=f"least at {self.best:g}")
        # the most capable fits may vary so much that the rest would be a line
        axes.set_ylim(0, min(1.05 * float(total.max()), 6 * float(np.median(total))))
        label(axes, f"What the error is made of, {self.rows} rows", self.axis, "mean squared error", legend=3)
        return figure


def decompose(fit: Fit, world: World, rows: int, *, sets: int = 200, places: int = 101, seed: int = 0) -> Decomposition:
    """Noise, bias and variance of a way to fit, by eq. 3.

    Args:
        fit: of all sets at once, see above.
        world: what is to be learned.
        rows: in a data set, at least 1.
        sets: how many are drawn and fitted, at least 2.
        places: equal steps from end to end of the world at which fits are compared, at least 2.
        seed: of the data and of the fresh targets.

    >>> view = decompose(least_squares(lambda x: x), World(lambda x: x**2, noise=0.1), rows=20)
    >>> view.squared_bias > view.variance, abs(view.total - view.loss) < 4 * view.loss_error
    (True, True)
    """
    xs, ys = world.draw(rows, whole("sets", sets, 2), seed)
    x = torch.linspace(world.low, world.high, whole("places", places, 2), dtype=torch.float64)[:, None]
    fits = fit(xs, ys, x).detach().double().cpu()
    if fits.shape != (sets, places):
        raise ShapeError(
            "a fit must return one prediction for each set and place",
            got=f"shape {tuple(fits.shape)} for {sets} sets and {places} places",
            do="Return a tensor of shape (sets, places); one_by_one makes such a fit of any fitting function",
        )
    truth = world.mean(x[:, 0])
    g = torch.Generator().manual_seed(whole("seed", seed, 0) + 1_000_003)
    fresh = truth + world.noise * torch.randn(fits.shape, generator=g, dtype=torch.float64)
    losses = (fits - fresh).square().mean(1)
    sample = xs[0, :, 0].numpy(), ys[0].numpy()
    return Decomposition(
        x[:, 0].numpy(), truth.numpy(), fits.numpy(), float(world.noise) ** 2, losses.numpy(), rows, sample
    )


def tradeoff(
    fit_of: Callable[[int], Fit],
    world: World,
    rows: int,
    capacities: Sequence[int],
    *,
    axis: str = "capacity",
    sets: int = 200,
    places: int = 101,
    seed: int = 0,
) -> Tradeoff:
    """Bias and variance against capacity; arguments as in `decompose`.

    Args:
        fit_of: a function from the capacity to a fit.

    >>> polynomial = lambda order: least_squares(lambda x: torch.cat([x**k for k in range(1, order + 1)], -1))
    >>> tradeoff(polynomial, World(lambda x: (6 * x).sin(), noise=0.3), 15, range(1, 8)).best
    3.0
    """
    found = [decompose(fit_of(c), world, rows, sets=sets, places=places, seed=seed) for c in capacities]
    pick = lambda name: np.array([getattr(view, name) for view in found])  # noqa: E731
    at, noise = np.array(list(capacities), float), float(world.noise) ** 2
    return Tradeoff(at, pick("squared_bias"), pick("variance"), pick("loss"), pick("loss_error"), noise, axis, rows)


def one_by_one(fit: Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]]) -> Fit:
    """A fit out of any fitting function: `fit(x, y)` of one data set returns what predicts.

    >>> mean = one_by_one(lambda x, y: lambda new: y.mean().expand(len(new)))
    >>> mean(torch.zeros(2, 3, 1), torch.tensor([[1.0, 2, 3], [4, 5, 6]]), torch.zeros(1, 1)).flatten().tolist()
    [2.0, 5.0]
    """
    return lambda xs, ys, x: torch.stack([fit(*pair)(x).flatten() for pair in zip(xs, ys, strict=True)])


def least_squares(features: Callable[[Tensor], Tensor], ridge: float = 0.0) -> Fit:
    """All sets in closed form: y ≈ β + ωᵀ features(x), with λ |ω|² added; of many exact fits the shortest.

    Args:
        features: of x (…, 1) to (…, F), such as `FixedJoints.features` or powers of x.
        ridge: λ, at least 0.

    >>> line = least_squares(lambda x: x)
    >>> line(torch.tensor([[[0.0], [1.0]]]), torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0]])).round().tolist()
    [[5.0]]
    """
    ridge = real("ridge", ridge, 0, usual=0.1)

    def fit(xs: Tensor, ys: Tensor, x: Tensor) -> Tensor:
        raw = _features(features, xs)
        mean, target = raw.mean(1, keepdim=True), ys.mean(1, keepdim=True)
        left, right = raw - mean, (ys - target)[..., None]
        if ridge:  # the penalty as further rows
            count = raw.shape[-1]
            more = math.sqrt(ridge) * torch.eye(count, dtype=raw.dtype).expand(len(raw), count, count)
            left, right = torch.cat([left, more], 1), torch.cat([right, right.new_zeros(len(raw), count, 1)], 1)
        slopes = torch.linalg.pinv(left, rtol=1e-10) @ right  # (S, F, 1)
        return ((_features(features, x[None]) - mean) @ slopes)[..., 0] + target

    return fit


def networks(model: nn.Module | Callable[..., nn.Module], **settings: Any) -> Fit:
    """All sets as one population: member s is trained on set s from first weights of its own.

    Args:
        model: as for `fit_many`.
        settings: of all members.

    >>> import leadline as ll
    >>> fit = networks(ll.models.MLP(1, (4,), 1, p_drop=0.0), epochs=2, batch=8)
    >>> xs, ys = World(torch.sin).draw(rows=8, sets=3)
    >>> fit(xs, ys, torch.zeros(5, 1)).shape
    torch.Size([3, 5])
    """

    def fit(xs: Tensor, ys: Tensor, x: Tensor) -> Tensor:
        members: list[Mapping[str, Any]] = [
            {"seed": seed, "data": arrays(one.float(), y.float(), kind="real", val=0.0, test=0.0)}
            for seed, (one, y) in enumerate(zip(xs, ys, strict=True))
        ]
        population = fit_many(model, members[0]["data"], members, **{"progress": False, **settings})
        return torch.stack([run.predict(x.float()).mean.flatten() for run in population])

    return fit


def _features(features: Callable[[Tensor], Tensor], xs: Tensor) -> Tensor:
    """Of rows in sets: features take rows alone."""
    return features(xs.reshape(-1, xs.shape[-1])).view(*xs.shape[:-1], -1)
