"""What the page shows of a split, as plain arrays: confusions, calibration, coverage, the worst rows.

    ECE = Σ_b (n_b / n) |mean confidence_b - observed frequency_b|        (1)   over bins b of equal width

Legend     B rows, C classes, K outputs
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leadline.errors import UserError
from leadline.likelihoods.prediction import Prediction
from leadline.likelihoods.scores import pit
from leadline.report.facts import Facts

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, eq=False)
class Answers:
    """What the model said of a split: y as given, the prediction, and −log p(y) of each row, or its loss without p."""

    y: np.ndarray
    prediction: Prediction
    nll: np.ndarray

    @classmethod
    @torch.no_grad()
    def of(cls, facts: Facts, split: str) -> Answers:
        output = facts.outputs[split].detach()
        output = output if output.dtype in (torch.float32, torch.float64) else output.float()
        y = facts.data[split].y
        measures = facts.likelihood.measures(output, y.to(output.device))
        nll = measures["nll" if facts.likelihood.has_density else "loss"]
        return cls(array(y), facts.likelihood.prediction(output), array(nll))

    @property
    def probabilities(self) -> np.ndarray | None:
        """(B, C) where y holds one class code a row and the prediction gives each class its probability."""
        p = getattr(self.prediction, "probabilities", None)  # only predictions of classes have them
        if not isinstance(p, Tensor) or p.dim() != 2 or self.y.ndim != 1 or len(p) != len(self.y):
            return None
        return array(p)

    @property
    def mean(self) -> np.ndarray | None:
        """(B, K) where y is K real numbers a row and the prediction has a mean of the same shape."""
        try:
            mean = array(self.prediction.mean)
        except (UserError, NotImplementedError):
            return None
        return mean.reshape(len(mean), -1) if mean.shape == self.y.shape and mean.ndim in (1, 2) else None

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Ends (B, K) of the central interval, or None where the family has none."""
        try:
            low, high = (array(end) for end in self.prediction.interval(level))
        except (UserError, NotImplementedError):
            return None
        return (low.reshape(len(low), -1), high.reshape(len(high), -1)) if low.shape == self.y.shape else None


class Turned(Answers):
    """Answers that are angles, each written in the turn that is nearest to the truth."""

    @property
    def mean(self) -> np.ndarray | None:
        mean = super().mean
        return None if mean is None else mean + self._turns(mean)

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray] | None:
        ends = super().interval(level)
        if ends is None:
            return None
        turns = self._turns((ends[0] + ends[1]) / 2)
        return ends[0] + turns, ends[1] + turns

    def _turns(self, angle: np.ndarray) -> np.ndarray:
        return 2 * np.pi * np.round((self.y.reshape(angle.shape) - angle) / (2 * np.pi))


def array(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    return (tensor.double() if tensor.is_floating_point() else tensor.long()).numpy()


def confusion(true: np.ndarray, said: np.ndarray, num_classes: int) -> np.ndarray:
    """Counts (C, C): row the true class, column the predicted one.

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    true, said = true.astype(np.int64), said.astype(np.int64)
    return np.bincount(true * num_classes + said, minlength=num_classes**2).reshape(num_classes, num_classes)


def per_class(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall, F1 and support of each class; NaN where a class was never said, or never true.

    >>> {name: values.tolist() for name, values in per_class(np.array([[1, 1], [0, 2]])).items()}
    {'precision': [1.0, 0.6666666666666666], 'recall': [0.5, 1.0], 'f1': [0.6666666666666666, 0.8], 'support': [2, 2]}
    """
    right, said, true = np.diag(counts).astype(float), counts.sum(0), counts.sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {"precision": right / said, "recall": right / true, "f1": 2 * right / (said + true), "support": true}


def top_confusions(counts: np.ndarray, limit: int = 8) -> list[tuple[int, int, int]]:
    """(true, said, rows) of the commonest mistakes.

    >>> top_confusions(np.array([[5, 2], [3, 5]]))
    [(1, 0, 3), (0, 1, 2)]
    """
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:limit]
    pairs = [(int(i), int(j), int(wrong[i, j])) for i, j in zip(*np.unravel_index(order, wrong.shape))]
    return [pair for pair in pairs if pair[2]]


@dataclass(frozen=True, eq=False)
class Reliability:
    """Bins that hold rows: mean confidence, observed frequency and its 95 % interval, rows; and ECE (1)."""

    confidence: np.ndarray
    frequency: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rows: np.ndarray
    left: np.ndarray
    width: float
    ece: float


def reliability(confidence: np.ndarray, hit: np.ndarray, bins: int = 10) -> Reliability:
    """Is 80 % sure right in 80 of 100 cases? Rows are grouped by confidence.

    >>> round(reliability(np.array([0.95, 0.95]), np.array([1, 0])).ece, 2)
    0.45
    """
    finite = np.isfinite(confidence)
    confidence, hit = confidence[finite], hit[finite].astype(float)
    bin_of = np.clip((confidence * bins).astype(int), 0, bins - 1)
    rows = np.bincount(bin_of, minlength=bins)
    used = rows > 0
    mean = np.bincount(bin_of, confidence, bins)[used] / rows[used]
    seen = np.bincount(bin_of, hit, bins)[used] / rows[used]
    ece = float((rows[used] * np.abs(mean - seen)).sum() / rows.sum()) if len(hit) else float("nan")  # eq. 1
    low, high = wilson(seen, rows[used])
    return Reliability(mean, seen, low, high, rows[used], np.flatnonzero(used) / bins, 1 / bins, ece)


def wilson(part: np.ndarray, rows: np.ndarray, z: float = 1.96) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the 95 % interval of a frequency; sound for few rows too (Wilson, 1927)."""
    centre = (part + z**2 / (2 * rows)) / (1 + z**2 / rows)
    half = z / (1 + z**2 / rows) * np.sqrt(part * (1 - part) / rows + z**2 / (4 * rows**2))
    return np.clip(centre - half, 0, part), np.clip(centre + half, part, 1)


def coverage(answers: Answers) -> np.ndarray | None:
    """How often y lies in the interval of each of LEVELS, (levels, K); None where there are no intervals.

    Whole-number ends hold more than they state by construction. Counts are judged without ends: y counts as inside
    where u, its randomised probability integral transform, has |u - ½| <= level/2.
    """
    if answers.prediction.whole:
        u = array(pit(answers.prediction, torch.from_numpy(answers.y)))
        return np.array([[(np.abs(u - 0.5) <= level / 2).mean()] for level in LEVELS])
    y = answers.y.reshape(len(answers.y), -1)
    observed = []
    for level in LEVELS:
        ends = answers.interval(level)
        if ends is None:
            return None
        observed.append(((ends[0] <= y) & (y <= ends[1])).mean(0))
    return np.array(observed)


def counts_note(answers: Answers) -> str:
    """How intervals of counts are judged, where they are."""
    if not answers.prediction.whole:
        return ""
    return (
        " Intervals with whole-number ends hold more than they state, so counts are judged by P(Y < y) plus a random "
        "part of P(Y = y) instead (the randomised probability integral transform)."
    )


def worst(nll: np.ndarray, limit: int = 8) -> np.ndarray:
    """Indices of the rows with the highest loss, worst first; one that is not a number is worst of all.

    >>> worst(np.array([0.1, 3.0, float("nan"), 1.0]), 3).tolist()
    [2, 1, 3]
    """
    return np.argsort(-np.where(np.isnan(nll), np.inf, nll), kind="stable")[:limit]


def some(rows: int, limit: int) -> np.ndarray:
    """Indices of at most `limit` rows: a fixed random choice, so that a page is the same twice."""
    if rows <= limit:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, limit, replace=False))
