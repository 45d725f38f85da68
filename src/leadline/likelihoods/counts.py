"""What counts share: a rate that stays above 0 and cannot run away, whole-number quantiles, and what y must be.

    λ = scale · e^o        for o <= 0                                        (1)   a factor, as in Poisson regression
    λ = scale · (1 + o)    for o > 0                                         (2)   linear: one step cannot blow it up
    P(Y >= m + t s) <= 1 / (1 + t²), so P(Y <= m + t s) reaches q at t = √(q / (1 - q))      (3)   Cantelli

Notation   o -> output;  scale -> mean of y over the training split;  m, s -> mean and deviation of y
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError
from leadline.likelihoods.values import check_one_output


def rate_of(output: Tensor, scale: float) -> Tensor:
    """λ by eqs. 1 and 2.

    >>> rate_of(torch.tensor([0.0, 1.0]), 3.0).tolist()
    [3.0, 6.0]
    """
    return scale * torch.where(output > 0, 1 + output, output.clamp(max=0).exp())


def log_rate_of(output: Tensor, scale: float) -> Tensor:
    """log λ, which is finite where λ itself is too small for a floating-point number."""
    return math.log(scale) + torch.where(output > 0, output.clamp(min=0).log1p(), output)


def mean_count(family: str, target: Target) -> float:
    """The mean of a target of counts, one a row, over its training split; 1 where it is not known."""
    check_one_output(family, target)
    return target.shift[0] if target.shift[0] > 0 else 1.0


def whole_quantile(below: Callable[[Tensor], Tensor], mean: Tensor, std: Tensor, q: float) -> Tensor:
    """The smallest whole number whose P(Y <= k) reaches q, by halving a range that is sure to hold it.

    Args:
        below: P(Y <= k) of each row.
        mean, std: of Y; they bound the range by eq. 3.
        q: between 0 and 1.
    """
    low = torch.full_like(mean, -1.0)
    high = (mean + math.sqrt(q / (1 - q)) * std).floor() + 1
    for _ in range(int(math.log2(float((high - low).max().clamp(min=1)))) + 2 if len(mean) else 0):
        middle = ((low + high) / 2).floor()
        reached = (below(middle.clamp(min=0)) >= q) & (middle >= 0)
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    return high


def at_most(below: Callable[[Tensor], Tensor], y: Tensor) -> Tensor:
    """P(Y <= y) for any y: that of the whole number below it, and 0 below 0."""
    k = y.double().floor()
    return torch.where(k < 0, 0.0, below(k.clamp(min=0)))


def count_measures(rate: Tensor, y: Tensor, nll: Tensor) -> dict[str, Tensor]:
    """nll and the errors of the mean."""
    error = y.to(rate.dtype) - rate
    return {"nll": nll, "squared_error": error.square(), "mae": error.abs()}


def count_summary(means: dict[str, float]) -> dict[str, float]:
    return {"nll": means["nll"], "rmse": math.sqrt(means["squared_error"]), "mae": means["mae"]}


def check_counts(y: Tensor) -> None:
    """y must be (n,) of whole numbers of at least 0; offending rows are named."""
    if y.dim() != 1:
        do = "Pass y.squeeze(1)" if y.shape[1:] == (1,) else "Pass one count for each row"
        raise ShapeError("counts must have shape (n,)", got=f"y of shape {tuple(y.shape)}", do=do)
    wrong = ((y < 0) | (y != y.round()) if y.is_floating_point() else y < 0).nonzero().flatten()
    if len(wrong):
        row = int(wrong[0])
        value = y[row].item()
        raise DataError(
            "counts must be whole numbers of at least 0",
            got=f"{value:g} in row {row}" + (f" ({counted(len(wrong), 'such row')})" if len(wrong) > 1 else ""),
            do='Correct the values, or score them as real numbers: kind="real"',
        )
