"""Ordinal: y is one of C classes that have an order, such as poor < fair < good.

    P(y <= k) = sigmoid(c_k - output)                        (1)   cumulative logits; one output, C - 1 cut points
    c_1 = PACE · ρ,  c_k+1 = c_k + positive(PACE · g_k)      (2)   cut points keep their order whatever is learned
    p(y = k)  = sigmoid(a) - sigmoid(b),  a = c_k+1 - output,  b = c_k - output
              = sigmoid(a) · sigmoid(-b) · (1 - e^-(a-b))    (3)   no difference of like numbers

Notation   the larger the output, the higher the class;  the first class has no b, the last no a
Shapes     output (B, 1); y (B,) of codes 0 … C-1, in the order of the classes
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Categorical as CategoricalDistribution

from leadline.data.target import Target
from leadline.likelihoods.classes import ClassPrediction
from leadline.likelihoods.codes import check_codes
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import PACE, before_positive, full, positive
from leadline.likelihoods.prediction import check_probability
from leadline.settings import whole


class Ordinal(Likelihood):
    """Args:
        num_classes: C, at least 2.

    >>> Ordinal(4).prediction(torch.zeros(1, 1)).probabilities.round(decimals=4).tolist()  # before training
    [[0.25, 0.25, 0.25, 0.25]]
    """

    headline = "accuracy"
    higher_is_better = True
    kinds = ("ordered", "classes", "binary")
    dim_output = 1

    def __init__(self, num_classes: int):
        super().__init__()
        self.num_classes = whole("num_classes", num_classes, 2)
        cuts = [math.log(k / (num_classes - k)) for k in range(1, num_classes)]  # all classes equally likely
        gaps = [before_positive(high - low) for low, high in itertools.pairwise(cuts)]
        self.first = nn.Parameter(torch.tensor(cuts[0]) / PACE)
        self.gaps = nn.Parameter(torch.tensor(gaps) / PACE)

    @property
    def spread(self) -> tuple[str, ...]:
        return ()  # cut points say which class is the likeliest, too

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Ordinal:
        return cls(max(len(target.classes), 2), **options)

    @property
    def cut_points(self) -> Tensor:
        """c_1 < … < c_C-1 (2)."""
        first = PACE * self.first
        return torch.cat([first[None], first + positive(PACE * self.gaps).cumsum(0)])

    def log_probabilities(self, output: Tensor) -> Tensor:
        """log p(y = k) of every class, (B, C), by eq. 3."""
        between = self.cut_points - full(output)  # (B, C - 1)
        log_below = F.pad(F.logsigmoid(between), (0, 1))  # of a; the last class has none
        log_above = F.pad(F.logsigmoid(-between), (1, 0))  # of -b; nor has the first
        width = F.pad(torch.log(-torch.expm1(-positive(PACE * self.gaps))), (1, 1))
        return log_below + log_above + width

    def distribution(self, output: Tensor) -> CategoricalDistribution:
        return CategoricalDistribution(logits=self.log_probabilities(output), validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_probabilities(output).gather(1, y.long()[:, None]).squeeze(1)

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        log_p = self.log_probabilities(output)
        steps = (log_p.exp().cumsum(-1) < 0.5).sum(-1) - y  # from the median, which is off by the least
        return {
            "nll": -log_p.gather(1, y.long()[:, None]).squeeze(1),
            "accuracy": (log_p.argmax(-1) == y).to(output.dtype),
            "steps_off": steps.abs().to(output.dtype),
        }

    def prediction(self, output: Tensor) -> OrdinalPrediction:
        return OrdinalPrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        check_codes(y, self.num_classes)


class OrdinalPrediction(ClassPrediction):
    """Probabilities of ordered classes for each row."""

    def quantile(self, q: float) -> Tensor:
        """The code of the lowest class that is not exceeded with probability `q`."""
        check_probability("q", q)
        p = self.distribution.probs
        return (p.cumsum(-1) < q).sum(-1).clamp(max=p.shape[-1] - 1)
