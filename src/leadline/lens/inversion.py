"""Network inversion: what an input must have been, as far as a layer still knows (Mahendran and Vedaldi, 2015).

    x* = argmin  ‖φ(x) - φ(x₀)‖² / ‖φ(x₀)‖² + λ TV₂(x),     TV₂(x) = mean of squared differences of neighbours   (1)

From noise, by L-BFGS. Where φ can be inverted x* is x₀; what deeper layers no longer tell apart, the prior fills in:
x* and x₀ differ by what the layer has thrown away.

Notation   φ -> the output of a module;  λ -> smooth
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.lens.at_rest import at_rest
from leadline.lens.place import module_of, reached, seen
from leadline.lens.style import blank, styled
from leadline.lens.tiles import show
from leadline.lens.view import View
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 6


@dataclass(frozen=True, eq=False)
class Inversion(View):
    """Rows, and rows that a module takes for them.

    Args:
        name: of the module.
        x: x₀, (B, *shape); found: x*, as large.
        mismatch: ‖φ(x*) - φ(x₀)‖ / ‖φ(x₀)‖ of each row; error: ‖x* - x₀‖ / ‖x₀‖ of each, (B,).
    """

    name: str
    x: np.ndarray
    found: np.ndarray
    mismatch: np.ndarray
    error: np.ndarray

    @styled
    def plot(self) -> Figure:
        count = min(len(self.x), _SHOWN)
        figure = blank(max(3.4, 1.5 * count + 0.3), 3.6)
        axes = figure.subplots(2, count, squeeze=False)
        for k in range(count):
            show(axes[0, k], self.x[k], f"row {k}")
            show(axes[1, k], self.found[k], f"off by {self.error[k]:.2g}")
        axes[0, 0].set_ylabel("as it was")
        axes[1, 0].set_ylabel("as found again")
        figure.suptitle(f"What {self.name} still knows", x=0.01, ha="left", fontsize=9.5, fontweight="bold")
        return figure


def inversion(
    model: nn.Module,
    x: Any,
    module: str | nn.Module | None = None,
    *,
    smooth: float = 0.0,
    steps: int = 200,
    call: int = -1,
    split: str = "train",
    num: int = 6,
    seed: int = 0,
) -> Inversion:
    """Rows found again from what a module puts out for them. The model is left as it was.

    Args:
        x: Data, or rows as the network reads them.
        module: a part of the model, or its path; None is the output.
        smooth: λ, at least 0.
        steps: of the search, at least 1.
        call: which of the module's calls, where it has several; -1 is the last.
        num: rows at most; seed: of the noise.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(9, 20), nn.Linear(20, 2))
    >>> bool(inversion(net, torch.randn(1, 1, 3, 3), "1").error[0] < 1e-3)
    True
    """
    steps, smooth = whole("steps", steps, 1, usual=200), real("smooth", smooth, 0, usual=0.01)
    model, rows = seen(model, x, split=split, num=whole("num", num, 1, usual=6))
    name, part = module_of(model, module)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, usual=0))
    found, mismatch = [], []
    with at_rest(model):
        run = lambda x: reached(model, x, part, call)  # noqa: E731
        for row in rows.split(1):
            first = (row.std().clamp(min=1e-3) * torch.randn(row.shape, generator=generator).to(row)).detach()
            found.append(_searched(run, first, run(row), smooth, steps))
            goal = run(row)
            mismatch.append(float((run(found[-1]) - goal).norm() / goal.norm().clamp(min=1e-30)))
    again = torch.cat(found)
    error = (again - rows).flatten(1).norm(dim=1) / rows.flatten(1).norm(dim=1).clamp(min=1e-30)
    numbers = [t.double().cpu().numpy() for t in (rows, again)]
    return Inversion(name, numbers[0], numbers[1], np.array(mismatch), error.double().cpu().numpy())


def _searched(run: Any, first: Tensor, goal: Tensor, smooth: float, steps: int) -> Tensor:
    """Eq. 1 of one row."""
    x = first.clone().requires_grad_()
    size = goal.square().sum().clamp(min=1e-30)
    search = torch.optim.LBFGS(
        [x], max_iter=steps, history_size=20, line_search_fn="strong_wolfe", tolerance_change=1e-12
    )

    def loss() -> Tensor:
        with torch.enable_grad():
            off = (run(x) - goal).square().sum() / size + smooth * _roughness(x)
            (x.grad,) = torch.autograd.grad(off, x)
        return off.detach()

    search.step(loss)
    return x.detach()


def _roughness(x: Tensor) -> Tensor:
    parts = [x.diff(dim=axis).square().mean() for axis in range(2, x.dim()) if x.shape[axis] > 1]
    return torch.stack(parts).sum() if parts else torch.zeros(()).to(x)
