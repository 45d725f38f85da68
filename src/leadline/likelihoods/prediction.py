"""A prediction is a distribution: ask it for its mean, its mode, an interval, a quantile, samples, or log p(y)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import torch
from torch import Tensor
from torch.distributions import Distribution

from leadline.errors import ShapeError, UserError
from leadline.settings import given


class Prediction(ABC):
    """What a model says of some rows.

    >>> from leadline.likelihoods import Normal
    >>> prediction = Normal(variance="fixed").prediction(torch.zeros(1, 1))
    >>> low, high = prediction.interval(0.95)
    >>> round(low.item(), 2), round(high.item(), 2)
    (-1.96, 1.96)
    """

    #: whether y is an angle: the same in every turn
    circular: bool = False
    #: whether y is a whole number: probability lies on points
    whole: bool = False
    #: whether y cannot be below 0
    positive: bool = False
    #: of several columns of y, or of the items of a ranking; none where there is one column, or where none were given
    names: tuple[str, ...] = ()

    def __init__(self, distribution: Distribution):
        self.distribution = distribution

    def named(self, names: tuple[str, ...]) -> Self:
        """This prediction, with `names`."""
        self.names = names
        return self

    @property
    def mean(self) -> Tensor:
        """The expected value; for classes, their probabilities."""
        return self.distribution.mean

    @property
    @abstractmethod
    def mode(self) -> Tensor:
        """The single most likely value: for classes, the code of the most probable one."""

    @property
    def std(self) -> Tensor:
        """Standard deviation of the distribution."""
        return self.distribution.stddev

    @abstractmethod
    def quantile(self, q: float) -> Tensor:
        """The smallest value that is not exceeded with probability `q`."""

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Ends of the central interval that holds y with probability `level` (at least, for discrete y)."""
        check_probability("level", level)
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def holds(self, y: Any, level: float = 0.9) -> Tensor:
        """Whether each y lies in its interval; an angle in whatever turn it is written."""
        low, high = self.interval(level)
        y = self.near(y, (low + high) / 2)
        return (low <= y) & (y <= high)

    def near(self, y: Any, place: Tensor) -> Tensor:
        """Values of y for these rows; angles in the turn that is nearest to `place`."""
        y = self._as_y(y)
        return y + 2 * math.pi * ((place - y) / (2 * math.pi)).round() if self.circular else y

    def sample(self, count: int = 1, seed: int | None = None) -> Tensor:
        """`count` draws for each row, shape (count, B, ...); the same seed gives the same draws."""
        if count < 1:
            raise UserError("count must be at least 1", got=f"count={count}", do="Ask for 1 sample or more")
        if seed is None:
            return self.distribution.sample(torch.Size([count]))
        devices = [self.distribution.mean.device] if self.distribution.mean.is_cuda else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            return self.distribution.sample(torch.Size([count]))

    def log_prob(self, y: Any) -> Tensor:
        """log p(y) of each row, in y's own unit."""
        return self.distribution.log_prob(self._as_y(y))

    def cdf(self, y: Any) -> Tensor:
        """P(Y <= y) of each row, for families whose distribution function is known."""
        return self.distribution.cdf(self._as_y(y))

    def _as_y(self, y: Any) -> Tensor:
        """Values of y for these rows, of their very shape: (n, 1) against (n,) would broadcast to (n, n)."""
        y = torch.as_tensor(y, device=self.mode.device)
        if y.shape != self.mode.shape:
            raise ShapeError(
                f"y must have shape {tuple(self.mode.shape)}, one value for each predicted row",
                got=f"y of shape {tuple(y.shape)}",
                do="Pass y.squeeze(1)" if y.shape == (*self.mode.shape, 1) else "Pass the y of these rows",
            )
        return y

    def __len__(self) -> int:
        return len(self.mode)


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability between 0 and 1, these left out.

    >>> check_probability("level", "0.9")
    Traceback (most recent call last):
    leadline.errors.UserError: level must lie between 0 and 1. Got level='0.9' (text). Write 90 % as level=0.9.
    """
    if not isinstance(value, (int, float)) or not 0 < value < 1:
        raise UserError(f"{name} must lie between 0 and 1", got=given(name, value), do=f"Write 90 % as {name}=0.9")
