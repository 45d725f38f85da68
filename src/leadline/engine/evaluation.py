"""Sample-weighted metrics of a model on a split, each with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from leadline.data.account import counted
from leadline.likelihoods.likelihood import Likelihood

_DRAWS = 400


class Evaluation(Mapping[str, float]):
    """Metric name → value, with `interval(name)` at 95 %.

    >>> evaluation = Evaluation({"accuracy": 0.9}, {"accuracy": (0.85, 0.95)}, count=100)
    >>> evaluation["accuracy"], evaluation.interval("accuracy")
    (0.9, (0.85, 0.95))
    """

    def __init__(self, values: dict[str, float], intervals: dict[str, tuple[float, float]], count: int):
        self._values, self._intervals, self.count = values, intervals, count

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def interval(self, name: str) -> tuple[float, float]:
        """Ends of the 95 % confidence interval, the rows taken as a sample."""
        return self._intervals[name]

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in self.items())
        return f"Evaluation({figures}; {counted(self.count, 'row')})"


@torch.no_grad()
def outputs(model: nn.Module, x: Tensor, batch: int = 4096) -> Tensor:
    """The model's output for every row, in evaluation mode, which is restored to what it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        if len(x) <= batch:
            return model(x)
        return torch.cat([model(part) for part in x.split(batch)])
    finally:
        for module, mode in modes:
            module.training = mode


@torch.no_grad()
def evaluate(likelihood: Likelihood, output: Tensor, y: Tensor, weight: Tensor | None = None) -> Evaluation:
    """Metrics of `output` against `y`; `weight` is one number per row."""
    measures = {name: value.double() for name, value in likelihood.measures(output, y).items()}
    w = torch.ones(len(y), dtype=torch.float64, device=y.device) if weight is None else weight.double()
    total, spread = w.sum(), w.square().sum()
    stacked = torch.stack(list(measures.values()))  # (M, B)
    means = (stacked * w).sum(1) / total
    variances = ((stacked - means[:, None]).square() * w).sum(1) / total
    errors = (variances * spread).sqrt() / total  # of the weighted mean
    mean = dict(zip(measures, means.tolist(), strict=True))
    values = likelihood.summary(mean)
    half = {name: 1.96 * error for name, error in zip(measures, errors.tolist(), strict=True)}
    shares = {name for name, row in zip(measures, stacked, strict=True) if bool(((row == 0) | (row == 1)).all())}
    centred = (stacked - means[:, None]) * w
    covariance = centred @ centred.T / total**2  # of the weighted means
    positive = {name for name, row in zip(measures, stacked, strict=True) if bool((row >= 0).all())}
    spans = _spans(likelihood, mean, covariance.cpu(), positive)
    intervals = {}
    for name, value in values.items():
        if len(y) < 2:
            intervals[name] = (math.nan, math.nan)
        elif name in shares:
            intervals[name] = wilson(value, float(total * total / spread))
        elif name in half:
            intervals[name] = (value - half[name], value + half[name])
        else:
            intervals[name] = spans[name]
    return Evaluation(values, intervals, len(y))


def _spans(
    likelihood: Likelihood, mean: dict[str, float], covariance: Tensor, positive: set[str]
) -> dict[str, tuple[float, float]]:
    """95 % spans of metrics that are functions of several means: over means drawn from their joint normal law."""
    if set(likelihood.summary(mean)) <= set(mean):
        return {}
    if not bool(covariance.isfinite().all()):
        return dict.fromkeys(likelihood.summary(mean), (math.nan, math.nan))
    unit = covariance.diagonal().clamp(min=0).sqrt()  # of each mean, or one in large units would drown the others
    unit = torch.where(unit > 0, unit, 1.0)
    values, vectors = torch.linalg.eigh(covariance / unit / unit[:, None])
    root = unit[:, None] * vectors * values.clamp(min=0).sqrt()
    draws = torch.randn(_DRAWS, len(mean), dtype=torch.float64, generator=torch.Generator().manual_seed(0)) @ root.T
    found: dict[str, list[float]] = {}
    for draw in (draws + torch.tensor(list(mean.values()), dtype=torch.float64)).tolist():
        moved = {n: max(v, 0.0) if n in positive else v for n, v in zip(mean, draw, strict=True)}
        for name, value in likelihood.summary(moved).items():
            found.setdefault(name, []).append(value)
    ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
    spans = {}
    for name, drawn in found.items():
        finite = torch.tensor([v for v in drawn if math.isfinite(v)] or [math.nan], dtype=torch.float64)
        low, high = torch.quantile(finite, ends).tolist()
        spans[name] = (low, high)
    return spans


def wilson(share: float, count: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of `count` rows: honest for few rows and for shares near 0 and 1.

    >>> [round(end, 3) for end in wilson(1.0, 5)]
    [0.566, 1.0]
    """
    z2 = 1.96**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = 1.96 / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return max(centre - half, 0.0), min(centre + half, 1.0)
