"""Trained networks of 20 and 56 layers, with skips and without: what depth costs, how the loss looks around a minimum,
and what is lost without a layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leadline import data as sources
from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.init import initialise
from leadline.layers import exact_statistics
from leadline.layers.residual_block import ResidualBlock
from leadline.lens import Surface, deletion, loss_surface
from leadline.lens.style import FULL, SEQUENTIAL, blank, colour_bar, styled
from leadline.lens.view import View
from leadline.likelihoods import Categorical
from leadline.models import ResNet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UDL = "Understanding Deep Learning"
_DECADES = 5  # of the loss that a picture shows; beyond them all is one colour
_SKIPS = {"plain": "none", "residual": "projection"}


@dataclass(frozen=True, eq=False)
class Beside(View):
    """Args:
    surfaces: by name, on one scale of colours.
    """

    surfaces: dict[str, Surface]

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.7)
        axes = figure.subplots(1, len(self.surfaces))
        low = min(float(np.nanmin(_logs(view.loss))) for view in self.surfaces.values())
        levels = np.linspace(low, low + _DECADES, 16)
        for ax, (name, view) in zip(axes, self.surfaces.items(), strict=True):
            mesh = ax.contourf(view.first, view.second, _logs(view.loss), levels, cmap=SEQUENTIAL, extend="both")
            ax.contour(view.first, view.second, _logs(view.loss), levels, colors="white", linewidths=0.5, alpha=0.7)
            ax.set(title=name, xlabel=view.names[0], ylabel=view.names[1])
            ax.grid(False)
        colour_bar(list(axes), mesh, "log₁₀ of the loss")
        return figure


@claim(
    "plain-20-56",
    "A plain network of 56 layers has a larger training error than one of 20; with skips it has not",
    f"{_UDL}, section 11.1.1 and figure 11.2; He et al. 2016",
)
def plain_20_56(full: bool) -> Evidence:
    depths = (20, 32, 44, 56) if full else (20, 56)
    loss = {kind: [_trained(kind, depth, full)[1] for depth in depths] for kind in _SKIPS}
    error = {kind: [_trained(kind, depth, full)[2] for depth in depths] for kind in _SKIPS}
    xs = tuple(map(float, depths))
    view = Curves(
        f"Digits, {_steps(full)} steps", "layers", "training error",
        {kind: (xs, tuple(found)) for kind, found in error.items()},
    )  # fmt: skip
    rise = {kind: found[-1] - found[0] for kind, found in error.items()}
    return Evidence(
        (
            # a hundredth of the rows is fourteen of them; few steps leave some of them wrong at any depth
            Check("plain: training error of 56 layers less that of 20", rise["plain"], low=0.01),
            Check("plain: training loss of 56 layers over that of 20", loss["plain"][-1] / loss["plain"][0], low=1.1),
            Check("with skips: error of 56 layers less that of 20", rise["residual"], high=0.01 if full else 0.05),
            Check("56 layers: error without skips less with", error["plain"][-1] - error["residual"][-1], low=0.01),
        ),
        view,
    )


@claim(
    "skip-surface",
    "Around a trained network of 56 layers the loss is smoother with skips than without",
    f"{_UDL}, section 11.6 and figure 11.13; Li et al. 2018",
)
def skip_surface(full: bool) -> Evidence:
    num, most = (25, 500) if full else (21, 200)
    x, y = _rows()
    views = {
        f"{kind}, 56 layers": loss_surface(
            _trained(kind, 56, full)[0], (x, y), likelihood=Categorical(10), num=num, most=most, seed=0
        )
        for kind in _SKIPS
    }
    rough = [_roughness(view.loss) for view in views.values()]
    # a bowl of one valley turns once on each line; what else turns is a bump
    bumps = [_bumps(view.loss) for view in views.values()]
    return Evidence(
        (
            Check("bends over slopes of the log-loss, without skips over with", rough[0] / rough[1], low=1.1),
            Check("turns from up to down on a line of the plane, without less with", bumps[0] - bumps[1], low=0.0),
        ),
        Beside(views),
    )


@claim(
    "deletion",
    "A trained residual network hardly misses one of its blocks; without one of its layers a plain one is lost",
    f"{_UDL}, notes on chapter 11; Veit et al. 2016",
)
def deleted(full: bool) -> Evidence:
    depth = 20  # about that of the plain network of the source, VGG; 56 plain layers would not be trained
    x, y = _rows()
    found = {}
    for kind in _SKIPS:
        model, *_ = _trained(kind, depth, full)
        found[kind] = deletion(model, (x, y), Categorical(10), _blocks(model), num=400)
    drops = {kind: np.sort(view.whole - view.without) for kind, view in found.items()}
    median = {kind: float(np.median(drop)) for kind, drop in drops.items()}
    view = Curves(
        f"{depth} layers without one block", "block", "training accuracy",
        {kind: (tuple(float(k + 1) for k in range(len(view.without))), tuple(view.without.tolist()))
         for kind, view in found.items()},
        {f"{kind}, whole": ((1.0, float(len(view.without))), (view.whole,) * 2) for kind, view in found.items()},
    )  # fmt: skip
    return Evidence(
        (
            Check("residual: fall of the accuracy, median block", median["residual"], high=0.1),
            Check("plain: the same", median["plain"], low=0.3),
            Check("accuracy of the plain network, whole", found["plain"].whole, low=0.8),
            Check("accuracy of the residual network, whole", found["residual"].whole, low=0.8),
        ),
        view,
    )


# ── training ──


def _steps(full: bool) -> int:
    return 1000 if full else 250


@lru_cache
def _rows() -> tuple[Tensor, Tensor]:
    rows = sources.load("digits", val=0.0)
    return rows.inputs.encode(rows.train.x).reshape(-1, 1, 8, 8), rows.train.y


@lru_cache
def _trained(kind: str, depth: int, full: bool) -> tuple[nn.Module, float, float]:
    """A network after descent with momentum, batches of 64; its training loss and error with exact statistics."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = ResNet(1, 10, depth=depth, skip=_SKIPS[kind]) if full else _dense(depth, kind == "residual")
    x, y = _rows()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 if full else 0.03, momentum=0.9, weight_decay=1e-4)
    g = torch.Generator().manual_seed(0)
    for _ in range(_steps(full)):
        rows = torch.randint(len(x), (64,), generator=g)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    exact_statistics(model, x.split(292))
    with torch.no_grad():
        out = model.eval()(x)
    return model, float(F.cross_entropy(out, y)), float((out.argmax(1) != y).double().mean())


def _dense(depth: int, skips: bool, width: int = 32) -> nn.Sequential:
    """The wiring of `ResNet` with full layers in place of convolutions: they take a tenth of the time."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.BatchNorm1d(width), nn.ReLU())
    for _ in range((depth - 2) // 2):
        first, last = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        branch = nn.Sequential(first, nn.BatchNorm1d(width), nn.ReLU(), last, nn.BatchNorm1d(width))
        net.append(ResidualBlock(branch, nn.Identity() if skips else None, last=nn.ReLU()))
    net.append(nn.Linear(width, 10))
    return initialise(net, "he")  # type: ignore[return-value]


def _blocks(model: nn.Module) -> list[str]:
    """Blocks that put out what they read in shape."""
    names = [name for name, part in model.named_modules() if isinstance(part, ResidualBlock)]
    return [name for name in names if name not in ("body.1.0", "body.2.0")]


# ── smoothness of a surface ──


def _logs(loss: np.ndarray) -> np.ndarray:
    return np.log10(np.where(np.isfinite(loss), loss, np.nan))


def _roughness(loss: np.ndarray) -> float:
    """Σ |second differences| / Σ |first differences| of the log-loss, along both axes."""
    each = [np.diff(_logs(loss), n, axis) for n in (1, 2) for axis in (0, 1)]
    sizes = [float(np.nansum(np.abs(one))) for one in each]
    return (sizes[2] + sizes[3]) / (sizes[0] + sizes[1])


def _bumps(loss: np.ndarray) -> float:
    """Maxima inside the lines of the grid, a line."""
    count = 0
    for lines in (loss, loss.T):
        rise = np.sign(np.diff(lines, axis=1))
        count += int(((rise[:, :-1] > 0) & (rise[:, 1:] < 0)).sum())
    return count / sum(loss.shape)
