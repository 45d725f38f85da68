"""Network dissection: which units of a layer find which things in pictures (Bau et al., 2017).

    on_k  = { positions p of all rows : z_k(p) > t_k },   t_k the (1 - q) quantile of z_k                        (1)
    IoU_kc = |on_k ∩ c| / |on_k ∪ c|                      c the positions labelled with class c                  (2)

A unit whose best overlap is above a threshold is called a detector of that class. The maps of z are interpolated to the
size of the labels; positions with label 255 are left out.

Notation   q -> part, the share of positions at which a unit is on
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leadline.data.account import counted
from leadline.data.data import Data
from leadline.errors import ShapeError
from leadline.lens.at_rest import at_rest
from leadline.lens.place import module_of, reached, seen
from leadline.lens.rows import rows_of
from leadline.lens.style import blank, colour_bar, label, styled
from leadline.lens.view import View
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNLABELLED = 255
_SHOWN = 40


@dataclass(frozen=True, eq=False)
class Dissection(View):
    """Overlap of units and classes.

    Args:
        name: of the module; classes: their names.
        overlap: eq. 2, (units, classes); nan for a class that no position has.
        best: class of largest overlap of each unit, (units,).
        thresholds: t_k, (units,).
        detectors: units whose best overlap is above `least`.
    """

    name: str
    classes: tuple[str, ...]
    overlap: np.ndarray
    best: np.ndarray
    thresholds: np.ndarray
    detectors: tuple[int, ...]
    least: float

    @styled
    def plot(self) -> Figure:
        order = np.argsort(-np.nanmax(self.overlap, 1), kind="stable")[:_SHOWN]
        figure = blank(max(4.6, 1.8 + 0.22 * len(order)), 1.6 + 0.34 * len(self.classes))
        ax = figure.subplots()
        mesh = ax.imshow(self.overlap[order].T, cmap="viridis", vmin=0, aspect="auto", interpolation="nearest")
        ax.set_yticks(np.arange(len(self.classes)), self.classes)
        ax.set_xticks(np.arange(len(order)), order, fontsize=7, rotation=90 if len(order) > 20 else 0)
        ax.grid(False)
        found = f"{counted(len(self.detectors), 'detector')} among {counted(len(self.overlap), 'unit')}"
        label(ax, f"{self.name}: {found}", "unit, the largest overlap first", "")
        colour_bar(ax, mesh, "intersection over union")
        return figure


def dissection(
    model: nn.Module,
    x: Any,
    y: Tensor | None = None,
    module: str | nn.Module | None = None,
    *,
    classes: Sequence[str] | None = None,
    part: float = 0.05,
    least: float = 0.04,
    call: int = -1,
    split: str = "val",
    num: int = 256,
) -> Dissection:
    """Which units of a module find which labelled things. The model is left as it was.

    Args:
        x: Data with pixels for a target, or rows as the network reads them.
        y: class of each position, (B, Y, X), 255 where there is none; Data has its own.
        module: a part of the model, or its path; None is the output.
        classes: names, in the order of the codes.
        part: share of positions at which a unit is on, above 0 and below 1.
        least: overlap above which a unit is called a detector.
        call: which of the module's calls, where it has several; -1 is the last.
        num: rows at most.

    >>> y = (torch.arange(16).reshape(1, 4, 4) % 4 == 0).long()  # the left column is of class 1
    >>> view = dissection(nn.Conv2d(1, 1, 1), y[:, None].float(), y, part=0.25, classes=["rest", "left"])
    >>> view.classes[view.best[0]] in ("rest", "left")
    True
    """
    share, least = real("part", part, 0, 1, above=True, usual=0.05), real("least", least, 0, usual=0.04)
    num = whole("num", num, 1, usual=256)
    if isinstance(x, Data):
        rows_ = rows_of(x, split)
        y = rows_.y[:num] if y is None else y
        classes = x.target.classes if classes is None else classes
    model, rows = seen(model, x, split=split, num=num)
    if y is None or y.dim() != 3 or len(y) < len(rows):
        raise ShapeError(
            "y must have the class of each position",
            got="y=None" if y is None else f"y of shape {tuple(y.shape)} for {counted(len(rows), 'row')}",
            do="Pass y (B, Y, X)",
        )
    codes = y[: len(rows)].long().cpu()
    name, inner = module_of(model, module)
    with at_rest(model):
        z = torch.cat([reached(model, rows_, inner, call).cpu() for rows_ in rows.split(64)])
        if z.dim() != 4:
            raise ShapeError(
                "the module must put out maps", got=f"{name} with {tuple(z.shape)}", do="Name a convolution"
            )
        maps = F.interpolate(z, tuple(codes.shape[1:]), mode="bilinear", align_corners=False)
    known = codes.flatten() != _UNLABELLED
    units = maps.transpose(0, 1).flatten(1)[:, known].double()  # (units, positions)
    labels = codes.flatten()[known]
    names = tuple(classes) if classes else tuple(str(c) for c in range(int(labels.max()) + 1))
    rank = max(1, round((1 - share) * units.shape[1]))
    limits = units.kthvalue(rank, dim=1).values  # eq. 1
    on = units > limits[:, None]
    overlap = torch.full((len(units), len(names)), torch.nan, dtype=torch.float64)
    for c in range(len(names)):
        here = labels == c
        if bool(here.any()):
            overlap[:, c] = (on & here).sum(1) / (on | here).sum(1)  # eq. 2
    table = overlap.numpy()
    best = np.nan_to_num(table, nan=-1.0).argmax(1)
    found = tuple(int(k) for k in np.flatnonzero(table[np.arange(len(table)), best] > least))
    return Dissection(name, names, table, best, limits.numpy(), found, float(least))
