"""Plackett-Luce: y ranks K items, the best first.

    p(π) = Π_i e^{s_π(i)} / Σ_{j >= i} e^{s_π(j)}               (1)   draw the best, then the best of the rest, …
    loss = Σ_i logsumexp_{j >= i} s_π(j) - s_π(i)               (2)
    P(k before l) = sigmoid(s_k - s_l)                          (3)
    E[items before k] = Σ_{l ≠ k} sigmoid(s_l - s_k)            (4)

Notation   s -> output, a score for each item;  π(i) -> the item in place i;  items and places count from 0
Shapes     output (B, K); y (B, K), each row a permutation of 0 … K-1
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.prediction import Prediction
from leadline.likelihoods.values import names_of
from leadline.names import lookup
from leadline.settings import whole

FORMS = ("order", "ranks")


class PlackettLuce(Likelihood):
    """Args:
        dim: K, the number of items, at least 2.
        form: "order" (y holds the items, the best first) or "ranks" (y holds the place of each item).
        names: of the items, or none.

    >>> round(float(PlackettLuce(3).loss(torch.zeros(1, 3), torch.tensor([[2, 0, 1]]))), 4)  # log 3!
    1.7918
    """

    headline = "pairs"
    shares = ("pairs",)
    higher_is_better = True
    kinds = ("ranking", "real")

    def __init__(self, dim: int, form: str = "order", names: tuple[str, ...] = ()):
        super().__init__()
        self.dim, self.form = whole("dim", dim, 2), lookup(form, {word: word for word in FORMS}, "form")
        self.dim_output = self.dim
        self.names = names_of(names, self.dim) if names else ()

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> PlackettLuce:
        return cls(target.dim, names=target.classes, **options)

    def distribution(self, output: Tensor) -> PlackettLuceDistribution:
        return PlackettLuceDistribution(output, self.form)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.distribution(output).log_prob(y)

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        best_first = output.gather(1, order_of(y, self.form))
        ahead = (best_first[:, :, None] > best_first[:, None, :]).to(output.dtype).triu(1).sum((1, 2))
        right = (best_first[:, :-1] > best_first[:, 1:]).all(1)
        return {
            "nll": self.loss(output, y),
            "pairs": ahead / (self.dim * (self.dim - 1) / 2),
            "accuracy": right.to(output.dtype),
        }

    def prediction(self, output: Tensor) -> PlackettLucePrediction:
        return PlackettLucePrediction(self.distribution(output)).named(self.names)

    def check(self, y: Tensor) -> None:
        if y.dim() != 2 or y.shape[1] != self.dim:
            raise ShapeError(
                f"a ranking of {self.dim} items must have shape (n, {self.dim})",
                got=f"y of shape {tuple(y.shape)}",
                do="Pass one row of items, the best first, for each example",
            )
        wrong = (y.double().sort(1).values != torch.arange(self.dim, device=y.device)).any(1).nonzero().flatten()
        if len(wrong):
            row = int(wrong[0])
            from_one = bool((y[row].double().sort().values == torch.arange(1, self.dim + 1, device=y.device)).all())
            raise DataError(
                f"each row of a ranking must hold 0 … {self.dim - 1}, each once",
                got=f"{[int(v) if v == round(v) else v for v in y[row].tolist()]} in row {row}",
                do="Count from 0: pass y - 1" if from_one else "Correct the row",
            )


def order_of(y: Tensor, form: str) -> Tensor:
    """The items, the best first."""
    return y.long() if form == "order" else y.long().argsort(-1)


class PlackettLuceDistribution(Distribution):
    """Eq. 1 as torch has distributions.

    Args:
        scores: (B, K).
        form: of y, one of `FORMS`.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 - as torch declares it

    def __init__(self, scores: Tensor, form: str = "order"):
        self.scores, self.form = scores, form
        super().__init__(scores.shape[:-1], scores.shape[-1:], validate_args=False)

    @property
    def mean(self) -> Tensor:
        """The mean place of each item, from 0 (4)."""
        beaten = torch.sigmoid(self.scores[..., None, :] - self.scores[..., :, None])  # [k, l]: l before k
        return beaten.sum(-1) - 0.5  # an item does not stand before itself

    def log_prob(self, value: Tensor) -> Tensor:
        s = self.scores.expand(value.shape).gather(-1, order_of(value, self.form))
        rest = s.flip(-1).logcumsumexp(-1).flip(-1)  # logsumexp over the items that are left
        return (s - rest).sum(-1)

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """By sorting scores with Gumbel noise: the largest is item k with probability softmax(s)_k, and so on."""
        shape = torch.Size(sample_shape) + self.scores.shape
        noise = -torch.empty(shape, dtype=self.scores.dtype, device=self.scores.device).exponential_().log()
        order = (self.scores + noise).argsort(-1, descending=True)
        return order if self.form == "order" else order.argsort(-1)


class PlackettLucePrediction(Prediction):
    """A ranking of the items for each row."""

    distribution: PlackettLuceDistribution

    @property
    def mode(self) -> Tensor:
        """The likeliest ranking: by falling score."""
        order = self.distribution.scores.argsort(-1, descending=True)
        return order if self.distribution.form == "order" else order.argsort(-1)

    @property
    def std(self) -> Tensor:
        """Deviation of each item's place, over 4,096 draws: it has no closed form."""
        drawn = self.sample(4096, seed=0)
        return (drawn.argsort(-1) if self.distribution.form == "order" else drawn).double().std(0).to(self.mean.dtype)

    @property
    def first(self) -> Tensor:
        """Probability of each item to be the best, (B, K)."""
        return self.distribution.scores.softmax(-1)

    def before(self, k: int, other: int) -> Tensor:
        """Probability that item `k` comes before `other` (3)."""
        return torch.sigmoid(self.distribution.scores[:, k] - self.distribution.scores[:, other])

    def quantile(self, q: float) -> Tensor:
        raise _no_order(f"quantile({q})")

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        raise _no_order(f"interval({level})")


def _no_order(asked: str) -> UserError:
    return UserError(
        "quantiles and intervals need values in an order, and rankings have none",
        got=f"{asked} of a PlackettLuce prediction",
        do="Use first, the probabilities of the first place; mean, the mean places; before(k, l); or samples",
    )
