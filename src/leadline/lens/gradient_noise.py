"""How much the gradients of batches differ, layer by layer, and what batch is large enough.

    g_b  = (1/B) Σ_{i in b} ∂l_i/∂φ                       gradient of one batch of B rows; g of all n rows       (1)
    S    = (mean |g_b|² - |g|²) / (1/B - 1/n)             the rows' own scatter, tr Cov(∂l_i/∂φ)                 (2)
    G²   = |g|² - S / n                                   of the true gradient, free of bias                     (3)
    B*   = S / G²                                         the simple noise scale (McCandlish et al., 2018)       (4)

Batches far below B* are mostly noise: twice as many rows are worth nearly twice as many steps. Far above it they are
mostly gradient, and more rows add little. Near a minimum G² goes to 0 and B* grows beyond all bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.landscape import Landscape
from leadline.lens.style import FULL, HUES, INK, SOFT, blank, label, short, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ALL = "all"


@dataclass(frozen=True, eq=False)
class GradientNoise(View):
    """Gradients of batches. The first entry of each array is of all weights together, the others of each parameter.

    Args:
        names: "all", then the parameters that learn.
        rows, batch: n and B; `cosines` (batches, batches) between the gradients of two batches, over all weights.
        mean: |g|.  spread: root of the mean of |g_b - g|².
        scatter, signal: eq. 2 and 3.
        cosine: the mean over pairs of batches.
    """

    names: tuple[str, ...]
    rows: int
    batch: int
    mean: np.ndarray
    spread: np.ndarray
    scatter: np.ndarray
    signal: np.ndarray
    cosine: np.ndarray
    cosines: np.ndarray

    @property
    def scale(self) -> np.ndarray:
        """Eq. 4; infinite where no gradient stands out of the noise."""
        lost = self.signal <= 0
        return np.where(lost, np.inf, self.scatter / np.where(lost, 1.0, self.signal))

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 1.9 + 0.24 * len(self.names))
        sizes, scales, alike = figure.subplots(1, 3, sharey=True)
        place = np.arange(len(self.names))[::-1]
        sizes.plot(self.mean, place, "o", ms=5, color=HUES[0], label="of all rows")
        sizes.plot(self.spread, place, "D", ms=4, color=HUES[1], label=f"scatter of batches of {self.batch}")
        scale = self.scale
        finite = np.isfinite(scale)
        scales.plot(scale[finite], place[finite], "o", ms=5, color=HUES[5])
        scales.axvline(self.batch, color=INK, lw=1, ls=":", label=f"batch of {self.batch}")
        for at in place[~finite]:
            scales.annotate("∞", (0.97, at), xycoords=("axes fraction", "data"), va="center", ha="right", color=HUES[5])
        alike.plot(self.cosine, place, "o", ms=5, color=HUES[2])
        alike.axvline(0, color=SOFT, lw=0.8)
        alike.set_xlim(min(-0.05, 1.1 * float(self.cosine.min())), 1)
        for ax in (sizes, scales):
            ax.set_xscale("log")
            ax.xaxis.set_minor_formatter("")
        sizes.set_yticks(place, self.names)
        sizes.set_ylim(-0.6, len(place) - 0.4)
        label(sizes, f"Gradients of {self.rows:,} rows", "length", "", 1)
        told = f"{short(scale[0])} rows" if finite[0] else "no bound"
        label(scales, f"Noise scale: {told}", "rows at which noise equals signal", "", 1)
        label(alike, f"Two batches: cosine {short(self.cosine[0])}", "mean cosine of their gradients", "")
        return figure


def gradient_noise(
    model: nn.Module,
    data: Any,
    *,
    batch: int = 32,
    batches: int = 64,
    likelihood: Any = None,
    split: str = "train",
    most: int = 2000,
    seed: int = 0,
) -> GradientNoise:
    """Gradients of disjoint random batches beside that of all rows, with dropout off.

    Args:
        data, likelihood, split, most: as for `hessian`.
        batch: B, below the number of rows.
        batches: at most so many, at least 2; fewer where the rows do not suffice, and a ragged rest is left out.
        seed: of the order of the rows.

    >>> from leadline.data import moons
    >>> view = gradient_noise(nn.Linear(2, 1), moons(num=200), batch=8)
    >>> view.names, bool((view.scatter > 0).all())
    (('all', 'weight', 'bias'), True)
    """
    batch, batches = whole("batch", batch), whole("batches", batches, 2)
    with at_rest(model):
        landscape = Landscape(model, data, likelihood, split, most)
        n = len(landscape.y)
        if 2 * batch > n:
            raise UserError(
                "there must be rows for two batches", got=f"{n} rows, batch={batch}", do=f"Pass batch={max(1, n // 8)}"
            )
        generator = torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1, usual=0))
        order = torch.randperm(n, generator=generator).to(landscape.y.device)
        parts = order[: n // batch * batch].split(batch)[:batches]
        each = torch.stack([landscape.gradient(landscape.centre, part) for part in parts]).double().cpu()
        whole_ = landscape.gradient(landscape.centre).double().cpu()
    return noise_of(model, each, whole_, batch, n)


def noise_of(model: nn.Module, each: Tensor, whole_: Tensor, batch: int, rows: int) -> GradientNoise:
    """Eq. 2 to 4 of gradients of batches, (batches, P), and of all rows, (P,)."""
    names, places, start = [_ALL], [slice(None)], 0
    learns = torch.cat([torch.full((p.numel(),), p.requires_grad) for p in model.parameters()])
    each, whole_ = each * learns, whole_ * learns
    for name, p in model.named_parameters():
        if p.requires_grad:
            names.append(name)
            places.append(slice(start, start + p.numel()))
        start += p.numel()
    mean, spread, scatter, signal, cosine = (np.empty(len(names)) for _ in range(5))
    cosines = np.zeros((0, 0))
    for k, place in enumerate(places):
        g_b, g = each[:, place], whole_[place]
        square = float(g.square().sum())
        mean[k], spread[k] = square**0.5, float((g_b - g).square().sum(1).mean()) ** 0.5
        scatter[k] = (float(g_b.square().sum(1).mean()) - square) / (1 / batch - 1 / rows)  # eq. 2
        signal[k] = square - scatter[k] / rows  # eq. 3
        unit = g_b / g_b.norm(dim=1, keepdim=True).clamp(min=1e-300)
        found = unit @ unit.T
        cosine[k] = float((found.sum() - found.trace()) / (len(found) * (len(found) - 1)))
        cosines = found.numpy() if k == 0 else cosines
    return GradientNoise(tuple(names), rows, batch, mean, spread, scatter, signal, cosine, cosines)
