"""Fits beside each other, by two criteria: least squares above, greatest likelihood below.

    Σ_i (y_i - mean(x_i))²         small where the curve is near the rows                                    (1)
    -Σ_i log p(y_i | x_i)          small where every row lies where its predicted density is high            (2)

Under a normal distribution of one fixed width the two rank fits alike. Any family of numbers can be compared: with a
width that varies, or with several bumps, only (2) sees the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from leadline.engine.evaluation import outputs
from leadline.errors import UserError
from leadline.lens.answers import answer_of, wrapped
from leadline.lens.at_rest import at_rest
from leadline.lens.curve import Curve, curve
from leadline.lens.held import Held
from leadline.lens.rows import Fitted, asked, fit_to
from leadline.lens.style import SEQUENTIAL, blank, colour_bar, label, short, some, styled
from leadline.lens.view import View
from leadline.likelihoods import Joint, Likelihood
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Criteria(View):
    """Several fits of the same rows.

    Args:
        names: of the fits; `curves` what each answers over the feature.
        squares: eq. 1 of each.  nll: eq. 2 of each.
        heights: p(y_i | x_i) of each row, (fits, n).
        y: values, (G,).  density: p(y | x) along each curve, (fits, G, num).
    """

    names: tuple[str, ...]
    curves: tuple[Curve, ...]
    squares: np.ndarray
    nll: np.ndarray
    heights: np.ndarray
    y: np.ndarray
    density: np.ndarray

    @styled
    def plot(self) -> Figure:
        figure = blank(1.2 + 4.2 * len(self.names), 7.0)
        axes = figure.subplots(2, len(self.names), squeeze=False, sharex=True, sharey=True)
        top = float(np.nanquantile(self.density, 0.999)) or 1.0
        for j, (name, view) in enumerate(zip(self.names, self.curves, strict=True)):
            above, below = axes[0, j], axes[1, j]
            view.draw(above, residuals=True)
            label(above, f"{name}: sum of squares {short(self.squares[j])}", "", view.target if j == 0 else "", 3)
            mesh = below.pcolormesh(
                view.x, self.y, self.density[j], shading="gouraud", cmap=SEQUENTIAL, vmin=0, vmax=top, rasterized=True
            )
            shown = some(np.flatnonzero(~np.isnan(view.points)))
            below.scatter(
                view.points[shown], view.y[shown], 26, self.heights[j][shown], cmap=SEQUENTIAL, norm=mesh.norm,
                edgecolors="white", linewidths=0.8, label="row, coloured by its density",
            )  # fmt: skip
            below.grid(False)
            label(below, f"{name}: −Σ log p {short(self.nll[j])}", "", view.target if j == 0 else "", 1)
            view.feature.mark(below, view.x)
            above.set_ylim(self.y[0], self.y[-1])
        colour_bar(list(axes[1]), mesh, "density p(y | x)")
        return figure


def criteria(
    models: Mapping[str, nn.Module | Fitted] | Sequence[nn.Module | Fitted],
    data: Any = None,
    feature: str | int = 0,
    *,
    likelihood: Likelihood | str | None = None,
    num: int = 201,
    split: str = "train",
    output: int = 0,
) -> Criteria:
    """Fits of the same rows by least squares and by likelihood.

    Args:
        models: name → run or module, or several without names.
        data, feature, likelihood, split, output: as of `curve`.
        num: points of a curve; as many of y.

    >>> import torch
    >>> from leadline.likelihoods import Normal
    >>> good, bad = nn.Linear(1, 1), nn.Linear(1, 1)
    >>> _ = [nn.init.zeros_(p) for p in (*good.parameters(), *bad.parameters())], nn.init.ones_(good.weight)
    >>> x = torch.linspace(0, 1, 5)[:, None]
    >>> view = criteria({"good": good, "bad": bad}, (x, x[:, 0]), likelihood=Normal("fixed"))
    >>> view.squares.round(4).tolist()
    [0.0, 1.875]
    """
    if isinstance(models, Mapping):
        pairs = list(models.items())
    elif isinstance(models, (list, tuple)):
        pairs = [(f"fit {k + 1}", model) for k, model in enumerate(models)]
    else:
        pairs = []
    if not 1 <= len(pairs) <= 4:
        got = given("models", models) if not pairs else f"{len(pairs)} of them"
        raise UserError("models must be 1 to 4 runs or modules", got=got, do='Write {"good": run, "bad": other}')
    num = whole("num", num, 2, usual=201)
    views = [
        curve(model, data, feature, likelihood=likelihood, num=num, split=split, output=output) for _, model in pairs
    ]
    curves = tuple(view for view in views if isinstance(view, Curve) and view.kind in ("numbers", "angles"))
    if len(curves) < len(views) or curves[0].feature.levels:
        raise UserError(
            "fits are compared by densities of numbers, over a feature that is a number",
            got=f"{views[0].family} over {views[0].feature.name}",
            do="Use curve for classes, counts, categories, and for losses that are no likelihood",
        )
    shown = np.concatenate([curves[0].y, *(view.mean for view in curves)])
    margin = 0.15 * float(np.ptp(shown)) or 1.0
    y = np.linspace(shown.min() - margin, shown.max() + margin, num)
    if curves[0].kind == "angles":
        y = np.linspace(-np.pi, np.pi, num)
    found = [
        _one(model, data, feature, likelihood, split, output, view, y)
        for (_, model), view in zip(pairs, curves, strict=True)
    ]
    residuals = np.stack([view.y - view.said for view in curves])
    squares = (wrapped(residuals) if curves[0].kind == "angles" else residuals) ** 2
    heights = np.exp(np.stack([log_p for log_p, _ in found]))
    nll = np.array([-log_p.sum() for log_p, _ in found])
    names = tuple(str(name) for name, _ in pairs)
    return Criteria(names, curves, squares.sum(1), nll, heights, y, np.stack([p for _, p in found]))


def _one(
    model: Any, data: Any, feature: Any, likelihood: Any, split: str, output: int, view: Curve, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """log p of each row, and p(y | x) along the curve."""
    module, rows, family = asked(model, data, split, likelihood)
    seen = Held(rows, [feature], "median")
    with at_rest(module):
        raw = outputs(module, fit_to(module, seen.inputs(torch.tensor(view.x)[:, None])))
        own = outputs(module, rows.encoded(module))
        if isinstance(family, Joint):
            raw, own = family.parts(raw)[output], family.parts(own)[output]
            family = list(family.heads)[output]  # type: ignore[assignment]
        along, of_rows = (answer_of(family.prediction(out), output) for out in (raw, own))
        p = np.exp(along.log_prob(np.broadcast_to(y[:, None], (len(y), len(view.x)))))
        return of_rows.log_prob(view.y[None])[0], np.nan_to_num(p)
