"""From a network's output to a distribution over y: loss, prediction and metrics in one object.

    output = f[x, φ],   p(y | output),   loss = -log p(y | output)        (1)

Head and loss cannot disagree because there is no way to name one without the other.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn
from torch.distributions import Distribution

from leadline.config import Configured
from leadline.data.account import counted
from leadline.data.target import Target
from leadline.errors import ShapeError
from leadline.likelihoods.prediction import Prediction


class Likelihood(nn.Module, ABC, Configured):
    """A family of distributions whose parameters a network predicts.

    A concrete likelihood stores its constructor's arguments, sets `dim_output`, and says four things: the
    distribution (`distribution`), its negative log-likelihood in a form that cannot overflow (`loss`), what is
    measured (`measures`, `summary`), and which y it accepts (`check`). It may have parameters of its own, such as a
    learned variance; they train and are saved with the model's.
    """

    dim_output: int
    #: the metric by which people judge this family, and whether more of it is better
    headline: str = "nll"
    higher_is_better: bool = False
    #: measures between 0 and 1 of each row, which their intervals must not leave; those of 0s and 1s need no naming
    shares: tuple[str, ...] = ()
    #: whether it is a distribution at all; losses that are none have no nll, and say so when asked for a probability
    has_density: bool = True
    #: whether shift and scale, the unit of y, act through the buffers `_shift` and `_scale` alone
    unit_in_buffers: bool = False
    #: whether its loss reads scores that are not computed yet (`leadline.layers.unembedding.Deferred`)
    takes_deferred: bool = False
    #: kinds of target that it scores, the one that it is made for first
    kinds: tuple[str, ...] = ("real", "positive", "count", "angle", "proportion")

    @property
    def spread(self) -> tuple[str, ...]:
        """Names of its own parameters that say how far y strays from the output; they are the same for all rows."""
        return tuple(name for name, _ in self.named_parameters())

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Likelihood:
        """The member of this family that fits a target; `options` are arguments that a target does not decide."""
        return cls(**options)

    @property
    def loss_is_nll(self) -> bool:
        """Whether it trains on -log p(y) itself, and not on a relative of it such as smoothed labels."""
        return not getattr(self, "label_smoothing", 0)

    @abstractmethod
    def distribution(self, output: Tensor) -> Distribution:
        """p(y | output), in y's own unit; batch shape (B,) or (B, dim)."""

    @abstractmethod
    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The training loss of each example, shape (B,)."""

    @abstractmethod
    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What is averaged over a split, one value per example; always has `nll`."""

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """Metrics out of the sample-weighted means of `measures`."""
        return means

    def tallies(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What `overall` needs of each example, first axis the example; tallies of batches are joined along it."""
        return {}

    def overall(self, tallies: dict[str, Tensor]) -> dict[str, float]:
        """Metrics of all rows together that are no function of means, such as average precision."""
        return {}

    @abstractmethod
    def prediction(self, output: Tensor) -> Prediction:
        """The distribution as an object to ask: mean, mode, interval, quantile, sample, log_prob."""

    @abstractmethod
    def check(self, y: Tensor) -> None:
        """Raise a ShapeError or DataError when y is not of this family's kind."""

    def extra_repr(self) -> str:
        """What was chosen, where it is not the default; the unit of y is left out."""
        usual = inspect.signature(type(self)).parameters
        own = {name: getattr(self, name) for name in usual if name not in ("shift", "scale", "names", "options")}
        return ", ".join(f"{name}={value!r}" for name, value in own.items() if value != usual[name].default)

    def check_output(self, output: Tensor, y: Tensor) -> None:
        """Raise a ShapeError when a model's output does not fit."""
        if output.shape != (len(y), self.dim_output):
            raise ShapeError(
                f"{type(self).__name__} needs {counted(self.dim_output, 'output')} for each example",
                got=f"model output of shape {tuple(output.shape)} for {counted(len(y), 'example')}",
                do=self._remedy(output),
            )

    def _remedy(self, output: Tensor) -> str:
        if output.dim() < 3:
            return f"Give the model dim_output={self.dim_output}"
        if output.numel() == len(output) * self.dim_output:
            return "Let the model end in flatten(1)"
        whole = "whole pictures, such as ConvNet" if output.dim() > 3 else "whole series, such as ConvNet1D"
        return f"This model answers for each place. Take one that answers for {whole}"


def full(output: Tensor) -> Tensor:
    """An output in float32 at least: sums over many places of a picture are lost in 16 bits."""
    return output.float() if output.element_size() < 4 else output
