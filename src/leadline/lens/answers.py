"""What a prediction says of one number of each row, whatever its family.

    numbers   mean, mode and a band: any density on the line
    angles    the same on a circle, from -π to π
    counts    the same for whole numbers
    classes   a probability for each; of a ranking, each item's chance of the first place
    point     a value or a class, and no word of how sure it is

A lens asks here, so that it need not know the families.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from leadline.errors import UserError
from leadline.lens.column import name_of, place_of
from leadline.likelihoods import Prediction
from leadline.likelihoods.angles import wrap
from leadline.likelihoods.bernoulli import BernoulliPrediction
from leadline.likelihoods.classes import ClassPrediction
from leadline.likelihoods.joint import JointPrediction
from leadline.likelihoods.margin import PointPrediction
from leadline.likelihoods.multimodal import MixturePrediction
from leadline.likelihoods.multivariate_normal import MultivariateNormalPrediction
from leadline.likelihoods.negative_binomial import NegativeBinomialPrediction
from leadline.likelihoods.plackett_luce import PlackettLucePrediction
from leadline.likelihoods.poisson import PoissonPrediction
from leadline.likelihoods.quantile import QuantilePrediction
from leadline.likelihoods.signs import SignsPrediction
from leadline.likelihoods.tokens import TokensPrediction
from leadline.likelihoods.von_mises import VonMisesPrediction
from leadline.settings import real

_AT_ONCE = 2_000_000  # densities at a time


@dataclass(frozen=True, eq=False)
class Answer:
    """One column of a prediction.

    Args:
        prediction: that holds it.
        column: its place there; None where there is one alone.
        kind: numbers, angles, counts, classes or point.
        name: of the column, where it is one of several.
    """

    prediction: Prediction
    column: int | None
    kind: str
    name: str = ""

    def __len__(self) -> int:
        return len(self.prediction)

    @property
    def mean(self) -> np.ndarray:
        """(B,); of an angle the mean direction, of a point the point."""
        said = self.prediction.mode if self.kind == "point" else self.prediction.mean
        return self._own(said)

    @property
    def modes(self) -> np.ndarray:
        """(B, M), the highest first; NaN where a row has fewer."""
        if isinstance(self.prediction, MixturePrediction):
            return self.prediction.modes.detach().double().cpu().numpy()
        return self._own(self.prediction.mode)[:, None]

    @property
    def several(self) -> bool:
        """Whether a row may have several modes."""
        return isinstance(self.prediction, MixturePrediction)

    @property
    def std(self) -> np.ndarray:
        return self._own(self.prediction.std)

    @property
    def probabilities(self) -> np.ndarray:
        """(B, C), of classes."""
        found: Any = self.prediction
        p = found.first if isinstance(found, PlackettLucePrediction) else found.probabilities
        p = (p if p.dim() == 2 else p[:, self.column]).detach().double().cpu().numpy()
        return p / p.sum(1, keepdims=True)  # float32 sums to 1 up to 1e-7

    @property
    def ranked(self) -> bool:
        """Whether the classes are items, and their probabilities chances of the first place."""
        return isinstance(self.prediction, PlackettLucePrediction)

    @property
    def trained(self) -> tuple[float, ...]:
        """The levels of quantiles that were trained; none where all may be asked for."""
        return self.prediction.levels if isinstance(self.prediction, QuantilePrediction) else ()

    def level(self, level: float | None) -> float | None:
        """What is asked for; by default 0.9, or the widest that was trained. None where there is no interval."""
        if level is not None:
            return real("level", level, 0, 1, above=True, usual=0.9)
        if self.kind == "point":
            return None
        half = min(self.trained[0], 1 - self.trained[-1]) if self.trained else 0.05
        return 1 - 2 * max(half, 0.05) if half < 0.5 else None

    def region(self, level: float) -> np.ndarray:
        """Where y lies with probability `level`, in (B, R, 2) parts, low and high, NaN where a row has fewer.

        The central interval; of a mixture, the likeliest values.
        """
        if isinstance(self.prediction, MixturePrediction):
            return self.prediction.region(level).detach().double().cpu().numpy()
        ends = self.prediction.interval(level)
        return np.stack([self._own(end) for end in ends], -1)[:, None]

    def band(self, level: float | None, deviations: float | None) -> np.ndarray | None:
        """The `region`, or mean ± `deviations` times the deviation; None where there is neither."""
        if deviations is not None and self.kind != "point":
            half = real("deviations", deviations, 0, above=True, usual=2) * self.std
            return np.stack([self.mean - half, self.mean + half], -1)[:, None]
        return None if level is None or self.kind == "point" else self.region(level)

    def quantile(self, q: float) -> np.ndarray:
        return self._own(self.prediction.quantile(q))

    def log_prob(self, values: np.ndarray) -> np.ndarray:
        """log p of values (G, B), G for each row."""
        return self._log_prob(self._distribution, values, self.column)

    @property
    def ends(self) -> tuple[float, float]:
        """Between which values y must lie."""
        try:
            support: Any = self._distribution.support
        except NotImplementedError:  # torch's answer where a distribution does not say
            return -math.inf, math.inf
        return float(getattr(support, "lower_bound", -math.inf)), float(getattr(support, "upper_bound", math.inf))

    @property
    def parts(self) -> list[np.ndarray]:
        """Weight of each component of a mixture, (B,) each; none of others."""
        if not isinstance(self.prediction, MixturePrediction):
            return []
        return list(self.prediction.log_w.exp().T.detach().cpu().numpy())

    def part_log_prob(self, part: int, values: np.ndarray) -> np.ndarray:
        """log p of one component at values (G, B)."""
        distribution: Any = self.prediction.distribution
        return self._log_prob(distribution.component_distribution, values, part)

    @property
    def _distribution(self) -> Distribution:
        if isinstance(self.prediction, MultivariateNormalPrediction):
            return self.prediction.each
        return self.prediction.distribution

    def _log_prob(self, distribution: Distribution, values: np.ndarray, column: int | None) -> np.ndarray:
        like = self.prediction.mean
        wide = 1 if column is None else math.prod(distribution.batch_shape[1:])
        step = max(1, _AT_ONCE // max(values.shape[1] * wide, 1))
        found = []
        for part in torch.tensor(values).split(step):
            v = part.to(like)
            if column is None:
                found.append(distribution.log_prob(v))
            else:
                found.append(distribution.log_prob(v[..., None].expand(*v.shape, wide))[..., column])
        return torch.cat(found).detach().double().cpu().numpy()

    def _own(self, value: Tensor) -> np.ndarray:
        value = value.detach().double().cpu()
        return (value if self.column is None else value[:, self.column]).numpy()


def answer_of(prediction: Prediction, output: int | str = 0) -> Answer:
    """One column of a prediction: the only one, or of several the one whose number or name is `output`.

    >>> from leadline.likelihoods import Poisson
    >>> answer_of(Poisson().prediction(torch.zeros(2, 1))).kind
    'counts'
    """
    if isinstance(prediction, JointPrediction):
        place = place_of(output, prediction.names, len(prediction.columns))
        return replace(answer_of(prediction.columns[place]), name=name_of(prediction.names, place))
    if isinstance(prediction, TokensPrediction):
        raise UserError(
            "a prediction must have one answer a row, or one a column",
            got="tokens at each place of a row",
            do="Look at one place with ll.lens.next_token(run, text)",
        )
    if isinstance(prediction, (ClassPrediction, BernoulliPrediction, PlackettLucePrediction)):
        return Answer(prediction, None, "classes")
    if not isinstance(prediction, Prediction):
        raise UserError(
            "a prediction must come from run.predict or likelihood.prediction",
            got=type(prediction).__name__,
            do="Pass run.predict(rows)",
        )
    if isinstance(prediction, MixturePrediction):  # its mode is a search
        return Answer(prediction, None, "angles" if prediction.circular else "numbers")
    mode = prediction.mode
    column, name = None, ""
    if mode.dim() > 1:
        column = place_of(output, prediction.names, mode.shape[1])
        name = name_of(prediction.names, column)
    if isinstance(prediction, PointPrediction):
        return Answer(prediction, column, "point", name)
    if isinstance(prediction, SignsPrediction):
        return Answer(prediction, column, "classes", name)
    if isinstance(prediction, VonMisesPrediction):
        return Answer(prediction, column, "angles", name)
    if isinstance(prediction, (PoissonPrediction, NegativeBinomialPrediction)):
        return Answer(prediction, column, "counts", name)
    return Answer(prediction, column, "numbers", name)


def wrapped(angle: np.ndarray) -> np.ndarray:
    """In (-π, π]."""
    return wrap(torch.tensor(angle)).numpy()
