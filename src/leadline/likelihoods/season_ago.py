"""The simplest forecaster there is: the value of a season ago, as a law.

    naive_{o+h} = v_{o+h-m⌈h/m⌉}                                                                     (1)
    V_{o+h}     ~ Normal(naive_{o+h}, σ_h),  σ_h² = mean (v_{o+h} - naive_{o+h})²  over training     (2)

Notation   v -> the series,  o -> origin,  m -> season,  h = 1 … H steps ahead
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Normal

from leadline.data.data import Split
from leadline.data.series_windows import Windows
from leadline.likelihoods.continuous import ContinuousPrediction


def season_law(inputs: Windows, train: Split, rows: Split) -> ContinuousPrediction:
    """Eq. 2 for the windows of a split, in the shape of y."""
    centre, deviation = (part.reshape(rows.y.shape) for part in seasonal(inputs, train, rows))
    return ContinuousPrediction(Normal(centre, deviation))


def seasonal(inputs: Windows, train: Split, rows: Split) -> tuple[Tensor, Tensor]:
    """The value of a season ago for the windows of a split, and its deviation (eqs. 1, 2), (N, H), in the unit of y.

    Args:
        train: the training split, whose errors give the deviation.
        rows: the split.

    >>> import leadline as ll
    >>> steps = {"v": [float(k % 3) for k in range(60)]}
    >>> data = ll.data.series(steps, "v", horizon=2, season=3, level="fixed", unit="fixed")
    >>> seasonal(data.inputs, data.train, data.test)[0][0].round().tolist() == data.test.y[0].tolist()
    True
    """
    known = _naive(inputs, train)
    unit = _unit(inputs, train)
    spread = ((train.y.double().reshape(known.shape) - known) / unit).square().mean(0).sqrt()
    centre = _naive(inputs, rows)
    return centre, (spread * _unit(inputs, rows)).clamp(min=1e-9).expand_as(centre)


def _naive(inputs: Windows, rows: Split) -> Tensor:
    return inputs.as_asked(inputs.naive(rows.x), rows.x, rows.group)


def _unit(inputs: Windows, rows: Split) -> Tensor:
    """The deviation of the series of each row in the unit of its y, (N, 1)."""
    usual = torch.ones(len(rows), 1).double() if inputs.scaled else inputs.units(rows.group, len(rows))[1]
    return usual / inputs.unit(rows.x).cpu()
