"""Focal loss: classes of which some are rare. What is well classified already counts for less (Lin et al., 2017).

    p    = softmax(output)                                                       (1)
    loss = (1 - p_y)^γ · (-log p_y)                                              (2)   γ = 0 is cross-entropy
    log(1 - p_y) = logsumexp_{c ≠ y} output_c - logsumexp_c output_c             (3)   no 1 - p that rounds to 0

The nll that is measured is -log p_y itself. (2) is not a proper score: do not read the probabilities as frequencies.
Shapes     output (B, C), two for a yes-or-no question; y (B,) of codes 0 … C-1
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Categorical as CategoricalDistribution

from leadline.data.target import Target
from leadline.likelihoods.categorical import CategoricalPrediction
from leadline.likelihoods.codes import check_codes
from leadline.likelihoods.likelihood import Likelihood
from leadline.settings import real, whole


class Focal(Likelihood):
    """Args:
        num_classes: C, at least 2.
        gamma: γ of eq. 2, at least 0.

    >>> float(Focal(2, gamma=1.0).loss(torch.zeros(1, 2), torch.tensor([1])))  # ½ log 2
    0.3465735912322998
    """

    headline = "accuracy"
    higher_is_better = True
    kinds = ("classes", "binary", "ordered")

    def __init__(self, num_classes: int, gamma: float = 2.0):
        super().__init__()
        self.num_classes = whole("num_classes", num_classes, 2)
        self.gamma = real("gamma", gamma, 0, usual=2.0)
        self.dim_output = self.num_classes

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Focal:
        return cls(max(len(target.classes), 2), **options)

    @property
    def loss_is_nll(self) -> bool:
        return self.gamma == 0

    def distribution(self, output: Tensor) -> CategoricalDistribution:
        return CategoricalDistribution(logits=output, validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        y = y.long()
        nll = F.cross_entropy(output, y, reduction="none")
        own = F.one_hot(y, self.num_classes).bool()
        others = output.masked_fill(own, -torch.inf).logsumexp(-1) - output.logsumexp(-1)  # eq. 3
        return (self.gamma * others).exp() * nll  # eq. 2

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        y = y.long()
        nll = F.cross_entropy(output, y, reduction="none")
        return {"nll": nll, "accuracy": (output.argmax(-1) == y).to(output.dtype)}

    def prediction(self, output: Tensor) -> CategoricalPrediction:
        return CategoricalPrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        check_codes(y, self.num_classes)
