"""How a deep network folds its input: several parts of x land on the same values of a stage in the middle, and what
comes after treats them alike (figure 4.3 of Prince's book).

    u = g[x]            the stage; where u turns round, the input is folded                                  (1)
    y = f[u]            one function of u, whatever part of x it came from                                   (2)
    y = f[g[x]]         so what f does is seen once in every fold, every other time mirrored                  (3)

The stage is a place of width 1 between two linear maps. Where a network has none, a unit of its second linear map is
shown: (2) then holds for that unit and not for the output, and `spread` says how far from it the output is.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from leadline.errors import UserError
from leadline.lens.at_rest import exactly
from leadline.lens.calls import Listening
from leadline.lens.joints import joints
from leadline.lens.style import FULL, HUES, blank, label, percent, styled
from leadline.lens.view import View
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SAME = 1e-4  # as part of y's range: what is between two points is taken as straight


@dataclass(frozen=True, eq=False)
class Folding(View):
    """The folds of an input interval.

    Args:
        x: (G,).  stage: u of (1).  output: y.
        folds: ends of the parts on which u rises, falls or stays, (folds, 2).
        rises: of each, 1, -1 or 0.
        most: so many parts of x share one value of u, at most; `mean` on average over the range of u.
        single: whether u is all that the output sees (2).
        spread: largest difference of y at one u, as part of y's range; next to 0 where `single`.
        unit: which unit of the second linear map is shown; None for a stage of width 1.
    """

    x: np.ndarray
    stage: np.ndarray
    output: np.ndarray
    folds: np.ndarray
    rises: np.ndarray
    most: int
    mean: float
    single: bool
    spread: float
    unit: int | None

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.5)
        left, middle, right = figure.subplots(1, 3)
        shown = range(len(self.folds))
        for k in shown:
            inside = (self.x >= self.folds[k, 0]) & (self.x <= self.folds[k, 1])
            x, u, y = self.x[inside], self.stage[inside], self.output[inside]
            hue = HUES[k % len(HUES)]
            left.plot(x, u, color=hue, lw=2)
            width = 5.5 - 4.3 * k / max(len(self.folds) - 1, 1)  # earlier folds stay seen under later ones
            middle.plot(u, y, color=hue, lw=width if self.single else 1.6, alpha=0.9)
            right.plot(x, y, color=hue, lw=2)
        name = "stage u" if self.unit is None else f"unit {self.unit + 1}, u"
        label(left, f"Folded: {len(self.folds)} parts of x", "x", name)
        one = "one function" if self.single else f"{percent(self.spread)} apart"
        label(middle, f"Laid on each other: {one}", name, "output y")
        label(right, "Unfolded: the network", "x", "output y")
        for ax in (left, right):
            ax.set_xlim(self.x[0], self.x[-1])
        return figure


def folding(
    model: nn.Module, low: float = -1.0, high: float = 1.0, *, unit: int | None = None, num: int = 2001
) -> Folding:
    """How `model`, a network of one input and two stages or more, folds the interval from `low` to `high`.

    Args:
        unit: of the second linear map, where no stage has width 1; by default the one with most folds.
        num: points; the joints of a network of straight pieces are added to them.

    >>> import leadline as ll
    >>> view = folding(nn.Sequential(ll.models.sawtooth(3), ll.models.Shallow(1, 4, 1).double()), 0, 1)
    >>> len(view.folds), view.most, view.single
    (4, 4, True)
    """
    num, low, high = whole("num", num, 16, usual=2001), real("low", low), real("high", high)
    if not low < high:
        raise UserError("low must be below high", got=f"low={low}, high={high}", do="Write low=0, high=1")
    x = np.linspace(low, high, num)
    with suppress(UserError):  # a smooth network has no joints, and one that takes no number is refused below
        x = np.union1d(x, joints(model, low, high).x)
    with exactly(model) as f, Listening(lambda name: name == "linear") as heard:
        try:
            out = f(torch.tensor(x)[:, None]).flatten(1)
        except RuntimeError as error:
            got = str(error).splitlines()[0]
            raise UserError("the model must take one input", got=got, do="Pass a network of dim_input 1") from None
    between = [call.out.flatten(1).numpy() for call in heard.calls[1:-1] if len(call.out) == len(x)]
    narrow = next((u for u in between if u.shape[1] == 1 and np.ptp(u) > 0), None)
    if not between or out.shape[1] != 1:
        raise UserError(
            "the model must have two stages or more, and one output",
            got=f"{len(heard.calls)} linear maps and {out.shape[1]} outputs in {type(model).__name__}",
            do="Look at ll.models.Composed(1, (3, 3)), or at an MLP of two hidden layers",
        )
    y = out[:, 0].numpy()
    if narrow is not None and unit is None:
        u = narrow[:, 0]
    else:
        counts = [len(_turns(x, column)[1]) for column in between[0].T]
        unit = int(np.argmax(counts)) if unit is None else whole("unit", unit, 0, len(counts) - 1, usual=0)
        u = between[0][:, unit]
    folds, rises = _turns(x, u)
    most, mean = _shared(x, u, folds)
    spread = _spread(x, u, y, folds)
    return Folding(x, u, y, folds, rises, most, mean, spread < _SAME, spread, unit)


def _turns(x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parts of x on which u rises, falls or stays, and which of these."""
    step = np.diff(u)
    sign = np.where(np.abs(step) <= 1e-12 * max(float(np.ptp(u)), 1e-300), 0.0, np.sign(step))
    change = np.flatnonzero(np.diff(sign)) + 1
    ends = np.concatenate([[0], change, [len(x) - 1]])
    return np.stack([x[ends[:-1]], x[ends[1:]]], 1), sign[ends[:-1]]


def _parts(x: np.ndarray, u: np.ndarray, folds: np.ndarray) -> list[np.ndarray]:
    """Places in x of each part."""
    return [np.flatnonzero((x >= low) & (x <= high)) for low, high in folds]


def _shared(x: np.ndarray, u: np.ndarray, folds: np.ndarray) -> tuple[int, float]:
    """How many parts hold a value of u: at most, and on average."""
    values = np.linspace(u.min(), u.max(), 2001)[1:-1]
    ends = [(u[part].min(), u[part].max()) for part in _parts(x, u, folds)]
    held = np.sum([(low < values) & (values < high) for low, high in ends], 0)
    return int(held.max(initial=1)), float(held.mean()) if len(held) else 1.0


def _spread(x: np.ndarray, u: np.ndarray, y: np.ndarray, folds: np.ndarray) -> float:
    """Largest difference of y at one u, as part of y's range."""
    values = np.linspace(u.min(), u.max(), 801)
    rows = []
    for part in _parts(x, u, folds):
        order = part[np.argsort(u[part], kind="stable")]
        inside = (values >= u[order[0]]) & (values <= u[order[-1]])
        row = np.full(len(values), np.nan)
        row[inside] = np.interp(values[inside], u[order], y[order])
        rows.append(row)
    stacked = np.stack(rows)
    apart = np.where(np.isnan(stacked), -np.inf, stacked).max(0) - np.where(np.isnan(stacked), np.inf, stacked).min(0)
    return float(max(apart[np.isfinite(apart)].max(initial=0.0), 0.0) / (float(np.ptp(y)) or 1.0))
