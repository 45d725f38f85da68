"""The points that decide: of a network that takes the largest of each feature, those where a maximum lies (Qi et al.).

    g_d = max_m h_md,   critical = {argmax_m h_md : d = 1 … D, not all h_md alike}        (1)   of every such maximum
    f(critical alone) = f(all)                                                            (2)

Whatever lies between the critical points and the rest can be left out, or filled in, and nothing changes. Of a
PointNet (1) is taken over the maxima of its transforms too.

Shapes     x (M, C), or (M, C + 1) where a last column is 1 at points that are there
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import ShapeError, UserError
from leadline.layers.set_pool import SetPool
from leadline.lens.at_rest import at_rest
from leadline.lens.rows import Fitted, fit_to, rows_of
from leadline.lens.style import FULL, LINE, SEQUENTIAL, SOFT, blank, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class CriticalSet(View):
    """Args:
    points: (M, C), members of the set as the network reads them.
    decides: (M,), features whose largest value is at each, of all maxima together; 0 for those that decide nothing.
    features: in all, those where all members are alike left out.
    change: largest change of an output where only the members that decide are left, relative to the largest output.
    """

    points: np.ndarray
    decides: np.ndarray
    features: int
    change: float

    @property
    def critical(self) -> np.ndarray:
        """Numbers of the members that decide."""
        return np.flatnonzero(self.decides)

    @styled
    def plot(self) -> Figure:
        if self.points.shape[1] not in (2, 3):
            raise UserError(
                "critical points are drawn in two or three coordinates",
                got=f"members of {self.points.shape[1]} numbers",
                do="Read .critical and .decides",
            )
        from matplotlib.colors import LogNorm

        figure = blank(FULL, 4.8)
        space: dict[str, Any] = {"projection": "3d"} if self.points.shape[1] == 3 else {}
        all_, own = figure.subplots(1, 2, subplot_kw=space)
        names = ("x", "y", "z")[: self.points.shape[1]]
        reach = float(np.abs(self.points).max()) or 1.0
        rest = self.decides == 0
        deep: dict[str, Any] = {"linewidths": 0, **({"depthshade": False} if space else {})}
        all_.scatter(*self.points.T, s=5, color=SOFT, alpha=0.7, **deep)
        own.scatter(*self.points[rest].T, s=3, color=LINE, **deep)
        order = np.argsort(self.decides[~rest], kind="stable")
        counts = self.decides[~rest][order]
        norm = LogNorm(1, max(2, int(counts.max(initial=2))))  # a few corners decide many
        mesh = own.scatter(*self.points[~rest][order].T, s=16, c=counts, cmap=SEQUENTIAL, norm=norm, **deep)
        bar = figure.colorbar(mesh, ax=own, pad=0.12 if space else 0.02, fraction=0.05, aspect=24)
        bar.outline.set_visible(False)
        bar.set_label("features whose largest value is here")
        shown = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if tick <= norm.vmax]
        bar.set_ticks(shown, labels=list(map(str, shown)), minor=False)
        bar.ax.minorticks_off()
        titles = (f"All {len(self.points):,} points", f"{len(self.critical):,} decide all {self.features:,} features")
        for ax, title in zip((all_, own), titles):
            ax.set_title(title)
            for name in names:
                ax.set(**{f"{name}label": name, f"{name}lim": (-reach, reach)})
            if space:
                ax.set_box_aspect((1, 1, 1))
                for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
                    axis.set_pane_color((1, 1, 1, 0))
                    axis.set_major_locator(_ticks())
            else:
                ax.set_aspect("equal")
        return figure


def critical_set(model: nn.Module | Fitted, data: Any = None, row: int = 0, split: str = "test") -> CriticalSet:
    """Which members of a set decide the answer of a network that takes maxima over them.

    Args:
        model: a module, or a run.
        data: one set as the network reads it, (M, C) or (M, C + 1), or data, of which a row is taken; a run has its
            own.
        row: of the split, from 0.
        split: train, val or test.

    >>> import leadline as ll
    >>> model = ll.models.PointNet(10, channels=3, width=0.25)
    >>> view = critical_set(model, torch.randn(500, 3, generator=torch.Generator().manual_seed(0)))
    >>> len(view.critical) < 500, view.change < 1e-5
    (True, True)
    """
    if isinstance(model, Fitted):
        data, model = model.need_data() if data is None else data, model.model
    pools = [module for module in model.modules() if isinstance(module, SetPool)]
    if not pools or any(pool.how != "max" for pool in pools):
        raise UserError(
            "critical points need a maximum over members",
            got=f"a {type(model).__name__} with {' and '.join({pool.how for pool in pools}) or 'none'}",
            do='Look at a PointNet, or at DeepSets with pool="max"',
        )
    x = fit_to(model, _row(model, data, row, split))
    seen: list[tuple[Tensor, Tensor | None]] = []
    hooks = [pool.register_forward_pre_hook(lambda _, own: seen.append((own[0], own[1]))) for pool in pools]
    with at_rest(model):
        try:
            whole_output = model(x[None])
        finally:
            for hook in hooks:
                hook.remove()
        decides, features = _decide(seen, x.shape[0])
        there = x[:, -1] > 0.5 if seen[0][1] is not None else torch.ones(len(x), dtype=torch.bool, device=x.device)
        kept = decides > 0 if bool((decides > 0).any()) else there
        alone = model(x[kept][None])
        if whole_output.dim() == 3:
            whole_output = whole_output[:, kept]
        change = float((alone - whole_output).abs().max() / whole_output.abs().max().clamp(min=1e-30))
    points = x[there][:, : x.shape[1] - (seen[0][1] is not None)]
    return CriticalSet(points.double().cpu().numpy(), decides[there].cpu().numpy(), features, change)


def _decide(seen: list[tuple[Tensor, Tensor | None]], count: int) -> tuple[Tensor, int]:
    """Eq. 1: how many features each member decides, and how many there are."""
    decides, features = torch.zeros(count, dtype=torch.int64, device=seen[0][0].device), 0
    for h, there in seen:
        own, mask = h[0], torch.ones_like(h[0, :, 0], dtype=torch.bool) if there is None else there[0]
        own = own.masked_fill(~mask[:, None], -math.inf)
        least = own.masked_fill(~mask[:, None], math.inf).amin(0)
        varied = own.amax(0) > least
        decides += torch.bincount(own.argmax(0)[varied], minlength=count)
        features += int(varied.sum())
    return decides, features


def _row(model: nn.Module, data: Any, row: int, split: str) -> Tensor:
    if isinstance(data, Tensor):
        if data.dim() != 2:
            raise ShapeError("a set must have shape (M, C)", got=f"shape {tuple(data.shape)}", do="Pass one set")
        return data
    encoded = rows_of(data, split).encoded(model)
    return encoded[whole("row", row, 0, len(encoded) - 1)]


def _ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(3)
