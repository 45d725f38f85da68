"""What a Bayesian model believes over one input: mean, band, and functions drawn from it.

    mean(x) ± k · deviation(x)          of a new y, all weights averaged over       (1)
    f_s(x)                              of weights s drawn from the posterior       (2)

Where there are rows the functions agree; away from them they part and the band widens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leadline.errors import UserError
from leadline.lens.style import FULL, HUES, INK, blank, label, short, some, styled
from leadline.lens.view import View
from leadline.optim.bayes import BayesianLinear
from leadline.settings import given, real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Beliefs(View):
    """Args:
    x: raw values of the input.  mean, deviation: eq. 1, (num,).  drawn: eq. 2, (functions, num).
    points, y: the rows.
    deviations: k of the band.  inside: part of the rows within it.
    prior, noise: of the rule.
    """

    x: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    drawn: np.ndarray
    points: np.ndarray
    y: np.ndarray
    deviations: float
    inside: float
    prior: float
    noise: float

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL * 0.66, 4.2)
        ax = figure.subplots()
        reach = self.deviations * self.deviation
        ax.fill_between(self.x, self.mean - reach, self.mean + reach, color=HUES[0], alpha=0.18, lw=0,
                        label=f"± {short(self.deviations)} deviations of a new y")  # fmt: skip
        for k, line in enumerate(self.drawn):
            ax.plot(
                self.x, line, color=HUES[1], lw=0.9, alpha=0.8, label="drawn from the posterior" if k == 0 else None
            )
        ax.plot(self.x, self.mean, color=HUES[0], lw=2, label="mean")
        ax.plot(some(self.points), some(self.y), "o", ms=3.6, color=INK, alpha=0.6, mec="none", label="row")
        label(ax, f"Posterior with a prior of {short(self.prior)}, noise {short(self.noise)}", "x", "y", legend=4)
        return figure


def beliefs(run: Any, *, num_drawn: int = 5, deviations: float = 2.0, num: int = 300, seed: int = 0) -> Beliefs:
    """What a run by `BayesianLinear` believes, over its one input.

    Args:
        run: what `fit` returned, with its data.
        num_drawn: functions (2), at least 1.  deviations: k of (1), above 0.
        num: places on the curve, at least 2.  seed: of the functions.

    >>> import leadline as ll
    >>> rule = ll.optim.BayesianLinear(prior=2.0)
    >>> run = ll.fit(ll.models.Polynomial(1, 3), ll.data.cubic(num=40), rule=rule, epochs=1, progress=False)
    >>> beliefs(run).drawn.shape
    (5, 300)
    """
    rule = getattr(run, "rule", None)
    if not isinstance(rule, BayesianLinear):
        raise UserError(
            "beliefs looks at a run by BayesianLinear",
            got=given("run", run) if rule is None else f"a run by {type(rule).__name__}",
            do="Pass ll.fit(model, data, rule=ll.optim.BayesianLinear(), epochs=1)",
        )
    rows = run.need_data().train
    if rows.x.flatten(1).shape[1] != 1 or rows.y.ndim > 1:
        raise UserError(
            "beliefs draws one input and one output",
            got=f"{rows.x.flatten(1).shape[1]} inputs",
            do="Ask run.rule.posterior.predict(x) for more",
        )
    low, high = float(rows.x.min()), float(rows.x.max())
    margin = 0.05 * (high - low)
    x = torch.linspace(low - margin, high + margin, whole("num", num, 2))[:, None]
    posterior, encode = rule.posterior, run.inputs.encode
    mean, deviation = posterior.predict(encode(x))
    drawn = posterior.draw(encode(x), whole("num_drawn", num_drawn), seed)
    said, spread = posterior.predict(encode(rows.x.flatten(1)))
    k = real("deviations", deviations, 0, above=True, usual=2.0)
    inside = ((rows.y.double().cpu() - said[:, 0].cpu()).abs() <= k * spread[:, 0].cpu()).double().mean()
    return Beliefs(
        x[:, 0].double().numpy(), mean[:, 0].cpu().numpy(), deviation[:, 0].cpu().numpy(), drawn[..., 0].cpu().numpy(),
        rows.x.flatten().double().numpy(), rows.y.double().numpy(), float(k), float(inside), rule.prior, rule.deviation,
    )  # fmt: skip
