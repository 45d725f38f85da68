"""Shattered gradients: how soon the gradient with respect to the input forgets where it was (Balduzzi et al., 2017).

    g_i  = d Σ output / d t   at  x_i = start + t_i (end - start)           along a line                    (1)
    r(l) = mean_i (g_i - ḡ)(g_{i+l} - ḡ) / mean_i (g_i - ḡ)²                mean over draws                 (2)

In a shallow network neighbouring inputs have neighbouring gradients; in a deep one without skips the gradient changes
at every step like noise, and r falls to 0 at once, so that a step of descent says little about the next place. Skips
slow the fall. Each draw has its own r: gradients of deep networks differ in size from draw to draw by powers of ten,
and sums of their products would be those of the steepest.

Notes      a draw whose gradient is the same everywhere has no r and is left out; r is 1 where all are so.
           Biases must not be 0: along one input a ReLU network without them bends at 0 only
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.lens.style import FULL, HUES, SOFT, blank, label, styled
from leadline.lens.view import View
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SAME = 1e-12  # a gradient that strays by less than this part of itself is the same everywhere


@dataclass(frozen=True, eq=False)
class Shattered(View):
    """Gradients along a line and their autocorrelation.

    Args:
        t: places on the line, from 0 at `start` to 1 at `end`, (num,).
        gradients: name → eq. 1 of the first draw, (num,).
        correlation: name → eq. 2 by lag, from 0 on, (lags + 1,).
        draws: networks of each name.
    """

    t: np.ndarray
    gradients: dict[str, np.ndarray]
    correlation: dict[str, np.ndarray]
    draws: int

    @styled
    def plot(self) -> Figure:
        count = len(self.gradients)
        figure = blank(FULL, max(3.2, 1.3 * count))
        grid = figure.add_gridspec(count, 2, width_ratios=[1.25, 1])
        for k, (name, values) in enumerate(self.gradients.items()):
            ax = figure.add_subplot(grid[k, 0])
            ax.plot(self.t, values, lw=1.1, color=HUES[k % len(HUES)])
            label(ax, name, "place on the line" if k == count - 1 else "", "gradient")
            ax.tick_params(labelbottom=k == count - 1)
        ax = figure.add_subplot(grid[:, 1])
        for k, (name, values) in enumerate(self.correlation.items()):
            ax.plot(np.arange(len(values)), values, lw=1.6, color=HUES[k % len(HUES)], label=name)
        ax.axhline(0, color=SOFT, lw=0.7, zorder=1)
        words = f"mean of {self.draws} draws" if self.draws > 1 else "one draw"
        label(ax, f"Autocorrelation, {words}", f"lag, of {len(self.t)} places", "correlation", legend=1)
        return figure


def shattered(
    models: nn.Module | Mapping[str, nn.Module | Callable[[], nn.Module]],
    start: Any = -2.0,
    end: Any = 2.0,
    *,
    num: int = 256,
    lags: int = 64,
    draws: int = 1,
    seed: int = 0,
) -> Shattered:
    """Autocorrelation of the gradient with respect to the input. Modules are left as they were.

    Args:
        models: a module, or names with modules, or with functions that build one: they are called `draws` times.
        start, end: ends of the line: a number for one input, else a row.
        num: places, at least 3; lags: the largest lag, below num.
        seed: of the first call of each function.

    >>> from leadline.models import MLP
    >>> nets = {f"{k} layers": lambda k=k: MLP(1, (50,) * k, 1, activation="relu", p_drop=0) for k in (1, 20)}
    >>> view = shattered(nets, num=64, lags=10, draws=5)
    >>> sorted(view.correlation), float(view.correlation["1 layers"][0])
    (['1 layers', '20 layers'], 1.0)
    """
    num, draws = whole("num", num, 3, usual=256), whole("draws", draws, 1, usual=20)
    lags = whole("lags", lags, 1, num - 1, usual=64)
    named = {type(models).__name__: models} if isinstance(models, nn.Module) else models
    if not isinstance(named, Mapping) or not named:
        raise UserError(
            "shattered takes a module, or names with modules or functions that build one",
            got=given("models", models),
            do='Write shattered({"deep": lambda: MLP(1, (200,) * 24, 1)})',
        )
    first, last = (torch.as_tensor(end_, dtype=torch.float64).reshape(-1) for end_ in (start, end))
    t = torch.linspace(0, 1, num, dtype=torch.float64)
    line = first + t[:, None] * (last - first)
    gradients, correlation = {}, {}
    for name, model in named.items():
        count = 1 if isinstance(model, nn.Module) else draws
        each = []
        for turn in range(count):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed + turn)
                built = copy.deepcopy(model) if isinstance(model, nn.Module) else model()
            if not isinstance(built, nn.Module):
                raise UserError("a function must build a module", got=given(name, built), do="Return an nn.Module")
            each.append(_gradient(built, line, last - first))
        gradients[name] = each[0].numpy()
        correlation[name] = _correlation(torch.stack(each), lags).numpy()
    return Shattered(t.numpy(), gradients, correlation, draws)


def _gradient(model: nn.Module, line: Tensor, way: Tensor) -> Tensor:
    """Eq. 1, of a copy in double precision and at rest."""
    x = line.clone().requires_grad_()
    with torch.enable_grad():
        out = model.double().eval().cpu()(x)
        (gradient,) = torch.autograd.grad(out.sum(), x, allow_unused=True)
    return torch.zeros(len(line), dtype=torch.float64) if gradient is None else (gradient @ way).detach()


def _correlation(values: Tensor, lags: int) -> Tensor:
    """Eq. 2 of (draws, num), by lag."""
    centred = values - values.mean(1, keepdim=True)
    spread = centred.square().mean(1).sqrt()
    changing = spread > _SAME * values.abs().amax(1)
    if not changing.any():
        return torch.ones(lags + 1, dtype=values.dtype)
    centred, num = centred[changing] / spread[changing, None], values.shape[1]
    return torch.stack([(centred[:, : num - lag] * centred[:, lag:]).mean() for lag in range(lags + 1)])
