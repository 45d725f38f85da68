"""Do predicted distributions come true as often as they say?

    ECE      = Σ_bins (rows in bin / rows) · |accuracy of bin - mean confidence of bin|        (1)   classes
    PIT      = F_i(y_i), uniform on [0, 1] where the predicted F_i are true                    (2)   numbers
    coverage = share of y inside their interval of probability p, which should be p            (3)   numbers

(1) is above 0 even for perfect probabilities, so it is compared with what it would be if they were true: labels are
drawn from the confidences themselves, many times. A whole number takes a uniform place in its step of F.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.likelihoods.prediction import Prediction

BINS, DRAWS = 10, 200


def expected_error(confidence: Tensor, correct: Tensor, bins: int = BINS) -> Tensor:
    """ECE (1) over bins of equally many rows; `correct` may have leading axes of repeated draws.

    >>> round(float(expected_error(torch.full((100,), 0.9), torch.ones(100))), 6)
    0.1
    """
    order = confidence.argsort()
    gap = (correct.double() - confidence.double())[..., order]
    parts = gap.tensor_split(min(bins, gap.shape[-1]), dim=-1)
    return torch.stack([part.sum(-1).abs() for part in parts]).sum(0).div(gap.shape[-1])


def expected_error_even(confidence: Tensor, correct: Tensor, bins: int = BINS) -> Tensor:
    """ECE (1) over bins of equal width from 0 to 1, as it is mostly printed; a border belongs to the bin below it.

    >>> round(float(expected_error_even(torch.tensor([0.85, 0.95]), torch.tensor([1.0, 0.0]))), 6)
    0.55
    """
    place = (confidence.double() * bins).ceil().long().clamp(1, bins) - 1
    gap = torch.zeros(bins, dtype=torch.float64, device=confidence.device)
    return gap.index_add(0, place, correct.double() - confidence.double()).abs().sum() / len(confidence)


def error_by_chance(confidence: Tensor, generator: torch.Generator, bins: int = BINS, draws: int = DRAWS) -> Tensor:
    """ECE over bins of equally many rows in each of `draws` worlds where the confidences are true."""
    drawn = torch.rand(draws, len(confidence), generator=generator, dtype=torch.float64).to(confidence.device)
    return expected_error(confidence, drawn < confidence, bins)


def choices(probabilities: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Confidence and rightness of each row's most probable class, the rows shuffled.

    Equal confidences are told apart by their place in the file alone: shuffled, so that a sorted file does no harm.
    """
    order = torch.randperm(len(y), generator=generator).to(y.device)
    confidence, choice = probabilities[order].double().max(-1)
    return confidence, choice == y[order].long()


def transform(prediction: Prediction, y: Tensor, generator: torch.Generator) -> Tensor:
    """PIT (2) of each row."""
    place = prediction.cdf(y).double()
    if prediction.whole:
        below = prediction.cdf(y - 1).double()
        u = torch.rand(place.shape, generator=generator, dtype=torch.float64).to(place.device)
        place = below + u * (place - below)
    return place
