"""How far a step moves each layer, as a part of what is there.

    r_t = |φ_t - φ_{t-1}| / |φ_t|        for each parameter of two axes or more                        (1)

About a thousandth is usual for a network that learns well. Ratios that differ by powers of ten from layer to layer say
that one step size does not suit all; ratios above a tenth, that the step is too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from leadline.engine.events import Event, RunStarted, StepsDone
from leadline.errors import UserError
from leadline.lens.style import FULL, INK, blank, colour_bar, label, short, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

USUAL = 1e-3


class UpdateRatios:
    """Eq. 1 at every step of a run: a listener for `fit`, which `view()` turns into numbers.

    Where several steps are compiled into one call they are measured as one, and the ratio is that of a mean step.

    Args:
        model: whose weights to follow; a parameter of one axis (a bias, a gain) is left out.

    >>> import leadline as ll
    >>> model, data = ll.models.MLP(2, (8,), 1), ll.data.moons(num=60)
    >>> ratios = UpdateRatios(model)
    >>> _ = ll.fit(model, data, epochs=3, progress=False, listeners=[ratios])
    >>> ratios.view().names
    ('layers.0.map.weight', 'head.weight')
    """

    def __init__(self, model: nn.Module):
        self.followed = {name: p for name, p in model.named_parameters() if p.ndim > 1 and p.requires_grad}
        if not self.followed:
            raise UserError(
                "a model must have weights that learn", got=f"none in {type(model).__name__}", do="Follow another model"
            )
        self.steps, self._ratios, self._before, self._step = list[int](), list[Tensor](), list[Tensor](), 0

    @torch.no_grad()
    def __call__(self, event: Event) -> None:
        if not isinstance(event, (RunStarted, StepsDone)):
            return
        now = [p.detach().clone() for p in self.followed.values()]
        if isinstance(event, StepsDone) and self._before:
            count = max(1, event.step - self._step)
            parts = [(a - b).norm() / a.norm().clamp(min=1e-30) for a, b in zip(now, self._before, strict=True)]
            self._ratios.append(torch.stack(parts) / count)  # stays on the device until it is read
            self.steps.append(event.step)
        self._before, self._step = now, event.step

    def view(self) -> Updates:
        """What has been measured so far."""
        if not self._ratios:
            raise UserError(
                "a run must have made steps to be looked at",
                got="none",
                do="Pass it to fit first: ll.fit(model, data, listeners=[ratios])",
            )
        ratio = torch.stack(self._ratios).double().cpu().numpy()
        return Updates(tuple(self.followed), np.array(self.steps), ratio)


@dataclass(frozen=True, eq=False)
class Updates(View):
    """Args:
    names: of the parameters.
    steps: at which they were measured.
    ratio: eq. 1, (steps, parameters).
    """

    names: tuple[str, ...]
    steps: np.ndarray
    ratio: np.ndarray

    @property
    def typical(self) -> np.ndarray:
        """The median over steps, of each parameter."""
        return np.median(self.ratio, axis=0)

    @styled
    def plot(self) -> Figure:
        import matplotlib

        figure = blank(FULL * 0.72, 3.7)
        ax = figure.subplots()
        colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.88, len(self.names)))
        few = len(self.names) <= 8
        for k, name in enumerate(self.names):
            told = f"{name}, median {short(self.typical[k])}" if few else None
            ax.plot(self.steps, np.maximum(self.ratio[:, k], 1e-12), lw=1.0, color=colours[k], label=told)
        ax.axhline(USUAL, color=INK, lw=1, ls=":", label="a thousandth")
        ax.set_yscale("log")
        seen = self.ratio[self.ratio > 0]
        if len(seen):
            ax.set_ylim(0.5 * min(USUAL, float(np.quantile(seen, 0.01))), 2 * max(USUAL, float(seen.max())))
        if not few:
            key = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(1, len(self.names)), "viridis")
            colour_bar(ax, key, "weight, from the first layer to the last")
        label(ax, "Update of a step over the weights", "step", "|change| / |weights|", 2)
        return figure
