"""Span: y is a part of a row, from its first position to its last, such as the answer to a question in a text.

    p(y) = softmax_t(output_{t,1})_{first} · softmax_t(output_{t,2})_{last}                    (1)   over positions t
    loss = -log p(y)                                                                           (2)
    mode = argmax of output_{first,1} + output_{last,2},  first <= last < first + longest      (3)
    f1   = 2 |said ∩ y| / (|said| + |y|)                                                       (4)   in positions

The two ends are drawn apart in (1), so a sample can end before it begins; (3) looks only at spans that do not. A model
gives padding a score that is finite and so low that its probability is 0, such as -10⁴: no span begins or ends there.
Where there is no answer, y points at a position that is kept for that, often the first, of a token that is no word.

Shapes     output (B, T, 2); y (B, 2) of positions 0 … T-1
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Categorical as CategoricalDistribution

from leadline.data.account import counted
from leadline.errors import DataError, ShapeError
from leadline.likelihoods.likelihood import Likelihood, full
from leadline.likelihoods.prediction import Prediction, check_probability
from leadline.settings import whole


class Span(Likelihood):
    """Args:
        longest: positions of the longest span that a prediction may be, at least 1.

    >>> output = torch.tensor([[[0.0, 4.0], [2.0, 0.0], [0.0, 1.0]]])
    >>> Span().prediction(output).mode.tolist()  # the likeliest last position, 0, would stand before the first
    [[0, 0]]
    >>> Span(longest=2).measures(output, torch.tensor([[0, 1]]))["f1"].tolist()
    [0.6666666865348816]
    """

    headline = "f1"
    higher_is_better = True
    shares = ("f1",)
    kinds = ("span",)

    def __init__(self, longest: int = 30):
        super().__init__()
        self.longest, self.dim_output = whole("longest", longest, usual=30), 2

    def distribution(self, output: Tensor) -> CategoricalDistribution:
        return CategoricalDistribution(logits=full(output).transpose(1, 2), validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        scores = F.log_softmax(full(output), 1)  # (B, T, 2)
        return -scores.gather(1, y.long()[:, None]).sum((1, 2))  # eq. 2

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        said, dtype = best_span(output, self.longest), full(output).dtype
        return {
            "nll": self.loss(output, y),
            "exact": (said == y).all(1).to(dtype),
            "f1": overlap(said, y).to(dtype),
        }

    def prediction(self, output: Tensor) -> SpanPrediction:
        return SpanPrediction(self.distribution(output), self.longest)

    def check(self, y: Tensor) -> None:
        if y.dim() != 2 or y.shape[1] != 2:
            raise ShapeError(
                "spans must have shape (n, 2), the first and the last position",
                got=f"y of shape {tuple(y.shape)}",
                do="Pass torch.stack([first, last], 1)",
            )
        if y.is_floating_point() or y.is_complex():
            raise DataError(
                "positions must be whole numbers", got=f"y of type {y.dtype}", do="Pass y.long(), counted from 0"
            )
        wrong = ((y[:, 0] < 0) | (y[:, 1] < y[:, 0])).nonzero().flatten()
        if len(wrong):
            raise DataError(
                "a span must begin at 0 or later, and end where it begins or later",
                got=f"{len(wrong)} that do not, the first in row {int(wrong[0])}: {y[wrong[0]].tolist()}",
                do="Pass the last position of the span itself, not the one after it",
            )

    def check_output(self, output: Tensor, y: Tensor) -> None:
        if output.dim() != 3 or len(output) != len(y) or output.shape[2] != 2:
            raise ShapeError(
                "Span needs 2 outputs for each position, (B, T, 2)",
                got=f"model output of shape {tuple(output.shape)} for {counted(len(y), 'example')}",
                do='Take a model that answers for positions, such as BERT with head="span"',
            )
        if bool((y >= output.shape[1]).any()):
            raise ShapeError(
                f"a span must lie in the {counted(output.shape[1], 'position')} that the model answers for",
                got=f"one that ends at {int(y.max())}",
                do="Leave out rows whose answer was cut off, or read longer rows",
            )


def best_span(output: Tensor, longest: int) -> Tensor:
    """Eq. 3, (B, 2).

    >>> best_span(torch.tensor([[[1.0, 9.0], [5.0, 0.0], [0.0, 2.0]]]), longest=2).tolist()
    [[0, 0]]
    """
    output = full(output.detach())
    longest = min(longest, output.shape[1])
    before = F.pad(output[..., 0], (longest - 1, 0), value=-math.inf)
    # the best first position for each last one: the largest of the `longest` scores up to it
    score, place = F.max_pool1d(before[:, None], longest, 1, return_indices=True)  # (B, 1, T)
    last = (score[:, 0] + output[..., 1]).argmax(1, keepdim=True)
    first = place[:, 0].gather(1, last) - (longest - 1)
    return torch.cat([first, last], 1)


def overlap(said: Tensor, y: Tensor) -> Tensor:
    """Eq. 4 of spans (B, 2): 1 where they are the same, 0 where they have no position in common.

    >>> overlap(torch.tensor([[2, 5]]), torch.tensor([[4, 7]])).tolist()
    [0.5]
    """
    both = (torch.minimum(said[:, 1], y[:, 1]) - torch.maximum(said[:, 0], y[:, 0]) + 1).clamp(min=0)
    return 2 * both / ((said[:, 1] - said[:, 0] + 1) + (y[:, 1] - y[:, 0] + 1))


class SpanPrediction(Prediction):
    """Where a span begins and ends.

    Args:
        longest: positions of the longest that `mode` may be.
    """

    distribution: CategoricalDistribution
    whole = True

    def __init__(self, distribution: CategoricalDistribution, longest: int):
        super().__init__(distribution)
        self.longest = longest

    @property
    def probabilities(self) -> Tensor:
        """That a position is the first, and that it is the last: (B, T, 2)."""
        return self.distribution.probs.transpose(1, 2)

    @property
    def mode(self) -> Tensor:
        return best_span(self.distribution.logits.transpose(1, 2), self.longest)

    @property
    def mean(self) -> Tensor:
        """The expected first and last position, (B, 2)."""
        return (self.distribution.probs * self._places).sum(-1)

    @property
    def std(self) -> Tensor:
        apart = self._places - self.mean[..., None]
        return (self.distribution.probs * apart**2).sum(-1).sqrt()

    @property
    def _places(self) -> Tensor:
        p = self.distribution.probs
        return torch.arange(p.shape[-1], device=p.device, dtype=p.dtype)

    def quantile(self, q: float) -> Tensor:
        """Of each end by itself."""
        check_probability("q", q)
        below = self.distribution.probs.cumsum(-1) < q
        return below.sum(-1).clamp(max=below.shape[-1] - 1)

    def log_prob(self, y: Any) -> Tensor:
        """log p(y) of each row (1), (B,)."""
        return self.distribution.log_prob(self._as_y(y)).sum(-1)
