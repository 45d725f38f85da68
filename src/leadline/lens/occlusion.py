"""Occlusion: how far the answer falls when a patch of the input is hidden (Zeiler and Fergus, 2014).

    d_p = f_c(x) - f_c(x with patch p at the fill value)                                                        (1)
    m_q = mean of d_p over the patches p that cover position q                                                  (2)

Above 0 the patch speaks for output c, below 0 against it. Where a saliency asks about small changes, this asks what the
answer rests on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import ShapeError
from leadline.lens.at_rest import at_rest
from leadline.lens.place import aimed, scored, seen
from leadline.lens.style import styled
from leadline.lens.tiles import explained, paint
from leadline.lens.view import View
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Occlusion(View):
    """What hiding patches does.

    Args:
        x: the rows as the network reads them.
        target: the output asked about, (B,); score: f_c(x), (B,).
        drops: eq. 1, (B, *patches along each axis).
        maps: eq. 2, (B, *positions).
        patch, stride: in positions; probability: whether f_c is a probability.
    """

    x: np.ndarray
    target: np.ndarray
    score: np.ndarray
    drops: np.ndarray
    maps: np.ndarray
    patch: int
    stride: int
    probability: bool

    @styled
    def plot(self) -> Figure:
        what = "probability" if self.probability else "output"
        title = f"Fall of the {what} when a patch of {self.patch} is hidden"
        return explained(self, self.maps, lambda ax, x, values, top: paint(ax, values, top), "fall", title)


def occlusion(
    model: nn.Module,
    x: Any,
    target: int | Sequence[int] | Tensor | None = None,
    *,
    patch: int = 4,
    stride: int | None = None,
    fill: float = 0.0,
    probability: bool = False,
    split: str = "train",
    num: int = 8,
    batch: int = 512,
) -> Occlusion:
    """What each patch of the input is worth to an output. The model is left as it was.

    Args:
        x: Data, or rows as the network reads them, (B, C, *positions).
        target: an output, one for all rows or one for each; None is each row's largest.
        patch: side of the hidden patch in positions; stride: between patches, at least 1, None is half a patch.
        fill: what a hidden position reads in all channels.
        probability: ask about the softmax of the outputs.
        num: rows at most; batch: rows of one pass.

    >>> net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> x = torch.zeros(1, 1, 4, 4)
    >>> x[0, 0, 0, 0] = 16
    >>> occlusion(net, x, patch=2, stride=2).drops.tolist()
    [[[1.0, 0.0], [0.0, 0.0]]]
    """
    model, rows = seen(model, x, split=split, num=whole("num", num, 1, usual=8))
    shape = tuple(rows.shape[2:])
    if not shape or min(shape) < whole("patch", patch, 1, usual=4):
        raise ShapeError(
            "rows must have channels and at least a patch of positions",
            got=f"shape {tuple(rows.shape)}, patch={patch}",
            do="Pass rows (B, C, Y, X), and a smaller patch",
        )
    stride = max(1, patch // 2) if stride is None else whole("stride", stride, 1, usual=2)
    fill, batch = real("fill", fill, usual=0.0), whole("batch", batch, 1, usual=512)
    starts = [_starts(n, patch, stride) for n in shape]
    corners = list(product(*starts))
    drops = torch.empty(len(rows), len(corners), dtype=torch.float64)
    with at_rest(model):
        score = lambda out, codes: scored(out.softmax(1) if probability else out, codes)  # noqa: E731
        out = model(rows)
        codes = aimed(out, target)
        plain = score(out, codes)
        for b, row in enumerate(rows):
            code = codes[b]
            for first, hidden in _hidden(row, corners, patch, fill, batch):
                part = score(model(hidden), code.expand(len(hidden)))
                drops[b, first : first + len(hidden)] = (plain[b] - part).double().cpu()  # eq. 1
    total, covers = torch.zeros(len(rows), *shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    for k, corner in enumerate(corners):
        window = tuple(slice(first, first + patch) for first in corner)
        total[(slice(None), *window)] += drops[:, k].reshape(-1, *(1,) * len(shape))
        covers[window] += 1
    return Occlusion(
        rows.double().cpu().numpy(),
        codes.cpu().numpy(),
        plain.double().cpu().numpy(),
        drops.reshape(len(rows), *(len(s) for s in starts)).numpy(),
        (total / covers).numpy(),  # eq. 2
        patch,
        stride,
        bool(probability),
    )


def _starts(size: int, patch: int, stride: int) -> list[int]:
    """First positions of the patches; the last one ends at the border, so that every position is covered."""
    count = math.ceil((size - patch) / stride) + 1
    return [min(k * stride, size - patch) for k in range(count)]


def _hidden(
    row: Tensor, corners: Sequence[tuple[int, ...]], patch: int, fill: float, batch: int
) -> Iterator[tuple[int, Tensor]]:
    """The row with each patch hidden, a batch at a time, and the number of the batch's first patch."""
    for first in range(0, len(corners), batch):
        here = corners[first : first + batch]
        rows = row.repeat(len(here), *(1,) * row.dim())
        for k, corner in enumerate(here):
            window: tuple[Any, ...] = (k, slice(None), *(slice(start, start + patch) for start in corner))
            rows[window] = fill
        yield first, rows
