"""Losses that are no likelihoods: margins of a yes-or-no answer, and distances of any kind.

    m           = y a                          y -> -1 or +1 (code 0 is -1);  a -> output                       (1)
    perceptron  = max(0, -m)                   hinge       = max(0, 1 - m)                                      (2)
    squared     = max(0, 1 - m)²               exponential = exp(-m), straight on below m = -30                 (3)
    distance    = d(y, output)                 any function of yours                                            (4)

None of them is -log p(y) of a distribution: predictions have a mode and nothing else, and what asks for a probability
is told so. For probabilities take Bernoulli, whose loss log(1 + exp(-m)) is a margin loss too.

Shapes     Margin: output (B, 1); y (B,) of codes 0 and 1.  Distance: output (B, dim); y (B,) or (B, dim)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods.codes import check_codes
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.prediction import Prediction
from leadline.names import lookup
from leadline.settings import given, whole

_STRAIGHT = 30.0  # exp(88) is the largest that float32 holds


def _exponential(m: Tensor) -> Tensor:
    return m.clamp(min=-_STRAIGHT).neg().exp() + math.exp(_STRAIGHT) * F.relu(-m - _STRAIGHT)


#: loss of a margin, by name
MARGINS: dict[str, Callable[[Tensor], Tensor]] = {
    "perceptron": lambda m: F.relu(-m),
    "hinge": lambda m: F.relu(1 - m),
    "squared_hinge": lambda m: F.relu(1 - m).square(),
    "exponential": _exponential,
}

#: distance of (y, output), both (B, dim), one value a row, by name; `Distance(function)` adds to it
DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "absolute": lambda y, f: (y - f).abs().sum(-1),
    "squared": lambda y, f: (y - f).square().sum(-1),
    "largest": lambda y, f: (y - f).abs().amax(-1),
    "cosine": lambda y, f: 1 - F.cosine_similarity(y, f, dim=-1),
}


class NoDensity(UserError):
    """Asked for a probability of something that has none."""


class Margin(Likelihood):
    """Args:
        surrogate: "perceptron", "hinge", "squared_hinge" or "exponential".

    >>> Margin("hinge").loss(torch.tensor([[0.25]]), torch.tensor([1])).item()
    0.75
    """

    headline = "accuracy"
    higher_is_better = True
    kinds = ("binary", "classes")
    has_density = False
    dim_output = 1

    def __init__(self, surrogate: str = "hinge"):
        super().__init__()
        lookup(surrogate, MARGINS, "surrogate")
        self.surrogate = surrogate.lower()

    def distribution(self, output: Tensor) -> NoReturn:
        raise no_density(f"a {self.surrogate} loss", "distribution")

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        a = output.squeeze(-1)
        return MARGINS[self.surrogate](a * torch.where(y > 0, 1.0, -1.0).to(a.dtype))  # eq. 1 to 3

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        a = output.squeeze(-1)
        right = torch.where(y > 0, a > 0, a < 0)  # a score of 0 is no answer
        return {"loss": self.loss(output, y), "accuracy": right.to(output.dtype)}

    def prediction(self, output: Tensor) -> PointPrediction:
        return PointPrediction((output.squeeze(-1) > 0).long(), f"a {self.surrogate} loss")

    def check(self, y: Tensor) -> None:
        check_codes(y, 2)


class Distance(Likelihood):
    """Args:
        measure: "absolute", "squared", "largest" or "cosine", or a function of (y, output), both (B, dim), that returns
            one number a row; it is then known by its own name, and a run that is read back in another process needs
            `Distance(function)` to have been called there.
        dim: values of y a row, at least 1.

    >>> Distance("absolute").loss(torch.tensor([[3.0]]), torch.tensor([1.0])).item()
    2.0
    """

    headline = "distance"
    kinds = ("real", "positive", "count", "proportion", "signs")
    has_density = False

    def __init__(self, measure: str | Callable[[Tensor, Tensor], Tensor] = "squared", dim: int = 1):
        super().__init__()
        if isinstance(measure, str):
            lookup(measure, DISTANCES, "distance")
            self.measure = measure if measure in DISTANCES else measure.lower()
        elif callable(measure) and getattr(measure, "__name__", "<lambda>").isidentifier():
            if DISTANCES.get(measure.__name__, measure) is not measure and measure.__name__ in _OWN:
                raise UserError(
                    "your own distance must not have the name of a known one", got=measure.__name__, do="Rename it"
                )
            DISTANCES[measure.__name__] = measure
            self.measure = measure.__name__
        else:
            raise UserError(
                "measure must be a name or a function that has one",
                got=given("measure", measure),
                do="Write it as def mine(y, output): …",
            )
        self.dim = self.dim_output = whole("dim", dim)

    @property
    def calls_user_code(self) -> bool:
        """Whether the distance is a function of the user, of which nobody knows what it does at another step."""
        return self.measure not in _OWN

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Distance:
        return cls(dim=target.dim, **options)

    def distribution(self, output: Tensor) -> NoReturn:
        raise no_density(f"the distance {self.measure}", "distribution")

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        found = DISTANCES[self.measure](y.to(output.dtype).view_as(output), output)  # eq. 4
        if found.shape != (len(output),):
            raise ShapeError(
                f"the distance {self.measure} must return one number a row",
                got=f"shape {tuple(found.shape)} for {len(output)} rows",
                do="Sum or average over the last axis",
            )
        return found

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        found = self.loss(output, y)
        return {"loss": found, "distance": found}

    def prediction(self, output: Tensor) -> PointPrediction:
        return PointPrediction(output.squeeze(-1) if self.dim == 1 else output, f"the distance {self.measure}")

    def check(self, y: Tensor) -> None:
        fits = y.dim() == 1 if self.dim == 1 else y.shape[1:] == (self.dim,)
        if not fits:
            raise ShapeError(
                f"y must have shape {'(n,)' if self.dim == 1 else f'(n, {self.dim})'}",
                got=f"y of shape {tuple(y.shape)}",
                do="Pass y.squeeze(1)" if y.shape[1:] == (1,) else f"Use Distance(dim={y.shape[-1]})",
            )
        if not y.is_floating_point():
            raise DataError("a distance needs floating-point numbers", got=f"y of type {y.dtype}", do="Pass y.float()")


_OWN = frozenset(DISTANCES)


class Undistributed(Prediction):
    """A prediction that says what, and no word of how sure it is.

    Args:
        what: has no density, for messages.
        instead: what to do for a probability, as a full sentence without its stop.
    """

    def __init__(self, what: str, instead: str = ""):
        self.what, self.instead = what, instead

    @property
    def distribution(self) -> NoReturn:  # type: ignore[override]
        raise self._none("a distribution")

    @property
    def mean(self) -> NoReturn:
        raise self._none("a mean")

    @property
    def std(self) -> NoReturn:
        raise self._none("a standard deviation")

    def quantile(self, q: float) -> NoReturn:
        raise self._none("a quantile")

    def interval(self, level: float = 0.9) -> NoReturn:
        raise self._none("an interval")

    def sample(self, count: int = 1, seed: int | None = None) -> NoReturn:
        raise self._none("samples")

    def log_prob(self, y: Any) -> NoReturn:
        raise self._none("log_prob")

    def _none(self, asked: str) -> NoDensity:
        return no_density(self.what, asked, self.instead)


class PointPrediction(Undistributed):
    """One value for each row.

    Args:
        values: the mode.
        what: has no density, for messages.
    """

    def __init__(self, values: Tensor, what: str):
        super().__init__(what)
        self.values = values

    @property
    def mode(self) -> Tensor:
        return self.values


def no_density(what: str, asked: str, instead: str = "") -> NoDensity:
    """The message that there is no probability here."""
    return NoDensity(
        "only a likelihood has a density",
        got=f"{asked} of {what}, which is a loss without probabilities",
        do=instead or "Use the mode; or fit with Bernoulli, or with Normal",
    )
