"""How much boxes overlap, and which of many overlapping ones stay.

    IoU(a, b)  = |a ∩ b| / |a ∪ b|                                                        (1)
    GIoU(a, b) = IoU - (|hull| - |a ∪ b|) / |hull|          (Rezatofighi et al., 2019)    (2)
    stays_i    = no j < i with stays_j and IoU(i, j) > limit                              (3)   best score first

(2) has a slope also where boxes do not touch. (3) is non-maximum suppression; the equation is iterated for all boxes at
once until nothing changes, which is after as many rounds as the longest chain of boxes that silence each other.

Notation   hull -> least box around both;  a box -> (x, y, width, height), centre and size
Shapes     boxes (..., 4)
"""

from __future__ import annotations

import torch
from torch import Tensor

_PAIRS = 2**22  # of boxes that are compared at once


def corners(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """The lower and the upper corner of boxes, (..., 2) each.

    >>> corners(torch.tensor([0.5, 0.5, 0.25, 1.0]))
    (tensor([0.3750, 0.0000]), tensor([0.6250, 1.0000]))
    """
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return centre - half, centre + half


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Eq. 1 of boxes that broadcast against each other; 0 where both are empty.

    >>> iou(torch.tensor([0.5, 0.5, 1.0, 1.0]), torch.tensor([1.0, 0.5, 1.0, 1.0]))
    tensor(0.3333)
    """
    shared, union, _ = _areas(a, b)
    return shared / torch.where(union > 0, union, 1.0)


def giou(a: Tensor, b: Tensor) -> Tensor:
    """Eq. 2 of boxes that broadcast against each other, from -1 to 1; one of each pair must not be empty.

    >>> giou(torch.tensor([0.5, 0.5, 1.0, 1.0]), torch.tensor([2.5, 0.5, 1.0, 1.0]))
    tensor(-0.3333)
    """
    shared, union, hull = _areas(a, b)
    return shared / union - (hull - union) / hull


def _areas(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of the intersection, the union and the hull."""
    (low_a, high_a), (low_b, high_b) = corners(a), corners(b)
    shared = _area((torch.minimum(high_a, high_b) - torch.maximum(low_a, low_b)).clamp(min=0))
    hull = _area(torch.maximum(high_a, high_b) - torch.minimum(low_a, low_b))
    return shared, _area(a[..., 2:]) + _area(b[..., 2:]) - shared, hull


def _area(size: Tensor) -> Tensor:
    return size[..., 0] * size[..., 1]  # the slope of prod() looks for zeros among the values, which no tape can follow


def suppress(boxes: Tensor, codes: Tensor, limit: float) -> Tensor:
    """Eq. 3 within each class: which boxes stay.

    Args:
        boxes: (B, K, 4), the best score of each picture first.
        codes: (B, K), of their classes.
        limit: largest IoU of two boxes of a class that stay.

    >>> boxes = torch.tensor([[[0.5, 0.5, 1.0, 1.0], [0.5, 0.6, 1.0, 1.0], [0.5, 0.6, 1.0, 1.0]]])
    >>> suppress(boxes, torch.tensor([[0, 0, 1]]), 0.5)
    tensor([[ True, False,  True]])
    """
    rows = max(1, _PAIRS // max(boxes.shape[1], 1) ** 2)
    parts = zip(boxes.split(rows), codes.split(rows), strict=True)
    return torch.cat([_staying(own, code, limit) for own, code in parts])


def _staying(boxes: Tensor, codes: Tensor, limit: float) -> Tensor:
    rivals = (iou(boxes[:, :, None], boxes[:, None]) > limit) & (codes[:, :, None] == codes[:, None])  # (B, K, K)
    rivals = rivals.triu(1)  # [j, i] with j < i
    stays, before = torch.ones_like(codes, dtype=torch.bool), None
    while before is None or not torch.equal(stays, before):
        stays, before = ~(rivals & stays[:, :, None]).any(1), stays
    return stays
