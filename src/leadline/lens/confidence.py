"""How sure a classifier grows while it learns, beside how right it is.

    error       share of rows whose most probable class is another                              (1)
    loss        mean of -log p(y | x)                                                            (2)
    confidence  mean of max_c p(c | x)                                                           (3)
    gap         test less train, of (1) and of (2)                                               (4)

Once every training row is right, the loss still falls by longer logits alone: it goes to 0 and never arrives. Test rows
that are wrong are then wrong with ever more confidence: their loss rises while the error stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn
from torch.func import functional_call

from leadline.errors import UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.path import Path
from leadline.lens.rows import family_of, rows_of
from leadline.lens.style import DASHED, FULL, HUES, blank, label, percent, short, styled
from leadline.lens.view import View
from leadline.likelihoods.bernoulli import BernoulliPrediction
from leadline.likelihoods.classes import ClassPrediction
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Confidence(View):
    """Args:
    splits: names, one row of each array below.
    steps: that were kept.
    error, loss, confidence: eq. 1 to 3, (splits, steps).
    logits: root mean square of the log-probabilities about their mean over classes, (splits, steps).
    """

    splits: tuple[str, ...]
    steps: np.ndarray
    error: np.ndarray
    loss: np.ndarray
    confidence: np.ndarray
    logits: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """Eq. 4 at each step: the last split less the first, of the error and of the loss, (2, steps)."""
        return np.stack([self.error[-1] - self.error[0], self.loss[-1] - self.loss[0]])

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.3)
        wrong, lost, sure = figure.subplots(1, 3)
        for k, name in enumerate(self.splits):
            wrong.plot(self.steps, 100 * self.error[k], color=HUES[k], label=name)
            lost.plot(self.steps, self.loss[k], color=HUES[k], label=name)
            sure.plot(self.steps, 100 * self.confidence[k], color=HUES[k], label=f"{name}: sure")
            sure.plot(self.steps, 100 * (1 - self.error[k]), color=HUES[k], ls=DASHED, lw=1.1, label=f"{name}: right")
        least = int(self.loss[-1].argmin())
        lost.plot(
            self.steps[least], self.loss[-1][least], "o", ms=5, color=HUES[len(self.splits) - 1],
            label=f"least, step {self.steps[least]:,}",
        )  # fmt: skip
        if self.loss.min() > 0 and self.loss.max() / self.loss.min() > 100:
            lost.set_yscale("log")
        gap = f"{percent(self.gap[0][-1])}" if self.gap[0][-1] >= 0 else f"−{percent(-self.gap[0][-1])}"
        label(wrong, f"Error: gap {gap} at the end", "step", "error in %", 2)
        label(lost, f"Loss: gap {short(self.gap[1][-1])} at the end", "step", "mean −log p(y)", 2)
        label(sure, "Confidence and accuracy", "step", "% of rows, or of confidence", 2)
        return figure


def confidence(
    model: nn.Module,
    data: Any,
    path: Path,
    *,
    likelihood: Any = None,
    splits: Sequence[str] = ("train", "test"),
    most: int = 2000,
) -> Confidence:
    """Error, loss and confidence of a classifier at every step that `path` has kept, dropout off.

    Args:
        path: kept by `Path(model, every=…)` during the run; the weights that the model has now do not count.
        likelihood: of classes; None takes the target's.
        splits: which to look at, the one to judge by last.
        most: rows of each split, evenly spread.

    >>> import leadline as ll
    >>> model, data = ll.models.MLP(2, (8,), 1), ll.data.moons(num=90)
    >>> path = Path(model)
    >>> _ = ll.fit(model, data, epochs=5, progress=False, listeners=[path])
    >>> view = confidence(model, data, path)
    >>> view.splits, bool((view.confidence >= 0.5).all())  # of two classes the chosen one is never below a half
    (('train', 'test'), True)
    """
    if not isinstance(path, Path) or not len(path):
        raise UserError(
            "confidence needs the path of a run, kept by ll.lens.Path",
            got=given("path", path) if not isinstance(path, Path) else "a path of no steps",
            do="Pass ll.fit(…, listeners=[path]) with path = ll.lens.Path(model) first",
        )
    found = np.empty((4, len(splits), len(path)))
    with at_rest(model):
        for s, split in enumerate(splits):
            rows = rows_of(data, split)
            family = family_of(rows, likelihood)
            step = max(1, -(-len(rows.y) // whole("most", most)))
            x = rows.encoded(model)[::step]
            y = rows.y[::step].to(x.device)
            for k in range(len(path)):
                state = {name: t.to(x.device, copy=True) for name, t in path.state(k).items()}
                found[:, s, k] = _figures(family.prediction(functional_call(model, state, (x,))), y)
    return Confidence(tuple(splits), np.array(path.steps), *found)


def _figures(prediction: Any, y: Tensor) -> tuple[float, float, float, float]:
    if not isinstance(prediction, (BernoulliPrediction, ClassPrediction)):
        raise UserError(
            "confidence is that of a classifier",
            got=f"a {type(prediction).__name__}",
            do="Look at intervals of numbers with ll.lens.calibration",
        )
    p = prediction.probabilities.double()
    log_p = p.clamp(min=1e-300).log()
    if isinstance(prediction, ClassPrediction):
        log_p = prediction.distribution.logits.double()
    size = (log_p - log_p.mean(-1, keepdim=True)).square().mean().sqrt()
    wrong = (prediction.mode != y.long()).double().mean()
    loss = -prediction.log_prob(y.long()).double().mean()
    return float(wrong), float(loss), float(p.max(-1).values.mean()), float(size)
