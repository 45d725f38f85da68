"""Do predicted distributions come true as often as they say? The picture to `likelihoods.calibration`.

Classes    a reliability diagram: rows in bins of equal number, how sure on average against how often right, with 95 %
           intervals (Wilson) that tell a bend from chance
Numbers    the histogram of F(y), flat where the distributions are true, hollow where they are too wide and heaped at
           both ends where they are too narrow; and how many y the intervals of every level hold
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from leadline.engine.evaluation import outputs
from leadline.errors import UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.rows import Fitted, asked
from leadline.lens.style import DASHED, FULL, HALF, HUES, SOFT, blank, label, percent, short, styled
from leadline.lens.view import View
from leadline.likelihoods.bernoulli import BernoulliPrediction
from leadline.likelihoods.calibration import BINS, choices, error_by_chance, expected_error, expected_error_even
from leadline.likelihoods.calibration import transform as place_of
from leadline.likelihoods.classes import ClassPrediction
from leadline.likelihoods.prediction import Prediction
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEVELS = np.linspace(0.05, 0.95, 19)


@dataclass(frozen=True, eq=False)
class Reliability(View):
    """Of a classifier.

    Args:
        sure, right: mean confidence and accuracy of each bin; `low`, `high` the ends of the accuracy's 95 % interval.
        count: rows of each bin.
        error: ECE over these bins; `error_even` over bins of equal width, as it is mostly printed.
        chance: the mean of `error` if the probabilities were true, and `chance_most` the largest of 200 such draws.
        accuracy, confidence: of all rows.
    """

    sure: np.ndarray
    right: np.ndarray
    low: np.ndarray
    high: np.ndarray
    count: np.ndarray
    error: float
    error_even: float
    chance: float
    chance_most: float
    accuracy: float
    confidence: float

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF * 1.15, 4.2)
        ax = figure.subplots()
        ax.plot([0, 1], [0, 1], color=SOFT, lw=1, ls=DASHED, label="as sure as right")
        bars = np.stack([self.right - self.low, self.high - self.right]).clip(min=0)
        ax.errorbar(
            self.sure, self.right, bars, fmt="o-", ms=4.5, lw=1.2, capsize=2, color=HUES[0],
            label=f"{len(self.sure)} bins of {short(float(self.count.mean()))} rows, 95 % interval",
        )  # fmt: skip
        low = min(float(self.sure.min()), float(self.low.min())) - 0.03
        ax.set(xlim=(max(0.0, low), 1.01), ylim=(max(0.0, low), 1.01))
        title = (
            f"{percent(self.confidence)} sure, {percent(self.accuracy)} right\n"
            f"calibration error {short(self.error)}, by chance {short(self.chance)}"
        )
        label(ax, title, "mean confidence of a bin", "share of its rows that are right", 1)
        return figure


@dataclass(frozen=True, eq=False)
class Coverage(View):
    """Of predicted numbers.

    Args:
        pit: F(y) of each row.
        levels, held: probability of central intervals, and the share of rows that they hold.
        rows: number of them.
    """

    pit: np.ndarray
    levels: np.ndarray
    held: np.ndarray
    rows: int

    @property
    def distance(self) -> float:
        """Largest distance of the shares from their levels."""
        return float(np.abs(self.held - self.levels).max())

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL * 0.85, 3.7)
        left, right = figure.subplots(1, 2)
        bins = int(np.clip(self.rows // 20, 5, 20))
        left.hist(
            self.pit, bins, range=(0, 1), weights=np.full(self.rows, bins / self.rows), color=HUES[0], rwidth=0.94
        )
        error = 1.96 * np.sqrt((bins - 1) / self.rows)
        left.axhspan(1 - error, 1 + error, color=SOFT, alpha=0.18, lw=0, label="95 % of bars, by chance")
        left.axhline(1, color=SOFT, lw=1, ls=DASHED, label="if they are true")
        label(left, "Where y lies in its distribution", "F(y)", "density", 2)
        right.plot([0, 1], [0, 1], color=SOFT, lw=1, ls=DASHED, label="if they are true")
        band = 1.96 * np.sqrt(self.levels * (1 - self.levels) / self.rows)
        right.fill_between(self.levels, self.levels - band, self.levels + band, color=SOFT, alpha=0.18, lw=0)
        right.plot(self.levels, self.held, "o-", ms=3.5, lw=1.2, color=HUES[0], label=f"{self.rows:,} rows")
        right.set(xlim=(0, 1), ylim=(0, 1))
        label(right, "What intervals hold", "probability of the interval", "share of y inside", 2)
        return figure


def calibration(
    what: Fitted | Prediction, y: Any = None, *, split: str = "test", bins: int = BINS, seed: int = 0
) -> Reliability | Coverage:
    """How far predicted distributions can be believed: `Reliability` of classes, `Coverage` of numbers.

    Args:
        what: a run, of which `split` is predicted, or a prediction.
        y: what came true, where a prediction is given.
        bins: of a reliability diagram, of equally many rows each.
        seed: of the draws that tell what chance does.

    >>> from leadline.likelihoods import Normal
    >>> y = torch.randn(2000, generator=torch.Generator().manual_seed(0))
    >>> view = calibration(Normal(variance="fixed").prediction(torch.zeros(2000, 1)), y)
    >>> round(float(view.held[view.levels.searchsorted(0.9)]), 2), view.distance < 0.05
    (0.89, True)
    """
    bins = whole("bins", bins, usual=BINS)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1, usual=0))
    prediction, y = _predicted(what, y, split)
    if y.ndim != 1:
        raise UserError(
            "calibration looks at one column of y",
            got=f"y of shape {tuple(y.shape)}",
            do="Pass the prediction and the y of one column, or of one place of each row",
        )
    if isinstance(prediction, (BernoulliPrediction, ClassPrediction)):
        return _reliability(*choices(prediction.probabilities.detach(), y, generator), bins, generator)
    with torch.no_grad():
        try:
            pit = place_of(prediction, y, generator).cpu().numpy()
            held = [float(prediction.holds(y, float(level)).double().mean()) for level in _LEVELS]
        except NotImplementedError:  # torch's answer where a distribution has no such function
            raise UserError(
                "calibration needs predictions with a distribution function",
                got=f"a {type(prediction).__name__}",
                do="Fit another likelihood, such as Normal or StudentT",
            ) from None
    return Coverage(pit, _LEVELS.copy(), np.array(held), len(y))


def _predicted(what: Any, y: Any, split: str) -> tuple[Prediction, Tensor]:
    if isinstance(what, Fitted):
        model, rows, family = asked(what, None, split, None)
        with at_rest(model):
            output = outputs(model, rows.encoded(model))
            return family.prediction(output), rows.y.to(output.device)
    if not isinstance(what, Prediction):
        raise UserError("calibration looks at a run or a prediction", got=given("what", what), do="Pass run")
    if y is None:
        raise UserError("a prediction must come with what came true", got="y=None", do="Pass y, or a run")
    y = torch.as_tensor(y)
    if len(y) != len(what):
        raise UserError("y must have one value a predicted row", got=f"{len(y)} for {len(what)}", do="Pass their y")
    return what, y


def _reliability(confidence: Tensor, correct: Tensor, bins: int, generator: torch.Generator) -> Reliability:
    error, even = (float(f(confidence, correct, bins)) for f in (expected_error, expected_error_even))
    chance = error_by_chance(confidence, generator, bins)
    order = confidence.argsort()
    parts = order.tensor_split(min(bins, len(order)))
    sure = np.array([float(confidence[part].mean()) for part in parts])
    right = np.array([float(correct[part].double().mean()) for part in parts])
    count = np.array([len(part) for part in parts])
    z2 = 1.96**2
    middle = (right + z2 / (2 * count)) / (1 + z2 / count)
    half = np.sqrt(z2 * (right * (1 - right) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return Reliability(
        sure, right, middle - half, middle + half, count, error, even, float(chance.mean()), float(chance.max()),
        float(correct.double().mean()), float(confidence.mean()),
    )  # fmt: skip
