"""Activation maximisation: the input that excites a unit most (Erhan et al., 2009; Simonyan et al., 2013).

    x* = argmax  z_k(x) - λ TV(x)     with  rms x = size                                                        (1)
    TV(x) = mean of |differences of neighbours|                                                                 (2)
    x <- size · u / rms u,  u = x + η · size · g / rms g,   g the gradient of (1) at x                          (3)

It starts from noise. With the size held, a linear unit is excited most by its own filter. What a deep unit is excited
most by need not look like anything that was ever seen; priors pull it towards pictures: λ weighs smoothness, every
tenth step may blur x a little, and jitter moves x by a few positions before each gradient is taken, so that no pattern
can rest on the grid of the strides.

Notation   z_k(x) -> one channel of a module, its mean over positions or at one of them;  η falls along a half cosine
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.place import module_of, reached
from leadline.lens.rows import fit_to
from leadline.lens.style import HUES, blank, label, styled
from leadline.lens.tiles import layout, show
from leadline.lens.view import View
from leadline.settings import given, real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUR_EVERY = 10


@dataclass(frozen=True, eq=False)
class ActivationMaximum(View):
    """Inputs that excite channels most.

    Args:
        name: of the module; channels: their numbers.
        x: eq. 1, one a channel, (n, *shape).
        value: z_k(x*) of each, (n,); noise: z_k of the noise that it began as, (n,).
        history: z_k by step, (steps, n).
    """

    name: str
    channels: tuple[int, ...]
    x: np.ndarray
    value: np.ndarray
    noise: np.ndarray
    history: np.ndarray

    @styled
    def plot(self) -> Figure:
        rows, columns = layout(len(self.x), 6)
        figure = blank(1.45 * columns + 3.2, max(2.6, 1.7 * rows + 0.4))
        grid = figure.add_gridspec(rows, columns + 1, width_ratios=[*[1] * columns, 2])
        for k, picture in enumerate(self.x):
            ax = figure.add_subplot(grid[k // columns, k % columns])
            show(ax, picture, f"{self.channels[k]}: {self.noise[k]:.2g} → {self.value[k]:.2g}")
        ax = figure.add_subplot(grid[:, -1])
        for k, values in enumerate(self.history.T):
            ax.plot(values, lw=1.2, color=HUES[k % len(HUES)])
        label(ax, "Activation on the way", "step", "activation")
        title = f"What excites {self.name} most (channel: activation of noise → of the picture)"
        figure.suptitle(title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
        return figure


def activation_maximum(
    model: nn.Module,
    shape: Sequence[int],
    module: str | nn.Module | None = None,
    channel: int | Sequence[int] = 0,
    *,
    unit: Sequence[int] | None = None,
    steps: int = 200,
    rate: float = 0.1,
    size: float = 1.0,
    smooth: float = 0.0,
    blur: float = 0.0,
    jitter: int = 0,
    call: int = -1,
    seed: int = 0,
) -> ActivationMaximum:
    """The inputs that excite channels of a module most. The model is left as it was.

    Args:
        shape: of one row, such as (3, 32, 32).
        module: a part of the model, or its path; None is the output.
        channel: one or several.
        unit: a position in the module's output; None is the mean over all.
        steps: of the ascent, at least 1; rate: η, above 0.
        size: rms of x, above 0: that of the rows the model was trained on is a good choice.
        smooth: λ; blur: standard deviation in positions, every tenth step; jitter: positions. At least 0 each.
        call: which of the module's calls, where it has several; -1 is the last.
        seed: of noise and jitter.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    >>> view = activation_maximum(net, (1, 4, 4), channel=2)
    >>> float(np.corrcoef(view.x.ravel(), net[1].weight[2].detach())[0, 1]) > 0.9
    True
    """
    if not isinstance(model, nn.Module):
        raise UserError("a lens looks at a torch module", got=given("model", model), do="Pass run.model")
    steps, jitter = whole("steps", steps, 1, usual=200), whole("jitter", jitter, 0, usual=2)
    rate, size = real("rate", rate, 0, above=True, usual=0.1), real("size", size, 0, above=True, usual=1.0)
    smooth, blur = real("smooth", smooth, 0, usual=0.1), real("blur", blur, 0, usual=0.5)
    channels = (channel,) if isinstance(channel, int) else tuple(channel)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, usual=0))
    x = torch.randn(1, *shape, generator=generator).repeat(len(channels), *(1,) * len(shape))
    x = _sized(fit_to(model, x), size)
    name, part = module_of(model, module)
    axes = tuple(range(2, x.dim()))
    history = []
    with at_rest(model):
        activation = lambda x: _channels(reached(model, x, part, call), channels, unit)  # noqa: E731
        noise = activation(x)
        for step in range(steps):
            moved = tuple(torch.randint(-jitter, jitter + 1, (len(axes),), generator=generator).tolist())
            with torch.enable_grad():
                here = torch.roll(x, moved, axes) if jitter else x
                here = here.detach().requires_grad_()
                goal = activation(here) - smooth * total_variation(here)  # eq. 1
                (g,) = torch.autograd.grad(goal.sum(), here)
            g = torch.roll(g, tuple(-m for m in moved), axes) if jitter else g
            eta = rate * (1 + math.cos(math.pi * step / steps)) / 2 + 0.01 * rate
            x = _sized(x + eta * _sized(g, size), size)  # eq. 3
            if blur and step % _BLUR_EVERY == _BLUR_EVERY - 1 and step < steps - _BLUR_EVERY:
                x = _sized(blurred(x, blur), size)
            history.append(activation(x))
        value = history[-1]
    numbers = [t.double().cpu().numpy() for t in (x, value, noise, torch.stack(history))]
    return ActivationMaximum(name, channels, *numbers)


def _channels(z: Tensor, channels: tuple[int, ...], unit: Sequence[int] | None) -> Tensor:
    """The activation that each row of a batch is for, (n,)."""
    if not all(isinstance(k, int) and 0 <= k < z.shape[1] for k in channels):
        raise ShapeError(
            "channel must be one of the module's",
            got=f"channel={channels[0] if len(channels) == 1 else channels}",
            do=f"Pass numbers from 0 to {z.shape[1] - 1}",
        )
    own = torch.stack([z[row, k] for row, k in enumerate(channels)])  # (n, *positions)
    if unit is None:
        return own.flatten(1).mean(1) if own.dim() > 1 else own
    if len(unit) != own.dim() - 1 or not all(0 <= i < n for i, n in zip(unit, own.shape[1:], strict=True)):
        raise ShapeError(
            "unit must be a position of the module's output",
            got=f"{given('unit', unit)} for positions {tuple(own.shape[1:])}",
            do="Leave it out, or pass one number an axis",
        )
    at: tuple[Any, ...] = (slice(None), *unit)
    return own[at]


def _sized(x: Tensor, size: float) -> Tensor:
    """x with that rms, row by row."""
    rms = x.flatten(1).square().mean(1).sqrt().clamp(min=1e-30)
    return size * x / rms.reshape(-1, *(1,) * (x.dim() - 1))


def total_variation(x: Tensor) -> Tensor:
    """Eq. 2 of each row, over all axes of positions, (B,).

    >>> total_variation(torch.tensor([[[0.0, 1.0, 1.0, 3.0]]])).tolist()
    [1.0]
    """
    parts = [x.diff(dim=axis).abs().flatten(1).mean(1) for axis in range(2, x.dim()) if x.shape[axis] > 1]
    return torch.stack(parts).sum(0) if parts else torch.zeros(len(x)).to(x)


def blurred(x: Tensor, sigma: float) -> Tensor:
    """x under a Gaussian of that standard deviation, axis by axis, its border repeated.

    >>> round(blurred(torch.ones(1, 1, 5, 5), 1.0).mean().item(), 4)
    1.0
    """
    reach = max(1, math.ceil(3 * sigma))
    taps = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / sigma) ** 2).to(x)
    taps = taps / taps.sum()
    for axis in range(2, x.dim()):
        lines = x.movedim(axis, -1)
        flat = F.pad(lines.reshape(-1, 1, lines.shape[-1]), (reach, reach), mode="replicate")
        x = F.conv1d(flat, taps[None, None]).reshape(lines.shape).movedim(-1, axis)
    return x
