"""Filters and feature maps: what a convolution looks for, and what it finds in a row.

    kernel    W_k, as a picture with one scale for all of a module: comparable, and signed                    (1)
    map       z_k[x], layer by layer, as one row runs through the model                                       (2)

Kernels of three channels are drawn in colour, grey standing for 0; of one channel from blue through white to red; of
more channels each kernel is cut into its channels. Kernels of deep layers read features, not pixels, and tell little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from leadline.data.account import counted
from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.place import module_of, seen, tapped
from leadline.lens.style import FULL, HUES, INK, SOFT, blank, colour_bar, styled
from leadline.lens.tiles import bare, largest, layout, paint, show, visible
from leadline.lens.view import View
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MOST, _WIDE = 64, 16  # tiles of a drawing, and of a line


@dataclass(frozen=True, eq=False)
class Filters(View):
    """Kernels of a convolution.

    Args:
        name: path of the module.
        kernels: eq. 1, (out, in, *kernel).
        norms: size of each kernel, (out,).
    """

    name: str
    kernels: np.ndarray
    norms: np.ndarray

    @styled
    def plot(self) -> Figure:
        out, channels = self.kernels.shape[:2]
        flat = self.kernels.ndim == 3
        colour = channels == 3 and not flat
        kernels = self.kernels if self.kernels.ndim != 5 else self.kernels.mean(2)
        tiles = list(kernels) if flat or colour else [tile[None] for kernel in kernels for tile in kernel]
        told = f"{self.name}: {counted(out, 'kernel')} of {counted(channels, 'channel')}"
        told += f", {' × '.join(map(str, self.kernels.shape[2:]))}{' taps' if flat else ''}"
        cut = not flat and not colour and 1 < channels <= _WIDE  # a line of tiles is a kernel
        wide = channels if cut else 8 if flat else 12
        most = max(1, _MOST // wide) * wide
        told += f", the first {most // channels if cut else most}" if len(tiles) > most else ""
        rows, columns = layout(min(len(tiles), most), wide)
        figure = blank(max(4.2, 0.62 * columns + 1.0), 0.62 * rows + 0.55)
        top = largest(kernels)
        axes = figure.subplots(rows, columns, squeeze=False)
        mesh = None
        for k, ax in enumerate(axes.ravel()):
            if k >= min(len(tiles), most):
                ax.set_axis_off()
            elif flat:
                ax.axhline(0, color=SOFT, lw=0.5)
                for c, line in enumerate(tiles[k]):
                    ax.plot(line, lw=1.2, color=HUES[c % len(HUES)])
                ax.set(ylim=(-1.1 * top, 1.1 * top))
                bare(ax)
            elif colour:
                ax.imshow(visible(tiles[k], -top, top), interpolation="nearest")
                bare(ax)
            else:
                mesh = paint(ax, tiles[k][0], top)
        if cut:
            axes[-1, 0].set_xlabel("channels →")
            axes[0, 0].set_ylabel("← kernels")
        figure.suptitle(told, x=0.01, ha="left", fontsize=9.5, fontweight="bold", color=INK)
        if mesh is not None:
            colour_bar(list(axes.ravel()), mesh, "weight")
        else:
            words = f"from −{top:.2g} to {top:.2g}" + (", grey is 0" if colour else ", a line a channel")
            figure.supxlabel(words, fontsize=8, color=SOFT)
        return figure


def filters(model: nn.Module, module: str | nn.Module | None = None) -> Filters:
    """The kernels of a convolution.

    Args:
        module: the convolution or its path; None is the model's first.

    >>> filters(nn.Sequential(nn.Conv2d(3, 8, 5), nn.ReLU())).kernels.shape
    (8, 3, 5, 5)
    """
    if not isinstance(model, nn.Module):
        raise UserError("a lens looks at a torch module", got=given("model", model), do="Pass run.model")
    if module is None:
        found = [path for path, part in model.named_modules() if isinstance(part, _CONVOLUTIONS)]
        if not found:
            raise UserError("the model must have a convolution", got="none", do="Name a module with a kernel")
        module = found[0] or model
    name, part = module_of(model, module)
    weight = getattr(part, "weight", None)
    if not isinstance(weight, Tensor) or not 3 <= weight.dim() <= 5:
        raise UserError("module must have kernels", got=f"{name}, a {type(part).__name__}", do="Name a convolution")
    kernels = weight.detach().double().cpu()
    if getattr(part, "transposed", False):
        kernels = kernels.transpose(0, 1)
    return Filters(name, kernels.numpy(), kernels.flatten(1).norm(dim=1).numpy())


@dataclass(frozen=True, eq=False)
class FeatureMaps(View):
    """What the channels of a model find in one row.

    Args:
        x: the row as the network reads it.
        names: paths of the modules; channels: all that each has.
        maps: eq. 2 of each module, the channels of largest mean square first, (kept, *positions).
        picked: numbers of these channels.
    """

    x: np.ndarray
    names: tuple[str, ...]
    channels: tuple[int, ...]
    maps: tuple[np.ndarray, ...]
    picked: tuple[tuple[int, ...], ...]

    @styled
    def plot(self) -> Figure:
        columns = max(len(maps) for maps in self.maps)
        figure = blank(min(FULL, 1.5 + 0.95 * (columns + 1)), 0.98 * len(self.names) + 0.3)
        grid = figure.add_gridspec(len(self.names), columns + 1, width_ratios=[1.25, *[1] * columns])
        show(figure.add_subplot(grid[0, 0]), self.x, "the row")
        for r, (name, maps) in enumerate(zip(self.names, self.maps, strict=True)):
            top, signed = largest(maps), bool((maps < 0).any())
            for c, values in enumerate(maps):
                ax = figure.add_subplot(grid[r, c + 1])
                paint(ax, values if values.ndim < 3 else values.mean(0), top, signed, f"{self.picked[r][c]}")
                if values.ndim == 1:
                    bare(ax)
                if c == 0:
                    size = " × ".join(map(str, values.shape))
                    words = f"{name if len(name) <= 18 else '…' + name[-17:]}\n{self.channels[r]} of {size}"
                    ax.set_ylabel(words, rotation=0, ha="right", va="center", fontsize=8)
        words = "each line has a scale of its own: " + ("blue below 0, red above; " if _signed(self.maps) else "")
        figure.supxlabel(words + "numbers are channels, the strongest first", fontsize=8, color=SOFT)
        return figure


def _signed(maps: Sequence[np.ndarray]) -> bool:
    return any(bool((values < 0).any()) for values in maps)


def feature_maps(
    model: nn.Module,
    x: Any,
    modules: Sequence[str | nn.Module] | None = None,
    *,
    row: int = 0,
    most: int = 8,
    split: str = "train",
) -> FeatureMaps:
    """What the channels of a model find in one row. The model is left as it was.

    Args:
        x: Data, or rows as the network reads them.
        modules: parts of the model, or their paths; None is every convolution. Of several calls the last is shown.
        row: which of the rows, from 0; most: channels of each module, at least 1.

    >>> import torch
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))
    >>> view = feature_maps(net, torch.randn(1, 1, 8, 8), ["1", "2"], most=3)
    >>> view.names, [maps.shape for maps in view.maps]
    (('1', '2'), [(3, 6, 6), (2, 4, 4)])
    """
    model, rows = seen(model, x, split=split)
    row, most = whole("row", row, 0, len(rows) - 1, usual=0), whole("most", most, 1, usual=8)
    if modules is None:
        modules = [path or model for path, part in model.named_modules() if isinstance(part, _CONVOLUTIONS)]
    if not modules:
        raise UserError("modules must name a part of the model", got="no convolution in it", do='Pass modules=["0"]')
    found = []
    with at_rest(model):
        for module in modules:
            name, part = module_of(model, module)
            with tapped(part) as outs:
                model(rows[row : row + 1])
            if not outs or outs[-1].dim() < 3:
                raise ShapeError(
                    "a feature map must have channels and positions",
                    got=f"{name}, which puts out {tuple(outs[-1].shape) if outs else 'nothing'}",
                    do="Name a module whose output is (B, C, Y, X)",
                )
            z = outs[-1][0].detach().double().cpu()
            best = z.flatten(1).square().mean(1).argsort(descending=True, stable=True)[:most]
            found.append((name, len(z), z[best].numpy(), tuple(best.tolist())))
    names, counts, maps, picked = zip(*found, strict=True)
    return FeatureMaps(rows[row].double().cpu().numpy(), names, counts, maps, picked)
