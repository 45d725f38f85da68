"""How far forecasts of a run have strayed of late, and intervals that are as much wider.

    e_{oh} = u (v_{o+h} - median) / (end - median)      an error in units of its own spread, ±1.645 at the ends      (1)
    f_o²   = max(1, (n + Σ e² / H) / (n + N / H))       over the N errors behind training that are known at o        (2)
    V'     = median + f_o (V - median)                  what is forecast at o: the same law, f_o times as wide       (3)

The spread that a network learns is that of the rows that it learns from, and times change: forecasts that have missed
by more than they said are widened by as much. They are never made narrower. Only values that have come by the origin of
a forecast have a part in it. A score of V' is one of V:

    CRPS(V', y) = f CRPS(V, median + (y - median) / f)                                                               (4)

Notation   u = 1.645, the 95 % quantile of the standard normal;  H -> horizon,  n = 2 windows that erred as they said
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leadline.data.data import Split
from leadline.data.series_windows import Windows
from leadline.errors import UserError
from leadline.likelihoods.crps import crps
from leadline.likelihoods.prediction import Prediction

_HELD, _U = 0.95, 1.6448536
_USUAL = 2.0  # n of eq. 2


def errors(prediction: Prediction, y: Tensor) -> Tensor:
    """Eq. 1 of each value, (N, H), in float64.

    >>> from leadline.likelihoods import Normal
    >>> errors(Normal("fixed", dim=2).prediction(torch.zeros(1, 2)), torch.tensor([[2.0, -3.0]])).round(decimals=3)
    tensor([[ 2., -3.]], dtype=torch.float64)
    """
    median, low, high = (_flat(prediction.quantile(q)) for q in (0.5, 1 - _HELD, _HELD))
    apart = _flat(y).to(median.device) - median
    return _U * apart / torch.where(apart < 0, median - low, high - median).clamp(min=1e-12)


def factors(e: Tensor) -> Tensor:
    """f (eq. 2) at each of the N origins of one series whose errors e (N, H) are in the order of time, and at the one
    behind the last value: (N + 1,).

    Of two origins with H or more between them in this order there are as many steps between them in time, or more: no
    error counts before it is known.

    >>> factors(torch.tensor([[2.0], [2.0], [0.0]])).round(decimals=2).tolist()
    [1.0, 1.41, 1.58, 1.41]
    """
    num, horizon = e.shape
    squares, counts = (torch.zeros(num + horizon, dtype=torch.float64) for _ in range(2))
    for h in range(1, horizon + 1):  # an error h steps ahead is known h origins later
        squares[h : h + num] += e[:, h - 1].double().cpu().square()
        counts[h : h + num] += 1
    at = torch.cat([torch.arange(num), torch.tensor([num + horizon - 1])])  # behind the last value all are known
    total, count = (part.cumsum(0)[at] / horizon for part in (squares, counts))
    return ((_USUAL + total) / (_USUAL + count)).clamp(min=1).sqrt()  # eq. 2


def row_factors(inputs: Windows, predictions: Sequence[Prediction], parts: Sequence[Split]) -> Tensor:
    """f of each row of parts that follow one another in time, (N, 1); 1 where a family cannot be stretched.

    Args:
        predictions: of each part.
    """
    e = [stretchable(inputs, prediction, part.y) for prediction, part in zip(predictions, parts, strict=True)]
    found = torch.ones(sum(map(len, parts)), 1, dtype=torch.float64)
    if any(own is None for own in e):
        return found
    joined = torch.cat([own for own in e if own is not None])
    codes = [torch.zeros(len(part), dtype=torch.int64) if part.group is None else part.group.cpu() for part in parts]
    code = torch.cat(codes)
    for name in code.unique().tolist():
        found[code == name, 0] = factors(joined[code == name])[:-1]
    return found


def stretchable(inputs: Windows, prediction: Prediction, y: Tensor) -> Tensor | None:
    """Eq. 1; None of counts and of what must stay positive, and of families that know a few quantiles alone."""
    if inputs.kind != "real":
        return None
    try:
        return errors(prediction, y).cpu()
    except UserError:
        return None


def widened(prediction: Prediction, end: Tensor, f: Tensor) -> Tensor:
    """A quantile or mean of V as one of V' (eq. 3), (N, H); f is (N, 1)."""
    median = _flat(prediction.quantile(0.5))
    return median + f.to(median.device) * (_flat(end) - median)


def widened_crps(prediction: Prediction, y: Tensor, f: Tensor) -> Tensor:
    """CRPS of V' at y (eq. 4), (N, H)."""
    median = prediction.quantile(0.5)
    f = f.to(median.device)
    moved = _flat(median) + (_flat(y).to(median.device) - _flat(median)) / f
    return f * _flat(crps(prediction, moved.reshape(median.shape).to(median.dtype)))


def _flat(values: Tensor) -> Tensor:
    return values.double().reshape(len(values), -1)
