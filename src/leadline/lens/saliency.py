"""Saliency: how much each input moves the answer.

    gradient     s = ∂f_c / ∂x                                                        (Simonyan et al., 2013)   (1)
    times_input  s = x ⊙ ∂f_c / ∂x                                                    (Shrikumar et al., 2016)  (2)
    smooth       s = mean of ∂f_c / ∂x at x + σ (max x - min x) ε                     (Smilkov et al., 2017)    (3)
    integrated   s = (x - x₀) ⊙ mean of ∂f_c / ∂x at x₀ + t (x - x₀), t in 0…1        (Sundararajan et al.,     (4)
                 Σ s = f_c(x) - f_c(x₀), up to the error of the mean                   2017)

(1) answers what a small change would do here; (2) and (4) share the answer out among the inputs. A gradient of a
network of ReLUs is rough, and (3) is its average over a neighbourhood.

Notation   f_c the output asked about, before any softmax;  ε of N(0, 1);  x₀ -> base
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.lens.at_rest import at_rest
from leadline.lens.place import aimed, scored, seen
from leadline.lens.style import styled
from leadline.lens.tiles import explained, paint
from leadline.lens.view import View
from leadline.names import lookup
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {
    "gradient": ("∂f/∂x", "largest channel"),
    "times_input": ("x · ∂f/∂x", "sum of channels"),
    "smooth": ("∂f/∂x", "mean over noise, largest channel"),
    "integrated": ("share of f", "sum of channels"),
}


@dataclass(frozen=True, eq=False)
class Saliency(View):
    """What each input does to one output.

    Args:
        kind: gradient, times_input, smooth or integrated.
        x: the rows as the network reads them, (B, C, *positions).
        target: the output asked about, (B,); score: its value, (B,).
        values: eq. 1, 2, 3 or 4, shaped as x.
    """

    kind: str
    x: np.ndarray
    target: np.ndarray
    score: np.ndarray
    values: np.ndarray

    @property
    def maps(self) -> np.ndarray:
        """One value a position, (B, *positions): the channel of largest size, signed, or the sum of shares."""
        if self.values.ndim == 2:
            return self.values
        if self.kind in ("times_input", "integrated"):
            return self.values.sum(1)
        best = np.abs(self.values).argmax(1, keepdims=True)
        return np.take_along_axis(self.values, best, 1)[:, 0]

    @styled
    def plot(self) -> Figure:
        unit, of = KINDS[self.kind]
        of = f", {of}" if (self.values.ndim > 2 and self.values.shape[1] > 1) or self.kind == "smooth" else ""
        title = f"Saliency, {self.kind.replace('_', ' ')}: {unit}{of}"
        return explained(self, self.maps, lambda ax, x, values, top: paint(ax, values, top), unit, title)


def saliency(
    model: nn.Module,
    x: Any,
    target: int | Sequence[int] | Tensor | None = None,
    *,
    kind: str = "gradient",
    draws: int = 32,
    noise: float = 0.15,
    base: float | Tensor = 0.0,
    split: str = "train",
    num: int = 8,
    seed: int = 0,
) -> Saliency:
    """How much each input moves an output. The model is left as it was.

    Args:
        x: Data, or rows as the network reads them.
        target: an output, one for all rows or one for each; None is each row's largest.
        kind: gradient (1), times_input (2), smooth (3) or integrated (4).
        draws: of (3), or steps of (4), at least 1.
        noise: σ of (3), a share of the row's range, at least 0.
        base: x₀ of (4), a number or a row.
        num: rows at most; seed: of the noise.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    >>> view = saliency(net, torch.ones(1, 1, 2, 2), target=2)
    >>> bool(np.allclose(view.values.ravel(), net[1].weight[2].detach()))
    True
    """
    lookup(kind, KINDS, "kind")
    draws, noise = whole("draws", draws, 1, usual=32), real("noise", noise, 0, usual=0.15)
    model, rows = seen(model, x, split=split, num=whole("num", num, 1, usual=8))
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, usual=0))
    with at_rest(model):
        out = model(rows)
        codes = aimed(out, target)
        if kind == "smooth":
            axes = tuple(range(1, rows.dim()))
            width = noise * (rows.amax(axes, keepdim=True) - rows.amin(axes, keepdim=True))
            each = (torch.randn(rows.shape, generator=generator).to(rows) for _ in range(draws))
            values = torch.stack([gradient(model, rows + width * e, codes) for e in each]).mean(0)  # eq. 3
        elif kind == "integrated":
            start = torch.as_tensor(base).to(rows).expand_as(rows)
            places = [(k + 0.5) / draws for k in range(draws)]
            slopes = torch.stack([gradient(model, start + t * (rows - start), codes) for t in places]).mean(0)
            values = (rows - start) * slopes  # eq. 4
        else:
            values = gradient(model, rows, codes)  # eq. 1
            values = rows * values if kind == "times_input" else values
    numbers = [t.double().cpu().numpy() for t in (rows, scored(out, codes), values)]
    return Saliency(kind, numbers[0], codes.cpu().numpy(), numbers[1], numbers[2])


def gradient(model: nn.Module, x: Tensor, codes: Tensor) -> Tensor:
    """Eq. 1 of each row, whatever the other rows are."""
    with torch.enable_grad():
        x = x.detach().clone().requires_grad_()
        (slopes,) = torch.autograd.grad(scored(model(x), codes).sum(), x, allow_unused=True)
    return torch.zeros_like(x) if slopes is None else slopes.detach()
