"""Predictions of distributions whose distribution function can be inverted."""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.likelihoods.prediction import Prediction, check_probability


class ContinuousPrediction(Prediction):
    """A density for each row, of a `distribution` with `mode`, `cdf` and `icdf`."""

    @property
    def mode(self) -> Tensor:
        return self.distribution.mode

    def quantile(self, q: float) -> Tensor:
        check_probability("q", q)
        return self.distribution.icdf(torch.tensor(q, dtype=self.mode.dtype, device=self.mode.device))
