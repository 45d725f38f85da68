"""Mean average precision of detections, as COCO counts it.

    matching   down the scores of a class in a picture, a detection takes the free truth that it overlaps most,
               if IoU >= t                                                                   (1)
    p_n, r_n   = precision and recall of the n best detections of a class in all pictures    (2)
    AP_c(t)    = 1/101 Σ_r max { p_n : r_n >= r },          r = 0, 0.01, … 1                 (3)
    map50      = mean_c AP_c(0.5);       map = mean_{c, t} AP_c(t),  t = 0.5, 0.55, … 0.95   (4)

Classes without a truth are left out of (4). Detections of equal score keep their order.

Shapes     K detections a picture, M truths a picture, T = 10 thresholds, C classes; code -1 is padding
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from leadline.likelihoods.overlap import iou

THRESHOLDS = np.linspace(0.5, 0.95, 10)
_RECALLS = np.linspace(0.0, 1.0, 101)


def matches(boxes: Tensor, codes: Tensor, truth: Tensor) -> Tensor:
    """Eq. 1: whether each detection found an object, by threshold, (B, K, T).

    Args:
        boxes: (B, K, 4), the best score of each picture first.
        codes: (B, K).
        truth: (B, M, 5), a code and a box.

    >>> twice = torch.tensor([[[0.5, 0.5, 1.0, 1.0]] * 2])
    >>> matches(twice, torch.tensor([[0, 0]]), torch.tensor([[[0.0, 0.5, 0.5, 1.0, 1.0]]]))[0, :, 0].tolist()
    [True, False]
    """
    B, K, M = len(boxes), boxes.shape[1], truth.shape[1]
    if not M:
        return boxes.new_zeros(B, K, len(THRESHOLDS), dtype=torch.bool)
    overlap = iou(boxes[:, :, None].double(), truth[:, None, :, 1:].double())  # (B, K, M)
    same = (codes[:, :, None] == truth[:, None, :, 0]) & (codes >= 0)[:, :, None]
    overlap = torch.where(same, overlap, -1.0)
    least = torch.as_tensor(THRESHOLDS, device=boxes.device)[:, None]  # (T, 1)
    free = torch.ones(B, len(THRESHOLDS), M, dtype=torch.bool, device=boxes.device)
    found = []
    for rank in range(K):
        own = overlap[:, rank, None]  # (B, 1, M)
        own = torch.where(free & (own >= least), own, -1.0).flip(-1)  # of equals the last, as the first of the flipped
        most, place = own.max(-1)  # (B, T)
        hit = most >= 0
        free = free.scatter(-1, M - 1 - place[..., None], False) | (free & ~hit[..., None])
        found.append(hit)
    return torch.stack(found, 1)


def tallied(boxes: Tensor, scores: Tensor, codes: Tensor, truth: Tensor, num_classes: int) -> dict[str, Tensor]:
    """What `average_precision` needs of each picture: scores, codes and matches of detections, and truths a class.

    Args:
        boxes, scores, codes: (B, K, 4), (B, K) and (B, K), the best score of each picture first; code -1 is padding.
        truth: (B, M, 5), a code and a box.
    """
    classes = torch.arange(num_classes, device=truth.device)
    truths = (truth[:, :, :1] == classes).sum(1)  # (B, C)
    return {"scores": scores, "codes": codes, "matched": matches(boxes, codes, truth), "truths": truths}


def average_precision(tallies: Mapping[str, Tensor]) -> np.ndarray:
    """Eq. 3 by threshold and class, (T, C); not a number where a class has no truth.

    >>> truth = torch.tensor([[[0.0, 0.5, 0.5, 1.0, 1.0]]])
    >>> shifted = torch.tensor([[[0.55, 0.5, 1.0, 1.0]]])  # IoU 0.905
    >>> average_precision(tallied(shifted, torch.ones(1, 1), torch.zeros(1, 1), truth, 1)).squeeze(1).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    """
    scores, codes = (tallies[name].flatten().double().cpu().numpy() for name in ("scores", "codes"))
    matched = tallies["matched"].flatten(0, 1).cpu().numpy()
    truths = tallies["truths"].sum(0).tolist()
    found = np.full((len(THRESHOLDS), len(truths)), np.nan)
    for code, count in enumerate(truths):
        if count:
            own = codes == code
            order = np.argsort(-scores[own], kind="stable")
            found[:, code] = [_interpolated(right, count) for right in matched[own][order].T]
    return found


def _interpolated(right: np.ndarray, count: int) -> float:
    """Eq. 3 of detections in the order of their scores, true where they found one of `count` objects."""
    if not len(right):
        return 0.0
    hits = np.cumsum(right)
    recall, precision = hits / count, hits / np.arange(1, len(right) + 1)
    best = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)  # eq. 2: of this recall or a larger one
    return float(best[np.searchsorted(recall, _RECALLS, side="left")].mean())


def mean_average_precision(tallies: Mapping[str, Tensor]) -> dict[str, float]:
    """Eq. 4; not a number where there is no truth at all.

    >>> truth = torch.tensor([[[0.0, 0.5, 0.5, 1.0, 1.0]]])
    >>> tallies = tallied(truth[..., 1:], torch.ones(1, 1), torch.zeros(1, 1), truth, 1)
    >>> mean_average_precision(tallies)
    {'map50': 1.0, 'map': 1.0}
    """
    found = average_precision(tallies)
    found = found[:, ~np.isnan(found[0])]
    if not found.size:
        return {"map50": float("nan"), "map": float("nan")}
    return {"map50": float(found[0].mean()), "map": float(found.mean())}
