"""Several answers to the same rows, and the one distribution that they make together.

    p(y) = Σ_k w_k p_k(y)                                                                                     (1)
    numbers   Var[Y] = Σ w_k Var_k[Y]  +  Σ w_k (E_k[Y] - E[Y])²     scatter of y, and scatter of the answers (2)
    classes   H[p]   = Σ w_k H[p_k]    +  mutual information         likewise, in nats                        (3)

The first part is noise that no answer can take away (aleatoric), the second is what more rows would settle (epistemic).
The answers are those of an ensemble, of masks of dropout, or of draws from a posterior over weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, MixtureSameFamily, Normal

from leadline.errors import UserError
from leadline.likelihoods.bernoulli import BernoulliPrediction
from leadline.likelihoods.classes import ClassPrediction
from leadline.likelihoods.joint import JointPrediction
from leadline.likelihoods.multimodal import MixturePrediction
from leadline.likelihoods.prediction import Prediction, check_probability
from leadline.likelihoods.regions import unanimous
from leadline.likelihoods.von_mises import VonMisesDistribution

_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Several:
    """Args:
        parts: what each says of the rows.
        weights: of the parts, (K,), which add up to 1.

    >>> from leadline.likelihoods import Normal
    >>> low, high = (Normal("fixed").prediction(torch.full((1, 1), mean)) for mean in (-2.0, 2.0))
    >>> both = Several.of([low, high])
    >>> both.prediction.mean.item(), both.aleatoric.item(), both.epistemic.item()
    (0.0, 1.0, 2.0)
    """

    parts: tuple[Prediction, ...]
    weights: Tensor

    @classmethod
    def of(cls, parts: Sequence[Prediction], weights: Tensor | None = None) -> Several:
        """With equal weights where none are given."""
        if weights is None:
            weights = torch.full((len(parts),), 1 / len(parts), dtype=torch.float64)
        return cls(tuple(parts), weights.double())

    @property
    def prediction(self) -> Prediction:
        """Eq. 1, of the parts' own kind where mixing stays in it."""
        return blend(self.parts, self.weights)

    @property
    def aleatoric(self) -> Tensor:
        """First part of (2), as a deviation, or of (3)."""
        if self._classes:
            return self._mean(torch.stack([_entropy(_probabilities(part)) for part in self.parts]))
        return self._mean(torch.stack([part.std.square() for part in self.parts])).sqrt()

    @property
    def epistemic(self) -> Tensor:
        """Second part of (2), as a deviation, or of (3)."""
        if self._classes:
            return (self.total - self.aleatoric).clamp(min=0)
        means = torch.stack([part.mean for part in self.parts])
        return self._mean((means - self._mean(means)).square()).sqrt()

    @property
    def total(self) -> Tensor:
        """Left side of (2), as a deviation, or of (3)."""
        if self._classes:
            return _entropy(self._mean(torch.stack([_probabilities(part) for part in self.parts])))
        return (self.aleatoric.square() + self.epistemic.square()).sqrt()

    def unanimous(self, otherwise: int = 0) -> Tensor:
        """The class that every part answers, and the code `otherwise` where they differ; (B,), of pixels (B, Y, X).

        >>> from leadline.likelihoods import Categorical
        >>> logits = torch.tensor([[[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]], [[2.0, 0.0, 1.0], [0.0, 2.0, 1.0]]])
        >>> Several.of([Categorical(3).prediction(each) for each in logits]).unanimous(otherwise=-1).tolist()
        [0, -1]
        """
        if not self._classes:
            raise UserError(
                "parts must answer with classes to be of one mind",
                got=type(self.parts[0]).__name__,
                do="Look at epistemic, which says how far their answers lie apart",
            )
        return unanimous(torch.stack([part.mode for part in self.parts]), otherwise)

    @property
    def _classes(self) -> bool:
        return isinstance(self.parts[0], (ClassPrediction, BernoulliPrediction))

    def _mean(self, values: Tensor) -> Tensor:
        return torch.tensordot(self.weights.to(values), values, dims=1)


def blend(parts: Sequence[Prediction], weights: Tensor) -> Prediction:
    """Eq. 1 of predictions of one kind."""
    first = parts[0]
    if isinstance(first, JointPrediction):
        columns = zip(*(part.columns for part in parts if isinstance(part, JointPrediction)), strict=True)
        return JointPrediction([blend(column, weights) for column in columns])
    if isinstance(first, (ClassPrediction, BernoulliPrediction)):
        p = torch.stack([part.distribution.probs for part in parts])  # type: ignore[attr-defined]
        probs = torch.tensordot(weights.to(p), p, dims=1).clamp(0, 1)
        made: Any = Bernoulli if isinstance(first, BernoulliPrediction) else Categorical
        return type(first)(made(probs=probs, validate_args=False)).named(first.names)
    each = [part.distribution for part in parts]
    if first.mode.dim() == 1 and all(isinstance(one, (Normal, VonMisesDistribution)) for one in each):
        return _bumps(each, weights)
    return BlendPrediction(BlendDistribution(parts, weights), first).named(first.names)


def _bumps(each: Sequence[Any], weights: Tensor) -> MixturePrediction:
    """Normal or von Mises parts: their mixture knows its modes, quantiles and likeliest region."""
    loc = torch.stack([one.loc for one in each], -1)
    share = Categorical(probs=weights.to(loc).expand_as(loc), validate_args=False)
    if isinstance(each[0], VonMisesDistribution):
        kappa = torch.stack([one.concentration.expand_as(one.loc) for one in each], -1)
        parts: Distribution = VonMisesDistribution(loc, kappa)
    else:
        parts = Normal(loc, torch.stack([one.scale for one in each], -1), validate_args=False)
    return MixturePrediction(
        MixtureSameFamily(share, parts, validate_args=False), isinstance(parts, VonMisesDistribution)
    )


class BlendDistribution(Distribution):
    """Eq. 1 for parts of any kind; of several outputs a row, each output by itself."""

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 - as torch declares it

    def __init__(self, parts: Sequence[Prediction], weights: Tensor):
        self.parts, self.weights = parts, weights
        super().__init__(parts[0].mode.shape, validate_args=False)

    def _mean_of(self, values: list[Tensor]) -> Tensor:
        stacked = torch.stack(values)
        return torch.tensordot(self.weights.to(stacked), stacked, dims=1)

    @property
    def mean(self) -> Tensor:
        return self._mean_of([part.mean for part in self.parts])

    @property
    def variance(self) -> Tensor:
        second = self._mean_of([part.std.square() + part.mean.square() for part in self.parts])
        return (second - self.mean.square()).clamp(min=0)

    def log_prob(self, value: Tensor) -> Tensor:
        each = torch.stack([part.log_prob(value) for part in self.parts])
        shape = (-1, *[1] * (each.dim() - 1))
        return (each + self.weights.to(each).log().view(shape)).logsumexp(0)

    def cdf(self, value: Tensor) -> Tensor:
        return self._mean_of([part.cdf(value) for part in self.parts])

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = torch.Size(sample_shape)
        drawn = torch.stack([part.distribution.sample(shape) for part in self.parts])
        rows = (*shape, self.batch_shape[0])
        which = torch.multinomial(self.weights, torch.Size(rows).numel(), True)
        index = which.view(1, *rows, *[1] * (drawn.dim() - 1 - len(rows))).to(drawn.device)
        return drawn.gather(0, index.expand(1, *drawn.shape[1:]))[0]


class BlendPrediction(Prediction):
    """What a blend of any kind answers."""

    distribution: BlendDistribution

    def __init__(self, distribution: BlendDistribution, like: Prediction):
        super().__init__(distribution)
        self.whole, self.circular = like.whole, like.circular

    @property
    def mode(self) -> Tensor:
        """The likeliest of the parts' modes."""
        modes = torch.stack([part.mode for part in self.distribution.parts])
        heights = torch.stack([self.distribution.log_prob(mode) for mode in modes])
        if heights.dim() < modes.dim():  # one density for several outputs
            heights = heights.unsqueeze(-1).expand_as(modes)
        return modes.gather(0, heights.argmax(0, keepdim=True))[0]

    def quantile(self, q: float) -> Tensor:
        """By halving, between the least and the largest of the parts' own quantiles."""
        check_probability("q", q)
        own = torch.stack([part.quantile(q) for part in self.distribution.parts])
        low, high = own.amin(0).double(), own.amax(0).double()
        low = low - 1 if self.whole else low
        for _ in range(_HALVINGS):
            middle = ((low + high) / 2).floor() if self.whole else (low + high) / 2
            enough = self.distribution.cdf(middle.to(own.dtype)) >= q
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        return high.to(own.dtype)


def _probabilities(part: Any) -> Tensor:
    """Of the classes, which are the last axis, of pixels too."""
    return part.distribution.probs if isinstance(part, ClassPrediction) else part.probabilities


def _entropy(p: Tensor) -> Tensor:
    return -torch.xlogy(p, p).sum(-1)
