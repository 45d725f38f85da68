"""From one minimum to another: along the straight line, and along a bent path that stays low.

    line     φ(t) = (1-t) φ_1 + t φ_2                                                                       (1)
    Bézier   φ(t) = (1-t)² φ_1 + 2 t (1-t) θ + t² φ_2,   θ trained on E_t[L(φ(t))], t uniform on [0, 1]     (2)
    barrier  max_t L(φ(t)) - ((1-t) L(φ_1) + t L(φ_2))                                                      (3)

Two networks trained from different first weights have a barrier between them on (1) and mostly none on (2), found by a
few hundred steps (Garipov et al., 2018). The middle of (1) is the network of averaged weights: it fails, where averaged
predictions help (Frankle et al., 2020).

Running statistics of batch norm stay those of the first network, with which networks on the way read badly: fold them
into the weights first, with `leadline.models.fold`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.engine.evaluation import outputs
from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.landscape import Landscape
from leadline.lens.path import flat
from leadline.lens.style import HALF, HUES, INK, blank, label, short, styled
from leadline.lens.view import View
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Connection(View):
    """Args:
    at: t, from 0 to 1.
    line, bent: the loss on (1) and on (2).
    steps: that θ was trained for.  middle: θ, in the order of the parameters.
    """

    at: np.ndarray
    line: np.ndarray
    bent: np.ndarray
    steps: int
    middle: np.ndarray

    @property
    def barrier(self) -> float:
        """Eq. 3 on the line."""
        return self._above(self.line)

    @property
    def bent_barrier(self) -> float:
        """Eq. 3 on the bent path."""
        return self._above(self.bent)

    def _above(self, loss: np.ndarray) -> float:
        return float((loss - (1 - self.at) * self.line[0] - self.at * self.line[-1]).max())

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF * 1.25, 3.4)
        ax = figure.subplots()
        ax.plot(self.at, self.line, color=HUES[1], label=f"straight line, barrier {short(self.barrier)}")
        ax.plot(
            self.at, self.bent, color=HUES[0],
            label=f"bent path, {self.steps} steps, barrier {short(self.bent_barrier)}",
        )  # fmt: skip
        ax.plot(self.at[[0, -1]], self.line[[0, -1]], "o", ms=5.5, color=INK, label="the two networks")
        if self.line.min() > 0 and max(self.line.max(), self.bent.max()) / min(self.line.min(), self.bent.min()) >= 30:
            ax.set_yscale("log")
        label(ax, "Between two minima", "way t from the first network (0) to the second (1)", "mean loss of a row", 1)
        return figure


def connect(
    first: nn.Module,
    second: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    split: str = "train",
    most: int = 2000,
    steps: int = 300,
    lr: float = 0.01,
    batch: int = 256,
    num: int = 41,
    seed: int = 0,
) -> Connection:
    """The loss between two networks of one architecture, on the line and on a path that is trained.

    Args:
        data, likelihood, split, most: as for `hessian`.
        steps: of Adam on the middle point θ, from 0 on.  lr: above 0.  batch: rows a step.
        num: points of the way, at least 3.
        seed: of t and of the batches.

    >>> import leadline as ll
    >>> a, b, data = ll.models.Linear(2, 1), ll.models.Linear(2, 1), ll.data.moons(num=60)
    >>> view = connect(a, b, data, steps=0, num=5)
    >>> abs(view.barrier) < 1e-6  # a convex loss has none
    True
    """
    steps, num, batch = whole("steps", steps, 0), whole("num", num, 3), whole("batch", batch)
    lr = real("lr", lr, 0, above=True, usual=0.01)
    with at_rest(first):
        landscape = Landscape(first, data, likelihood, split, most)
        ends = landscape.centre, _alike(landscape.centre, flat(second))
        middle = _bend(landscape, *ends, steps, lr, batch, seed)
        at = np.linspace(0, 1, num)
        straight = (ends[0] + ends[1]) / 2
        line, bent = ([float(landscape.loss(_bezier(*ends, m, t))) for t in at] for m in (straight, middle))
    return Connection(at, np.array(line), np.array(bent), steps, middle.double().cpu().numpy())


def _alike(one: Tensor, other: Tensor) -> Tensor:
    if one.shape != other.shape:
        raise ShapeError(
            "both models must have the same parameters",
            got=f"{len(one):,} and {len(other):,} of them",
            do="Compare models of one architecture",
        )
    return other.to(one)


def _bezier(first: Tensor, second: Tensor, middle: Tensor, t: float) -> Tensor:
    return (1 - t) ** 2 * first + 2 * t * (1 - t) * middle + t**2 * second  # eq. 2; a line where θ is half way


def _bend(landscape: Landscape, first: Tensor, second: Tensor, steps: int, lr: float, batch: int, seed: int) -> Tensor:
    """θ after `steps` steps of Adam on eq. 2, the step falling to 0 along half a cosine."""
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1, usual=0))
    middle = ((first + second) / 2).clone()
    rule = torch.optim.Adam([middle], lr=lr)
    for k in range(steps):
        t = float(torch.rand((), generator=generator))
        rows = torch.randint(len(landscape.y), (min(batch, len(landscape.y)),), generator=generator)
        pull = landscape.gradient(_bezier(first, second, middle, t), rows.to(landscape.y.device))
        middle.grad = 2 * t * (1 - t) * pull
        rule.param_groups[0]["lr"] = lr * (1 + math.cos(math.pi * k / steps)) / 2
        rule.step()
    return middle


@dataclass(frozen=True, eq=False)
class Averaging(View):
    """Args:
    members: mean loss of each network.
    weights: of the one network that has the mean of their weights.
    predictions: of the mean of their predicted distributions.
    """

    members: np.ndarray
    weights: float
    predictions: float

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF * 1.2, 3.2)
        ax = figure.subplots()
        heights = [float(self.members.mean()), self.weights, self.predictions]
        names = [f"{len(self.members)} members\n(mean)", "mean of\ntheir weights", "mean of their\npredictions"]
        ax.bar(names, heights, width=0.6, color=[HUES[9], HUES[1], HUES[0]])
        ax.plot(np.zeros(len(self.members)), self.members, "o", ms=4, color=INK, label="each member", clip_on=False)
        for place, height in enumerate(heights):
            ax.annotate(
                short(height), (place, 0), xytext=(0, 6), textcoords="offset points", ha="center", color="white"
            )
        ax.grid(False, axis="x")
        ax.set_ylim(min(0.0, *heights), 1.12 * max(*heights, float(self.members.max())))
        label(ax, "Averages of trained networks", "", "mean loss of a row", 1)
        return figure


def averaging(
    models: Sequence[nn.Module], data: Any, *, likelihood: Any = None, split: str = "test", most: int = 2000
) -> Averaging:
    """Networks of one architecture, averaged by weights and by predictions.

        predictions   -log (1/M) Σ_m p_m(y | x)        the loss of a mixture with equal parts        (4)

    >>> import leadline as ll
    >>> models = [ll.models.Linear(2, 1) for _ in range(2)]
    >>> view = averaging(models, ll.data.moons(num=60))
    >>> bool(view.predictions <= view.members.mean())  # always: the logarithm is concave
    True
    """
    models = list(models)
    if len(models) < 2:
        raise UserError("averaging takes two models or more", got=f"{len(models)}", do="Pass a list of them")
    each, rows = list[Tensor](), list[Tensor]()
    for model in models:
        with at_rest(model):
            landscape = Landscape(model, data, likelihood, split, most)
            rows.append(_alike(rows[0], landscape.centre) if rows else landscape.centre)
            each.append(landscape.each(outputs(model, landscape.x), landscape.y).double())
    with at_rest(models[0]):
        first = Landscape(models[0], data, likelihood, split, most)
        middle = float(first.loss(torch.stack(rows).mean(0)))
        weight = first.weight.to(each[0])
    losses = torch.stack(each)
    mixed = math.log(len(models)) - (-losses).logsumexp(0)  # eq. 4
    return Averaging((losses * weight).mean(1).cpu().numpy(), middle, float((mixed * weight).mean()))
