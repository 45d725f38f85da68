"""Joint: several numbers a row, each with a family of its own, such as direction by VonMises and speed by Exponential.

    p(y | output) = Π_k p_k(y_k | output_k),   so   nll = Σ_k nll_k                    (1)
    sum       loss = Σ_k loss_k                                                        (2)
    learned   loss = Σ_k e^-s_k loss_k + s_k                                           (3)   (Kendall et al., 2018)
              s_k  = 3 tanh(ρ_k / 3)                                                   (4)

In (3) a task that stays hard is weighed down by its own loss. A density's loss can be negative, and would then pull
s_k to -∞: (4) keeps every weight between 1/20 and 20. Heads that learn their variance weigh themselves already, in (2).

Notation   output_k -> the part of the output that family k needs, one after another;  y_k -> column k of y
Shapes     output (B, Σ_k dim_output_k); y (B, K)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from leadline.config import plain
from leadline.data.account import counted
from leadline.data.target import DISCRETE, SEVERAL, Target
from leadline.errors import ShapeError, UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.prediction import Prediction
from leadline.likelihoods.values import names_of
from leadline.names import lookup

WEIGHTINGS = ("sum", "learned")
_LIMIT = 3.0


class Joint(Likelihood):
    """Args:
        families: names of likelihoods, one a column of y.
        options: arguments of each; none where it is left out.
        weighting: "sum" of the losses, or "learned" weights (3).
        names: of the columns, for their metrics; 1, 2 … where they are left out.

    >>> joint = Joint(("Normal", "Bernoulli"))
    >>> joint.loss(torch.zeros(1, 2), torch.tensor([[0.0, 1.0]])).shape
    torch.Size([1])
    """

    headline = "nll"
    kinds = (SEVERAL, "real", "positive", "count", "angle", "proportion")

    def __init__(
        self,
        families: Sequence[str],
        options: Sequence[Mapping[str, Any]] = (),
        weighting: str = "sum",
        names: Sequence[str] = (),
    ):
        super().__init__()
        from leadline.likelihoods import LIKELIHOODS  # it holds Joint too

        families = (families,) if isinstance(families, str) else tuple(families)
        if not families or (options and len(options) != len(families)):
            raise UserError(
                "Joint must have a family for each column of y, and options for each or none",
                got=f"{counted(len(families), 'family', 'families')} and {len(options)} options",
                do='Write Joint(("VonMises", "Exponential"))',
            )
        kinds = [lookup(name, LIKELIHOODS, "likelihood") for name in families]
        self.families = tuple(kind.__name__ for kind in kinds)
        self.options: tuple[dict[str, Any], ...] = tuple(plain(dict(given)) for given in options) or ({},) * len(kinds)
        self.weighting = lookup(weighting, {word: word for word in WEIGHTINGS}, "weighting")
        self.heads = nn.ModuleList(kind(**given) for kind, given in zip(kinds, self.options, strict=True))
        self.dim_output = sum(head.dim_output for head in self.each)
        self.names = names_of(names, len(kinds))
        if self.weighting == "learned":
            self.rho = nn.Parameter(torch.zeros(len(self.heads)))

    @classmethod
    def for_target(cls, target: Target, families: Sequence[str] = (), **options: Any) -> Joint:
        from leadline.likelihoods import DEFAULTS, LIKELIHOODS, likelihood_for

        columns = target.columns or tuple(
            Target(target.kind, name, shift=target.shift[k : k + 1], scale=target.scale[k : k + 1])
            for k, name in enumerate(target.names)
        )
        names = (families,) if isinstance(families, str) else tuple(families)
        names = names or tuple(DEFAULTS[column.kind] for column in columns)
        names = names * target.dim if len(names) == 1 else names  # one for all
        if len(names) != target.dim:
            raise UserError(
                f"families must name a likelihood for each of the {target.dim} columns of y",
                got=f"{len(names)}: {', '.join(names)}",
                do="Name as many, in the order of the columns",
            )
        given = []
        for name, column in zip(names, columns, strict=True):
            family = lookup(name, LIKELIHOODS, "likelihood")
            if column.kind == "real":  # numbers are what their family says
                column = replace(column, kind=family.kinds[0])
            given.append(likelihood_for(column, name).config)
        return cls(names, given, names=target.names if target.columns else (), **options)

    @property
    def spread(self) -> tuple[str, ...]:
        return tuple(f"heads.{k}.{name}" for k, head in enumerate(self.each) for name in head.spread)

    @property
    def loss_is_nll(self) -> bool:
        return self.weighting == "sum" and all(head.loss_is_nll for head in self.each)

    @property
    def each(self) -> list[Any]:
        """The family of each column."""
        return list(self.heads)

    @property
    def weights(self) -> Tensor:
        """e^-s_k, what the loss of each column counts for."""
        return torch.exp(-self._s()) if self.weighting == "learned" else torch.ones(len(self.heads))

    def _s(self) -> Tensor:
        return _LIMIT * torch.tanh(self.rho / _LIMIT)  # eq. 4

    def parts(self, output: Tensor) -> tuple[Tensor, ...]:
        """The output of each head."""
        return output.split([head.dim_output for head in self.each], dim=-1)

    def distribution(self, output: Tensor) -> JointDistribution:
        return self.prediction(output).distribution

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        each = zip(self.each, self.parts(output), columns(self.each, y), strict=True)
        losses = torch.stack([head.loss(part, column) for head, part, column in each], -1)  # (B, K)
        if self.weighting == "sum":
            return losses.sum(-1)  # eq. 2
        s = self._s()
        return (torch.exp(-s) * losses + s).sum(-1)  # eq. 3

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        each = zip(self.each, self.parts(output), columns(self.each, y), strict=True)
        for own, (head, part, column) in zip(self.names, each, strict=True):
            found |= {f"{name}_{own}": value for name, value in head.measures(part, column).items()}
        total = torch.stack([found[f"nll_{own}"] for own in self.names]).sum(0)
        return {"nll": total, **found}

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        found = {"nll": means["nll"]}
        for own, head in zip(self.names, self.each, strict=True):
            its = {key.removesuffix(f"_{own}"): value for key, value in means.items() if self.column_of(key) == own}
            found |= {f"{name}_{own}": value for name, value in head.summary(its).items()}
        return found

    def column_of(self, metric: str) -> str:
        """The column that a metric is named after: of "speed" and "wind_speed" the longer, where both fit."""
        return max((name for name in self.names if metric.endswith(f"_{name}")), key=len, default="")

    def prediction(self, output: Tensor) -> JointPrediction:
        each = zip(self.each, self.parts(output), strict=True)
        return JointPrediction([head.prediction(part) for head, part in each]).named(self.names)

    def check(self, y: Tensor) -> None:
        if y.dim() != 2 or y.shape[1] != len(self.heads):
            raise ShapeError(
                f"y must have shape (n, {len(self.heads)}), a column for each family",
                got=f"y of shape {tuple(y.shape)}",
                do=f"Pass y with the columns of {', '.join(self.families)}",
            )
        for k, (head, name) in enumerate(zip(self.each, self.families, strict=True)):
            column = y[:, k]
            whole = name != "Bernoulli" and head.kinds[0] in DISCRETE and bool((column == column.round()).all())
            try:
                head.check(column.long() if whole else column)
            except UserError as error:
                must = f"column {k + 1} of y, by {name}: {error.must}"
                raise type(error)(must, got=error.got, do=error.do) from None


def columns(heads: Sequence[Likelihood], y: Tensor) -> list[Tensor]:
    """y of each head: its column, as codes where the family has classes."""
    return [y[:, k].long() if head.kinds[0] in DISCRETE else y[:, k] for k, head in enumerate(heads)]


class JointDistribution(Distribution):
    """Eq. 1: columns that are independent, given the output.

    Args:
        predictions: one a column.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 - as torch declares it

    def __init__(self, predictions: Sequence[Prediction]):
        self.predictions = tuple(predictions)
        size = len(self.predictions[0])
        super().__init__(torch.Size([size]), torch.Size([len(self.predictions)]), validate_args=False)

    @property
    def mean(self) -> Tensor:
        """The mean of each column; of classes, the likeliest one."""
        means = [p.mean if p.mean.dim() == 1 else p.mode for p in self.predictions]
        dtype = next((mean.dtype for mean in means if mean.is_floating_point()), torch.get_default_dtype())
        return torch.stack([mean.to(dtype) for mean in means], -1)

    @property
    def stddev(self) -> Tensor:
        """The deviation of each column; of classes, that of the likeliest one's indicator."""
        each = [(p.std, p.mode) for p in self.predictions]
        return torch.stack([s if s.dim() == 1 else s.gather(1, mode[:, None])[:, 0] for s, mode in each], -1)

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.stack([p.log_prob(value[:, k].to(p.mode.dtype)) for k, p in enumerate(self.predictions)]).sum(0)

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = [p.distribution.sample(torch.Size(sample_shape)) for p in self.predictions]
        return torch.stack([values.to(self.mean.dtype) for values in drawn], -1)


class JointPrediction(Prediction):
    """A prediction for each column, also one by one in `columns`."""

    distribution: JointDistribution

    def __init__(self, predictions: Sequence[Prediction]):
        super().__init__(JointDistribution(predictions))
        self.positive = any(column.positive or column.whole for column in predictions)

    @property
    def columns(self) -> tuple[Prediction, ...]:
        return self.distribution.predictions

    @property
    def mode(self) -> Tensor:
        return self._stacked([p.mode for p in self.columns])

    def quantile(self, q: float) -> Tensor:
        return self._stacked([p.quantile(q) for p in self.columns])

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Ends for each column by itself: all of them together hold y less often than `level`."""
        ends = [p.interval(level) for p in self.columns]
        return self._stacked([low for low, _ in ends]), self._stacked([high for _, high in ends])

    def near(self, y: Any, place: Tensor) -> Tensor:
        y = self._as_y(y)
        return self._stacked([p.near(y[:, k], place[:, k]) for k, p in enumerate(self.columns)])

    def _stacked(self, values: list[Tensor]) -> Tensor:
        dtype = self.distribution.mean.dtype
        return torch.stack([value.to(dtype) for value in values], -1)
