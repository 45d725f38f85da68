"""Boxes and regions of a picture, one at a time.

    IoU(a, b) = |a ∩ b| / |a ∪ b|                                                             (1)
    GIoU      = IoU - (|hull| - |a ∪ b|) / |hull|            hull -> least box around both    (2)
    NMS       the best box stays, all that overlap it by more than a limit go, and again      (3)
    matching  the best detection takes the free truth that it overlaps most, and so on down   (4)
    AP        = 1/101 Σ_r max { precision at recall >= r },   r = 0, 0.01, … 1                (5)

Notation   a box -> (x, y, width, height), centre and size;  precision, recall -> of the detections down to each score
"""

from __future__ import annotations

from collections.abc import Sequence

Box = Sequence[float]


def iou(a: Box, b: Box) -> float:
    """Eq. 1.

    >>> iou((0.5, 0.5, 1.0, 1.0), (1.0, 0.5, 1.0, 1.0)) == 1 / 3
    True
    """
    shared = _shared(a, b, 0) * _shared(a, b, 1)
    union = a[2] * a[3] + b[2] * b[3] - shared
    return shared / union if union > 0 else 0.0


def giou(a: Box, b: Box) -> float:
    """Eq. 2.

    >>> giou((0.5, 0.5, 1.0, 1.0), (2.5, 0.5, 1.0, 1.0)) == -1 / 3
    True
    """
    hull = 1.0
    for axis in (0, 1):
        ends = [box[axis] + side * box[axis + 2] / 2 for box in (a, b) for side in (-1, 1)]
        hull *= max(ends) - min(ends)
    union = a[2] * a[3] + b[2] * b[3] - _shared(a, b, 0) * _shared(a, b, 1)
    return iou(a, b) - (hull - union) / hull


def _shared(a: Box, b: Box, axis: int) -> float:
    low = max(a[axis] - a[axis + 2] / 2, b[axis] - b[axis + 2] / 2)
    high = min(a[axis] + a[axis + 2] / 2, b[axis] + b[axis + 2] / 2)
    return max(high - low, 0.0)


def suppressed(boxes: Sequence[Box], scores: Sequence[float], codes: Sequence[int], limit: float) -> list[int]:
    """Eq. 3 within each class: the places of the boxes that stay, the best first.

    >>> suppressed([(0.5, 0.5, 1, 1), (0.5, 0.6, 1, 1), (0.5, 0.6, 1, 1)], [0.7, 0.9, 0.8], [0, 0, 1], 0.5)
    [1, 2]
    """
    left, stay = sorted(range(len(boxes)), key=lambda k: -scores[k]), []
    while left:
        best, *left = left
        stay.append(best)
        left = [k for k in left if codes[k] != codes[best] or iou(boxes[k], boxes[best]) <= limit]
    return stay


def matched(detections: Sequence[Box], truths: Sequence[Box], threshold: float) -> list[bool]:
    """Eq. 4 for detections and truths of one class in one picture, the best detection first.

    >>> matched([(0.5, 0.5, 1, 1), (0.5, 0.5, 1, 1)], [(0.5, 0.5, 1, 1)], 0.5)
    [True, False]
    """
    free, found = list(range(len(truths))), []
    for box in detections:
        best, most = None, threshold
        for k in free:
            if iou(box, truths[k]) >= most:
                best, most = k, iou(box, truths[k])
        found.append(best is not None)
        if best is not None:
            free.remove(best)
    return found


def average_precision(right: Sequence[bool], num_truths: int) -> float:
    """Eq. 5.

    Args:
        right: whether each detection found an object, the best detection first.
        num_truths: objects that there are, at least 1.

    >>> average_precision([True, False], 1), round(average_precision([False, True], 2), 4)
    (1.0, 0.2525)
    """
    points = [(sum(right[:n]) / num_truths, sum(right[:n]) / n) for n in range(1, len(right) + 1)]
    recalls = [k * 0.01 for k in range(101)]  # 0.07 is a little more than 7 / 100 so, and COCO counts by it
    return sum(max((p for recall, p in points if recall >= r), default=0.0) for r in recalls) / 101


def components(mask: Sequence[Sequence[bool]], corners: bool = False) -> list[list[int]]:
    """Numbers 1, 2 … of the connected regions of a mask, row by row as they are met; 0 outside.

    Args:
        corners: pixels that share only a corner are connected too.

    >>> components([[1, 0, 0], [0, 1, 1]]), components([[1, 0, 0], [0, 1, 1]], corners=True)
    ([[1, 0, 0], [0, 2, 2]], [[1, 0, 0], [0, 1, 1]])
    """
    found = [[0] * len(row) for row in mask]
    steps = [(-1, 0), (1, 0), (0, -1), (0, 1)] + ([(-1, -1), (-1, 1), (1, -1), (1, 1)] if corners else [])
    number = 0
    for y, row in enumerate(mask):
        for x, inside in enumerate(row):
            if not inside or found[y][x]:
                continue
            number += 1
            waiting = [(y, x)]
            while waiting:
                v, u = waiting.pop()
                if 0 <= v < len(mask) and 0 <= u < len(row) and mask[v][u] and not found[v][u]:
                    found[v][u] = number
                    waiting += [(v + dv, u + du) for dv, du in steps]
    return found
