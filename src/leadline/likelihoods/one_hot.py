"""Classes by least squares: the label as a row of 0 and 1, and squared distance to it.

    t    = (0 … 1 … 0), the 1 at the place of y            (1)
    loss = Σ_c (t_c - output_c)²                           (2)
    mode = argmax_c output_c                               (3)

An affine map that is fitted so has outputs that sum to 1, since the rows of (1) do. They are no probabilities: they
leave [0, 1], and what asks for one is told so. Take Categorical for probabilities.

Shapes     output (B, C); y (B,) of codes 0 … C-1
Use it     ll.fit(ll.models.Linear(d, C), data, likelihood=OneHot(C), rule=ll.optim.LeastSquares(), epochs=1)
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch.nn.functional as F
from torch import Tensor

from leadline.data.target import Target
from leadline.likelihoods.codes import check_codes
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.margin import PointPrediction, no_density
from leadline.settings import whole

_WHAT = "squared distance to a row of 0 and 1"


class OneHot(Likelihood):
    """Args:
        num_classes: C, at least 2.

    >>> import torch
    >>> OneHot(3).loss(torch.tensor([[0.0, 0.5, 0.5]]), torch.tensor([1])).item()
    0.5
    """

    headline = "accuracy"
    higher_is_better = True
    kinds = ("classes", "binary", "ordered")
    has_density = False

    def __init__(self, num_classes: int):
        super().__init__()
        self.num_classes = self.dim_output = whole("num_classes", num_classes, 2)

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> OneHot:
        return cls(len(target.classes) or 2, **options)

    def rows(self, y: Tensor) -> Tensor:
        """Eq. 1, whole numbers of shape (B, C)."""
        return F.one_hot(y.long(), self.num_classes)

    def distribution(self, output: Tensor) -> NoReturn:
        raise no_density(_WHAT, "distribution")

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        return (self.rows(y) - output).square().sum(-1)  # eq. 2

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"loss": self.loss(output, y), "accuracy": (output.argmax(-1) == y).to(output.dtype)}

    def prediction(self, output: Tensor) -> PointPrediction:
        return PointPrediction(output.argmax(-1), _WHAT)  # eq. 3

    def check(self, y: Tensor) -> None:
        check_codes(y, self.num_classes)
