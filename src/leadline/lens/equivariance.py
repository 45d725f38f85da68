"""Equivariance and invariance: does a function move with its input, or stay?

    invariant     f[t[x]] = f[x]             error  rms(f[t[x]] - f[x]) / rms(f[x])                             (1)
    equivariant   f[t[x]] = t[f[x]]          error  rms(f[t[x]] - t[f[x]]) / rms(f[x])                          (2)

A convolution with circular padding is equivariant to translations exactly; with zeros at the border it is so inside,
and `margin` leaves the border out. Strides, pools and a last linear map break it.

Transforms are words, with numbers in brackets: translate(rows, columns) wraps around, shift(rows, columns) lets zeros
in, flip mirrors left and right, flip_rows mirrors up and down, rotate(degrees) turns counter-clockwise, exactly for
multiples of 90 and by interpolation else, scale(factor) enlarges about the middle. Signals (B, C, T) know translate,
shift and flip. A name with any function of x, such as a warp, is a transform too.

Notation   x (B, C, Y, X);  where the output has fewer positions than x, translate and shift move it by as much less
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.place import module_of, reached, seen
from leadline.lens.style import FULL, HUES, INK, blank, colour_bar, label, styled
from leadline.lens.tiles import largest, paint, show
from leadline.lens.view import View
from leadline.names import bracketed, lookup
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Transform = Callable[[Tensor], Tensor]
_USUAL = ("translate(2, 3)", "flip", "rotate(90)", "rotate(20)", "scale(1.5)")


@dataclass(frozen=True, eq=False)
class Equivariance(View):
    """Errors of a function under transforms.

    Args:
        name: of the module whose output is looked at.
        transforms: their names.
        invariance, equivariance: eq. 1 and 2, one a transform; nan where the shapes do not agree.
        pictures: of the first row and transform: x, t[x], f[x], t[f[x]] and f[t[x]], one channel of f; or none.
    """

    name: str
    transforms: tuple[str, ...]
    invariance: np.ndarray
    equivariance: np.ndarray
    pictures: tuple[np.ndarray, ...]

    @styled
    def plot(self) -> Figure:
        drawn = bool(self.pictures)
        figure = blank(FULL * 0.8, 4.6 if drawn else 2.8)
        grid = figure.add_gridspec(2 if drawn else 1, 5, height_ratios=[1, 1.15] if drawn else [1])
        if drawn:
            top = max(largest(picture) for picture in self.pictures[2:])
            words = ("x", "t[x]", "f[x]", "t[f[x]]", "f[t[x]]")
            axes = [figure.add_subplot(grid[0, k]) for k in range(5)]
            for k, (picture, word) in enumerate(zip(self.pictures, words, strict=True)):
                if k < 2:
                    show(axes[k], picture, word)
                else:
                    mesh = paint(axes[k], picture, top, title=word)
            colour_bar(axes[2:], mesh, "f, one channel")
            axes[0].set_ylabel(f"t = {self.transforms[0]}")
        ax = figure.add_subplot(grid[-1, :])
        at = np.arange(len(self.transforms))
        for side, values, hue, word in (
            (-0.2, self.invariance, HUES[0], "f[t[x]] − f[x]: 0 if invariant"),
            (0.2, self.equivariance, HUES[1], "f[t[x]] − t[f[x]]: 0 if equivariant"),
        ):
            ax.bar(at + side, np.nan_to_num(values), width=0.36, color=hue, label=word)
            for place, value in zip(at + side, values, strict=True):
                text = "none" if np.isnan(value) else "0" if value == 0 else f"{value:.1e}" if value < 0.01 else ""
                ax.annotate(text, (place, 0), (0, 2), textcoords="offset points", ha="center", va="bottom", color=INK)
        ax.set_xticks(at, self.transforms)
        ax.grid(False, axis="x")
        label(ax, f"How {self.name} answers to transforms", "", "error, relative to f[x]", legend=2)
        return figure


def equivariance(
    f: nn.Module | Callable[[Tensor], Tensor],
    x: Any,
    transforms: str | Sequence[str] | Mapping[str, Transform] | None = None,
    module: str | nn.Module | None = None,
    *,
    margin: int = 0,
    call: int = -1,
    split: str = "train",
    num: int = 16,
) -> Equivariance:
    """How far a function is from staying, and from moving with its input. A module is left as it was.

    Args:
        f: a module, or any function of rows.
        x: Data, or rows as the network reads them, (B, C, Y, X) or (B, C, T).
        transforms: words, or names with functions of x that act on outputs too; None is a usual set.
        module: a part of f, or its path; None is f itself.
        margin: positions left out at each border of the output, at least 0.
        call: which of the module's calls, where it has several; -1 is the last.
        num: rows at most.

    >>> net = nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")
    >>> view = equivariance(net, torch.randn(4, 1, 8, 8), ["translate(2, 3)", "flip"])
    >>> bool(view.equivariance[0] < 1e-6), bool(view.equivariance[1] > 0.1)
    (True, True)
    """
    margin, num = whole("margin", margin, 0, usual=0), whole("num", num, 1, usual=16)
    if isinstance(f, nn.Module) or not callable(f):
        model, rows = seen(f, x, split=split, num=num)
        name, part = module_of(model, module)
        run = lambda x: reached(model, x, part, call)  # noqa: E731
        name = type(model).__name__ if module is None else name
        quiet: Any = at_rest(model)
    else:
        _, rows = seen(nn.Identity(), x, split=split, num=num)
        run, name, quiet = f, getattr(f, "__name__", "f"), nullcontext()
    moves = _moves(transforms, rows)
    errors: list[list[float]] = []
    pictures: tuple[np.ndarray, ...] = ()
    with quiet, torch.no_grad():
        plain = run(rows)
        for k, move in enumerate(moves.values()):
            ratio = [n / m for n, m in zip(plain.shape[2:], rows.shape[2:], strict=False)]
            here = move(rows, [1.0] * (rows.dim() - 2))
            moved = run(here)
            along = move(plain, ratio) if plain.dim() == rows.dim() else None
            errors.append([_error(moved, other, plain, margin) for other in (plain, along)])
            if k == 0 and along is not None and along.shape == moved.shape:
                best = plain[0].flatten(1).var(1).argmax()
                pictures = tuple(
                    t.double().cpu().numpy() for t in (rows[0], here[0], plain[0, best], along[0, best], moved[0, best])
                )
    table = np.array(errors, dtype=float)
    return Equivariance(name, tuple(moves), table[:, 0], table[:, 1], pictures)


def _error(moved: Tensor, other: Tensor | None, plain: Tensor, margin: int) -> float:
    if other is None or moved.shape != other.shape:
        return math.nan
    size = plain.double().square().mean().sqrt()
    off = (moved - other).double()
    if margin and off.dim() > 2:
        if min(off.shape[2:]) <= 2 * margin:
            raise ShapeError(
                "margin must leave positions of the output",
                got=f"margin={margin}, positions {tuple(off.shape[2:])}",
                do="Pass a smaller margin, or larger pictures",
            )
        inner: tuple[Any, ...] = (..., *(slice(margin, -margin),) * (off.dim() - 2))
        off = off[inner]
    return float(off.square().mean().sqrt() / size.clamp(min=1e-300))


# --- transforms -------------------------------------------------------------------------------------------------------

Move = Callable[[Tensor, list[float]], Tensor]


def _moves(transforms: Any, rows: Tensor) -> dict[str, Move]:
    """Name → function of a tensor and of how much smaller its positions are than those of x, by axis."""
    if isinstance(transforms, Mapping):
        return {name: _function(transform) for name, transform in transforms.items()}
    if rows.dim() not in (3, 4):
        raise ShapeError("rows must be pictures or signals", got=f"shape {tuple(rows.shape)}", do="Pass (B, C, Y, X)")
    usual = _USUAL if rows.dim() == 4 else ("translate(2)", "flip")
    words = usual if transforms is None else (transforms,) if isinstance(transforms, str) else tuple(transforms)
    return {word: _move(word, rows.dim() - 2) for word in words}


def _function(transform: Transform) -> Move:
    return lambda z, _: transform(z)


def _move(word: str, axes: int) -> Move:
    """The transform that a word names."""
    name, numbers = bracketed(word, "transform")
    make, count = lookup(name, TRANSFORMS, "transform")
    count = axes if count is None else count
    if len(numbers) != count or (axes == 1 and name not in ("translate", "shift", "flip")):
        written = {"rotate": "rotate(90)", "scale": "scale(1.5)"}.get(name, f"{name}({'2, 3' if axes == 2 else '2'})")
        raise UserError(
            f"{name} of {'pictures' if axes == 2 else 'signals'} must have {count} numbers",
            got=repr(word),
            do=f"Write {written if count else name}" if axes == 2 or count == axes else "Write translate(2)",
        )
    return make(numbers)


def _translate(numbers: tuple[float, ...]) -> Move:
    def move(z: Tensor, ratio: list[float]) -> Tensor:
        for axis, (n, r) in enumerate(zip(numbers, ratio, strict=True)):
            low = math.floor(n * r)
            part = n * r - low
            here = torch.roll(z, low, axis + 2)
            z = here if part == 0 else (1 - part) * here + part * torch.roll(z, low + 1, axis + 2)
        return z

    return move


def _shift(numbers: tuple[float, ...]) -> Move:
    roll = _translate(numbers)

    def move(z: Tensor, ratio: list[float]) -> Tensor:
        wide = [math.ceil(abs(n * r)) for n, r in zip(numbers, ratio, strict=True)]
        padded = F.pad(z, [side for w in reversed(wide) for side in (w, w)])
        inner: tuple[Any, ...] = (..., *(slice(w, w + n) for w, n in zip(wide, z.shape[2:], strict=True)))
        return roll(padded, ratio)[inner]

    return move


def _rotate(numbers: tuple[float, ...]) -> Move:
    turns, rest = divmod(numbers[0], 90)
    if rest == 0:
        return lambda z, _: torch.rot90(z, int(turns), (-2, -1))
    angle = math.radians(numbers[0])
    c, s = math.cos(angle), math.sin(angle)
    return lambda z, _: _sampled(z, [[c, -s], [s, c]])


def _scale(numbers: tuple[float, ...]) -> Move:
    if numbers[0] <= 0:
        raise UserError("scale must have a factor above 0", got=f"scale({numbers[0]:g})", do="Write scale(1.5)")
    return lambda z, _: _sampled(z, [[1 / numbers[0], 0.0], [0.0, 1 / numbers[0]]])


def _sampled(z: Tensor, matrix: list[list[float]]) -> Tensor:
    """z read at matrix · (x, y), in pixels from the middle; zeros outside."""
    Y, X = z.shape[-2:]  # noqa: N806
    (a, b), (c, d) = matrix
    theta = torch.tensor([[a, b * Y / X, 0.0], [c * X / Y, d, 0.0]]).to(z).expand(len(z), 2, 3)
    grid = F.affine_grid(theta, list(z.shape), align_corners=False)
    return F.grid_sample(z, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


#: word → function of its numbers, and how many it takes; None is one an axis
TRANSFORMS: dict[str, tuple[Callable[[tuple[float, ...]], Move], int | None]] = {
    "translate": (_translate, None),
    "shift": (_shift, None),
    "flip": (lambda _: lambda z, __: z.flip(-1), 0),
    "flip_rows": (lambda _: lambda z, __: z.flip(-2), 0),
    "rotate": (_rotate, 1),
    "scale": (_scale, 1),
}
