"""What a likelihood asks of a network: the loss of values of y as a function of its output, for any family.

    loss_i(o)  = -log p(y_i | o)                      one curve for each value of y                          (1)
    Π p(y_i | o)   and   Σ log p(y_i | o)             largest at the same o: log is increasing               (2)
    L(o)       = (1/I) Σ_i loss_i(o)                                                                         (3)
               = KL[q || p(· | o)] + constant,   q = (1/I) Σ_i δ[y - y_i]                                    (4)

By (2) and (4) greatest likelihood, least cross-entropy and least divergence are one place. A family of one output is
drawn as curves over what the output means (a probability, a rate, a mean), a family of two as a map: over μ and σ where
it has them. A loss that is no likelihood has (1) and (3).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from leadline.errors import DataError, UserError
from leadline.lens.answers import answer_of
from leadline.lens.density import Density, density
from leadline.lens.style import FULL, HUES, INK, SEQUENTIAL, blank, colour_bar, label, short, styled
from leadline.lens.view import View
from leadline.likelihoods import Likelihood
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RISE, _RISE_OF_CLASSES = 1.0, 4.0  # a window ends where the loss has risen by so much
_CODES = ("binary", "classes", "ordered")
_FAR = 60.0  # or where the output is this large
_CURVES = 6  # values of y up to which each has a curve of its own


@dataclass(frozen=True, eq=False)
class Criterion(View):
    """The loss of values of y over one or two outputs.

    Args:
        family: name of the likelihood; `y` the values.
        names: what the axes show.
        outputs: of the network: (G,), or (2, G) along the two axes of a map.
        axes: what the outputs mean, (1, G), or (2, G, G) for a map [second output, first output].
        values: the different values of y, and `each` the loss of each, (values, G…) (1).
        loss: (G…), eq. 3.
        best: the outputs of least loss; `at` what they mean; `least` the loss there.
        likelihood: whether the loss is -log p, so that exp(-I · loss) is (2) and a divergence is defined.
        fitted: the distribution at `best` beside the values; None of a loss that is no likelihood.
    """

    family: str
    y: np.ndarray
    names: tuple[str, ...]
    outputs: np.ndarray
    axes: np.ndarray
    values: np.ndarray
    each: np.ndarray
    loss: np.ndarray
    best: np.ndarray
    at: np.ndarray
    least: float
    likelihood: bool
    fitted: Density | None

    @property
    def log_likelihood(self) -> np.ndarray:
        """Σ log p(y_i | o) of (2)."""
        return -len(self.y) * self.loss

    @styled
    def plot(self) -> Figure:
        return self._curves() if self.loss.ndim == 1 else self._map()

    def _curves(self) -> Figure:
        rows = 3 if self.likelihood and len(self.values) <= _CURVES else 2 if self.likelihood else 1
        figure = blank(6.2, 2.6 * rows + 0.4)
        axes = list(np.atleast_1d(figure.subplots(rows, 1, sharex=True)))
        x = self.axes[0]
        if rows != 2:
            ax = axes.pop(0)
            for k, value in enumerate(self.values):
                ax.plot(x, self.each[k], color=HUES[k % len(HUES)], label=f"y = {short(value)}")
            top = float(np.median(self.each.max(1)))
            ax.set_ylim(min(0.0, 1.05 * float(self.each.min())), max(1.05 * top, 1e-9))
            label(
                ax, f"Loss of {self.family}: −log p(y)" if self.likelihood else f"Loss of {self.family}", "", "loss", 6
            )
            bottom = ax
        many = len(self.y)
        for ax, values, name in zip(
            axes,
            (np.exp(self.log_likelihood - self.log_likelihood.max()), self.log_likelihood),
            ("likelihood", "log-likelihood"),
            strict=False,
        ):
            ax.plot(x, values, color=INK, lw=1.8)
            ax.axvline(self.at[0], color=HUES[1], lw=1.1, label=f"largest at {short(self.at[0])}")
            what = "Π p(y), its largest as 1" if name == "likelihood" else "Σ log p(y)"
            if name != "likelihood":
                ax.set_ylim(values.max() - 1.1 * min(float(np.ptp(values)), many * _RISE_OF_CLASSES), None)
            label(ax, f"{name.capitalize()} of {many} value{'s' if many > 1 else ''}", "", what, 1)
            bottom = ax
        bottom.set_xlabel(self.names[0])
        bottom.set_xlim(float(x.min()), float(x.max()))
        return figure

    def _map(self) -> Figure:
        figure = blank(FULL, 4.1)
        left, ax = figure.subplots(1, 2, width_ratios=[1, 1.15])
        if self.fitted is not None:
            draw = self.fitted
            y, p = draw.y, draw.p[:, 0]
            left.fill_between(y, p, color=HUES[0], alpha=0.12, lw=0)
            left.plot(y, p, color=HUES[0], lw=2, label="distribution of least divergence")
            values, count = np.unique(self.y, return_counts=True)
            height = 0.5 * p.max() * count / count.max()
            left.vlines(values, 0, height, color=INK, lw=1.1, label=f"values seen, mass 1/{len(self.y)} each")
            left.plot(values, height, "o", ms=2.6, color=INK)
            left.set_ylim(0, None)
            label(left, f"{self.family} and {len(self.y)} values", "y", "density p", 1)
        rise = np.clip(self.loss - self.least, 0, _RISE)
        mesh = ax.pcolormesh(*self.axes, rise, shading="gouraud", cmap=SEQUENTIAL, vmin=0, vmax=_RISE, rasterized=True)
        levels = [0.01, 0.03, 0.1, 0.2, 0.4, 0.7]
        lines = ax.contour(*self.axes, rise, levels, colors="white", linewidths=0.7, alpha=0.8)
        ax.clabel(lines, fmt=short, fontsize=7)
        ax.grid(False)
        colour_bar(ax, mesh, "divergence KL[q‖p] above its least (nats)" if self.likelihood else "loss above its least")
        word = f"least: {self.names[0]} = {short(self.at[0])}, {self.names[1]} = {short(self.at[1])}"
        ax.plot(*self.at, "*", ms=12, color=HUES[1], mec="white", label=word)
        label(
            ax,
            "−mean log p, up to a constant KL[q‖p]" if self.likelihood else "Mean loss",
            self.names[0],
            self.names[1],
            1,
        )
        ax.set(xlim=(self.axes[0].min(), self.axes[0].max()), ylim=(self.axes[1].min(), self.axes[1].max()))
        return figure


def criterion(likelihood: Likelihood, y: Any, *, num: int = 0) -> Criterion:
    """The loss of values `y` over the outputs of a network, one or two.

    Args:
        likelihood: of one output, such as Bernoulli() or Normal("fixed"), or of two, such as Normal("input").
        y: one value or several.
        num: points a side; by default 801 for one output, 161 for two.

    >>> from leadline.likelihoods import Bernoulli
    >>> view = criterion(Bernoulli(), [0, 1, 1, 1])
    >>> view.names, round(float(view.at[0]), 3)  # the part of ones
    (('probability of 1',), 0.75)
    """
    if not isinstance(likelihood, Likelihood):
        raise UserError(
            "likelihood must be one", got=given("likelihood", likelihood), do="Pass ll.likelihoods.Bernoulli()"
        )
    if likelihood.dim_output not in (1, 2):
        raise UserError(
            "a criterion is drawn over one output or two",
            got=f"{likelihood.dim_output} outputs of {type(likelihood).__name__}",
            do="Take a likelihood with fewer, such as Normal('input'), or look at ll.lens.loss_slice",
        )
    values = _checked(likelihood, y)
    likelihood = (
        copy.deepcopy(likelihood).cpu().double().eval()
    )  # the caller's stays as it is, and float64 finds the least
    rise = _RISE_OF_CLASSES if likelihood.kinds[0] in _CODES else _RISE
    num = whole("num", num, 0, usual=0) or (801 if likelihood.dim_output == 1 else 161)
    with torch.no_grad():
        mean = lambda o: _losses(likelihood, o, values).mean(0)  # noqa: E731
        best = _least(mean, likelihood.dim_output)
        sides = [_side(mean, best, k, num, rise) for k in range(likelihood.dim_output)]
        if likelihood.dim_output == 1:
            grid = sides[0][:, None]
        else:
            second, first = torch.meshgrid(sides[1], sides[0], indexing="ij")
            grid = torch.stack([first, second], -1).reshape(-1, 2)
        unique = values.unique()
        shape = (num,) * likelihood.dim_output
        each = _losses(likelihood, grid, unique)
        names, axes = _meaning(likelihood, grid)
        _, at = _meaning(likelihood, best[None])
        share = torch.stack([(values == value).double().mean() for value in unique])
        loss = (share[:, None] * each).sum(0)
        is_nll = likelihood.has_density and likelihood.loss_is_nll
        fitted = None
        if is_nll and likelihood.dim_output == 2:
            prediction = likelihood.prediction(best[None])
            if answer_of(prediction).kind in ("numbers", "angles"):
                fitted = density(prediction, y=values)
        return Criterion(
            type(likelihood).__name__, values.double().numpy(), names, torch.stack(sides).squeeze(0).numpy(),
            axes.T.reshape(-1, *shape).numpy(), unique.double().numpy(), each.reshape(-1, *shape).numpy(),
            loss.reshape(shape).numpy(), best.numpy(), at[0].numpy(), float(mean(best[None])[0]), is_nll, fitted,
        )  # fmt: skip


def _checked(likelihood: Likelihood, y: Any) -> Tensor:
    try:
        values = (y.detach().cpu() if isinstance(y, Tensor) else torch.tensor(np.asarray(y))).reshape(-1)
    except (TypeError, ValueError, RuntimeError):
        values = torch.zeros(0)
    if not len(values) or not bool(torch.isfinite(values.double()).all()):
        raise DataError("y must be finite values, one or more", got=given("y", y), do="Write y=[0, 1]")
    codes = likelihood.kinds[0] in _CODES and bool((values == values.round()).all())
    values = values.long() if codes else values.double()
    likelihood.check(values)
    return values


def _losses(likelihood: Likelihood, o: Tensor, values: Tensor) -> Tensor:
    """The loss of each value at each output, (values, n), in float64."""
    found = [likelihood.loss(o, value.expand(len(o))) for value in values]
    return torch.stack(found).double()


def _least(mean: Any, dim: int) -> Tensor:
    """Outputs of least loss: the best point of a grid, looked at ever closer."""
    centre, reach = torch.zeros(dim, dtype=torch.float64), _FAR
    while reach > 1e-9:
        side = torch.linspace(-reach, reach, 241 if dim == 1 else 41, dtype=torch.float64)
        steps = side[:, None] if dim == 1 else torch.cartesian_prod(side, side)
        found = mean(centre + steps)
        centre = centre + steps[int(torch.where(found.isfinite(), found, math.inf).argmin())]
        reach = reach / 4
    return centre.clamp(-_FAR, _FAR)


def _side(mean: Any, best: Tensor, k: int, num: int, rise: float) -> Tensor:
    """The axis of output k: around the best, as far as the loss rises by `rise`."""
    ends = []
    for sign in (-1.0, 1.0):
        step = torch.logspace(-2, math.log10(2 * _FAR), 400, dtype=torch.float64)
        along = best.repeat(len(step), 1)
        along[:, k] += sign * step
        along = along[(along[:, k].abs() <= _FAR)]
        high = (mean(along) - mean(best[None]) > rise).nonzero() if len(along) else torch.zeros(0)
        ends.append(float(along[int(high[0]), k] if len(high) else sign * _FAR))
    return torch.linspace(ends[0], ends[1], num, dtype=torch.float64)


def _meaning(likelihood: Likelihood, o: Tensor) -> tuple[tuple[str, ...], Tensor]:
    """What outputs (n, dim) mean, and its names; the outputs themselves where that is no number each."""
    raw = tuple(f"output {k + 1}" for k in range(o.shape[1])) if o.shape[1] > 1 else ("output",)
    if not likelihood.has_density:
        return raw, o
    prediction = likelihood.prediction(o)
    answer = answer_of(prediction)
    if answer.kind == "classes":
        if answer.probabilities.shape[1] == 2 and o.shape[1] == 1:
            return ("probability of 1",), torch.as_tensor(answer.probabilities[:, 1:])
        return raw, o
    if answer.kind == "angles":
        return raw, o
    mean = torch.as_tensor(answer.mean)
    if o.shape[1] == 1:
        return ("mean μ",), mean[:, None]
    distribution: Any = prediction.distribution
    if answer.kind == "numbers" and hasattr(distribution, "loc") and hasattr(distribution, "scale"):
        own = [torch.as_tensor(part.double().cpu()) for part in (distribution.loc, distribution.scale)]
        return ("μ", "σ"), torch.stack(own, 1)
    return ("mean", "deviation"), torch.stack([mean, torch.as_tensor(answer.std)], 1)
