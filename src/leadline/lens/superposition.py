"""Is a function linear, affine, or neither? Superposition tells.

    linear   f[a + b] = f[a] + f[b]   and   f[2a] = 2 f[a]                                                   (1)
    affine   g[x] = f[x] - f[0] is linear                                                                    (2)

Defects are the lengths of the differences of the two sides, divided by the usual length of an f, over random pairs
a, b. A weighted sum is linear; with an offset c ≠ 0 it is only affine, and both its defects have the length |c|.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import exactly
from leadline.lens.style import DASHED, FULL, HUES, SOFT, blank, label, short, some, styled
from leadline.lens.view import View
from leadline.settings import given, real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NONE = 1e-9  # a relative defect below this is rounding


@dataclass(frozen=True, eq=False)
class Superposition(View):
    """How far a function is from (1) and (2).

    Args:
        verdict: "linear", "affine" or "neither".
        sums, doubles: relative defects of f[a + b] = f[a] + f[b] and of f[2a] = 2 f[a], one for each pair, (num,).
        affine_sums, affine_doubles: the same of f - f[0].
        offset: f[0], flat.  size: the usual length of an f, by which the defects are divided.
        whole, parts: f[a + b] and f[a] + f[b], (num, K).
    """

    verdict: str
    sums: np.ndarray
    doubles: np.ndarray
    affine_sums: np.ndarray
    affine_doubles: np.ndarray
    offset: np.ndarray
    size: float
    whole: np.ndarray
    parts: np.ndarray

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL * 0.9, 3.9)
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.1])
        rows = [
            ("f[a+b] − f[a] − f[b]", self.sums),
            ("f[2a] − 2 f[a]", self.doubles),
            ("the same sums of f − f[0]", self.affine_sums),
            ("the same doubles of f − f[0]", self.affine_doubles),
        ]
        for k, (_, defect) in enumerate(rows):
            shown = some(np.maximum(defect, 1e-18), 200)
            spread = 0.5 * (np.arange(len(shown)) * 0.618034 % 1 - 0.5)
            right.plot(shown, k + spread, "o", ms=3, alpha=0.6, color=HUES[0 if k < 2 else 1])
        right.axvline(_NONE, color=SOFT, ls=DASHED, lw=1, label=f"rounding, below {_NONE:g}")
        right.set_xscale("log")
        right.set_yticks(range(4), [name for name, _ in rows])
        right.invert_yaxis()
        label(
            right, f"Defects: {self.verdict}", "length of the defect, as part of the usual |f| (0 at the left)", "", 1
        )
        count = min(self.whole.shape[1], 4)
        for k in range(count):
            name = None if count == 1 else f"output {k + 1}"
            left.plot(some(self.parts[:, k]), some(self.whole[:, k]), "o", ms=3, color=HUES[k], alpha=0.6, label=name)
        ends = [float(self.parts[:, :count].min()), float(self.parts[:, :count].max())]
        left.plot(ends, ends, color=SOFT, lw=1, ls=DASHED, label="linear: the two are equal")
        offset = float(np.linalg.norm(self.offset))
        label(left, f"Superposition, |f[0]| = {short(offset)}", "f[a] + f[b]", "f[a+b]", 2)
        return figure


def superposition(
    f: nn.Module | Callable[[Tensor], Tensor], shape: int | tuple[int, ...] = 1, *, scale: float = 1.0, num: int = 256,
    seed: int = 0,
) -> Superposition:  # fmt: skip
    """Whether `f` is linear, affine or neither, at random points.

    Args:
        f: a module, or a function of a tensor of points, one a row.
        shape: of one point.  scale: deviation of the points.
        num: pairs of points, at least 2.  seed: of the points.

    >>> superposition(nn.Linear(3, 2, bias=False), 3).verdict, superposition(nn.Linear(3, 2), 3).verdict
    ('linear', 'affine')
    >>> superposition(torch.relu).verdict
    'neither'
    """
    num, scale = whole("num", num, 2, usual=256), real("scale", scale, 0, above=True, usual=1.0)
    size = (shape,) if isinstance(shape, int) else shape
    if not isinstance(size, tuple) or not all(isinstance(n, int) and n >= 1 for n in size):
        raise UserError("shape must be a number of inputs, or a tuple", got=given("shape", shape), do="Write shape=3")
    if not callable(f):
        raise UserError("f must be a module or a function", got=given("f", f), do="Pass ll.models.Linear(3, 1)")
    drawn = torch.randn(2, num, *size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    a, b = scale * drawn
    context: Any = exactly(f) if isinstance(f, nn.Module) else nullcontext(f)
    with context as g, torch.no_grad():
        try:
            at = lambda x: _flat(g(x), len(x))  # noqa: E731
            zero, of_a, of_b = at(torch.zeros(1, *size, dtype=torch.float64)), at(a), at(b)
            of_sum, of_double = at(a + b), at(2 * a)
        except RuntimeError as error:
            raise ShapeError(
                "f must take points of the given shape",
                got=f"shape={shape}, and from f: {str(error).splitlines()[0]}",
                do="Pass shape=, such as shape=3 for three inputs",
            ) from None
    usual = float((of_a.norm(dim=1) + of_b.norm(dim=1)).mean()) / 2 or 1.0
    length = lambda d: (d.norm(dim=1) / usual).numpy()  # noqa: E731
    sums, doubles = length(of_sum - of_a - of_b), length(of_double - 2 * of_a)
    affine_sums, affine_doubles = length(of_sum - of_a - of_b + zero), length(of_double - 2 * of_a + zero)
    if max(sums.max(), doubles.max()) < _NONE:
        verdict = "linear"
    else:
        verdict = "affine" if max(affine_sums.max(), affine_doubles.max()) < _NONE else "neither"
    return Superposition(
        verdict, sums, doubles, affine_sums, affine_doubles, zero[0].numpy(), usual, of_sum.numpy(),
        (of_a + of_b).numpy(),
    )  # fmt: skip


def _flat(out: Any, count: int) -> Tensor:
    out = torch.as_tensor(out).detach().cpu().double()
    if out.dim() == 0 or len(out) != count:
        raise UserError(
            "f must answer with one row for each point",
            got=f"shape {tuple(out.shape)} for {count} points",
            do="Write f so that it takes a tensor of points (n, …) and returns (n, …)",
        )
    return out.reshape(count, -1)
