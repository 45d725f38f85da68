"""Checkerboards: outputs of a transposed convolution that more inputs write to than to others (Odena et al., 2016).

    n_o = number of inputs i and taps k with s i + d k - p = o                                                  (1)
    unevenness = (max n - min n) / mean n     over a period of s outputs, away from the border                  (2)
    strength   = std over phases of the mean output there / rms of the output                                   (3)

Along each axis (1) repeats every s outputs, and is even when s divides K (with d = 1). On a grid the counts of both
axes multiply, which gives the pattern its name. Equal counts are no promise: the weights can still differ by phase,
which (3) measures on a module's own output.

Notation   K kernel size, s stride, d spacing of the taps, p padding;  a phase is (row mod s, column mod s)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.place import module_of, reached, seen
from leadline.lens.style import FULL, HUES, SIGNED, blank, colour_bar, label, percent, short, styled
from leadline.lens.tiles import bare, largest
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Checkerboard(View):
    """How many inputs write to each output.

    Args:
        kernel, stride, spacing, padding: K, s, d and p.
        counts: eq. 1 along one axis, borders included.
        period: the counts of one period, away from the border, (s,).
        unevenness: eq. 2 along one axis; `grid` of two axes.
        even: whether all counts of the period agree.
    """

    kernel: int
    stride: int
    spacing: int
    padding: int
    counts: np.ndarray
    period: np.ndarray
    unevenness: float
    grid: float
    even: bool

    @styled
    def plot(self) -> Figure:
        from matplotlib.ticker import MaxNLocator

        figure = blank(FULL * 0.8, 3.2)
        line, board = figure.subplots(1, 2, width_ratios=[1.4, 1])
        line.bar(np.arange(len(self.counts)), self.counts, width=0.8, color=HUES[0])
        words = "even" if self.even else f"uneven by {percent(self.unevenness)} of the mean"
        line.yaxis.set_major_locator(MaxNLocator(integer=True))
        label(line, f"Kernel {self.kernel}, stride {self.stride}: {words}", "output", "inputs that write to it")
        both = np.outer(self.counts, self.counts)
        mesh = board.imshow(both, cmap="viridis", vmin=0)
        bare(board)
        board.set_title("On a grid")
        colour_bar(board, mesh, "inputs that write to it")
        return figure


def checkerboard(
    kernel: int, stride: int, *, spacing: int = 1, padding: int = 0, inputs: int | None = None
) -> Checkerboard:
    """How evenly a transposed convolution writes to its outputs.

    Args:
        kernel, stride: K and s, at least 1; spacing: d, 1 is dense; padding: p, at least 0.
        inputs: along one axis; None is enough for a few periods.

    >>> checkerboard(3, 2).period.tolist(), checkerboard(4, 2).period.tolist()
    ([2, 1], [2, 2])
    """
    K, s = whole("kernel", kernel, 1, usual=4), whole("stride", stride, 1, usual=2)  # noqa: N806
    d, p = whole("spacing", spacing, 1, usual=1), whole("padding", padding, 0, usual=0)
    reach = (K - 1) * d + 1
    enough = math.ceil(2 * (reach + p) / s) + 4
    count = enough if inputs is None else whole("inputs", inputs, 1, usual=8)
    counts = _counts(count, K, s, d, p)
    if len(counts) < 1:
        raise ShapeError("padding must leave outputs", got=f"padding={p}, kernel={K}", do="Pass a smaller padding")
    full = _counts(enough + 2 * s, K, s, d, 0)
    first = math.ceil(reach / s) * s  # a whole period in which every tap has its input
    period = full[first : first + s]
    board = np.outer(period, period)
    return Checkerboard(
        K, s, d, p, counts, period, _unevenness(period), _unevenness(board), bool((period == period[0]).all())
    )


def _counts(inputs: int, K: int, s: int, d: int, p: int) -> np.ndarray:  # noqa: N803
    """Eq. 1."""
    total = (inputs - 1) * s + (K - 1) * d + 1
    counts = np.zeros(total, dtype=int)
    for i, k in product(range(inputs), range(K)):
        counts[s * i + d * k] += 1
    return counts[p : total - p]


def _unevenness(counts: np.ndarray) -> float:
    """Eq. 2."""
    return float((counts.max() - counts.min()) / counts.mean())


@dataclass(frozen=True, eq=False)
class Artefacts(View):
    """What a checkerboard leaves in a module's output.

    Args:
        name: of the module; period: in outputs.
        strength: eq. 3, mean over channels and rows.
        phases: mean output by phase, less its mean over phases, of the strongest channel, one axis an axis.
        channel: its number; each: strength of every channel, (C,).
    """

    name: str
    period: int
    strength: float
    phases: np.ndarray
    channel: int
    each: np.ndarray

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL * 0.72, 3.0)
        left, right = figure.subplots(1, 2, width_ratios=[1.3, 1])
        left.bar(np.arange(len(self.each)), self.each, color=HUES[0])
        left.axhline(self.strength, color=HUES[1], lw=1.2, label=f"mean: {short(self.strength)}")
        if len(self.each) <= 16:
            left.set_xticks(np.arange(len(self.each)))
        label(left, f"{self.name}: pattern of period {self.period}", "channel", "strength, relative to rms", legend=1)
        tiled = np.tile(np.atleast_2d(self.phases), (4 if self.phases.ndim == 2 else 1, 4))
        top = largest(self.phases)
        mesh = right.imshow(
            tiled, cmap=SIGNED, vmin=-top, vmax=top, aspect="equal" if self.phases.ndim == 2 else "auto"
        )
        bare(right)
        right.set_title(f"Channel {self.channel}, four periods")
        colour_bar(right, mesh, "output, less its mean")
        return figure


def artefacts(
    model: nn.Module, x: Any, period: int, module: str | nn.Module | None = None, *, margin: int | None = None
) -> Artefacts:
    """How strong a pattern of that period is in a module's output. The model is left as it was.

    Args:
        x: Data, rows as the network reads them, or the shape of one row: then it is flat, all ones.
        period: the product of the strides on the way up, at least 2.
        module: a part of the model, or its path; None is the model.
        margin: positions left out at each border; None is two periods.

    >>> up = nn.ConvTranspose2d(1, 1, 3, stride=2, bias=False)
    >>> _ = nn.init.ones_(up.weight)
    >>> artefacts(up, (1, 8, 8), 2).phases.tolist()  # 4, 2, 2 and 1 inputs write, 2.25 in the mean
    [[1.75, -0.25], [-0.25, -1.25]]
    """
    period = whole("period", period, 2, usual=2)
    margin = 2 * period if margin is None else whole("margin", margin, 0, usual=4)
    if isinstance(x, (tuple, list)) and x and all(isinstance(n, int) for n in x):
        x = torch.ones(1, *x)
    model, rows = seen(model, x)
    name, part = module_of(model, module)
    with at_rest(model):
        z = reached(model, rows, part).double().cpu()
    if z.dim() not in (3, 4) or min(z.shape[2:]) < 2 * margin + period:
        raise ShapeError(
            "the output must have positions, and more than its margins",
            got=f"shape {tuple(z.shape)}, margin={margin}, period={period}",
            do="Pass larger rows, or a smaller margin",
        )
    means = _by_phase(z, period, margin)  # (B, C, phases...)
    spread = means.flatten(2).std(2, unbiased=False)
    sizes = z.flatten(2).square().mean(2).sqrt()
    if not bool((sizes > 0).any()):
        raise UserError("the output must not be 0 everywhere", got=f"{name}, which is", do="Pass other rows")
    each = (spread / sizes.clamp(min=1e-300)).mean(0)  # eq. 3
    best = int(each.argmax())
    mean = means[:, best].mean(0)
    return Artefacts(name, period, float(each.mean()), (mean - mean.mean()).numpy(), best, each.numpy())


def _by_phase(z: Tensor, period: int, margin: int) -> Tensor:
    """Mean output of each phase, (B, C, period) or (B, C, period, period), phases counted from the border."""
    first = margin - margin % period
    slices = [[slice(first + k, n - first, period) for k in range(period)] for n in z.shape[2:]]
    axes = tuple(range(2, z.dim()))
    means = [z[(..., *window)].mean(axes) for window in product(*slices)]  # type: ignore[index]
    return torch.stack(means, 2).reshape(*z.shape[:2], *(period,) * len(axes))
