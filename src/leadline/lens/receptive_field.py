"""Receptive fields: which inputs a unit can see, and which it does.

    chain      r += (K - 1) d j,   j *= s          layer by layer, from r = j = 1                              (1)
    possible   { p : ∂z_u / ∂x_p ≠ 0 }             for weights that are all positive and random                 (2)
    effective  mean over rows of Σ_c |∂ Σ_k ε_k z_ku / ∂x_cp|,   ε_k = ±1 at random    (Luo et al., 2016)       (3)
    perturbed  mean over rows of ‖z_u(x + η at p) - z_u(x)‖ / η                                                 (4)

(2) is the receptive field itself. The module runs with positive weights in place of its own, and with every path open
(`leadline.lens.opened`, which also says what is not seen): then no path cancels another, and a derivative is 0 only
where there is no path at all. That needs no knowledge of the wiring: skips, branches, dilation, strides, functions and
modules that are called twice are seen. (1) is a second opinion, carried along every connection; where branches meet,
the larger r holds. (3) and (4) are of the model's own weights; far from the centre of (2) they fade, about like a
Gaussian, since few paths lead there.

Notation   K kernel size, d spacing of its taps (1 is dense), s stride, r size and j jump between neighbours, in inputs;
           u a position of the module's output, all channels together
Notes      normalisations count as maps of single units: the statistics of a row, which see all of it, are left out.
           An output without positions, such as class scores, is taken as a whole
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.opened import Opened
from leadline.lens.place import module_of, reached, seen
from leadline.lens.style import DASHED, FULL, HUES, INK, SOFT, blank, colour_bar, label, percent, styled
from leadline.lens.tiles import largest, paint
from leadline.lens.view import View
from leadline.settings import given, real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EDGE = 0.95  # share of the gradient inside the effective field


@dataclass(frozen=True)
class Link:
    """One convolution or pool: (1) carried along the connections to it, and what (2) finds at its middle unit.

    Args:
        name: path of the module that calls it; kind: the function.
        size, jump: eq. 1, by axis; None where it does not apply.
        measured: extent of (2), by axis; it ends at the border of the input.
    """

    name: str
    kind: str
    size: tuple[int, ...] | None
    jump: tuple[int, ...] | None
    measured: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ReceptiveField(View):
    """What a unit can see.

    Args:
        name: of the module; unit: position in its output, () where there is none.
        possible: eq. 2, shape of the input without channels.
        size, first: extent of (2) by axis, and its first row, column, …
        chain: every convolution and pool on the way, in the order of the calls.
        effective: eq. 3, of sum 1; perturbed: eq. 4, of sum 1, or None.
        area: inputs that hold 95 % of (3), the largest first.
        spread: standard deviation of (3) by axis, in inputs.
    """

    name: str
    unit: tuple[int, ...]
    possible: np.ndarray
    size: tuple[int, ...]
    first: tuple[int, ...]
    chain: tuple[Link, ...]
    effective: np.ndarray
    perturbed: np.ndarray | None
    area: int
    spread: tuple[float, ...]

    @styled
    def plot(self) -> Figure:
        flat = self.possible.ndim == 1
        figure = blank(FULL, 3.4 if flat else 3.6)
        table, field = figure.subplots(1, 2, width_ratios=[1, 1.1 if flat else 0.9])
        at = np.arange(1, len(self.chain) + 1)
        sizes = np.array([link.measured for link in self.chain], dtype=float).reshape(len(at), -1)
        alike = all(np.array_equal(sizes[:, axis], sizes[:, 0]) for axis in range(sizes.shape[1]))
        for axis, word in enumerate(_AXES[self.possible.ndim][: 1 if alike else sizes.shape[1]]):
            words = "can be seen" if alike else f"can be seen, {word}"
            table.plot(at, sizes[:, axis], "o-", ms=3.5, color=HUES[axis], label=words)
        told = np.array([math.nan if link.size is None else link.size[0] for link in self.chain])
        table.plot(at, told, "x", ms=7, color=INK, label="by the formula")
        names = [link.name if len(link.name) <= 16 else f"…{link.name[-15:]}" for link in self.chain]
        long = sum(map(len, names)) > 50
        if len(at) <= 16:
            table.set_xticks(at, names, rotation=40 if long else 0, ha="right" if long else "center")
        if np.nanmax(told, initial=0) > max(self.possible.shape):
            table.axhline(max(self.possible.shape), color=SOFT, ls=DASHED, lw=1.0, label="all of the input")
        table.set_ylim(bottom=0)
        label(table, "Receptive field of a middle unit", "convolution or pool", "inputs", legend=3)
        shape = " × ".join(str(n) for n in self.size)
        title = f"{self.name}: sees {shape}; {percent(_EDGE)} from {self.area} inputs"
        self._field(field, title)
        return figure

    def _field(self, ax: Any, title: str) -> None:
        if self.possible.ndim == 1:
            ax.bar(np.arange(len(self.effective)), self.effective, width=1.0, color=HUES[0], label="effective")
            seen_ = np.flatnonzero(self.possible)
            ax.axvspan(seen_.min() - 0.5, seen_.max() + 0.5, color=SOFT, alpha=0.15, lw=0, label="can be seen")
            label(ax, title, "input", "share of |gradient|", legend=2)
            return
        values = self.effective if self.possible.ndim == 2 else self.effective.sum(0)
        mesh = paint(ax, values, largest(values), signed=False)
        ax.set_title(title, color=INK, fontsize=9.5, fontweight="bold")
        from matplotlib.patches import Rectangle

        (top, left), (rows, columns) = self.first[-2:], self.size[-2:]
        ax.add_patch(Rectangle((left - 0.5, top - 0.5), columns, rows, fill=False, ec="white", lw=2.4))
        ax.add_patch(Rectangle((left - 0.5, top - 0.5), columns, rows, fill=False, ec=HUES[1], lw=1.2))
        ax.set_xlabel("framed: can be seen; colour: effective")
        colour_bar(ax, mesh, "share of |gradient|")


_AXES = {1: ("positions",), 2: ("rows", "columns"), 3: ("slices", "rows", "columns")}


def receptive_field(
    model: nn.Module,
    x: Any,
    module: str | nn.Module | None = None,
    *,
    unit: Sequence[int] | int | None = None,
    call: int = -1,
    perturb: float | None = None,
    num: int = 16,
    seed: int = 0,
) -> ReceptiveField:
    """What a unit of a module sees of the input, as it could be and as it is. The model is left as it was.

    Args:
        x: Data, rows as the network reads them, or the shape of one row, such as (3, 64, 64): then noise is read.
        module: a part of the model, or its path; None is the output.
        unit: a position in the module's output; None is its middle.
        call: which of the module's calls, where it has several; -1 is the last.
        perturb: η of (4), above 0, in units of x; None leaves (4) out: it takes one pass for each input.
        num: rows of (3) and (4), at least 1.
        seed: of the positive weights, the noise and the signs.

    >>> net = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Conv1d(4, 4, 3, stride=2), nn.ReLU(), nn.Conv1d(4, 1, 3))
    >>> view = receptive_field(net, (1, 40))
    >>> view.size, [link.size for link in view.chain]
    ((9,), [(3,), (5,), (9,)])
    """
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, usual=0))
    num = whole("num", num, 1, usual=16)
    if isinstance(x, (tuple, list)) and all(isinstance(n, int) for n in x) and x:
        x = torch.randn(num, *x, generator=generator)
    model, rows = seen(model, x, num=num)
    if rows.dim() > 5:
        raise ShapeError("rows must have at most 3 axes of positions", got=f"shape {tuple(rows.shape)}", do="Pass less")
    name, part = module_of(model, module)
    with at_rest(model), torch.enable_grad():
        at, possible, chain = _possible(model, rows[:1], part, call, unit, generator)
        effective = _effective(model, rows, part, call, at, generator)
        perturbed = None
        if perturb is not None:
            eta = float(real("perturb", perturb, 0, above=True, usual=0.1))
            perturbed = _perturbed(model, rows, part, call, at, eta)
    where = np.argwhere(possible)
    if not len(where):
        raise UserError("the module must depend on the input", got=f"{name}, which does not", do="Name another part")
    first, last = where.min(0), where.max(0)
    ordered = np.sort(effective.ravel())[::-1].cumsum()
    return ReceptiveField(
        name,
        at,
        possible,
        tuple((last - first + 1).tolist()),
        tuple(first.tolist()),
        chain,
        effective,
        perturbed,
        int((ordered < _EDGE * ordered[-1]).sum()) + 1,
        _spread(effective),
    )


@contextmanager
def _named(model: nn.Module) -> Iterator[list[str]]:
    """Inside, the list holds the paths of the modules that are computing, the innermost last."""
    inside: list[str] = []

    def leave(*_: Any) -> None:
        inside.pop()

    with ExitStack() as stack:
        for path, part in model.named_modules():
            before = part.register_forward_pre_hook(lambda *_, path=path: inside.append(path))
            after = part.register_forward_hook(leave)
            stack.callback(before.remove)
            stack.callback(after.remove)
        yield inside


def _possible(
    model: nn.Module, row: Tensor, part: nn.Module, call: int, unit: Any, generator: torch.Generator
) -> tuple[tuple[int, ...], np.ndarray, tuple[Link, ...]]:
    """Eq. 2 of the unit, and eq. 1 and 2 of every convolution and pool."""

    def positive(p: Tensor) -> Tensor:
        if not p.is_floating_point():
            return p.detach().cpu()
        drawn = 0.5 + torch.rand(p.shape, generator=generator, dtype=torch.float64)
        return drawn / max(1, p.numel() // len(p)) if p.dim() > 1 else drawn

    state = {name: positive(p) for name, p in model.named_parameters()}
    for name, buffer in model.named_buffers():
        state[name] = (buffer.double() if buffer.is_floating_point() else buffer).detach().cpu()
    x = (0.5 + torch.rand(row.shape, generator=generator, dtype=torch.float64)).requires_grad_()
    with _named(model) as inside:
        mode = Opened(x, inside)
        with mode:
            out = reached(lambda x: functional_call(model, state, (x,)), x, part, call)
    at = _unit(out, unit)
    links = []
    for path, kind, told, z in mode.links:
        if z.requires_grad and z.dim() > 2:
            where = np.argwhere(_gradient(z, x, _unit(z, None)) != 0)
            if len(where):
                measured = tuple((where.max(0) - where.min(0) + 1).tolist())
                size, jump = told if told is not None else (None, None)
                links.append(Link(path, kind, size, jump, measured))
    return at, _gradient(out, x, at) != 0, tuple(links)


def _gradient(z: Tensor, x: Tensor, at: tuple[int, ...]) -> np.ndarray:
    """Σ over channels of |∂ z_u / ∂x|, all channels of z together."""
    (g,) = torch.autograd.grad(_at(z, at).sum(), x, retain_graph=True, allow_unused=True)
    g = torch.zeros_like(x) if g is None else g
    return (g[0].abs().sum(0) if x.dim() > 2 else g[0].abs()).numpy()


def _at(z: Tensor, at: tuple[int, ...]) -> Tensor:
    """All channels at one position, (B, C)."""
    index: tuple[Any, ...] = (..., *at)
    return z[index]


def _unit(out: Tensor, unit: Any) -> tuple[int, ...]:
    """A position of the output: as given, or its middle."""
    axes = tuple(out.shape[2:])
    if unit is None:
        return tuple(n // 2 for n in axes)
    at = (unit,) if isinstance(unit, int) else tuple(unit)
    if len(at) != len(axes) or not all(isinstance(i, int) and 0 <= i < n for i, n in zip(at, axes, strict=True)):
        raise ShapeError(
            "unit must be a position of the module's output",
            got=f"{given('unit', unit)} for positions {axes}",
            do=f"Pass unit={tuple(n // 2 for n in axes)}" if axes else "Leave unit out: this output has no positions",
        )
    return at


def _effective(
    model: nn.Module, rows: Tensor, part: nn.Module, call: int, at: tuple[int, ...], generator: torch.Generator
) -> np.ndarray:
    """Eq. 3, of sum 1."""
    x = rows.clone().requires_grad_()
    z = _at(reached(model, x, part, call), at)
    signs = (torch.randint(0, 2, z.shape, generator=generator) * 2 - 1).to(z)
    g = torch.autograd.grad((z * signs).sum(), x, allow_unused=True)[0] if z.requires_grad else None
    size = torch.zeros_like(x) if g is None else g.abs()
    return _shares((size.sum(1) if x.dim() > 2 else size).mean(0))


@torch.no_grad()
def _perturbed(
    model: nn.Module, rows: Tensor, part: nn.Module, call: int, at: tuple[int, ...], eta: float, most: int = 4096
) -> np.ndarray:
    """Eq. 4, of sum 1: each position moved in all channels, a share of all rows and positions at a time."""
    shape = rows.shape[2:] if rows.dim() > 2 else rows.shape[1:]
    places = math.prod(shape)
    plain = _at(reached(model, rows, part, call), at).flatten(1)
    sizes = torch.zeros(places, dtype=torch.float64)
    for first in range(0, places, step := max(1, most // len(rows))):
        here = range(first, min(places, first + step))
        moved = rows.repeat(len(here), *(1,) * (rows.dim() - 1))
        flat = moved.reshape(len(here), len(rows), -1, places)
        for k, p in enumerate(here):
            flat[k, :, :, p] += eta
        z = _at(reached(model, flat.reshape(moved.shape), part, call), at).flatten(1)
        change = (z.reshape(len(here), len(rows), -1) - plain).norm(dim=2).mean(1) / eta
        sizes[first : first + len(here)] = change.double().cpu()
    return _shares(sizes.reshape(shape))


def _shares(values: Tensor) -> np.ndarray:
    total = values.double().sum()
    return (values.double() / (total if total > 0 else 1)).cpu().numpy()


def _spread(weights: np.ndarray) -> tuple[float, ...]:
    """Standard deviation by axis of a distribution over positions."""
    out = []
    for axis in range(weights.ndim):
        along = weights.sum(tuple(a for a in range(weights.ndim) if a != axis))
        places = np.arange(len(along))
        mean = (along * places).sum()
        out.append(float(np.sqrt(max(0.0, (along * (places - mean) ** 2).sum()))))
    return tuple(out)
